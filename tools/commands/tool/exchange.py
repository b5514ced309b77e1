"""`opta tool export` and `import`: tools as files to hand on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools.commands.tool.adding import refuse_existing, save, tell_warnings, writable_scope
from tools.commands.tool.document import UnwritableError, read_document, to_yaml, with_name
from tools.commands.tool.elsewhere import FORMS
from tools.commands.tool.kit import DONE, CommandError, Context, as_json, usable
from tools.commands.tool.options import COMMON_OPTIONS, Option, Parsed
from tools.commands.tool.showing import content, yaml_text
from tools.commands.tool.store import ToolFile, check_name, decoded, read_bytes
from tools.commands.tool.trial import try_text
from tools.yamltext import DocumentError

EXPORT_OPTIONS = (
    *COMMON_OPTIONS,
    Option("--format", ("FORMAT",), choices=("yaml", "json", *FORMS)),
    Option("--output", ("FILE",)),
)
IMPORT_OPTIONS = (*COMMON_OPTIONS, Option("--override"), Option("--validate"))


def export(parsed: Parsed, context: Context) -> int:
    """Print a tool, or write it to a file; nothing else is on standard output."""
    file = context.store.find(parsed.words[0], parsed.scope)
    text, note = _exported(file, parsed.text("--format", "yaml"))
    if "--output" not in parsed.options:
        context.write(text)
    else:
        path = Path(parsed.options["--output"]).expanduser()
        try:
            context.export(path, text)
        except OSError as error:
            raise CommandError(f"{path} cannot be written: {error.strerror or error}") from error
        context.note(f"Exported {file.name} to {path}")
    if note:
        context.note(note)
    return DONE


def _exported(file: ToolFile, form: str) -> tuple[str, str]:
    """Return a tool in a form, and what to tell about it. Raises CommandError and StoreError."""
    if form in FORMS:
        return FORMS[form].text(usable(file)), FORMS[form].use
    file.check_alone()
    if form == "yaml":
        return yaml_text(file), ""
    loses = "#" in file.text and file.path.suffix.lower() != ".json"
    return as_json(content(file)), "Comments of the file are not part of the JSON." * loses


def import_(parsed: Parsed, context: Context) -> int:
    """Store a tool from a file in a scope, local unless said otherwise."""
    scope = writable_scope(parsed, "import")
    path = Path(parsed.words[0]).expanduser()
    text, data = _read(path)
    given = data.get("name")
    name = check_name(given if isinstance(given, str) else path.stem)
    refuse_existing(name, scope, parsed, context)
    target = context.store.path_for(name, scope)
    try:
        text = to_yaml({"name": name, **data}) if path.suffix.lower() == ".json" else text
        text = text if given == name else with_name(text, name)
    except UnwritableError as error:
        raise CommandError(f"{path} cannot be imported: {error}") from error
    tried = try_text(text, target)
    if tried.errors and parsed.flag("--validate"):
        told = "\n".join(f"  {problem}" for problem in try_text(read_bytes(path), path).errors)
        raise CommandError(f"{path} was not imported, the tool would not work:\n{told}")
    save(name, target, text, scope, context)
    context.say(f"Imported {name} to the {scope.value} scope: {context.shown(target)}")
    for problem in tried.errors:
        context.note(f"error: {problem}")
    if tried.errors:
        context.note(f"The tool does not work yet. Change it with `opta tool edit {name}`.")
    tell_warnings(tried, context)
    return DONE


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    """Return a file's text and data. Raises CommandError and StoreError."""
    data = read_bytes(path)
    try:
        found = read_document(data, path).data
    except DocumentError as error:
        raise CommandError(f"Nothing was imported: {error}") from error
    if not isinstance(found, dict):
        raise CommandError(f"Nothing was imported: {path} defines no tool, it holds no map of keys")
    return decoded(data, path), found
