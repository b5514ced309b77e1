"""What is in the person's clipboard, for their Ctrl-V: told by a program of the machine (R10)."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from agent.images import MAX_IMAGE_BYTES
from tools import storage
from tools.engine.environment import child_environment
from tools.files.programs import program_outside
from tools.record import record

_IMAGES = {"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}
_TEXTS = ("text/plain;charset=utf-8", "UTF8_STRING", "text/plain", "STRING")
_TIMEOUT_S = 5.0
"""The program that has copied something hands it over itself, and may hang."""

_ELSEWHERE = (
    "Over ssh the clipboard is on the other machine. Copy the image to a file here and name it "
    "with @; text is pasted with the terminal's own key."
)


class ClipboardError(Exception):
    """Nothing can be pasted. The message says why and what to do."""


@record
class _Reader:
    """A program that reads a clipboard: of which `package`, and where which `variable` is set.

    `listing` are its words for the types of what is there, `reading` those before a type.
    """

    program: str
    package: str
    variable: str
    listing: tuple[str, ...]
    reading: tuple[str, ...]


_XCLIP = ("-selection", "clipboard", "-o", "-t")
_READERS = (
    _Reader(
        "wl-paste", "wl-clipboard", "WAYLAND_DISPLAY",
        ("--list-types",), ("--no-newline", "--type"),
    ),
    _Reader("xclip", "xclip", "DISPLAY", (*_XCLIP, "TARGETS"), _XCLIP),
)  # fmt: skip
_MACOS_IMAGE = ("-e", "get the clipboard as \u00abclass PNGf\u00bb")
_MACOS_DATA = re.compile(rb"data PNGf([0-9A-F]+)")


async def clipboard_text(
    root: Path, environ: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> str:
    """Return what is in the clipboard as a terminal would paste it; nothing of `root` is run.

    An image, which goes before a text, is kept in a file of opta's own: its path is returned, as
    of one that was dropped. Raises ClipboardError.
    """
    try:
        if platform == "darwin":
            return await _of_macos(_Programs(root, environ))
        return await _of_display(_Programs(root, environ))
    except storage.StorageError as error:
        raise ClipboardError(f"The image cannot be kept. {error}") from error


@record
class _Programs:
    """The programs of the machine, with the environment that they are run in."""

    root: Path
    environ: Mapping[str, str]

    def find(self, name: str) -> str | None:
        found = program_outside(name, self.environ.get("PATH", os.defpath), self.root)
        return None if found is None else str(found)

    async def output(self, program: str, *words: str, most: int = MAX_IMAGE_BYTES) -> bytes:
        """Return what a program prints, nothing where it fails. Raises ClipboardError."""
        try:
            process = await asyncio.create_subprocess_exec(
                program, *words, env=child_environment(self.environ),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
        except OSError as error:
            raise ClipboardError(f"Cannot start {program}: {error.strerror}.") from error
        try:
            return await asyncio.wait_for(_printed(process, most), _TIMEOUT_S)
        except TimeoutError:
            raise ClipboardError(
                f"{Path(program).name} gave no answer for {_TIMEOUT_S:.0f} s: the program that "
                "has copied what is in the clipboard hangs. Copy it anew."
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _printed(process: asyncio.subprocess.Process, most: int) -> bytes:
    assert process.stdout is not None
    data = b""
    while chunk := await process.stdout.read(65536):
        data += chunk
        if len(data) > most:
            raise ClipboardError(
                f"What is in the clipboard is larger than {MAX_IMAGE_BYTES / 1e6:.2f} MB, which is "
                "too much to paste. Keep it in a file, an image as a smaller one, and name it "
                "with @."
            )
    return data if await process.wait() == 0 else b""


async def _of_display(programs: _Programs) -> str:
    here = [reader for reader in _READERS if programs.environ.get(reader.variable)]
    if not here:
        raise ClipboardError(
            "There is no clipboard here: neither WAYLAND_DISPLAY nor DISPLAY is set. " + _ELSEWHERE
        )
    for reader in here:
        program = programs.find(reader.program)
        if program is not None:
            return await _read(programs, program, reader)
    raise ClipboardError(
        f"The clipboard cannot be read: there is no {here[0].program} on PATH. Install the package "
        f"{here[0].package}."
    )


async def _read(programs: _Programs, program: str, reader: _Reader) -> str:
    listed = (await programs.output(program, *reader.listing)).decode(errors="replace").split("\n")
    # Some owners of a clipboard answer to every type with what they have: only what is listed.
    kind = next((kind for kind in (*_IMAGES, *_TEXTS) if kind in listed), None)
    data = b"" if kind is None else await programs.output(program, *reader.reading, kind)
    if kind is None or not data:
        raise _nothing()
    return _kept(data, _IMAGES[kind]) if kind in _IMAGES else data.decode(errors="replace")


async def _of_macos(programs: _Programs) -> str:
    script, paste = programs.find("osascript"), programs.find("pbpaste")
    if script is None or paste is None:
        raise ClipboardError("The clipboard cannot be read: osascript or pbpaste is not on PATH.")
    told = await programs.output(script, *_MACOS_IMAGE, most=2 * MAX_IMAGE_BYTES + 100)
    if found := _MACOS_DATA.search(told):
        return _kept(bytes.fromhex(found[1].decode()), ".png")
    if text := (await programs.output(paste)).decode(errors="replace"):
        return text
    raise _nothing()


def _kept(image: bytes, suffix: str) -> str:
    return shlex.quote(str(storage.write_scratch(image, f"-pasted{suffix}")))


def _nothing() -> ClipboardError:
    return ClipboardError(
        "There is neither text in the clipboard nor an image that models take (PNG, JPEG, GIF, "
        "WebP)."
    )
