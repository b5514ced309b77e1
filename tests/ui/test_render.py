from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from agent.events import Level, TurnEnd, TurnFinished
from agent.ui import render
from agent.ui.ansi import Colour, detect, paint
from agent.ui.markdown import render_block
from agent.ui.markdown_stream import MarkdownStream
from agent.ui.wrap import hanging, tail, wrap
from tools.definition import CommandDisplay, DiffDisplay, Outcome, TextDisplay, ToolResult

WIDTHS = [20, 60, 80, 120]
STYLES = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "\x1b[2J\x1b]52;c;eA==\x07\x9b5A\x08\x7f\r"
PLAIN = Colour.PLAIN

DOCUMENT = """\
# A heading that is somewhat longer than twenty columns

A paragraph with **bold**, *italic*, `code`, a [link](https://example.org/path) and ![img](a.png),
Vec<String>, <b>html</b>, [red]no markup[/red] and supercalifragilisticexpialidocious.

| name | what it is for | tokens |
|------|----------------|--------|
| read_file | reads a file of the workspace | 120 |

> a quote
> of two lines

1. first
   - nested item
2. second

```python
def function_with_a_long_name(argument):  # comment
    return argument
```

[ref]: https://example.org/definition

---
"""


def words(text: str) -> str:
    return "".join(re.findall(r"\w", STYLES.sub("", text)))


def blocks() -> list[str]:
    stream = MarkdownStream()
    return stream.feed(DOCUMENT) + stream.finish()


@pytest.mark.parametrize("columns", [1, 5, 12, *WIDTHS])
@pytest.mark.parametrize("colour", list(Colour))
def test_markdown_loses_no_word_at_any_width(columns: int, colour: Colour):
    for block in blocks():
        shown = words(render_block(block, columns, colour))
        bullets_aside = words(block).replace("python", "")
        assert bullets_aside in (shown, shown.replace("python", "")) or sorted(
            bullets_aside
        ) == sorted(shown), block


@pytest.mark.parametrize("columns", WIDTHS)
def test_markdown_prose_stays_within_the_width(columns: int):
    for block in blocks():
        if block.startswith("```"):
            continue
        for line in render_block(block, columns, Colour.TRUE).split("\n"):
            assert get_cwidth(STYLES.sub("", line)) <= columns


def test_what_is_left_of_a_long_line_of_code_is_marked():
    line = "x = " + "a" * 100
    shown = STYLES.sub("", render_block(f"```py\n{line}\n\n    y\n```\n", 40, Colour.TRUE))
    assert shown.split("\n") == [
        f"  {line[:36]}", f"  ↪ {line[36:72]}", f"  ↪ {line[72:]}", "", "      y",
    ]  # fmt: skip


def test_numbers_of_a_list_keep_their_dot_and_a_break_is_a_line():
    lines = STYLES.sub("", render_block("9. first\n10. second\n", 40, Colour.TRUE)).split("\n")
    assert [line.rstrip() for line in lines] == ["  9. first", " 10. second"]
    assert STYLES.sub("", render_block("---\n", 10 + 10, Colour.TRUE)) == "─" * 20


def test_markdown_without_colour_has_no_colour():
    for block in blocks():
        codes = re.findall(r"\x1b\[([0-9;]*)m", render_block(block, 80, Colour.ATTRIBUTES))
        assert all(set(code.split(";")) <= set("01234") for code in codes)


CHECKED = ToolResult("x", duration_ms=1234)


@pytest.mark.parametrize(
    ("result", "line"),
    [
        (ToolResult("x", duration_ms=12), "● read_file a.py  12 ms"),
        (CHECKED, "● read_file a.py  1.2 s"),
        (ToolResult("x", Outcome.ERROR, exit_code=2, duration_ms=5),
         "✗ read_file a.py  exit 2, 5 ms"),
        (ToolResult("x", Outcome.DENIED), "⊘ read_file a.py  denied"),
        (ToolResult("x", Outcome.CANCELLED, duration_ms=65_000),
         "○ read_file a.py  cancelled, 1 min 5 s"),
        (ToolResult("x", Outcome.TIMED_OUT, duration_ms=59_990),
         "✗ read_file a.py  timed out, 1 min 0 s"),
    ],
)  # fmt: skip
def test_the_line_of_a_call_says_outcome_and_time(result: ToolResult, line: str):
    assert render.call_line("read_file a.py", result, 80, PLAIN) == line


def test_the_line_of_a_call_is_wrapped_not_cut():
    line = render.call_line("run_command " + "long " * 10, CHECKED, 20, PLAIN)
    assert line.count("long") == 10
    assert all(len(piece) <= 20 for piece in line.split("\n"))


def test_what_opta_says_of_a_call_is_not_broken_within_a_word():
    text = (
        "Interrupted by the user after 2.0 s; the outcome is unknown. Check before doing it again."
    )
    stopped = ToolResult(text, Outcome.CANCELLED)
    shown = render.call_body(stopped, 80, PLAIN).split("\n")
    assert [line.split()[-1] for line in shown] == ["before", "again."]
    printed = ToolResult("x" * 100 + " y", exit_code=0)
    assert render.call_body(printed, 80, PLAIN).split("\n")[1] == f"  {'x' * 22} y"


def test_results_show_both_ends_and_failures_their_end():
    text = "\n".join(f"line {number}" for number in range(50))
    shown = render.call_body(ToolResult("x", display=TextDisplay(text)), 80, PLAIN)
    assert shown == "  line 0\n  line 1\n  … 46 more lines\n  line 48\n  line 49"
    stored = ToolResult(text, exit_code=0, full_output=Path("/state/out.txt"))
    assert "… 46 more lines, all in /state/out.txt\n" in render.call_body(stored, 80, PLAIN)
    by_key = render.call_body(stored, 80, PLAIN, key="Ctrl-O")
    assert "… 46 more lines, all in /state/out.txt (Ctrl-O shows all)\n" in by_key
    assert "…" not in render.call_body(stored, 80, PLAIN, most=None)
    failed = render.call_body(ToolResult(text, Outcome.ERROR), 80, PLAIN)
    assert failed.startswith(f"  … {50 - render.SHOWN_FAILURE_LINES} more lines")
    assert failed.endswith("line 49")
    narrow = render.call_body(stored, 20, PLAIN, key="Ctrl-O").split("\n")
    assert all(len(line) <= 20 for line in narrow)


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.ERROR])
@pytest.mark.parametrize("count", range(1, 20))
def test_never_fewer_than_three_lines_are_hidden(outcome: Outcome, count: int):
    text = "\n".join(f"line {number}" for number in range(count))
    shown = render.call_body(ToolResult(text, outcome, exit_code=0), 80, PLAIN)
    hidden = re.findall(r"… (\d+) more lines", shown)
    assert count - shown.count("line ") == sum(map(int, hidden))
    assert all(int(number) >= 3 for number in hidden)


def test_a_refused_call_says_who_refused_it():
    denied = ToolResult("Permission denied.", Outcome.DENIED)
    assert render.call_body(denied, 80, PLAIN, denied="by plan mode") == "  by plan mode"
    assert render.call_body(denied, 80, PLAIN) == ""


def test_a_long_message_is_shown_by_its_beginning():
    text = "\n".join(str(number) for number in range(13))
    assert render.user_text(text, 80, PLAIN) == "> 0\n  1\n  2\n  … 10 more lines, sent as well"
    assert "…" not in render.user_text(text[:-3], 80, PLAIN)


def test_empty_lines_around_a_message_are_not_shown():
    assert render.user_text("\n\na\n\n  b\n\n", 80, PLAIN) == "> a\n  \n    b"


DIFF = DiffDisplay("a.py", "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n x\n-old\n+new\n")


def test_a_diff_is_coloured_line_by_line():
    assert render.diff(DIFF, 80, Colour.ANSI).split("\n") == [
        "\x1b[1m  change a.py\x1b[0m",
        "  \x1b[36m@@ -1,2 +1,2 @@\x1b[0m",
        "   x",
        "  \x1b[31m-old\x1b[0m",
        "  \x1b[32m+new\x1b[0m",
    ]


def test_a_diff_that_was_decided_on_is_not_shown_again():
    result = ToolResult("x", display=DIFF)
    assert render.call_body(result, 80, PLAIN, seen=True) == ""
    assert "+new" in render.call_body(result, 80, PLAIN)


@pytest.mark.parametrize("columns", WIDTHS)
def test_r33_what_is_decided_on_is_whole_and_nothing_in_it_invisible(columns: int):
    command = "echo " + "word " * 100 + HOSTILE + "\u202e\u200b end"
    shown = render.details(CommandDisplay(command, "/work", "as root"), columns, PLAIN)
    joined = "".join(line[4:] for line in shown.split("\n"))
    assert joined.count("word") == 100
    for visible in [
        r"\x1b[2J",
        r"\x9b5A",
        r"\x08",
        r"\x7f",
        r"\u202e",
        r"\u200b",
        "end",
        "as root",
    ]:
        assert visible in joined
    assert all(get_cwidth(line) <= columns for line in shown.split("\n"))


@pytest.mark.parametrize("columns", WIDTHS)
def test_no_control_character_of_others_reaches_the_terminal(columns: int):
    result = ToolResult(HOSTILE, Outcome.ERROR, display=TextDisplay(HOSTILE + "text"))
    finished = TurnFinished(TurnEnd.FAILED, HOSTILE + "detail", HOSTILE + "next")
    shown = "".join(
        [
            render.user_text(HOSTILE, columns, Colour.TRUE),
            render.plain(HOSTILE, columns),
            render.notice(HOSTILE, Level.ERROR, columns, Colour.TRUE),
            render.call_line(HOSTILE, result, columns, Colour.TRUE),
            render.call_body(result, columns, Colour.TRUE),
            render.turn_end(finished, columns, Colour.TRUE),
        ]
    )
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", STYLES.sub("", shown))


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (TurnFinished(TurnEnd.DONE), ""),
        (TurnFinished(TurnEnd.CANCELLED), "! Stopped."),
        (TurnFinished(TurnEnd.REFUSED, "you refused a call"), "! Stopped: you refused a call"),
        (TurnFinished(TurnEnd.LIMIT, "too long", "raise it"), "! Stopped: too long\n  raise it"),
        (TurnFinished(TurnEnd.FAILED, "no key", "set one"), "✗ no key\n  set one"),
    ],
)
def test_the_end_of_a_turn(event: TurnFinished, text: str):
    assert render.turn_end(event, 80, PLAIN) == text


@given(st.text(st.characters(exclude_characters="\t")), st.integers(1, 30), st.booleans())
def test_wrapping_loses_nothing_and_fits(text: str, columns: int, words: bool):
    lines = wrap(text, columns, words=words)
    assert "".join(lines) == text.replace("\n", "")
    for line in lines:
        assert get_cwidth(line) <= max(columns, 2) or len(line) == 1


def test_words_and_parts_of_paths_stay_whole_where_there_is_room():
    assert wrap("see /usr/share/doc/opta/x.md", 14, words=True) == [
        "see ", "/usr/share/", "doc/opta/x.md",
    ]  # fmt: skip
    assert wrap("write_file(src/app.py)", 16, words=True) == ["write_file(src/", "app.py)"]


@given(st.text("ab界 \n", max_size=200), st.integers(4, 30))
def test_what_is_broken_off_a_line_keeps_its_margin_and_nothing_is_lost(text: str, columns: int):
    lines = hanging(text, columns)
    assert "".join(lines).replace(" ", "") == text.replace("\n", "").replace(" ", "")
    assert all(get_cwidth(line) <= columns for line in lines)
    assert hanging("  /x   one three", 14) == ["  /x   one ", "       three"]
    assert hanging("/long-name   one two", 15) == ["/long-name   ", "  one two"]
    assert hanging("    one two three", 11) == ["    one ", "    two ", "    three"]


@given(st.text("ab \n", max_size=400), st.integers(1, 20), st.integers(1, 5))
def test_the_tail_is_the_end_of_the_text(text: str, columns: int, count: int):
    lines = tail(text, columns, count)
    assert len(lines) <= count
    assert text.replace("\n", "").endswith("".join(lines))


@pytest.mark.parametrize(
    ("environment", "colour"),
    [
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, Colour.PLAIN),
        ({}, Colour.PLAIN),
        ({"TERM": "xterm", "NO_COLOR": "1"}, Colour.ATTRIBUTES),
        ({"TERM": "xterm", "NO_COLOR": ""}, Colour.ANSI),
        ({"TERM": "xterm-256color"}, Colour.EIGHT_BIT),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, Colour.TRUE),
    ],
)
def test_what_the_terminal_can_do(environment: dict[str, str], colour: Colour):
    assert detect(environment) is colour


def test_painting_leaves_out_what_cannot_be_shown():
    assert paint("x", "bold red", Colour.ANSI) == "\x1b[1;31mx\x1b[0m"
    assert paint("x", "bold red", Colour.ATTRIBUTES) == "\x1b[1mx\x1b[0m"
    assert paint("x", "red", Colour.ATTRIBUTES) == "x"
    assert paint("x", "bold red", Colour.PLAIN) == "x"
