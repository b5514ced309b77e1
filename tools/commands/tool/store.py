"""The tool files of the three scopes as a person manages them: found, written and removed.

Reading here obeys nothing, so it needs no trust; what is written is what the person asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from tools import storage
from tools.commands.tool.document import read_document
from tools.definition import Scope, ToolDefinition, wire_name
from tools.formats.problems import ToolFileError, ToolProblem, shown_path
from tools.permissions.trust import ProjectFileError, Trust, TrustReport, inspect
from tools.permissions.trust_store import TrustStore
from tools.record import open_record
from tools.sources.files import SEVERAL, ToolFiles
from tools.tool_names import other_names
from tools.yamltext import MAX_BYTES, Document, DocumentError

_NAME = re.compile(r"[^\W\d][\w.-]{0,63}", re.ASCII)


_Told: TypeAlias = dict[tuple[Path | None, str], list[ToolProblem]]
"""What is wrong, by file and table of the file."""


class StoreError(Exception):
    """A tool file cannot be found, read or written. The message says which and what to do."""


@open_record
class ToolFile:
    """A file that defines a tool, or tries to: then `definition` is None, `problems` say why.

    It may be one table of a file of several tools, which is read with a `profile`.
    """

    name: str
    scope: Scope
    path: Path
    definition: ToolDefinition | None = None
    problems: tuple[ToolProblem, ...] = ()
    profile: str = ""

    @property
    def is_table(self) -> bool:
        """True for one table of a file of several tools."""
        return self.path.suffix == SEVERAL

    @property
    def line(self) -> int | None:
        """The line where a table begins, as far as it is known."""
        if self.definition is not None:
            return self.definition.origin.line
        return next((problem.line for problem in self.problems), None)

    @property
    def place(self) -> str:
        """Where a table stands, for people: file and line."""
        return f"{shown_path(self.path)}:{self.line}" if self.line else shown_path(self.path)

    @cached_property
    def data(self) -> bytes:
        """The bytes of the file. Raises StoreError."""
        return read_bytes(self.path)

    @cached_property
    def text(self) -> str:
        """The file as text. Raises StoreError."""
        return decoded(self.data, self.path)

    @property
    def document(self) -> Document:
        """What the file holds. Raises StoreError, for one that holds several tools too."""
        self.check_alone()
        try:
            return read_document(self.data, self.path)
        except DocumentError as error:
            raise StoreError(str(error)) from error

    def check_alone(self) -> None:
        """Raise StoreError for a file that holds several tools."""
        if self.is_table:
            raise StoreError(
                f"{self.name} is a table of a config.toml, which opta leaves as it is. Change, "
                f"copy or remove it there: {self.place}"
                if self.path.name != self.name
                else f"{self.place} holds tools of Codex, and opta leaves it as it is."
            )

    def table(self) -> dict[str, Any]:
        """Return the table that defines it in a file of several tools. Raises StoreError."""
        from tools.formats import codex

        try:
            found = codex.table_of(self.data, self.path, self.name, profile=self.profile)
        except ToolFileError as error:
            raise StoreError(str(error)) from error
        if found is None:
            raise StoreError("; ".join(map(str, self.problems)) or f"{self.place} is no table")
        return dict(found)


def check_name(name: str) -> str:
    """Return `name` if a tool can be called that. Raises StoreError."""
    if _NAME.fullmatch(name):
        return name
    raise StoreError(
        f"{name!r} cannot be the name of a tool: a name begins with a letter and has letters, "
        "digits, dots, _ and - after it, 64 characters at most"
    )


class ToolStore:
    """The tool files that a person manages from the directory `root`."""

    def __init__(
        self,
        root: Path,
        places: Sequence[tuple[Scope, Path]],
        profile: str = "",
        code_image: str = "",
    ) -> None:
        """Take the `places` where tools are found, nearest first; the rest is as in ToolFiles."""
        self.root = root
        self._profile = profile
        self._code_image = code_image
        self._places = list(places)
        self._own = {
            Scope.LOCAL: root / ".opta" / "tools",
            Scope.USER: storage.config_dir() / "tools",
            Scope.GLOBAL: storage.global_dir() / "tools",
        }

    def files(self, scope: Scope | None = None) -> list[ToolFile]:
        """Return the tool files of a scope, or of all, nearest first; unusable ones too."""
        return [file for file in self._all if scope is None or file.scope is scope]

    def find(self, name: str, scope: Scope | None = None) -> ToolFile:
        """Return the nearest tool of that name, or that answers to it (X12, X27).

        Raises StoreError, which names similar ones.
        """
        from difflib import get_close_matches

        files = self.files(scope)
        named = [file for file in files if file.name == name]
        for file in named or files:
            if named or (file.definition and name in other_names(file.definition)):
                return file
        where = "any scope" if scope is None else f"the {scope.value} scope"
        elsewhere = [file for file in self._all if file.name == name]
        if elsewhere:
            hint = f" There is one in the {elsewhere[0].scope.value} scope."
        else:
            near = get_close_matches(name, [file.name for file in files], 3)
            hint = f" Did you mean {', '.join(near)}?" if near else ""
        raise StoreError(f"There is no tool {name!r} in {where}.{hint} See `opta tool list`.")

    def exists(self, name: str, scope: Scope) -> ToolFile | None:
        """Return the tool of that name in a scope, None when there is none."""
        return next((file for file in self.files(scope) if file.name == name), None)

    @property
    def problems(self) -> list[ToolProblem]:
        """What is wrong with the files, in the order of the scopes, and with names."""
        return [*self._loaded[1], *self.refused]

    @cached_property
    def refused(self) -> list[ToolProblem]:
        """Which tools may not have their names, and why (X13)."""
        from tools.builtin import NAMES
        from tools.tool_names import without_conflicts

        _, found = without_conflicts(self._loaded[0], frozenset(NAMES))
        return [problem for problem in found if not problem.warning]

    def path_for(self, name: str, scope: Scope) -> Path:
        """Return where a new tool of that name is written."""
        return self._own[scope] / f"{wire_name(name)}.yaml"

    def write(self, path: Path, text: str, scope: Scope) -> None:
        """Replace or create a tool file of opta's own. Raises StoreError."""
        _check_own(self, path)
        self._change(scope, lambda: self._write(path, text.encode(), scope))

    def remove(self, file: ToolFile) -> None:
        """Delete a tool file of opta's own. Raises StoreError."""
        self.check_writable(file)
        self._change(file.scope, lambda: storage.remove(file.path))

    def check_writable(self, file: ToolFile) -> None:
        """Raise StoreError for a file of another program, or of several tools."""
        file.check_alone()
        _check_own(self, file.path)

    def owns(self, path: Path) -> bool:
        """Tell whether opta itself writes files there, and not another program."""
        return path.parent in self._own.values()

    @cached_property
    def _loaded(self) -> tuple[list[ToolDefinition], list[ToolProblem]]:
        return ToolFiles(self._places, self._profile, code_image=self._code_image).load()

    @cached_property
    def _all(self) -> list[ToolFile]:
        tools, problems = self._loaded
        told: _Told = {}
        for problem in problems:
            told.setdefault((problem.path, problem.tool), []).append(problem)
        found = [self._usable(tool, tool.origin.path, told) for tool in tools if tool.origin.path]
        usable = {file.path for file in found}
        for path, table in dict.fromkeys((p.path, p.tool) for p in problems if not p.warning):
            if path is not None and (path not in usable or path.suffix == SEVERAL):
                found.append(self._unusable(path, table, told))
        order = [place for _, place in self._places]
        return sorted(
            found, key=lambda file: (order.index(self._place_of(file.path)), file.path, file.name)
        )

    def _usable(self, tool: ToolDefinition, path: Path, told: _Told) -> ToolFile:
        own = tuple(told.get((path, tool.name if path.suffix == SEVERAL else ""), ()))
        scope = tool.origin.scope or Scope.LOCAL
        return ToolFile(tool.name, scope, path, tool, own, self._profile)

    def _unusable(self, path: Path, table: str, told: _Told) -> ToolFile:
        """Stand for a file that defines nothing, or for a table of one, or what is around them."""
        name = table or (path.name if path.suffix == SEVERAL else _name_of(path))
        own = tuple(told.get((path, table), ()))
        return ToolFile(name, self._scope_of(path), path, None, own, self._profile)

    def _place_of(self, path: Path) -> Path:
        places = [place for _, place in self._places]
        return next((place for place in places if place in (path, path.parent)), places[-1])

    def _scope_of(self, path: Path) -> Scope:
        place = self._place_of(path)
        return next(scope for scope, known in self._places if known == place)

    def _change(self, scope: Scope, change: Callable[[], None]) -> None:
        """Make a change; the trust in the project covers what the person did to it by hand."""
        try:
            before = inspect(self.root) if scope is Scope.LOCAL else None
            change()
            if before is not None:
                self._keep_trust(before)
        except (storage.StorageError, ProjectFileError) as error:
            raise StoreError(str(error)) from error
        except OSError as error:
            raise StoreError(f"Cannot write: {error}") from error
        finally:
            for known in ("_all", "_loaded", "refused"):
                self.__dict__.pop(known, None)

    def _keep_trust(self, before: TrustReport) -> None:
        trust = TrustStore(storage.state_dir())
        stored = trust.trust_of(before) if before.anything else Trust.RUNNING
        if stored.reads:
            trust.grant(inspect(self.root), stored)

    def _write(self, path: Path, data: bytes, scope: Scope) -> None:
        below = self.root if scope is Scope.LOCAL else None
        parents = [path.parent, path.parent.parent]
        modes = [(entry, mode) for entry in (path, *parents) if (mode := _mode(entry)) is not None]
        if scope is not Scope.USER:
            # A project's files are as open as the project, the machine's are for everybody.
            open_to = _mode(self.root) if scope is Scope.LOCAL else 0o755
            known = {entry for entry, _ in modes}
            modes += [(entry, open_to or 0o700) for entry in parents if entry not in known]
            modes += [(path, (open_to or 0o700) & 0o666)] if path not in known else []
        storage.write_private(path, data, below=below)
        for entry, mode in modes:
            entry.chmod(mode)


def read_bytes(path: Path) -> bytes:
    """Read a file a person names, regular and of bounded size. Raises StoreError."""
    try:
        return storage.read_regular(path, MAX_BYTES)
    except FileNotFoundError as error:
        raise StoreError(f"{path} does not exist") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {(error.strerror or str(error))}") from error


def decoded(data: bytes, path: Path) -> str:
    """Return the text of a tool file. Raises StoreError."""
    from tools.yamltext import decode

    try:
        return decode(data, path)
    except DocumentError as error:
        raise StoreError(str(error)) from error


def hidden(files: list[ToolFile]) -> Iterator[ToolFile]:
    """Yield the tools that a nearer tool of the same name hides (X13)."""
    seen: set[str] = set()
    for file in files:
        if file.definition is None:
            continue
        if file.name in seen:
            yield file
        seen.add(file.name)


def _check_own(store: ToolStore, path: Path) -> None:
    """Raise StoreError for a file outside of the directories that are opta's own."""
    if not store.owns(path):
        raise StoreError(
            f"{shown_path(path)} belongs to another program, and opta leaves it as it is. "
            "Change it by hand, or copy the tool with `opta tool export` and `opta tool "
            "import`: a tool in .opta/tools comes first."
        )


def _name_of(path: Path) -> str:
    """Return the name that an unusable file gives its tool, as far as it can be told."""
    if path.suffix == SEVERAL:
        return path.name
    try:
        content = read_document(read_bytes(path), path).data
    except (StoreError, DocumentError):
        return path.stem
    name = content.get("name") if isinstance(content, dict) else None
    return name if isinstance(name, str) and name else path.stem


def _mode(path: Path) -> int | None:
    return path.stat().st_mode & 0o777 if path.exists() else None
