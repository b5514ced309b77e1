"""Print the argument `text`, after the prefix in CUSTOM_TOOL_PREFIX."""

from __future__ import annotations

import os

from arguments import arguments

print(f"{os.environ.get('CUSTOM_TOOL_PREFIX', '')}{arguments()['text']}")
