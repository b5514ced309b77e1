"""Writes settings files: comments kept, links refused, trust kept for the person's own change."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, TypeAlias

from agent.settings_files import SettingsError, user_file
from tools import storage
from tools.permissions.trust import ProjectFileError, inspect, read_project_file
from tools.permissions.trust_store import TrustStore
from tools.yamltext import DocumentError, parse

PROJECT_FILE = ".opta/config.yml"
Edit: TypeAlias = Callable[[Any], None]
"""Changes the data of a file, once as plain data and once as it is written with its comments."""

Change: TypeAlias = Callable[[bytes, Path], bytes]
"""Returns the new content of a file for the old one, empty where there is none, and its path."""


class SettingsWriteError(OSError):
    """A choice could not be written. The message says where, why and what to do."""

    def __str__(self) -> str:
        return str(self.args[0])


@contextmanager
def telling() -> Iterator[None]:
    try:
        yield
    except (storage.StorageError, ProjectFileError, SettingsError) as error:
        raise SettingsWriteError(str(error)) from error


def edit_user_file(edit: Edit) -> Path:
    return change_user_file(partial(edited, edit=edit))


def change_user_file(change: Change) -> Path:
    path = user_file()
    storage.write_private(path, change(read_user_file(), path))
    return path


def read_user_file() -> bytes:
    """Return the user's own settings file to change it, empty where there is none.

    Raises SettingsError for a link, which is followed to read settings only, and StorageError.
    """
    path = user_file()
    if path.is_symlink():
        raise SettingsError(
            f"{path} is a link, and opta writes through none. Change {path.resolve()} itself."
        )
    return storage.read_private(path) or b""


def change_project_file(root: Path, change: Change) -> Path:
    """Change the project's settings; its trust covers the person's change and nothing else."""
    trust = TrustStore(storage.state_dir())
    before = inspect(root)
    stored = trust.trust_of(before)
    path = root / PROJECT_FILE
    new = change(read_project_file(root, PROJECT_FILE) or b"", path)
    modes = [(p, p.stat().st_mode & 0o777) for p in (path, path.parent) if p.exists()]
    storage.write_private(path, new, below=root)
    for shared, mode in modes:
        # The directory and its files belong to the project: opta's private modes stay out.
        shared.chmod(mode)
    if stored.reads:
        after = inspect(root)
        if _others(before) == _others(after):
            trust.grant(after, stored)
    return path


def edited(data: bytes, path: Path, edit: Edit) -> bytes:
    """Return the text of a settings file after an edit, which is checked by reading it again."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        expected = parse(data, path).data or {}
        edit(expected)
        yaml = YAML()
        yaml.preserve_quotes = True
        yaml.width = 4096
        yaml.indent(mapping=2, sequence=4, offset=2)
        # An empty file, and `{}` in one line, begin anew.
        document = yaml.load(data.decode("utf-8-sig")) or yaml.map()
        edit(document)
        out = StringIO()
        if document:
            yaml.dump(document, out)
        text = _comments_only(data, whole=not document) + out.getvalue()
        if (parse(text, path).data or {}) != expected:
            raise SettingsError(f"{path} cannot be changed without damage. Change it by hand.")
    except (DocumentError, YAMLError, AttributeError, TypeError) as error:
        raise SettingsError(f"{path} cannot be changed: {error}") from error
    return text.encode()


def _comments_only(data: bytes, *, whole: bool) -> str:
    """Return the comments of a file that holds nothing else, which an edit would drop.

    Of the `whole` file where nothing else is left in it.
    """
    lines = data.decode("utf-8-sig").splitlines(keepends=True)
    comments = [line for line in lines if not line.strip() or line.lstrip().startswith("#")]
    return "".join(comments) if whole or len(comments) == len(lines) else ""


def edit_mcp_json(project: Path, edit: Edit) -> Path:
    root = project.resolve()
    path = root / ".mcp.json"
    old = read_project_file(root, ".mcp.json")
    try:
        data = (parse(old, path).data if old else None) or {}
        if not isinstance(data, dict):
            raise SettingsError(f"{path} cannot be changed: it holds no JSON object")
        edit(data)
    except (DocumentError, TypeError) as error:
        raise SettingsError(f"{path} cannot be changed: {error}") from error
    mode = path.stat().st_mode & 0o777 if old is not None else 0o644
    root_mode = root.stat().st_mode & 0o7777
    text = json.dumps(data, indent=2, ensure_ascii=False)
    storage.write_private(path, f"{text}\n".encode(), below=root)
    path.chmod(mode)
    root.chmod(root_mode)
    return path


def _others(report: Any) -> list[tuple[str, str]]:
    return [(file.path, file.digest) for file in report.files if file.path != PROJECT_FILE]
