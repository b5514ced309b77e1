"""Searches with `rg`, kept from settings, other programs and secrets (R9, R40)."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools import storage
from tools.builtin.findings import Findings, Hit
from tools.builtin.kit import Services
from tools.builtin.search import MAX_FILE_BYTES, Request
from tools.definition import ResolvedCall
from tools.engine.process import ProcessResult, ProcessSpec, ProcessStartError, run_process
from tools.files.hardlinks import HardLinks
from tools.files.protected import secret_patterns, sensitivity
from tools.files.textfile import NotText, decode
from tools.files.walk import open_unlinked
from tools.permissions.grant import Grant

MAX_HITS = 10_000
"""After so many hits the search is ended: nobody reads on, and the count is "more than"."""

_COMMON = (
    "--no-config", "--no-messages", "--hidden", "--no-require-git", "--no-ignore-global",
    "--no-ignore-dot", f"--max-filesize={MAX_FILE_BYTES}", "--glob=!.git", "--glob=!.opta-*.tmp",
)  # fmt: skip
_BY_ENDING = re.compile(r"\*\.[\w{},]+")


class _Enough(Exception):
    """There are more hits than anybody reads."""


async def ripgrep(
    grant: Grant, call: ResolvedCall, services: Services, program: Path, request: Request
) -> Findings | None:
    """Search contents and return what was found by path; None when `rg` cannot do it.

    It cannot where it has another idea of the expression, or fails. Raises GrantError.
    """

    async def run(argv: list[str], take: Callable[[bytes], None] | None) -> ProcessResult:
        line = (str(program), *_COMMON, *argv, "--", str(request.place))
        spec = ProcessSpec(line, request.root, services.child_env, round(request.budget_s * 1000))
        result = await run_process(grant, call, spec, take)
        for captured in (result.stdout, result.stderr):
            if captured.spool is not None:
                storage.remove(captured.spool)
        return result

    async def checked(findings: Findings) -> Findings:
        return await asyncio.to_thread(_checked, findings, request)

    reader = _Reader(request)
    secrets: list[str] = []
    try:
        secrets = await _secrets(run, request)
        result = await run(_search_arguments(request), reader.take)
    except ProcessStartError:
        return None
    except _Enough:
        stopped = f"stopped after {MAX_HITS:,} matches; there are more"
        return await checked(reader.findings(secrets, stopped))
    if result.timed_out:
        stopped = f"stopped after {request.budget_s:g} s; there may be more"
        return await checked(reader.findings(secrets, stopped))
    return await checked(reader.findings(secrets, "")) if result.exit_code in (0, 1) else None


async def _secrets(
    run: Callable[[list[str], None], Awaitable[ProcessResult]], request: Request
) -> list[str]:
    """Return the files that are left out because they hold secrets."""
    if sensitivity(request.place):
        return []
    types = [f"--type-add=secret:{pattern}" for pattern in _file_patterns()]
    result = await run([*types, "--type=secret", "--files", "--null"], None)
    paths = [os.fsdecode(path) for path in result.stdout.head.split(b"\0") if path]
    relative = [os.path.relpath(path, _base(request)) for path in paths if sensitivity(Path(path))]
    return sorted(f"{request.prefix}{path}" for path in relative if request.takes(path))


def _search_arguments(request: Request) -> list[str]:
    arguments = ["--json", "--crlf"]
    if request.literal:
        arguments.append("--fixed-strings")
    if request.across:
        arguments.append("--multiline")
    if not sensitivity(request.place):
        arguments += [f"--iglob=!{pattern}" for pattern in secret_patterns()]
    if request.ending and _BY_ENDING.fullmatch(request.ending):
        # Only saves time: what counts is decided by the globs of the request.
        arguments += [f"--type-add=wanted:{request.ending}", "--type=wanted"]
    return [*arguments, f"--regexp={request.pattern}"]


def _file_patterns() -> list[str]:
    return [pattern for pattern in secret_patterns() if "/" not in pattern]


def _base(request: Request) -> Path:
    return request.place if request.place.is_dir() else request.place.parent


def _checked(findings: Findings, request: Request) -> Findings:
    """Take out what does not stand in a file of the tree (R16, R40).

    `rg` opens what it finds by path: while it ran, a directory may have become a link to another
    place. What is shown is looked up once more, no link followed on the way.
    """
    by_file: dict[str, list[Hit]] = {}
    for hit in findings.hits:
        by_file.setdefault(hit.path, []).append(hit)
    links = HardLinks(request.root)
    answered = bool(sensitivity(request.place))
    for name, hits in by_file.items():
        path = _base(request) / name.removeprefix(request.prefix)
        try:
            text, status = _text_of(path)
        except OSError:
            findings.take_out(name)
            continue
        if not answered and links.reason(path, status):
            findings.linked.append(name)
            findings.take_out(name)
        elif not all(any(hit.text in form for form in text) for hit in hits):
            findings.take_out(name)
    return findings


def _text_of(path: Path) -> tuple[list[str], os.stat_result]:
    """Return the text of a file in the forms in which `rg` may have given it."""
    with open(open_unlinked(path), "rb") as file:
        data = file.read(MAX_FILE_BYTES)
        forms = [data.decode("utf-8", "replace")]
        with suppress(NotText):
            forms.append(decode(data)[0])
        return [form.replace("\r\n", "\n") for form in forms], os.fstat(file.fileno())


class _Reader:
    """Takes the JSON lines of `rg` as they come."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._base = str(_base(request))
        self._rest = b""
        self._hits: list[Hit] = []
        self._open: list[Hit] = []

    def take(self, data: bytes) -> None:
        """Take the next piece of output. Raises _Enough."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                self._message(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue
        if len(self._hits) + len(self._open) > MAX_HITS:
            self._hits += self._open
            raise _Enough

    def findings(self, secrets: list[str], stopped: str) -> Findings:
        """Return the hits by path, as if they had been found in order."""
        findings = Findings(self._request.limit, secret=secrets, stopped=stopped)
        self._hits.sort(key=lambda hit: (hit.path.split("/"), hit.line))
        by_file: dict[str, list[Hit]] = {}
        for hit in self._hits:
            by_file.setdefault(hit.path, []).append(hit)
        for hits in by_file.values():
            findings.add(hits)
        return findings

    def _message(self, message: dict[str, Any]) -> None:
        data = message["data"]
        if message["type"] == "begin":
            self._open = []
        elif message["type"] == "end":
            # What was found before a file turned out to be binary is no text.
            self._hits += self._open if data["binary_offset"] is None else []
            self._open = []
        elif message["type"] == "match":
            self._match(data)

    def _match(self, data: dict[str, Any]) -> None:
        relative = os.path.relpath(os.fsdecode(_bytes(data["path"])), self._base)
        if not self._request.takes(relative):
            return
        text = _bytes(data["lines"]).decode("utf-8", "replace")
        start = data["submatches"][0]["start"] if data["submatches"] else 0
        lines = text.replace("\r\n", "\n").removesuffix("\n")
        name = f"{self._request.prefix}{relative}"
        self._open.append(Hit(name, data["line_number"], lines, start))


def _bytes(value: dict[str, str]) -> bytes:
    if "text" in value:
        return value["text"].encode("utf-8", "surrogateescape")
    return base64.b64decode(value["bytes"])
