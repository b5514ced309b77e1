"""Append the email of the arguments `to`, `subject` and `body` to a log. Nothing is sent.

The log is the file in EMAIL_LOG, one JSON object per line.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from arguments import arguments

given = arguments()
log = Path(os.environ.get("EMAIL_LOG", "email_log.jsonl"))
email = {
    "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    "call": os.environ.get("CODEX_TOOL_CALL_ID", ""),
    **{key: given[key] for key in ("to", "subject", "body")},
}
with log.open("a", encoding="utf-8") as file:
    file.write(json.dumps(email, ensure_ascii=False) + "\n")
print(f"Logged to {log}, not sent: an email to {email['to']}")
