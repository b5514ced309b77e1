"""`opta config show|get|set|unset|edit`: settings by hand, each with where it was said."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from agent import streams
from agent.config_change import configure_changes, edit, remove, store
from agent.configuration import hook_settings, read_settings
from agent.errors import DONE, FAILED, USAGE, UserError
from agent.flags import (
    CODEX_FLAGS,
    add_codex_flags,
    add_command,
    add_config_flag,
    add_model_flags,
    add_project_flags,
    add_subcommands,
)
from agent.project import ProjectTrust, project_root, trust_in
from agent.settings_files import Layer, SettingsError, managed_file, read_project, user_file
from agent.settings_view import Entry, entries, place_of, said_by, select
from tools.engine.output import visible
from tools.formats.problems import shown_path
from tools.permissions.trust import SETTINGS_FILES
from tools.record import record

_EPILOG = """\
examples:
  opta config show permissions mode
  opta config get model
  opta config set tools.git.enabled false --scope project
  opta config set permissions.deny 'run_command(git push:*)' 'run_command(npm publish:*)'
"""
_FLAGS = ("model", "base_url", "api", "config", *CODEX_FLAGS)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands."""
    parser.epilog = _EPILOG
    commands = add_subcommands(parser, dest="action", metavar="ACTION", required=True)
    shown = add_command(commands, "show", "what every setting is, and where that was said")
    shown.add_argument("keys", nargs="*", metavar="KEY", help="a setting, or a group such as tools")
    got = add_command(commands, "get", "the value of a setting alone, for scripts")
    got.add_argument("keys", nargs=1, metavar="KEY")
    configure_changes(commands)
    for command in (shown, got):
        command.add_argument("--format", choices=("text", "json"), default="text")
        add_project_flags(command)
        add_model_flags(command)
        add_config_flag(command)
        add_codex_flags(command)


def run(arguments: argparse.Namespace, out: TextIO) -> int:
    """Carry it out; return the exit code. Raises UserError."""
    root = project_root(arguments.directory)
    actions: dict[str, Callable[[argparse.Namespace, Path, TextIO], int]] = {
        "show": _show, "get": _get, "set": store, "unset": remove, "edit": edit,
    }  # fmt: skip
    return actions[arguments.action](arguments, root, out)


@record
class _Found:
    """What counts, what the project says that does not count, and lines for the person."""

    entries: list[Entry]
    unused: list[Entry]
    warnings: list[str]


def _show(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    trust = trust_in(root, given=arguments.trust)
    found = _found(arguments, root, trust)
    shown = _chosen(found.entries, arguments.keys)
    keys = {entry.key for entry in shown}
    unused = [entry for entry in found.unused if entry.key in keys]
    if arguments.format == "json":
        told = {
            "files": [{"path": str(path), "state": state} for path, state in _files(root, trust)],
            "settings": [_data(entry) for entry in shown],
            "unused": [_data(entry) for entry in unused],
            "warnings": found.warnings,
        }
        streams.write_json(out, told)
        return DONE
    if not arguments.keys:
        for path, state in _files(root, trust):
            out.write(f"{visible(shown_path(path))}: {state}\n")
        out.write("\n")
    _write(shown, out)
    if unused:
        out.write(f"\n{_UNTRUSTED}:\n")
        _write(unused, out)
    for line in found.warnings:
        streams.tell(line)
    return DONE


_UNTRUSTED = "Not used, because this directory is not trusted (opta asks when a chat starts here)"


def _found(arguments: argparse.Namespace, root: Path, trust: ProjectTrust) -> _Found:
    flags = {name: getattr(arguments, name) for name in _FLAGS}
    settings = read_settings(root, flags, trusted=trust.settings)
    hooks, problems = hook_settings(settings, root, trust.report if trust.level.runs else None)
    unused = Layer("project")
    if trust.settings is None:
        try:
            read_project(unused, trust.report)
        except SettingsError as error:
            unused.warnings.append(f"{error} (not used)")
    warnings = [*settings.warnings, *problems, *unused.warnings]
    return _Found(entries(settings, hooks), said_by(unused), warnings)


def _files(root: Path, trust: ProjectTrust) -> list[tuple[Path, str]]:
    own = [managed_file(), user_file()]
    states = [(path, "used" if path.exists() else "not there") for path in own]
    there = {file.path for file in trust.report.settings}
    used = "used" if trust.settings is not None else "not used: not trusted"
    for name in _PROJECT_FILES:
        states.append((root / name, used if name in there else "not there"))
    return states


_PROJECT_FILES = tuple(name for name in SETTINGS_FILES if name.endswith("config.yml"))


def _get(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    found = _found(arguments, root, trust_in(root, given=arguments.trust))
    shown = [entry for entry in _chosen(found.entries, arguments.keys) if entry.is_set]
    if arguments.format == "json":
        streams.write_json(out, [_data(entry) for entry in shown])
        return DONE if shown else FAILED
    if not shown:
        raise UserError(f"{arguments.keys[0]} is not set")
    for entry in shown:
        label = "" if entry.key == arguments.keys[0] else f"{entry.key}: "
        out.write(f"{visible(label + entry.text)}\n")
    return DONE


def _chosen(found: list[Entry], names: list[str]) -> list[Entry]:
    try:
        return select(found, names)
    except ValueError as error:
        raise UserError(str(error), USAGE) from None


def _data(entry: Entry) -> dict[str, Any]:
    file, line = place_of(entry.source)
    return {
        "key": entry.key, "value": entry.value, "source": entry.source, "file": file,
        "line": line, "beaten": [_data(other) for other in entry.beaten],
    }  # fmt: skip


def _write(shown: list[Entry], out: TextIO) -> None:
    width = max((len(entry.key) for entry in shown), default=0)
    for entry in shown:
        told = f"{entry.text}  ({entry.source})" if entry.is_set else "not set"
        lines = [f"{entry.key:<{width}}  {told}"]
        for other in entry.beaten:
            lines.append(f"{'':<{width}}  not {other.text}  ({other.source})")
        out.write("".join(f"{visible(line)}\n" for line in lines))
