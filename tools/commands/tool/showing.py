"""`opta tool list` and `get`: which tool files there are, and what is in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tools.actions import AliasAction, PlanAction
from tools.commands.tool.document import UnwritableError, to_yaml, with_name
from tools.commands.tool.kit import DONE, Context, as_json
from tools.commands.tool.options import COMMON_OPTIONS, Option, Parsed
from tools.commands.tool.store import StoreError, ToolFile, hidden
from tools.definition import Scope, ToolDefinition
from tools.engine.output import clipped, one_line, visible

LIST_OPTIONS = (
    *COMMON_OPTIONS,
    Option("--tag", ("TAG",), many=True),
    Option("--category", ("CATEGORY",)),
    Option("--search", ("TEXT",)),
    Option("--platform", ("PLATFORM",), choices=("windows", "linux", "macos")),
    Option("--format", ("FORMAT",), choices=("simple", "table", "json", "yaml")),
    Option("--sort", ("KEY",), choices=("name", "category", "scope")),
)
GET_OPTIONS = (
    *COMMON_OPTIONS,
    Option("--format", ("FORMAT",), choices=("yaml", "json")),
    Option("--detail"),
)
_ORDER = {scope: position for position, scope in enumerate(Scope)}
_COLUMNS = ("NAME", "SCOPE", "CATEGORY", "DESCRIPTION")
_MOST = 60


def list_tools(parsed: Parsed, context: Context) -> int:
    """List the tools of all scopes, or of one; files that cannot be used follow with the reason."""
    files = context.store.files(parsed.scope)
    covered = {id(file) for file in hidden(files)}
    shown = [(file, _with_tags(file, files)) for file in files]
    chosen = [(file, tool) for file, tool in shown if tool is not None and _matches(tool, parsed)]
    chosen.sort(key=lambda item: _sort_key(item[0], item[1], parsed.text("--sort", "name")))
    form = parsed.text("--format", "table")
    if form == "simple":
        context.out.writelines(f"{visible(tool.name)}\n" for _, tool in chosen)
    elif form == "table":
        _table(chosen, covered, parsed, context)
    else:
        rows = [_row(file, tool, hidden_=id(file) in covered) for file, tool in chosen]
        context.write(as_json(rows) if form == "json" else _yaml(rows))
    _problems(files, context)
    if not context.trusted and any(file.scope is Scope.LOCAL for file in files):
        context.note(
            "The local tools are not used: this project is not trusted. Trust it in a chat, which "
            "asks, or add --trust to a command."
        )
    return DONE


def get(parsed: Parsed, context: Context) -> int:
    """Show a tool as it is written, or everything that is known of it."""
    file = context.store.find(parsed.words[0], parsed.scope)
    as_yaml = parsed.text("--format", "yaml") == "yaml"
    if parsed.flag("--detail"):
        details = _details(file, context)
        context.write(_yaml(details) if as_yaml else as_json(details))
        return DONE
    context.write(yaml_text(file) if as_yaml else as_json(content(file)))
    return DONE


def schema(_: Parsed, context: Context) -> int:
    """Print the JSON Schema of tool files, for editors."""
    from tools.formats.file_schema import file_schema

    context.out.write(as_json(file_schema()))
    return DONE


def content(file: ToolFile) -> dict[str, Any]:
    """Return what a tool file holds, with the name of its tool. Raises StoreError."""
    if file.is_table:
        return {"name": file.name, **file.table()}
    data = file.document.data
    if not isinstance(data, dict):
        raise StoreError(f"{file.path} defines no tool: it holds no map of keys")
    return {"name": file.name, **data}


def yaml_text(file: ToolFile) -> str:
    """Return a tool as YAML: its file with all comments, where it is one. Raises StoreError."""
    if file.path.suffix.lower() in (".yaml", ".yml"):
        data = content(file)
        if data == file.document.data:
            return file.text
        try:
            return with_name(file.text, file.name)
        except UnwritableError:
            return _yaml(data)
    return _yaml(content(file))


def _yaml(data: Any) -> str:
    try:
        return to_yaml(data)
    except UnwritableError as error:
        raise StoreError(f"This cannot be shown as YAML: {error}. Use --format json.") from error


def _with_tags(file: ToolFile, files: Sequence[ToolFile]) -> ToolDefinition | None:
    """Return the tool of a file; an alias also with the tags of the tools it stands for (C141)."""
    tool = file.definition
    if tool is None or not isinstance(tool.action, AliasAction):
        return tool
    known = {other.name: other.definition for other in reversed(files)}
    tags = dict.fromkeys(_tags(tool))
    base, seen = known.get(tool.action.base), {tool.name}
    while base is not None and base.name not in seen:
        seen.add(base.name)
        tags |= dict.fromkeys(_tags(base))
        base = known.get(base.action.base) if isinstance(base.action, AliasAction) else None
    return replace(tool, metadata={**tool.metadata, "all-tags": tuple(tags)})


def _matches(tool: ToolDefinition, parsed: Parsed) -> bool:
    metadata = tool.metadata
    if any(tag not in _tags(tool) for tag in parsed.texts("--tag")):
        return False
    if "--category" in parsed.options and _category(tool) != parsed.options["--category"]:
        return False
    platforms = metadata.get("platforms", ())
    wanted = parsed.options.get("--platform")
    if wanted and platforms and wanted not in platforms:
        return False
    words = [tool.name, tool.description, *metadata.get("search-keywords", ())]
    sought = parsed.text("--search").casefold()
    return any(sought in word.casefold() for word in words)


def _sort_key(file: ToolFile, tool: ToolDefinition, by: str) -> tuple[Any, ...]:
    first: dict[str, Callable[[], Any]] = {
        "name": lambda: "", "category": lambda: (not _category(tool), _category(tool)),
        "scope": lambda: _ORDER[file.scope],
    }  # fmt: skip
    return (first[by](), tool.name.casefold(), _ORDER[file.scope])


def _category(tool: ToolDefinition) -> str:
    return str(tool.metadata.get("category", ""))


def _tags(tool: ToolDefinition) -> Sequence[str]:
    metadata = tool.metadata
    tags: Sequence[str] = metadata.get("all-tags") or metadata.get("tags", ())
    return tags


def _table(
    chosen: Sequence[tuple[ToolFile, ToolDefinition]],
    covered: set[int],
    parsed: Parsed,
    context: Context,
) -> None:
    if not chosen:
        asked = len(parsed.options) > 0
        context.say(
            "No tool matches." if asked else "There are no tools. See `opta help tool add`."
        )
        return
    rows = [_COLUMNS]
    for file, tool in chosen:
        notes = [f"hidden by a nearer {tool.name}"] if id(file) in covered else []
        notes += [tool.unavailable] if tool.unavailable else []
        notes += ["deprecated"] if tool.deprecated else []
        note = f" ({', '.join(notes)})" if notes else ""
        short = one_line(tool.description, _MOST)
        name, category = clipped(tool.name, _MOST), clipped(_category(tool), _MOST)
        rows.append((name, file.scope.value, category, short + note))
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(len(_COLUMNS) - 1)]
    for row in shown:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        context.out.write("  ".join([*cells, row[-1]]).rstrip() + "\n")


def _row(file: ToolFile, tool: ToolDefinition, *, hidden_: bool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "scope": file.scope.value,
        "path": str(file.path),
        "format": tool.origin.format,
        "category": _category(tool),
        "tags": list(_tags(tool)),
        "platforms": list(tool.metadata.get("platforms", ())),
        "risk": tool.risk.name.lower(),
        "hidden": hidden_,
        "unavailable": tool.unavailable,
        "deprecated": tool.deprecated,
    }


def _details(file: ToolFile, context: Context) -> dict[str, Any]:
    tool = file.definition
    details: dict[str, Any] = {"name": file.name, "scope": file.scope.value, "path": str(file.path)}
    if tool is None:
        details["problems"] = [str(problem) for problem in file.problems]
        return details | {"definition": content(file)}
    action = tool.action
    declared = action.parameters if isinstance(action, PlanAction) else {}
    details |= {
        "format": tool.origin.format,
        "risk": tool.risk.name.lower(),
        "token-cost": context.tokens(tool),
        "available": tool.unavailable or "yes",
    }
    if isinstance(action, AliasAction):
        details["base-tool"] = action.base
    help_texts = {name: item.detailed_help for name, item in declared.items() if item.detailed_help}
    if help_texts:
        details["detailed-help"] = help_texts
    if file.problems:
        details["warnings"] = [str(problem) for problem in file.problems]
    return details | {"definition": content(file)}


def _problems(files: Sequence[ToolFile], context: Context) -> None:
    shown = {None, *(file.path for file in files)}
    for problem in context.store.problems:
        if not problem.warning and problem.path in shown:
            context.note(f"error: {problem}")
