"""Ctrl-V: what the programs of the machine say is in the clipboard. Their answers are real ones."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest

from agent.images import MAX_IMAGE_BYTES
from agent.ui import clipboard
from agent.ui.clipboard import ClipboardError, clipboard_text
from tests.support.clipboard import PNG, put_program
from tools import storage

WAYLAND, X11 = ("wl-paste", "WAYLAND_DISPLAY"), ("xclip", "DISPLAY")


@pytest.fixture
def machine(tmp_path):
    """A directory of programs that the machine has, and a project beside it."""
    for name in ("bin", "project"):
        (tmp_path / name).mkdir()
    return tmp_path


def pasted(machine, **environ):
    environ = {"PATH": f"{machine}/bin:/usr/bin:/bin", **environ}
    return clipboard_text(machine / "project", environ, environ.pop("platform", "linux"))


@pytest.mark.parametrize(("program", "variable"), [WAYLAND, X11])
async def test_an_image_becomes_a_file_that_only_the_person_reads(machine, program, variable):
    put_program(machine / "bin", program, {"text/html": b"<img>", "image/png": PNG})
    path = Path(*shlex.split(await pasted(machine, **{variable: ":9"})))
    assert path.read_bytes() == PNG
    assert path.parent == storage.output_dir()
    assert (path.suffix, path.stat().st_mode & 0o777) == (".png", 0o600)


@pytest.mark.parametrize(("program", "variable"), [WAYLAND, X11])
async def test_text_is_pasted_as_it_is(machine, program, variable):
    text = "two 'lines'\n and ä\n"
    put_program(machine / "bin", program, {"UTF8_STRING": text.encode()})
    assert await pasted(machine, **{variable: ":9"}) == text


async def test_of_two_displays_the_one_whose_program_is_there_is_asked(machine):
    put_program(machine / "bin", "xclip", {"STRING": b"text"})
    assert await pasted(machine, WAYLAND_DISPLAY="w", DISPLAY=":9") == "text"
    with pytest.raises(ClipboardError, match="no wl-paste on PATH"):
        await pasted(machine, WAYLAND_DISPLAY="w")
    with pytest.raises(ClipboardError, match="neither WAYLAND_DISPLAY nor DISPLAY is set"):
        await pasted(machine)


@pytest.mark.parametrize(
    ("holds", "why"),
    [
        ({}, "neither text in the clipboard nor an image"),
        ({"image/x-icon": b"icon"}, "neither text in the clipboard nor an image"),
        ({"image/png": PNG + bytes(MAX_IMAGE_BYTES)}, "larger than 3.75 MB"),
    ],
)
async def test_what_cannot_be_pasted_is_said(machine, holds, why):
    put_program(machine / "bin", "xclip", holds)
    with pytest.raises(ClipboardError, match=why):
        await pasted(machine, DISPLAY=":9")


async def test_a_program_that_hangs_is_ended(machine, monkeypatch):
    monkeypatch.setattr(clipboard, "_TIMEOUT_S", 2.0)
    (machine / "bin" / "xclip").write_text(f"#!/bin/sh\necho $$ > {machine}/pid\nexec sleep 600\n")
    (machine / "bin" / "xclip").chmod(0o755)
    began = time.monotonic()
    with pytest.raises(ClipboardError, match="xclip gave no answer"):
        await pasted(machine, DISPLAY=":9")
    assert time.monotonic() - began < 60
    assert not Path(f"/proc/{(machine / 'pid').read_text().strip()}").exists()


async def test_macos_tells_an_image_as_the_digits_of_a_script(machine):
    script, paste = machine / "bin" / "osascript", machine / "bin" / "pbpaste"
    script.write_text(
        '#!/bin/sh\n[ "$1 $2" = "-e get the clipboard as «class PNGf»" ] || exit 1\n'
        f"echo '«data PNGf{PNG.hex().upper()}»'\n"
    )
    paste.write_text("#!/bin/sh\necho some text\n")
    for program in (script, paste):
        program.chmod(0o755)
    path = Path(*shlex.split(await pasted(machine, platform="darwin")))
    assert path.read_bytes() == PNG
    script.write_text("#!/bin/sh\nexit 1\n")
    assert await pasted(machine, platform="darwin") == "some text\n"


async def test_r10_a_program_of_the_project_is_not_asked(machine):
    put_program(machine / "project", "xclip", {"STRING": b"text"})
    (machine / "bin" / "xclip").symlink_to(machine / "project" / "xclip")
    path = f"{machine}/project:{machine}/bin:/usr/bin:/bin"
    with pytest.raises(ClipboardError, match="no xclip on PATH"):
        await pasted(machine, PATH=path, DISPLAY=":9")
