"""Turns events and displays into text for the terminal: pure functions of content and width.

Everything that comes from a model, a tool or a file loses its control characters here (R36), and
none of it is read as markup.
"""

from __future__ import annotations

from agent.events import Level, TurnEnd, TurnFinished
from agent.ui.ansi import Colour, paint
from agent.ui.wrap import hanging, indent, wrap
from tools.definition import CommandDisplay, DiffDisplay, Display, Outcome, TextDisplay, ToolResult
from tools.engine.output import sanitize, visible

SHOWN_LINES = 4
"""How many lines of a result are shown, its first and its last; the model has all of it."""

SHOWN_OWN_LINES = 200
"""How many lines are shown of what a command printed that the person typed."""

SHOWN_FAILURE_LINES = 10
"""How many lines of a failed call's result are shown, its last."""

SHOWN_DIFF_LINES = 60
"""How many lines of a diff that nobody was asked about are shown."""

ASKED_DIFF_LINES = 40
"""How many lines of a diff stand above the question about it; a key shows the others."""

SHOWN_MESSAGE_LINES = 12
"""How many lines a message may have to be shown whole."""

MESSAGE_START_LINES = 3
"""How many lines of a longer message are shown, its first."""

LEAST_HIDDEN = 3
"""A mark for left-out lines takes a line itself: fewer than so many are shown instead."""

_MARKS = {
    Outcome.OK: ("●", "green"),
    Outcome.ERROR: ("✗", "red"),
    Outcome.DENIED: ("⊘", "yellow"),
    Outcome.CANCELLED: ("○", "yellow"),
    Outcome.TIMED_OUT: ("✗", "red"),
}
_WORDS = {
    Outcome.DENIED: "denied",
    Outcome.CANCELLED: "cancelled",
    Outcome.TIMED_OUT: "timed out",
}
_LEVELS = {Level.INFO: ("·", "dim"), Level.WARNING: ("!", "yellow"), Level.ERROR: ("✗", "red")}


def format_duration(milliseconds: int) -> str:
    """Return a duration for people: `12 ms`, `1.2 s`, `2 min 5 s`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    if milliseconds < 59_950:
        return f"{milliseconds / 1000:.1f} s"
    minutes, seconds = divmod(round(milliseconds / 1000), 60)
    return f"{minutes} min {seconds} s"


def user_text(text: str, columns: int, colour: Colour) -> str:
    """Return what the person said."""
    lines = wrap(sanitize(text).strip("\n"), columns - 2, words=True)
    left = 0
    if len(lines) > SHOWN_MESSAGE_LINES:
        left = len(lines) - MESSAGE_START_LINES
        del lines[MESSAGE_START_LINES:]
    mark = paint("> ", "bold cyan", colour)
    shown = [
        (mark if number == 0 else "  ") + paint(line, "bold", colour)
        for number, line in enumerate(lines)
    ]
    if left:
        marked = indent(f"… {left} more lines, sent as well", columns, "  ", "  ")
        shown += [paint(line, "dim", colour) for line in marked]
    return "\n".join(shown)


def plain(text: str, columns: int) -> str:
    """Return text of opta's own, such as a table of a slash command, as it is."""
    return "\n".join(hanging(sanitize(text).rstrip("\n"), columns))


def notice(text: str, level: Level, columns: int, colour: Colour) -> str:
    """Return a line that is not part of the conversation."""
    mark, style = _LEVELS[level]
    return _prefixed(sanitize(text), mark, style, columns, colour)


def call_line(title: str, result: ToolResult, columns: int, colour: Colour) -> str:
    """Return the line of a finished call: `● read_file src/a.py  12 ms`."""
    mark, style = _MARKS[result.outcome]
    word = _WORDS.get(result.outcome, "")
    time = "" if result.outcome is Outcome.DENIED else format_duration(result.duration_ms)
    ending = ", ".join(part for part in (word, _exit(result), time) if part)
    lines = indent(f"{_one_line(title)}  {ending}".rstrip(), columns, "  ", "  ")
    lines[0] = paint(mark, style, colour) + lines[0][1:]
    return _fade(lines, ending, colour)


def call_body(
    result: ToolResult,
    columns: int,
    colour: Colour,
    *,
    seen: bool = False,
    denied: str = "",
    most: int | None = SHOWN_LINES,
    key: str = "",
) -> str:
    """Return what is shown below a call's line, possibly nothing.

    `seen` says that the person has had the call's diff or command before their eyes already,
    `denied` why a call that was refused was. At most about `most` lines of a result are shown,
    None for all; where some are left out, `key` is said to show them.
    """
    offer = f" ({key} shows all)" if key else ""
    shown = result.display
    if result.outcome is Outcome.DENIED:
        lines = indent(_one_line(denied), columns, "  ", "  ") if denied else []
        return "\n".join(paint(line, "dim", colour) for line in lines)
    if isinstance(shown, DiffDisplay):
        limit = SHOWN_DIFF_LINES if most is not None else None
        return "" if seen else diff(shown, columns, colour, limit=limit, rest=offer)
    if isinstance(shown, CommandDisplay):
        return "" if seen else command(shown, columns, colour)
    text = shown.text if isinstance(shown, TextDisplay) else ""
    if not text and (not result.success or result.exit_code is not None):
        # What a command printed is what the person wants to see of it.
        text = result.text.removesuffix(f"[exit code: {result.exit_code}]")
    # Without an exit code it is opta that speaks, or a server: in sentences.
    in_words = not result.success and result.exit_code is None
    body = sanitize(text).strip("\n")
    lines = wrap(body, columns - 2, words=in_words) if text.strip() else []
    rest = f", all in {result.full_output}{offer}" if result.full_output else offer
    if most is None:
        folded = lines
    elif result.success:
        folded = _folded(lines, most // 2, most // 2, rest, columns - 2)
    else:
        # What went wrong is told at the end.
        folded = _folded(lines, 0, max(most, SHOWN_FAILURE_LINES), rest, columns - 2)
    return "\n".join("  " + paint(line, "dim", colour) for line in folded)


def details(
    display: Display, columns: int, colour: Colour, *, limit: int | None = None, key: str = ""
) -> str:
    """Return what a person decides on: wrapped and not cut, nothing invisible (R33, R37).

    A diff of more than `limit` lines is shortened, where `key` shows all of it; a command never.
    """
    match display:
        case CommandDisplay():
            return command(display, columns, colour)
        case DiffDisplay():
            rest = f": {key} shows the whole diff" if key else ""
            return diff(display, columns, colour, limit=limit, rest=rest)
        case TextDisplay(text):
            return "\n".join(f"  {line}" for line in wrap(visible(text), columns - 2))


def command(display: CommandDisplay, columns: int, colour: Colour) -> str:
    """Return a command as it will run, with where and anything to note."""
    lines = wrap(visible(display.command), columns - 4, words=True)
    shown = [
        paint("  $ " if number == 0 else "    ", "dim", colour) + paint(line, "bold", colour)
        for number, line in enumerate(lines)
    ]
    for note in (f"in {display.cwd}" if display.cwd else "", display.note):
        if note:
            shown += [
                "    " + paint(line, "dim", colour)
                for line in wrap(visible(note), columns - 4, words=True)
            ]
    return "\n".join(shown)


def diff(
    display: DiffDisplay, columns: int, colour: Colour, *, limit: int | None = None, rest: str = ""
) -> str:
    """Return a coloured diff of one file: `limit` lines from both ends of it, or all.

    `rest` is said where lines are left out.
    """
    verb = "new file" if display.created else "change"
    title = f"{verb} {visible(display.path)}"
    shown = [paint(line, "bold", colour) for line in indent(title, columns, "  ", "  ")]
    body = diff_lines(display)
    head, left, end = _ends(body, (limit + 1) // 2, limit // 2) if limit else (body, 0, [])
    shown += _diff_body(head, columns, colour)
    if left:
        marked = indent(f"… {left} lines left out{rest}", columns, "  ", "  ")
        shown += [paint(line, "dim", colour) for line in marked]
    return "\n".join([*shown, *_diff_body(end, columns, colour)])


def diff_lines(display: DiffDisplay) -> list[str]:
    """Return the lines of a diff that are shown: without the two that name the file."""
    lines = visible(display.diff).rstrip("\n").split("\n")
    names = 2 if [line[:4] for line in lines[:2]] == ["--- ", "+++ "] else 0
    return lines[names:]


def is_shortened(display: Display) -> bool:
    """Tell whether a question about `display` does not show all of it at first."""
    return isinstance(display, DiffDisplay) and (
        len(diff_lines(display)) >= ASKED_DIFF_LINES + LEAST_HIDDEN
    )


def turn_end(event: TurnFinished, columns: int, colour: Colour) -> str:
    """Return what is said at the end of a turn, possibly nothing."""
    match event.end:
        case TurnEnd.DONE:
            return ""
        case TurnEnd.CANCELLED:
            return notice("Stopped.", Level.WARNING, columns, colour)
        case TurnEnd.REFUSED:
            text, level = "Stopped: " + (event.detail or "refused"), Level.WARNING
        case TurnEnd.LIMIT:
            text, level = "Stopped: " + (event.detail or "a limit was reached"), Level.WARNING
        case TurnEnd.FAILED:
            text, level = event.detail or "The turn failed.", Level.ERROR
    if event.next_step:
        text = f"{text}\n{event.next_step}"
    return notice(text, level, columns, colour)


def _prefixed(text: str, mark: str, style: str, columns: int, colour: Colour) -> str:
    lines = [
        line
        for number, paragraph in enumerate(text.rstrip("\n").split("\n"))
        for line in indent(paragraph, columns, f"{mark} " if number == 0 else "  ", "  ")
    ]
    return "\n".join(paint(line, style, colour) for line in lines)


def _diff_body(lines: list[str], columns: int, colour: Colour) -> list[str]:
    return [
        "  " + paint(piece, _diff_style(line), colour)
        for line in lines
        for piece in wrap(line, columns - 2)
    ]


def _folded(lines: list[str], first: int, last: int, rest: str, columns: int) -> list[str]:
    """Return both ends of `lines`, and between them how many are left out."""
    head, left, end = _ends(lines, first, last)
    mark = wrap(f"… {left} more lines{rest}", columns, words=True)
    return [*head, *mark, *end] if left else lines


def _ends(lines: list[str], first: int, last: int) -> tuple[list[str], int, list[str]]:
    """Return the `first` lines, how many are left out (0 or at least three), the `last` ones."""
    left = len(lines) - first - last
    if left < LEAST_HIDDEN:
        return lines, 0, []
    return lines[:first], left, lines[len(lines) - last :]


def _fade(lines: list[str], ending: str, colour: Colour) -> str:
    if ending and lines[-1].endswith(ending):
        lines[-1] = lines[-1][: -len(ending)] + paint(ending, "dim", colour)
    return "\n".join(lines)


def _exit(result: ToolResult) -> str:
    failed = result.outcome is Outcome.ERROR and result.exit_code is not None
    return f"exit {result.exit_code}" if failed else ""


def _one_line(text: str) -> str:
    return " ".join(sanitize(text).split())


def _diff_style(line: str) -> str:
    if line.startswith("@@"):
        return "cyan"
    if line.startswith("+"):
        return "green"
    return "red" if line.startswith("-") else ""
