"""Text of others cannot act on the terminal, in the chat or in what commands print (R33, R36, R37).

What opta writes in a terminal is compared with what it writes for harmless text: it must use no
other kind of control function.
"""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path

import pytest

from tests.e2e.test_chat import answer, chat, enter
from tests.support.cli import opta
from tests.support.model_server import ModelServer, call, error, say
from tests.support.terminal import needs_tmux
from tests.tools.test_output import SEQUENCES

CORPUS = "".join(f"{number}{sequence}|" for number, sequence in enumerate(SEQUENCES))
ARGUMENT = CORPUS.replace("\0", "")
HIDDEN = "\u202e\u2066\u200b\u200d\ufeff\U000e0041"
DIRECTORY = "d\x1b[2J\x1b]0;owned\x07\x9b1m\x90q\x9c\r\u202eend"
FUNCTION = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]"
    rb"|\xc2[\x80-\x9f]|[\x00-\x08\x0b-\x1f\x7f]",
    re.DOTALL,
)
TITLE = re.compile(rb"\x1b\]2;(.*?)\x07")
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def kinds(written: bytes) -> set[bytes]:
    """Return the control functions of an output, their numbers left out."""
    return {re.sub(rb"[0-9;]+", b"#", found) for found in FUNCTION.findall(written)}


def noise(seed: int) -> str:
    """Random bytes as a program prints them: with many control characters among them."""
    source = random.Random(seed)
    codes = [*range(0x20), 0x7F, *range(0x80, 0xA0), *b"[]P^_X;?0129mhHJK\\x"]
    return "".join(chr(source.choice(codes)) for _ in range(3000))


def conversation(text: str, place: Path) -> bytes:
    """Let a model, its commands, files and questions say `text`; return what opta wrote."""
    (place / "say").write_text(text, encoding="utf-8", errors="surrogatepass")
    name = re.sub(r"[/\0\n]", "", text)[:80].encode("utf-8", "replace")
    Path(os.fsdecode(os.fsencode(place) + b"/f" + name)).write_text("needle")
    turns = [
        say(f"said {text} so", piece=1, reasoning=text),
        call("file_search", pattern="needle", path="."), call(f"no{text}", x=text),
        call("read_file", path=f"missing{text}"),
        call("run_command", command="cat say; cat say >&2"),
        say("the end", piece=1),
    ]  # fmt: skip
    # What is asked about is the last word on the screen.
    asked = call("run_command", command=f"echo before {text}{HIDDEN}{' ' * 10_000}; echo last")
    with ModelServer([*turns, asked, error(400, f"it said {text}")]) as server:
        flags = ("--allow", "run_command(cat say; cat say >&2)", "--allow", "run_command(cat:*)")
        with chat(server, *flags, cwd=place, rows=50) as terminal:
            enter(terminal, "hello")
            terminal.wait("so")
            enter(terminal, "go on")
            terminal.wait("the end")
            enter(terminal, "ask me")
            terminal.wait("[y] yes, once")
            terminal.wait("Run this command?")
            shown = terminal.scrollback(joined=True).replace("\n", "").replace(" ", "")
            assert "$echobefore" in shown
            assert "\\u202e\\u2066\\u200b\\u200d\\ufeff\\U000e0041[10000spaces];echolast" in shown
            answer(terminal, "y")
            terminal.wait("(status 400)")
            return terminal.output()


@needs_tmux
def test_r36_r37_nobodys_text_acts_on_the_terminal(tmp_path):
    # The title names the directory: that is the same in all.
    harmless, corpus, random_bytes = (tmp_path / name / "shop" for name in ("a", "b", "c"))
    for place in (harmless, corpus, random_bytes):
        place.mkdir(parents=True)
    usual = conversation("plain text 123", harmless)
    for written in (usual, conversation(CORPUS, corpus), conversation(noise(1), random_bytes)):
        # Whether the title of a short moment is written depends on how busy the machine is.
        titles = set(map(bytes.decode, TITLE.findall(written)))
        assert {"? shop · opta"} <= titles <= {"shop · opta", "… shop · opta", "? shop · opta"}
        assert kinds(TITLE.sub(b"", written)) <= kinds(TITLE.sub(b"", usual))


@needs_tmux
def test_r36_a_hostile_name_of_the_directory_does_not_act_in_the_title(tmp_path):
    written = []
    for name in ("shop", DIRECTORY):
        place = tmp_path / name
        place.mkdir()
        with ModelServer([say("Hello.")]) as server, chat(server, cwd=place) as terminal:
            enter(terminal, "hello")
            terminal.wait("Hello.")
            enter(terminal, "/exit")
            assert terminal.wait_exit() == 0
            written.append(terminal.output())
    titles = [TITLE.findall(output) for output in written]
    assert {re.sub("^… ", "", title.decode()) for title in titles[0]} == {"shop · opta"}
    assert titles[1], "no title was seen"
    assert all(title.isprintable() for title in map(bytes.decode, titles[1]))
    usual, hostile = (kinds(TITLE.sub(b"", output)) for output in written)
    assert hostile <= usual


@pytest.fixture
def hostile_place(tmp_path, monkeypatch):
    """A directory with a hostile name, hostile tools in it, and a session about it."""
    place = tmp_path / DIRECTORY
    tools = place / ".cycod/tools"
    tools.mkdir(parents=True)
    evil = json.dumps(CORPUS)
    (tools / "good.yaml").write_text(
        f"name: good\ndescription: {evil}\nbash: echo {{X}}\ntags: [{evil}]\n"
        f"parameters:\n  X: {{type: string, description: {evil}}}\n"
    )
    (tools / f"bad{DIRECTORY}.yaml").write_text(f"name: {evil}\nunknown: {evil}\n")
    (tools / "broken.yaml").write_text(f"name: [\n{CORPUS}")
    monkeypatch.chdir(place)
    with ModelServer([say(CORPUS), call(f"no{CORPUS}"), say(CORPUS)]) as server:
        assert opta("-p", f"title {ARGUMENT}", server=server).returncode == 0
        assert opta("-p", f"title {ARGUMENT}", "--continue", server=server).returncode == 0
    return place


COMMANDS = [
    ("tool", "list"), ("tool", "list", "--verbose"), ("tool", "get", "good"),
    ("tool", "get", "bad"), ("tool", "validate", "--all"),
    ("tool", "validate", "--all", "--format", "json"),
    ("tool", "list", "--format", "json"), ("tool", "get", "good", "--format", "json"),
    ("tool", "run", "good", "--X", ARGUMENT), ("tool", "get", ARGUMENT), ("tools",),
    ("tools", "list"), ("sessions", "list"), ("sessions", "list", "--all"),
    ("sessions", "list", "--format", "json"), ("sessions", "show", ARGUMENT), ("-p", "hello"),
    ("-p", "hello", "--output-format", "json"), ("-p", "x", "--output-format", "stream-json"),
    (f"--no-such-flag{ARGUMENT}",), (ARGUMENT, "x"), ("sessions", ARGUMENT), ("tool", ARGUMENT),
    ("--base-url", f"http://{ARGUMENT}/", "-p", "x"), ("--mode", ARGUMENT, "-p", "x"),
    ("-p", "x", "--allow", f"run_command({ARGUMENT}"), ("--resume", ARGUMENT, "-p", "x"),
]  # fmt: skip


@pytest.mark.usefixtures("hostile_place")
def test_r36_what_commands_print_holds_no_control_function():
    bad = {}
    for arguments in COMMANDS:
        with ModelServer([call(f"no{CORPUS}"), say(f"{CORPUS}{HIDDEN}")]) as server:
            uses_model = arguments[0] == "-p" and "--allow" not in arguments
            trust = ("--trust",) if uses_model or arguments[:2] == ("tool", "run") else ()
            done = opta(*arguments, *trust, server=server if uses_model else None)
        assert done.stdout + done.stderr, arguments
        bad |= {
            (arguments, stream): ascii(text)
            for stream, text in (("out", done.stdout), ("err", done.stderr))
            if UNPRINTABLE.search(text)
        }
        if "json" in arguments or "stream-json" in arguments:
            values = done.stdout.splitlines() if "-p" in arguments else [done.stdout]
            assert [json.loads(value) for value in values], arguments
            assert not re.search(f"[{HIDDEN}]", done.stdout), arguments
    assert not bad, json.dumps([*map(str, bad.items())], indent=1)


def test_r36_errors_about_settings_show_no_control_function(hostile_place):
    config = Path.home().parent / "config/opta/config.yml"
    config.parent.mkdir(parents=True)
    for text in (
        f"{json.dumps(CORPUS)}: 1\n",
        f"model: {CORPUS}\n",
        f"mode: {json.dumps(CORPUS)}\n",
    ):
        config.write_text(text)
        done = opta("-p", "x")
        assert done.returncode == 2
        assert not UNPRINTABLE.findall(done.stdout + done.stderr), ascii(done.stderr)
