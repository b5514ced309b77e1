"""Asks the trust question for the directory in the first argument and prints the answer."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agent.ui.trust import ask_for_trust
from tools.permissions.trust import inspect

if __name__ == "__main__":
    changed = sys.argv[2] if len(sys.argv) > 2 else ""
    print("trusted:", ask_for_trust(inspect(Path(sys.argv[1])), changed).value)
