"""`write_file`: makes a file, or replaces one that was read."""

from __future__ import annotations

import prompts
from tools.builtin.change import Change, Target, changing
from tools.builtin.kit import Builtin, Services, define
from tools.definition import Invocation, ResolvedCall, Risk
from tools.files.textfile import UTF8, NotText, decode, line_end, with_line_end

ALIASES = {
    "file_path": "path", "filePath": "path", "filepath": "path", "file": "path",
    "filename": "path", "contents": "content", "text": "content", "file_text": "content",
    "new_content": "content",
}  # fmt: skip


def tool() -> Builtin:
    """Return the built-in."""
    definition = define(
        "write_file",
        prompts.load("tools/write_file"),
        {
            "path": {"type": "string", "description": "Relative or absolute path"},
            "content": {"type": "string", "description": "The whole new text"},
        },
        ["path", "content"],
        risk=Risk.MEDIUM,
        metadata={"tags": ["write"]},
    )
    return Builtin(definition, prepare, ALIASES)


def prepare(call: ResolvedCall, services: Services) -> Invocation:
    """Show what would be written. Raises FileProblem for a path that names none."""
    content = call.arguments["content"]
    return changing(call, services, "Write", lambda target: whole(target, content), overwrite=True)


def whole(target: Target, content: str) -> Change:
    """Replace all of a file; mark, encoding and line ends of the old one stay (R17)."""
    encoding, note = UTF8, ""
    if target.data:
        try:
            old, encoding = decode(target.data)
            content = with_line_end(content, line_end(old)) if "\n" in old else content
        except NotText as error:
            note = f" It was {error} before."
    try:
        data = encoding.encode(content)
    except UnicodeEncodeError:
        data, note = content.encode(), f" It was {encoding.codec}, which cannot hold this text."
        note += " It is UTF-8 now."
    lines = content.count("\n") + (not content.endswith("\n") and content != "")
    did = "Created" if target.data is None else "Replaced"
    size = f"{lines:,} line{'s' * (lines != 1)}, {len(data):,} bytes"
    return Change(content, data, f"{did} {target.shown} ({size}).{note}", show_diff=False)
