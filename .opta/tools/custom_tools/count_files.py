"""Print how many files are below the directory in the argument `path`, as JSON.

Links are not followed. The argument `pattern` (such as `*.py`) counts only the names that match.
"""

from __future__ import annotations

import json
import os
from fnmatch import fnmatch
from pathlib import Path

from arguments import arguments

given = arguments()
directory = Path(given.get("path", "."))
pattern = given.get("pattern", "*")
if not directory.is_dir():
    raise SystemExit(f"{directory} is not a directory")
names = (name for _, _, files in os.walk(directory) for name in files)
count = sum(fnmatch(name, pattern) for name in names)
print(json.dumps({"path": str(directory), "pattern": pattern, "files": count}))
