"""`read_file`: a part of a text file with line numbers, and where the rest is."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from difflib import get_close_matches
from io import BufferedReader, TextIOWrapper
from itertools import islice
from pathlib import Path

import prompts
from tools.builtin.kit import Builtin, Services, define, file_key
from tools.definition import (
    EffectKind,
    Invocation,
    Outcome,
    Progress,
    ResolvedCall,
    Risk,
    TextDisplay,
    ToolError,
    ToolResult,
)
from tools.engine.output import sanitize
from tools.files.textfile import SAMPLE_BYTES, Encoding, NotText, detect, image_kind
from tools.files.workspace import FileMissing, Workspace
from tools.permissions.grant import Grant
from tools.record import record

MAX_LINES = 2000
MAX_CHARS = 50_000
MAX_LINE_CHARS = 2000
COUNTED_BYTES = 16 * 1024 * 1024
"""Files up to this size are read whole: their lines are counted and their content is remembered."""

_CHUNK_CHARS = 64 * 1024
_SKIPPED_CHARS = 64 * 1024 * 1024
"""The rest of a line is skipped up to so many characters: a sparse file may have a line of 1 TB."""

_SECONDS = 20.0
"""How long the lines before the wanted ones are looked for."""

ALIASES = {
    "file_path": "path", "filePath": "path", "filepath": "path", "file": "path",
    "filename": "path", "start_line": "offset", "start": "offset", "line": "offset",
    "max_lines": "limit", "num_lines": "limit", "lines": "limit",
}  # fmt: skip


class _ImageFile(ToolError):
    """The file holds an image: nothing to be told in text."""


def tool() -> Builtin:
    """Return the built-in."""
    definition = define(
        "read_file",
        prompts.load("tools/read_file"),
        {
            "path": {"type": "string", "description": "Relative or absolute path"},
            "offset": {"type": "integer", "description": "First line, from 1"},
            "limit": {"type": "integer", "description": "Number of lines"},
        },
        ["path"],
        risk=Risk.LOW,
        metadata={"tags": ["read"]},
    )
    return Builtin(definition, prepare, ALIASES)


def prepare(call: ResolvedCall, services: Services) -> Invocation:
    """Say which file is read. Raises FileProblem for a path that names none."""
    workspace = services.workspace
    asked = call.arguments["path"]
    path = workspace.resolve(asked)
    offset = max(call.arguments.get("offset", 1), 1)
    limit = call.arguments.get("limit", MAX_LINES)
    if limit < 1:
        raise ToolError(f"limit is {limit}: it is the number of lines to read, at least 1.")

    async def run(grant: Grant, progress: Progress) -> ToolResult:
        grant.check(call)
        try:
            text = await asyncio.to_thread(
                read_part, workspace, path, offset, min(limit, MAX_LINES)
            )
        except _ImageFile as image:
            return ToolResult(str(image), Outcome.ERROR, image=path)
        return ToolResult(text)

    shown = workspace.shown(path)
    part = f" from line {offset}" if offset > 1 else ""
    return Invocation(
        title=f"Read {shown}{part}",
        effects=(workspace.effect(EffectKind.READ, path, "read_file", asked),),
        preview=TextDisplay(f"{shown}{part}"),
        run=run,
        exclusive=file_key(path),
    )


def read_part(workspace: Workspace, path: Path, offset: int, limit: int) -> str:
    """Return numbered lines of a file and the state: range, total, next offset.

    Raises FileProblem; ToolError for directories, images and offsets behind the end.
    """
    if path.is_dir():
        raise ToolError(
            f"{workspace.shown(path)} is a directory. List it with file_search "
            f'(mode "glob", pattern "/*", path "{workspace.shown(path)}").'
        )
    try:
        with workspace.open(path) as file:
            part = _read_open(workspace, path, file, offset, limit)
    except FileMissing as error:
        raise FileMissing(f"{error}{similar_names(workspace, path)}") from None
    except NotText as error:
        return _described(workspace, path, str(error))
    return part.text(workspace.shown(path))


def similar_names(workspace: Workspace, path: Path) -> str:
    """Say what in the nearest existing directory is named like a missing file."""
    directory = path.parent
    while not directory.is_dir() and directory != directory.parent:
        directory = directory.parent
    if directory != path.parent:
        return f" The directory {workspace.shown(path.parent)} does not exist either."
    try:
        names = {entry.name.casefold(): entry.name for entry in islice(directory.iterdir(), 5000)}
    except OSError:
        return ""
    near = get_close_matches(path.name.casefold(), names, 3, 0.6)
    shown = ", ".join(workspace.shown(directory / names[name]) for name in near)
    return f" Similar: {shown}." if shown else " Find it with file_search."


@record
class _Part:
    """Lines of a file. `total` is None where the rest was not counted; `size` is in bytes."""

    first: int
    lines: list[str]
    total: int | None
    size: int
    note: str = ""

    def text(self, shown: str) -> str:
        last = self.first + len(self.lines) - 1
        if not self.lines:
            if self.total == 0:
                return f"{shown} is empty (0 lines)."
            return f"{shown} has {self.total:,} lines; offset {self.first} is behind the end."
        numbered = "\n".join(
            f"{number}\t{_shortened(line)}" for number, line in enumerate(self.lines, self.first)
        )
        if self.total is None:
            state = f"lines {self.first}-{last}; {self.size:,} bytes in all, lines not counted"
        else:
            state = f"lines {self.first}-{last} of {self.total:,}"
        more = self.total is None or last < self.total
        state += f"; next offset {last + 1}" if more else "; end of file"
        return f"{sanitize(numbered)}\n[{state}{self.note}]"


def _shortened(line: str) -> str:
    if len(line) <= MAX_LINE_CHARS:
        return line
    return f"{line[:MAX_LINE_CHARS]}… [line cut: {len(line):,} characters or more]"


def _read_open(
    workspace: Workspace, path: Path, file: BufferedReader, offset: int, limit: int
) -> _Part:
    status = os.fstat(file.fileno())
    if status.st_size <= COUNTED_BYTES:
        data = workspace.read(path, COUNTED_BYTES)
        encoding = detect(data)
        lines, note = _decoded_lines(data, encoding)
        part = list(_within_budget(lines[offset - 1 : offset - 1 + limit]))
        return _Part(offset, part, len(lines), len(data), note)
    encoding = detect(file.peek(SAMPLE_BYTES))
    file.read(len(encoding.mark))
    # One line more than asked tells whether the file goes on.
    taken = list(islice(_streamed_lines(file, encoding), offset - 1, offset + limit))
    part = list(_within_budget(taken[:limit]))
    if not part:
        raise ToolError(f"Offset {offset} is behind the end of {workspace.shown(path)}.")
    workspace.remember(path, status)
    total = offset - 1 + len(part) if len(part) == len(taken) else None
    return _Part(offset, part, total, status.st_size, _encoding_note(encoding))


def _decoded_lines(data: bytes, encoding: Encoding) -> tuple[list[str], str]:
    try:
        text, note = encoding.decode(data), _encoding_note(encoding)
    except NotText:
        text = data[len(encoding.mark) :].decode(encoding.codec, "replace")
        note = f"; not valid {encoding.codec}: damaged characters are shown as \ufffd"
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines], note


def _encoding_note(encoding: Encoding) -> str:
    return "" if encoding.codec == "utf-8" else f"; {encoding.codec}"


def _within_budget(lines: list[str]) -> Iterator[str]:
    """Yield lines until the answer is long enough; at least one."""
    used = 0
    for number, line in enumerate(lines):
        used += min(len(line), MAX_LINE_CHARS) + len(str(number)) + 2
        if number and used > MAX_CHARS:
            return
        yield line


def _streamed_lines(file: BufferedReader, encoding: Encoding) -> Iterator[str]:
    """Yield the lines of a huge file one by one, holding no more of a line than is shown."""
    reader = TextIOWrapper(file, encoding.codec, "replace", newline="\n")
    deadline = time.monotonic() + _SECONDS
    try:
        while line := reader.readline(MAX_LINE_CHARS + 1):
            yield line.removesuffix("\n").removesuffix("\r")
            # Only who wants the next line pays for the rest of this one.
            _skip_line(reader, line)
            if time.monotonic() > deadline:
                raise ToolError(
                    "The lines before this offset take too long to count. Use run_command with "
                    "a program that looks from the end, or for text (tail, grep)."
                )
    finally:
        reader.detach()


def _skip_line(reader: TextIOWrapper, line: str) -> None:
    """Read to the end of the line that begins with `line`. Raises ToolError where it has none."""
    left = _SKIPPED_CHARS
    while line and not line.endswith("\n"):
        if left <= 0:
            raise ToolError(
                f"A line of this file is longer than {_SKIPPED_CHARS:,} characters. Read up to "
                "that line with a limit, or use run_command."
            )
        line = reader.readline(_CHUNK_CHARS)
        left -= len(line)


def _described(workspace: Workspace, path: Path, kind: str) -> str:
    """Say what a file is that is no text; a bare dump of it would help nobody."""
    with workspace.open(path) as file:
        head = file.read(SAMPLE_BYTES)
        size = os.fstat(file.fileno()).st_size
        workspace.remember(path, os.fstat(file.fileno()))
    shown = workspace.shown(path)
    if image := image_kind(head):
        raise _ImageFile(
            f"{shown} is a {image} ({size:,} bytes). read_file gives text only, so its content "
            "cannot be shown. Use run_command for its properties, or ask the user to name it with "
            "@ in a message."
        )
    return (
        f"{shown} is not text: {kind}, {size:,} bytes. First bytes (hex): {head[:64].hex(' ')}\n"
        "Use run_command with a program that reads this format."
    )
