"""`opta config set`, `unset` and `edit`: what a person changes in a settings file."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any, TextIO

from agent import streams
from agent.configuration import read_settings
from agent.errors import DONE, USAGE, UserError
from agent.flags import Subcommands, add_command
from agent.project import trust_in
from agent.settings_edit import (
    read_settings_text,
    replace_settings_text,
    set_value,
)
from agent.settings_files import Layer, SettingsError, managed_file
from agent.settings_hooks import HOOK_KEYS
from agent.settings_keys import Key, KeyPath, Kind, find_key, from_words
from agent.settings_view import entries, select, without_secrets
from agent.settings_write import SettingsWriteError
from tools import storage
from tools.engine.output import visible
from tools.formats.problems import shown_path
from tools.permissions.rules import RuleError

_NEW = "# Settings of opta. `opta config show` lists all of them.\n"
_WAITS = "it is not used yet: opta asks for trust in it at the next start here"


def configure_changes(commands: Subcommands) -> None:
    """Add the subcommands."""
    setting = add_command(commands, "set", "store a setting; comments of the file are kept")
    setting.add_argument("key", metavar="KEY", help="such as model, tools.git.enabled")
    setting.add_argument(
        "words", nargs="+", metavar="VALUE", help="of a list, one for each item; else TOML or text"
    )
    unset = add_command(commands, "unset", "remove a setting from the file")
    unset.add_argument("key", metavar="KEY")
    editing = add_command(commands, "edit", "open the file in $VISUAL or $EDITOR")
    for command in (setting, unset, editing):
        command.add_argument(
            "--scope", choices=("user", "project"), default="user",
            help="user: your config.yml (default); project: .opta/config.yml, for everyone here",
        )  # fmt: skip
        command.add_argument("-C", "--directory", metavar="DIR", help="the project is in DIR")


def store(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    """Store one setting; say so where something nearer still counts. Raises UserError."""
    project = _project(arguments, root)
    try:
        key, path = find_key(arguments.key)
        _check_allowed(key, project)
        value = from_words(key, path, arguments.words)
        # Rules are read once more than the file's check does, which would name a line to come.
        Layer(arguments.scope).set(key, value, "")
    except (ValueError, RuleError) as error:
        raise UserError(str(error), USAGE) from None
    value = list(value) if isinstance(value, tuple) else value
    written = _written(path, value, project)
    out.write(f"Saved {arguments.key} in {visible(shown_path(written))}\n")
    if _waits_for_trust(project):
        streams.tell(_WAITS)
    elif key.kind is not Kind.RULES and key.name not in HOOK_KEYS:
        _tell_what_counts(arguments.key, value, root)
    return DONE


def remove(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    """Remove one setting from a file. Raises UserError."""
    project = _project(arguments, root)
    try:
        written = _written(find_key(arguments.key)[1], None, project)
    except ValueError as error:
        raise UserError(str(error), USAGE) from None
    except KeyError:
        file, _ = read_settings_text(project)
        raise UserError(f"{arguments.key} is not set in {shown_path(file)}") from None
    out.write(f"Removed {arguments.key} from {visible(shown_path(written))}\n")
    return DONE


def _project(arguments: argparse.Namespace, root: Path) -> Path | None:
    return root if arguments.scope == "project" else None


def _written(path: KeyPath, value: Any, project: Path | None) -> Path:
    try:
        return set_value(path, value, project)
    except SettingsWriteError as error:
        raise UserError(str(error)) from None


def _check_allowed(key: Key, project: Path | None) -> None:
    if not key.file:
        raise ValueError(f"{key.name} cannot be stored: give {key.flag} each time")
    if key.managed_only:
        raise ValueError(f"only the managed file {managed_file()} may set {key.name}")
    if project is not None and not key.project:
        raise ValueError(f"a project may not set {key.name}: use --scope user")


def _tell_what_counts(name: str, value: Any, root: Path) -> None:
    """Say what keeps a stored value from counting here, if anything does."""
    try:
        settings = read_settings(root, {}, trusted=trust_in(root, given=False).settings)
    except UserError as error:
        streams.tell(str(error))
        return
    (found,) = select(entries(settings, settings.hooks), [name])
    if found.is_set and found.value != without_secrets(name, value):
        streams.tell(f"it does not count here: {found.source} says {found.text}")


def _waits_for_trust(project: Path | None) -> bool:
    return project is not None and trust_in(project, given=False).settings is None


def edit(arguments: argparse.Namespace, root: Path, out: TextIO) -> int:
    """Let the person change a settings file in their editor; a file with a mistake is not written.

    Raises UserError.
    """
    project = _project(arguments, root)
    try:
        path, old = read_settings_text(project)
        before = text = old.decode("utf-8-sig") or _NEW
    except (SettingsWriteError, UnicodeDecodeError) as error:
        raise UserError(f"cannot edit the settings: {error}") from None
    while True:
        text = _in_editor(text)
        if text == before:
            out.write("Nothing was changed.\n")
            return DONE
        try:
            warnings = replace_settings_text(old, text.encode(), project)
            break
        except (SettingsError, SettingsWriteError) as error:
            streams.tell(str(error))
            if not streams.confirm("Edit it again?"):
                left = f"{shown_path(path)} is as it was. {storage.keep_text(text)}"
                raise UserError(left, USAGE) from None
    out.write(f"Saved {visible(shown_path(path))}\n")
    for line in warnings:
        streams.tell(line)
    if _waits_for_trust(project):
        streams.tell(_WAITS)
    return DONE


def _in_editor(text: str) -> str:
    from agent.ui.editor import EditorError
    from agent.ui.editor import edit as in_editor

    try:
        return asyncio.run(in_editor(text, suffix=".yml")) + "\n"
    except EditorError as error:
        raise UserError(str(error)) from None
