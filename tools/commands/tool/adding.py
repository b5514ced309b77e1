"""`opta tool add`, `edit` and `remove`: a person's own tool files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools import storage
from tools.commands.tool import builder
from tools.commands.tool.document import UnwritableError, read_document, to_yaml, with_name
from tools.commands.tool.kit import DONE, FAILED, CommandError, Context, UsageError
from tools.commands.tool.options import COMMON_OPTIONS, Option, Parsed
from tools.commands.tool.store import ToolFile, check_name, decoded, read_bytes
from tools.commands.tool.trial import Trial, try_text
from tools.definition import Scope
from tools.yamltext import DocumentError

ADD_OPTIONS = builder.OPTIONS
EDIT_OPTIONS = (*COMMON_OPTIONS, Option("--editor", ("EDITOR",)))
REMOVE_OPTIONS = (*COMMON_OPTIONS, Option("--force"))

_TEMPLATE = """\
# Change this and save it to add the tool; leave it as it is to add nothing.
# What can be said here: opta help tools
name: {name}
description: What it does, and when to use it
bash: echo {{TEXT}}
parameters:
  TEXT:
    type: string
    description: What to print
    required: true
timeout: 60000
tags: [run]
"""


def add(parsed: Parsed, context: Context) -> int:
    """Write a new tool file, from options, from a file or from the person's editor."""
    scope = writable_scope(parsed, "add")
    name = parsed.words[0] if parsed.words else ""
    edits = parsed.flag("--editor")
    if not name and not edits and "--from-file" not in parsed.options:
        raise UsageError("add needs the NAME of the tool, or --from-file, or --editor")
    if name:
        check_name(name)
        refuse_existing(name, scope, parsed, context)
    text = _text(parsed, name)
    if edits:
        text = _edited_template(text, context)
        if not text:
            context.note("Nothing was added: the text was not changed.")
            return FAILED
    name = name or _name_in(text, parsed)
    refuse_existing(name, scope, parsed, context)
    path = context.store.path_for(name, scope)
    try:
        text = with_name(text, name)
    except UnwritableError as error:
        raise CommandError(f"Nothing was added: the definition is not usable: {error}") from error
    tried = try_text(text, path)
    if tried.errors:
        told = "\n".join(f"  {problem}" for problem in tried.errors)
        kept = f"\n{storage.keep_text(text)}" if edits else ""
        raise UsageError(f"Nothing was added: the tool would not work:\n{told}{kept}")
    save(name, path, text, scope, context)
    context.say(f"Added {name} to the {scope.value} scope: {context.shown(path)}")
    tell_warnings(tried, context)
    return DONE


def edit(parsed: Parsed, context: Context) -> int:
    """Let the person change a tool file; what would not work is not saved."""
    file = context.store.find(parsed.words[0], parsed.scope)
    context.store.check_writable(file)
    text = file.text
    changed = text
    while True:
        changed = _final_newline(context.edit(changed, parsed.text("--editor")))
        if changed == _final_newline(text):
            context.say(f"Nothing was changed in {context.shown(file.path)}.")
            return DONE
        tried = try_text(changed, file.path)
        if not tried.errors:
            break
        context.note(f"Not saved: {file.name} would not work:")
        for problem in tried.errors:
            context.note(f"  {problem}")
        if not context.confirm("Edit again?"):
            context.note(f"{context.shown(file.path)} is as it was. {storage.keep_text(changed)}")
            return FAILED
    context.store.write(file.path, changed, file.scope)
    context.say(f"Saved {context.shown(file.path)}")
    tell_warnings(tried, context)
    return DONE


def remove(parsed: Parsed, context: Context) -> int:
    """Delete the nearest tool of that name, after a question."""
    file = context.store.find(parsed.words[0], parsed.scope)
    context.store.check_writable(file)
    shown = context.shown(file.path)
    if not parsed.flag("--force"):
        answer = context.confirm(f"Delete {file.name} ({file.scope.value}: {shown})?")
        if answer is None:
            raise CommandError(
                f"{file.name} was not deleted: nobody can be asked here. Add --force to delete "
                f"{shown} without a question."
            )
        if not answer:
            context.say(f"{file.name} was not deleted.")
            return FAILED
    context.store.remove(file)
    context.say(f"Deleted {file.name} from the {file.scope.value} scope: {shown}")
    return DONE


def writable_scope(parsed: Parsed, command: str) -> Scope:
    """Return where to write, local unless said otherwise. Raises UsageError for any (X141)."""
    if parsed.options.get("--scope") == "any":
        raise UsageError(f"{command} writes to one scope: name local, user or global, not any")
    return parsed.scope or Scope.LOCAL


def refuse_existing(name: str, scope: Scope, parsed: Parsed, context: Context) -> None:
    """Raise CommandError when the scope has the tool already and --override was not given."""
    known = context.store.exists(name, scope)
    if known is not None and not parsed.flag("--override"):
        raise CommandError(
            f"There is a tool {name} in the {scope.value} scope already: "
            f"{context.shown(known.path)}. Change it with `opta tool edit {name}`, or replace it "
            "with --override."
        )


def save(name: str, path: Path, text: str, scope: Scope, context: Context) -> None:
    """Write a tool file; a file of opta's own, of another name, that held the tool goes away.

    One of another program stays: what opta writes is nearer and hides it.
    """
    known = context.store.exists(name, scope)
    if (known is None or known.path != path) and path.exists():
        raise CommandError(
            f"{context.shown(path)} is there and defines another tool. Rename that file first."
        )
    context.store.write(path, text, scope)
    if known is None or known.path == path:
        return
    if context.store.owns(known.path):
        context.store.remove(known)
    else:
        context.note(f"{known.place} defines {name} too and stays as it is; the new one hides it.")


def tell_warnings(tried: Trial, context: Context) -> None:
    """Tell what the author of a file should know."""
    for problem in tried.warnings:
        context.note(f"warning: {problem}")


def _text(parsed: Parsed, name: str) -> str:
    """Return the definition to begin with. Raises CommandError and UsageError."""
    data = builder.build(parsed)
    source = parsed.options.get("--from-file")
    if source is not None:
        path = Path(source).expanduser()
        text = decoded(read_bytes(path), path)
        if not data and path.suffix.lower() != ".json":
            return text
        found = ToolFile(path.stem, Scope.LOCAL, path).document.data
        if not isinstance(found, dict):
            raise CommandError(f"{path} defines no tool: it holds no map of keys")
        return to_yaml({**found, **data})
    if parsed.flag("--editor"):
        return _TEMPLATE.format(name=name or "my-tool") if not data else _whole(name, data)
    if "description" not in data:
        raise UsageError("add needs --description: what the tool does and when to use it")
    return _whole(name, data)


def _whole(name: str, data: dict[str, Any]) -> str:
    try:
        return to_yaml({"name": name or "my-tool", **data})
    except UnwritableError as error:
        raise UsageError(f"this cannot be written into a tool file: {error}") from error


def _edited_template(text: str, context: Context) -> str:
    """Return what the person made of a text; empty when that is nothing new."""
    changed = _final_newline(context.edit(text, ""))
    return "" if not changed.strip() or changed == text else changed


def _final_newline(text: str) -> str:
    return text.rstrip("\n") + "\n"


def _name_in(text: str, parsed: Parsed) -> str:
    source = Path(parsed.text("--from-file", "my-tool"))
    try:
        data = read_document(text.encode(), Path("tool.yaml")).data
    except DocumentError:
        data = None
    name = data.get("name") if isinstance(data, dict) else None
    return check_name(name if isinstance(name, str) else source.stem)
