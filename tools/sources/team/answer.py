"""What a team source answers with: tool files, each with its sha256, and the team's allowlist.

    {"version": 1, "org": "acme", "serial": 17, "allowlist": ["npm test*"],
     "tools": [{"path": "scan.yaml", "sha256": "…", "content": "name: scan\\n…"}]}

Everything in it was written by somebody else: it is checked whole, and used whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any

from tools import storage
from tools.definition import digest_of
from tools.engine.output import clipped, visible
from tools.record import open_record, record
from tools.yamltext import DocumentError, parse

VERSION = 1
MAX_BYTES = 8 << 20
"""Of a whole answer."""

MAX_FILES = 500
MAX_FILE_BYTES = 1 << 20
MAX_PATTERN_CHARS = 1000
POLICY_FILES = ("team.yml", "team.yaml")
"""What in a directory of tool files is none: it may hold `allowlist`."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(json|ya?ml|toml)")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHOWN = 60


class TeamError(Exception):
    """A team source cannot be used. The message says what is wrong with it, in one line."""


@record
class TeamFile:
    """A tool file of a team: its name, without a directory, and its text."""

    path: str
    text: str = field(repr=False)

    @property
    def digest(self) -> str:
        """Sha256 (hex) of the text: what a person accepts."""
        return hashlib.sha256(self.text.encode()).hexdigest()


@open_record
class TeamAnswer:
    """All that a team shares, its files by name.

    `serial` grows with every change at the source; 0 where the source has none. `allowlist` None
    restricts nothing, an empty one allows no command.
    """

    org: str
    files: tuple[TeamFile, ...] = ()
    allowlist: tuple[str, ...] | None = None
    serial: int = 0

    @cached_property
    def digest(self) -> str:
        """Sha256 (hex) of what counts: not of the serial, nor of the spelling."""
        return digest_of([self.org, self.allowlist, [[f.path, f.digest] for f in self.files]])

    def to_bytes(self) -> bytes:
        """Return the answer as it travels."""
        tools = [
            {"path": file.path, "sha256": file.digest, "content": file.text} for file in self.files
        ]
        answer: dict[str, Any] = {"version": VERSION, "org": self.org, "serial": self.serial}
        if self.allowlist is not None:
            answer["allowlist"] = self.allowlist
        return json.dumps(answer | {"tools": tools}, ensure_ascii=False).encode()


def parse_answer(data: bytes, org: str) -> TeamAnswer:
    """Return what `data` says, if it is an answer about `org` and agrees with itself.

    Raises TeamError.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise TeamError("its answer is not whole JSON") from None
    if not isinstance(content, dict):
        raise TeamError("its answer is not a JSON object")
    if content.get("version") != VERSION:
        told = f"{_quoted(content.get('version'))}, this opta knows {VERSION}"
        raise TeamError(f"its answer has version {told}")
    if content.get("org") != org:
        raise TeamError(f"it answers for {_quoted(content.get('org'))}, not for {org}")
    files = tuple(_file(entry) for entry in _list(content.get("tools"), "tools"))
    serial = content.get("serial")
    if isinstance(serial, bool) or not isinstance(serial, int) or serial < 0:
        raise TeamError(f"`serial` is {_quoted(serial)}, not a whole number")
    return checked(TeamAnswer(org, files, allowlist_of(content), serial))


def checked(answer: TeamAnswer) -> TeamAnswer:
    """Return the answer with its files in order. Raises TeamError for too many, or two of one."""
    if len(answer.files) > MAX_FILES:
        raise TeamError(f"it has {len(answer.files)} files, more than {MAX_FILES}")
    seen: set[str] = set()
    for file in answer.files:
        if file.path.lower() in seen:
            raise TeamError(f"it has the file {file.path} twice")
        seen.add(file.path.lower())
    files = tuple(sorted(answer.files, key=lambda file: file.path))
    return TeamAnswer(answer.org, files, answer.allowlist, answer.serial)


def allowlist_of(content: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the allowlist in an answer, or in the policy file of a directory. Raises TeamError."""
    if content.get("allowlist") is None:
        return None
    patterns = _list(content["allowlist"], "allowlist")
    for pattern in patterns:
        plain = isinstance(pattern, str) and pattern.strip() and pattern.isprintable()
        if not plain or len(pattern) > MAX_PATTERN_CHARS:
            raise TeamError(f"`allowlist` holds {_quoted(pattern)}, which is no pattern")
    return tuple(patterns)


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise TeamError(f"`{name}` is not a list")
    return value


def _file(entry: object) -> TeamFile:
    if not isinstance(entry, dict):
        raise TeamError("`tools` holds something that is not an object")
    path, text, digest = (entry.get(key) for key in ("path", "content", "sha256"))
    if not isinstance(path, str) or not _FILE_NAME.fullmatch(path):
        raise TeamError(f"{_quoted(path)} is not the name of a tool file")
    if not isinstance(text, str) or not isinstance(digest, str):
        raise TeamError(f"{path} has no `content` and `sha256`")
    return _checked_file(path, text, digest)


def _checked_file(path: str, text: str, digest: str) -> TeamFile:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise TeamError(f"{path} holds half a character") from None
    if len(data) > MAX_FILE_BYTES:
        raise TeamError(f"{path} has {len(data):,} bytes, more than {MAX_FILE_BYTES:,}")
    if not _SHA256.fullmatch(digest) or hashlib.sha256(data).hexdigest() != digest:
        raise TeamError(f"{path} is not what its sha256 says")
    return TeamFile(path, text)


def _quoted(value: object) -> str:
    return clipped(visible(" ".join(str(value).split())), _SHOWN)


class TeamDirectory:
    """A directory of tool files. They are read again only when something about them changed."""

    def __init__(self, path: Path, org: str) -> None:
        self._path = path
        self._org = org
        self._seen: tuple[tuple[str, tuple[int, ...]], ...] | None = None
        self._answer: TeamAnswer | None = None

    def read(self) -> TeamAnswer:
        """Return what the directory shares now. Raises TeamError."""
        try:
            signature = tuple(self._scan())
            if self._answer is None or signature != self._seen:
                names = [name for name, _ in signature if name]
                contents = {name: self._content(name) for name in names}
                # The latest change of anything: removing a file changes the directory.
                serial = max(max(seen[:2]) for _, seen in signature) // 1_000_000
                self._answer = assemble(self._org, contents, serial)
                self._seen = signature
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise TeamError(f"{self._path} cannot be read: {reason}") from None
        return self._answer

    def _scan(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield name and signature of the directory itself, as "", and of the files in it."""
        yield "", _signature(self._path.stat())
        with os.scandir(self._path) as entries:
            names = sorted(entry.name for entry in entries if is_shared(entry.name))
        for name in names:
            yield name, _signature((self._path / name).stat())

    def _content(self, name: str) -> bytes:
        try:
            return storage.read_regular(self._path / name, MAX_FILE_BYTES)
        except OSError as error:
            raise OSError(error.errno, f"{name}: {error.strerror or error}") from None


def is_shared(name: str) -> bool:
    """Tell whether a file of a directory belongs to what is shared, by its extension."""
    return not name.startswith(".") and Path(name).suffix in (".json", ".yaml", ".yml", ".toml")


def assemble(org: str, contents: Mapping[str, bytes], serial: int) -> TeamAnswer:
    """Return files, by name, as an answer. Raises TeamError."""
    files = []
    allowlist: tuple[str, ...] | None = None
    for name, data in contents.items():
        if not _FILE_NAME.fullmatch(name):
            raise TeamError(
                f"{_quoted(name)}: a tool file's name has letters, digits, -, _ and . only"
            )
        if name in POLICY_FILES:
            allowlist = _policy(name, data)
            continue
        try:
            files.append(TeamFile(name, data.decode("utf-8")))
        except UnicodeDecodeError:
            raise TeamError(f"{name} is not UTF-8 text") from None
    return checked(TeamAnswer(org, tuple(files), allowlist, serial))


def _policy(name: str, data: bytes) -> tuple[str, ...] | None:
    try:
        content = parse(data, Path(name)).data
    except DocumentError as error:
        raise TeamError(str(error)) from None
    if not isinstance(content, dict) or not content.keys() <= {"allowlist"}:
        raise TeamError(f"{name} holds `allowlist`, a list of commands, and nothing else")
    return allowlist_of(content)


def _signature(found: os.stat_result) -> tuple[int, ...]:
    mode = stat.S_IFMT(found.st_mode)
    return (found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino, mode)
