"""Reads tool files out of a git repository at a commit, whatever its working tree holds.

Every object is hashed here and compared with the id it was asked for, from the commit down: what
is read is what the pinned id names, not what the repository says it is.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tools.builtin.git_settings import without_transport
from tools.definition import ResolvedCall
from tools.engine.output import visible
from tools.engine.process import ProcessSpec, ProcessStartError, run_process
from tools.files.programs import program_outside
from tools.permissions.grant import Grant
from tools.record import record
from tools.sources.team.answer import (
    MAX_BYTES,
    MAX_FILES,
    TeamAnswer,
    TeamError,
    assemble,
    is_shared,
)

TIMEOUT_MS = 15_000
_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_TREE = b"40000"
_FILES = (b"100644", b"100755")


@record
class Checkout:
    """A directory in a git repository. `grant` is what its owner configured allows: reading."""

    directory: Path
    env: Mapping[str, str]
    grant: Grant
    call: ResolvedCall

    async def read(self, revision: str, org: str) -> TeamAnswer:
        """Return what the directory shared at the commit `revision`, a whole id.

        Raises TeamError.
        """
        below = (await self._git("rev-parse", "--show-prefix")).decode("utf-8", "replace").strip()
        commit = (await self._objects([revision]))[revision]
        tree = commit.partition(b"\n")[0].removeprefix(b"tree ").decode("ascii", "replace")
        if not _ID.fullmatch(tree):
            raise TeamError(f"{revision[:12]} is not a commit")
        for part in Path(below).parts:
            entries = {name: oid for mode, name, oid in await self._tree(tree) if mode == _TREE}
            if part not in entries:
                raise TeamError(f"the commit {revision[:12]} has no directory {below}")
            tree = entries[part]
        names = {
            name: oid for mode, name, oid in await self._tree(tree)
            if mode in _FILES and is_shared(name)
        }  # fmt: skip
        if len(names) > MAX_FILES:
            raise TeamError(f"it has {len(names)} files, more than {MAX_FILES}")
        blobs = await self._objects(dict.fromkeys(names.values()))
        return assemble(org, {name: blobs[oid] for name, oid in sorted(names.items())}, 0)

    async def _tree(self, oid: str) -> list[tuple[bytes, str, str]]:
        """Return mode, name and object id of each entry."""
        return list(_entries((await self._objects([oid]))[oid], len(oid) // 2))

    async def _objects(self, wanted: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of objects by id, each checked against it."""
        ids = list(wanted)
        if not ids:
            return {}
        output = await self._git("cat-file", "--batch", stdin="\n".join(ids).encode() + b"\n")
        found: dict[str, bytes] = {}
        for oid in ids:
            head, _, output = output.partition(b"\n")
            _, *rest = head.split(b" ")
            if len(rest) != 2 or not rest[1].isdigit():
                raise TeamError(f"the repository does not have {oid[:12]}: fetch it first")
            kind, size = rest[0], int(rest[1])
            content, output = output[:size], output[size + 1 :]
            _check(oid, kind, content)
            found[oid] = content
        return found

    async def _git(self, *words: str, stdin: bytes | None = None) -> bytes:
        program = program_outside("git", self.env.get("PATH", os.defpath), self.directory)
        if program is None:
            raise TeamError("git is not installed, and teams.revision needs it")
        # The directory may belong to the machine's owner; nothing of its settings runs here.
        argv = (str(program), "-c", "safe.directory=*", "-c", "core.fsmonitor=false", *words)
        env = without_transport(self.env) | {"GIT_NO_REPLACE_OBJECTS": "1"}
        spec = ProcessSpec(argv, self.directory, env, TIMEOUT_MS, stdin=stdin)
        output = _Whole(MAX_BYTES), _Whole(MAX_BYTES)
        try:
            done = await run_process(self.grant, self.call, spec, filters=output)
        except ProcessStartError as error:
            raise TeamError(f"git was not started: {error}") from None
        if done.timed_out:
            raise TeamError(f"git did not answer within {TIMEOUT_MS // 1000} s")
        if done.exit_code != 0:
            told = visible(" ".join(output[1].data.decode("utf-8", "replace").split()))
            raise TeamError(f"git cannot read it: {told[:200]}")
        return bytes(output[0].data)


def _check(oid: str, kind: bytes, content: bytes) -> None:
    """Raise TeamError where the content is not what its id says (a sha1 or a sha256, by length)."""
    make = hashlib.sha1 if len(oid) == 40 else hashlib.sha256
    head = b"%s %d\0" % (kind, len(content))
    if make(head + content, usedforsecurity=False).hexdigest() != oid:
        raise TeamError(f"the repository has something else in place of {oid[:12]}")


def _entries(tree: bytes, id_bytes: int) -> Iterator[tuple[bytes, str, str]]:
    while tree:
        head, _, rest = tree.partition(b"\0")
        mode, _, name = head.partition(b" ")
        yield mode, name.decode("utf-8", "replace"), rest[:id_bytes].hex()
        tree = rest[id_bytes:]


class _Whole:
    """Takes all of a stream for itself, up to a limit. Raises TeamError for more."""

    def __init__(self, limit: int) -> None:
        self.data = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> bytes:
        self.data += data
        if len(self.data) > self._limit:
            raise TeamError(f"it has more than {self._limit >> 20} MiB")
        return b""

    def finish(self) -> bytes:
        return b""
