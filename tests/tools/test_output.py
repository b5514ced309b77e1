"""Text from programs is safe for a terminal, whole where it can be, and short for a model."""

from __future__ import annotations

import re
import stat
import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tools.engine.capture import Capture, Captured
from tools.engine.output import (
    CLIP_CHARS,
    ControlStripper,
    clean,
    for_model,
    has_unseen,
    live,
    sanitize,
    visible,
)

FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

SEQUENCES = [
    "\x1b[0m", "\x1b[1;31m", "\x1b[38;5;196m", "\x1b[38:2::1:2:3m", "\x1b[2J", "\x1b[H",
    "\x1b[10;20H", "\x1b[?1049h", "\x1b[?25l", "\x1b[>c", "\x1b[6n", "\x1b[!p", "\x1b[ q",
    "\x1b[200~", "\x1b]0;title\x07", "\x1b]2;title\x1b\\", "\x1b]8;;http://x.example/\x1b\\",
    "\x1b]52;c;Y2FsYw==\x07", "\x1b]4;1;rgb:ff/00/00\x1b\\", "\x1b]1337;File=inline=1:AAAA\x07",
    "\x1bP1$r0m\x1b\\", "\x1bPq#0;2;0;0;0~~@@vv\nline\x1b\\", "\x1b_Gf=24,s=1;AAAA\x1b\\",
    "\x1b^private\x1b\\", "\x1bXstart of string\x1b\\", "\x1b(B", "\x1b)0", "\x1b#8", "\x1b%G",
    "\x1b7", "\x1b8", "\x1bc", "\x1bD", "\x1bM", "\x1b=", "\x1b>", "\x1bN", "\x1bO", "\x1b~",
    "\x9b31m", "\x9b?6n", "\x9d0;title\x9c", "\x90payload\x9c", "\x9eprivate\x9c",
    "\x9fapplication\x9c", "\x98string\x9c", "\x85", "\x84", "\x8d", "\x00", "\x05", "\x07",
    "\x08", "\x0b", "\x0c", "\x0e", "\x0f", "\x18", "\x1a", "\x7f",
]  # fmt: skip
"""ECMA-48 control functions, and what xterm, kitty, iTerm2 and sixel made of its strings."""

PLAIN = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=8).map(
    lambda text: f".{text}"
)


def strip_pieces(pieces: Iterable[str]) -> str:
    stripper = ControlStripper()
    return "".join([*map(stripper.feed, pieces), stripper.finish()])


def cut(text: str, places: list[int]) -> list[str]:
    borders = sorted({place % (len(text) + 1) for place in places})
    return [text[a:b] for a, b in zip([0, *borders], [*borders, len(text)], strict=True)]


@pytest.mark.parametrize("sequence", SEQUENCES, ids=ascii)
def test_a_control_function_vanishes_wherever_it_is_cut(sequence: str) -> None:
    text = f"before{sequence}after\tend\n"
    for place in range(len(text) + 1):
        assert strip_pieces([text[:place], text[place:]]) == "beforeafter\tend\n"
    assert strip_pieces(text) == "beforeafter\tend\n"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(PLAIN, st.sampled_from(SEQUENCES)), max_size=12),
    st.lists(st.integers(0, 10_000), max_size=8),
)
def test_only_the_text_between_control_functions_is_left(
    parts: list[tuple[str, str]], places: list[int]
) -> None:
    text = "".join(plain + sequence for plain, sequence in parts)
    assert strip_pieces(cut(text, places)) == "".join(plain for plain, _ in parts)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.lists(st.integers(0, 1000), max_size=6))
@example(b"\x1b]0;never ended", [3])
@example(b"a\r\r\nb\rc", [1, 2, 3])
def test_any_bytes_cut_anywhere_give_the_same_harmless_text(data: bytes, places: list[int]) -> None:
    text = data.decode("utf-8", "replace")
    assert FORBIDDEN.search(clean(data)) is None
    assert FORBIDDEN.search(sanitize(text)) is None
    assert strip_pieces(cut(text, places)) == sanitize(text)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=60))
def test_text_without_control_functions_is_unchanged(text: str) -> None:
    assert sanitize(text) == clean(text.encode()) == text


def test_markup_is_no_control_function() -> None:
    assert sanitize("[red]x[/red] [[y]]") == "[red]x[/red] [[y]]"


def test_an_unfinished_string_does_not_swallow_all_that_follows() -> None:
    assert sanitize("\x1b]0;" + "x" * 100_000 + "the result").endswith("the result")


def test_a_lone_return_cannot_overwrite_what_stands_before_it() -> None:
    assert sanitize("rm -rf /\recho hi\r\nok\r") == "rm -rf /\necho hi\nok\n"


def test_of_a_progress_line_the_last_state_is_kept() -> None:
    assert clean(b"start\r\n 10%\r 50%\r100%\ndone\r\n") == "start\n100%\ndone\n"
    assert clean(b"50%\r100%\r") == "100%"


def test_bytes_that_are_no_utf8_are_replaced() -> None:
    assert clean(b"caf\xe9 \xc3\xa9") == "caf\ufffd é"


def test_half_characters_are_replaced_so_that_every_stream_takes_the_text() -> None:
    assert sanitize("caf\udce9 \ud83d.") == "caf\ufffd \ufffd."


def test_live_output_is_safe_across_pieces_and_stops_at_its_limit() -> None:
    shown: list[str] = []
    take = live(shown.append, limit=10)
    for piece in (b"a\x1b[3", b"1mb\xc3", b"\xa9c", b"d" * 50, b"more"):
        take(piece)
    assert "".join(shown) == "abéc" + "d" * 6


def captured(data: bytes) -> Captured:
    capture = Capture()
    capture.add(data)
    return capture.finish()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_short_output_reaches_the_model_whole() -> None:
    text = "".join(f"line {n}\n" for n in range(100))
    shown = for_model(captured(text.encode()))
    assert (shown.text, shown.full_output) == (text, None)


@pytest.mark.parametrize("count", [3_000, 60_000])
def test_long_output_is_cut_in_the_middle_at_lines_and_kept_in_a_private_file(count: int) -> None:
    lines = [f"line {n}" for n in range(count)]
    data = ("\n".join(lines) + "\n").encode()
    shown = for_model(captured(data))
    head, note, tail = re.split(r"\n(\[… .* …\])\n", shown.text)
    assert head.split("\n") == lines[: head.count("\n") + 1]
    assert tail.split("\n")[:-1] == lines[-tail.count("\n") :]
    assert CLIP_CHARS * 0.9 < len(shown.text) < CLIP_CHARS + 500
    left_out = int(re.findall(r"[\d,]+", note)[0].replace(",", ""))
    assert left_out == len(data) - len(head.encode()) - len(tail.encode())
    assert shown.full_output is not None
    assert str(shown.full_output) in note
    assert "read_file" in note
    assert shown.full_output.read_bytes() == data
    assert stat.S_IMODE(shown.full_output.stat().st_mode) == 0o600


def test_one_endless_line_is_cut_too() -> None:
    shown = for_model(captured(b"x" * 1_000_000))
    assert len(shown.text) < CLIP_CHARS + 500
    assert shown.text.startswith("xxx")
    assert shown.text.endswith("xxx")


def test_the_model_is_told_when_the_rest_could_not_be_kept(state: Path) -> None:
    state.write_text("in the way")
    shown = for_model(captured(b"x\n" * 20_000))
    assert shown.full_output is None
    assert "could not be stored" in shown.text


def test_the_model_is_told_when_the_file_holds_only_the_beginning(tmp_path: Path) -> None:
    shown = for_model(Captured(b"a\n" * 9000, b"z\n" * 9000, 10**9, tmp_path / "out", 10**6))
    assert f"the first 1,000,000 bytes of the output are in {tmp_path}/out" in shown.text


def test_everything_without_a_shape_is_made_visible() -> None:
    assert visible("a\x1b[2Jb\rc\x9b") == "a\\x1b[2Jb\\x0dc\\x9b"
    assert visible("x\u202ey\u200bz\U000e0041\ufeff\u00a0") == (
        "x\\u202ey\\u200bz\\U000e0041\\ufeff\\xa0"
    )
    assert visible("tab\there\nnext é 漢字 😀") == "tab\there\nnext é 漢字 😀"
    assert visible("\ud800") == "\\ud800"


def test_nothing_can_be_pushed_out_of_sight() -> None:
    assert visible(" " * 10_000 + "rm -rf /") == "[10000 spaces]rm -rf /"
    assert visible("ls" + "\n" * 500 + "rm -rf /") == "ls\n[499 empty lines]\nrm -rf /"
    assert visible("    indented\n\n\ncode") == "    indented\n\n\ncode"


def test_unseen_characters_are_noticed() -> None:
    assert has_unseen("plain\u200b")
    assert not has_unseen("plain text\n\twith é and 漢字\n")


def test_no_control_or_format_character_of_unicode_is_shown_as_it_is() -> None:
    invisible = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}
    # These are drawn: signs of Arabic, Syriac and Kaithi that span the digits after them.
    drawn = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    missed = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(character := chr(code)) in invisible
        and character not in " \t\n"
        and code not in drawn
        and visible(character) == character
    ]
    assert missed == []
