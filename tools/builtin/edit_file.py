"""`edit_file`: replaces text that stands in a file once, or everywhere if told."""

from __future__ import annotations

import prompts
from tools.builtin.change import Change, Target, changing
from tools.builtin.kit import Builtin, Services, define
from tools.builtin.read_file import similar_names
from tools.definition import Invocation, ResolvedCall, Risk, ToolError
from tools.engine.output import sanitize
from tools.files.matching import Found, Level, NotFound, NotUnique, apply, find, line_of
from tools.files.nearest import closest
from tools.files.textfile import NotText, decode
from tools.files.workspace import FileMissing, FileProblem

_SHOWN_PLACES = 20

ALIASES = {
    "file_path": "path", "filePath": "path", "filepath": "path", "file": "path",
    "filename": "path", "oldString": "old_string", "old_text": "old_string",
    "oldText": "old_string", "old_str": "old_string", "old": "old_string",
    "search": "old_string", "newString": "new_string", "new_text": "new_string",
    "newText": "new_string", "new_str": "new_string", "new": "new_string",
    "replace": "new_string", "replacement": "new_string", "replaceAll": "replace_all",
}  # fmt: skip


def tool() -> Builtin:
    """Return the built-in."""
    definition = define(
        "edit_file",
        prompts.load("tools/edit_file"),
        {
            "path": {"type": "string", "description": "Relative or absolute path"},
            "old_string": {"type": "string", "description": "Text to replace"},
            "new_string": {"type": "string", "description": "Text to put there"},
            "replace_all": {"type": "boolean", "description": "Replace every exact match"},
        },
        ["path", "old_string", "new_string"],
        risk=Risk.MEDIUM,
        metadata={"tags": ["write"]},
    )
    return Builtin(definition, prepare, ALIASES)


def prepare(call: ResolvedCall, services: Services) -> Invocation:
    """Find the place and show the change. Raises FileProblem for a path that names none."""
    workspace = services.workspace
    arguments = call.arguments
    old, new = arguments["old_string"].removeprefix("\ufeff"), arguments["new_string"]
    path = workspace.resolve(arguments["path"])
    known = path in workspace.seen

    def plan(target: Target) -> Change:
        if target.data is None:
            hint = similar_names(workspace, path)
            raise FileMissing(
                f"There is no file {target.shown}. Nothing was changed.{hint} "
                "To make a new file use write_file."
            )
        change = replaced(target, old, new, every=arguments.get("replace_all", False))
        if not known and change.how != Level.EXACT:
            raise FileProblem(
                f"{target.shown} was not read in this session, and old_string does not stand in "
                "it exactly. Nothing was changed. Read it first."
            )
        return change

    return changing(call, services, "Edit", plan)


def replaced(target: Target, old: str, new: str, *, every: bool = False) -> Change:
    """Replace `old` by `new` in a text file. Raises ToolError with what the model needs next."""
    try:
        text, encoding = decode(target.data or b"")
    except NotText as error:
        raise ToolError(f"{target.shown} is not text: {error}. Nothing was changed.") from None
    if not old:
        raise ToolError(
            "old_string is empty. Nothing was changed. Give the text to replace; to insert, "
            "repeat a line and add to it; to fill or replace the file use write_file."
        )
    if old == new:
        raise ToolError("old_string and new_string are the same. Nothing was changed.")
    try:
        found = find(text, old, new, every=every)
    except NotUnique as error:
        raise ToolError(_not_unique(target, error)) from None
    except NotFound:
        raise ToolError(_not_found(target, text, old, new, every=every)) from None
    after = apply(text, found)
    try:
        data = encoding.encode(after)
    except UnicodeEncodeError:
        raise ToolError(
            f"{target.shown} is {encoding.codec}, which cannot hold the new text. Nothing was "
            "changed. Use other characters, or replace the file with write_file (as UTF-8)."
        ) from None
    if after == text:
        raise ToolError("The text already reads like that. Nothing was changed.")
    return Change(after, data, _summary(target, text, found), how=found.level.value)


def _summary(target: Target, text: str, found: Found) -> str:
    count = len(found.spans)
    where = f"line {line_of(text, found.spans[0][0])}" if count == 1 else f"{count} places"
    matched = "" if found.level is Level.EXACT else f"; matched with {found.level}, check the diff"
    return f"Edited {target.shown} ({where}{matched})."


def _not_unique(target: Target, error: NotUnique) -> str:
    lines = ", ".join(map(str, error.lines[:_SHOWN_PLACES]))
    more = ", …" if len(error.lines) > _SHOWN_PLACES else ""
    count = f"{len(error.lines)}" if error.counted else f"more than {len(error.lines)}"
    everywhere = ", or set replace_all" if error.level is Level.EXACT else ""
    loosely = "" if error.level is Level.EXACT else f" ({error.level})"
    return (
        f"old_string stands {count} times in {target.shown}{loosely}, at lines "
        f"{lines}{more}. Nothing was changed. Add lines around it to make it unique{everywhere}."
    )


def _not_found(target: Target, text: str, old: str, new: str, *, every: bool) -> str:
    said = f"old_string does not stand in {target.shown}. Nothing was changed."
    if every:
        said += " replace_all needs the exact text."
    if new.strip() and (position := text.find(new)) >= 0:
        said += f" The new text is already there (line {line_of(text, position)})."
    passages = closest(text, old)
    if not passages:
        return f"{said} Nothing in the file is similar. Read it again, or check the path."
    shown = "\n…\n".join(passage.numbered() for passage in passages)
    return f"{said} The closest lines are:\n{sanitize(shown)}"
