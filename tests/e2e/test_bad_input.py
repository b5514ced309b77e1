"""What a person may do to opta by accident: one clear message, nothing lost, no traceback."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.cli import OPTA, TIMEOUT_S, connected, lines, opta
from tests.support.model_server import ModelServer, answer, call, say
from tests.support.soon import SOON_S

SCRIPT = "- say: héllo →\n- say: again\n"


def script(text=SCRIPT):
    path = Path.home() / "script.yml"
    path.write_text(text, encoding="utf-8")
    return ("--model", f"script:{path}")


def shell(redirection, *arguments, **settings):
    """Run opta from a shell, which alone can close its streams."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *OPTA, *arguments],
        capture_output=True, timeout=TIMEOUT_S, **settings,
    )  # fmt: skip


def sessions(*, everywhere=False):
    told = opta("sessions", "list", "--format", "json", *(["--all"] if everywhere else []))
    return json.loads(told.stdout)


def one_message(stderr):
    text = stderr.decode() if isinstance(stderr, bytes) else stderr
    assert "Traceback" not in text
    assert len(text.strip().splitlines()) == 1, text
    return text


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
@pytest.mark.parametrize(("redirection", "reason"), [(">&-", "closed"), (">/dev/full", "space")])
def test_an_output_that_takes_nothing_is_one_message_and_the_answer_is_kept(
    output_format, redirection, reason
):
    arguments = ("-p", "hi", "--output-format", output_format, *script())
    done = shell(redirection, *arguments, stdin=subprocess.DEVNULL)
    told = one_message(done.stderr)
    assert done.returncode == 1
    assert "standard output" in told
    assert reason in told
    (kept,) = sessions(everywhere=True)
    if output_format != "stream-json":
        assert kept["id"] in told
        assert "héllo" in opta("sessions", "show", kept["id"]).stdout


@pytest.mark.parametrize("arguments", [("tools",), ("sessions", "list"), ("--help",)])
@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_a_command_whose_output_cannot_be_written_says_so(arguments, redirection):
    done = shell(redirection, *arguments)
    assert done.returncode == 1
    assert "standard output" in one_message(done.stderr)


@pytest.mark.parametrize(("redirection", "reason"), [(">&-", "closed"), (">/dev/full", "space")])
def test_the_output_of_a_tool_that_cannot_be_written_is_one_message(redirection, reason):
    place = Path(os.environ["XDG_CONFIG_HOME"]) / "opta" / "tools"
    place.mkdir(parents=True)
    (place / "hi.yaml").write_text("description: Says hi\nbash: printf '\\377hi'\ntags: [read]\n")
    done = shell(redirection, "tool", "run", "hi")
    told = one_message(done.stderr)
    assert done.returncode == 1
    assert "cannot write to standard output" in told
    assert reason in told


def test_a_closed_stderr_or_stdin_does_not_matter():
    for redirection in ("2>&-", "<&-", "<&- 2>&-"):
        done = shell(redirection, "-p", "hi", *script())
        assert (done.returncode, done.stdout.decode()) == (0, "héllo →\n")


def test_a_file_never_takes_the_number_of_a_closed_stream():
    # The journal would get what a command prints.
    turns = (
        "- {call: run_command, arguments: {command: 'echo leaked >&2; echo leaked'}}\n- say: x\n"
    )
    done = shell(
        "<&- 2>&-", "-p", "hi", "--dangerously-skip-permissions", *script(turns)
    )  # fmt: skip
    assert done.returncode == 0
    (kept,) = sessions()
    recorded = [json.loads(line) for line in Path(kept["path"]).read_text().splitlines()]
    assert recorded[0]["type"] == "session"


def test_without_a_terminal_and_without_a_prompt_there_is_one_message():
    for redirection in ("</dev/null", "<&-"):
        done = shell(redirection)
        assert done.returncode == 2
        assert "no prompt" in one_message(done.stderr)


PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize("output_format", ["text", "json", "stream-json"])
def test_output_is_utf8_in_every_locale(output_format):
    done = subprocess.run(
        [*OPTA, "-p", "hié", "--output-format", output_format, *script()],
        env=os.environ | PLAIN, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0
    said = done.stdout.decode()
    if output_format == "stream-json":
        said = "".join(event["text"] for event in lines(said) if event["type"] == "text")
    assert "héllo →" in said
    shown = shell("", "sessions", "show", sessions()[0]["id"], env=os.environ | PLAIN)
    assert shown.returncode == 0
    assert "héllo →" in shown.stdout.decode()


def test_a_prompt_that_is_not_utf8_reaches_the_model_as_text():
    with ModelServer([say("ok")]) as server:
        done = subprocess.run(
            [*map(os.fsencode, OPTA), b"-p", b"a\xffb", *map(os.fsencode, connected(server))],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        sent = server.sent_messages[-1]["content"]
    assert done.returncode == 0
    assert sent.endswith("a\ufffdb")
    assert sessions()[0]["title"].startswith("a")


def test_names_that_are_not_utf8_are_shown_searched_and_recorded():
    Path(os.fsdecode(b"a\xff.txt")).write_text("needle")
    Path(os.fsdecode(b"d\xfe")).mkdir()
    turns = [
        answer(calls=[*call("file_search", pattern="needle").calls]),
        call("run_command", command="ls"),
        say("done"),
    ]
    with ModelServer(turns) as server:
        done = opta("-p", "go", "--dangerously-skip-permissions", server=server,
                    cwd=os.fsdecode(b"d\xfe/.."))  # fmt: skip
        inside = opta("-p", "go", *script(), cwd=os.fsdecode(b"d\xfe"))
        results = server.results
    assert (done.returncode, inside.returncode) == (0, 0)
    assert "needle" in results[0]
    assert len(sessions(everywhere=True)) == 2


def test_a_disk_that_fills_up_costs_the_record_and_nothing_else():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    with ModelServer([call("file_search", pattern="x"), say("word " * 200), say("more")]) as server:
        done = subprocess.run(
            [*OPTA, "-p", "go", *connected(server)], preexec_fn=limit,
            # The limit would cut what Python caches of modules, for everybody after.
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        assert done.returncode == 0
        assert done.stdout.startswith("word word")
        assert done.stderr.count("without being recorded") == 1
        assert opta("-p", "go on", "--continue", server=server).returncode == 0


@pytest.mark.parametrize("kind", ["file", "fifo", "link"])
def test_a_state_directory_that_cannot_be_used_is_one_warning(kind):
    place = Path(os.environ["XDG_STATE_HOME"]) / "opta"
    match kind:
        case "file":
            place.touch()
        case "fifo":
            os.mkfifo(place)
        case _:
            place.symlink_to("/tmp")
    done = opta("-p", "hi", *script())
    assert (done.returncode, done.stdout) == (0, "héllo →\n")
    assert "without being recorded" in one_message(done.stderr)


def test_a_settings_file_that_is_no_file_is_named():
    place = Path(os.environ["XDG_CONFIG_HOME"]) / "opta" / "config.yml"
    place.parent.mkdir()
    for make in (os.mkfifo, os.mkdir):
        make(place)
        done = opta("-p", "hi")
        assert done.returncode == 2
        assert str(place) in one_message(done.stderr)
        place.unlink() if place.is_fifo() else place.rmdir()


def test_tool_files_that_are_no_files_cost_a_warning_each_and_never_hang():
    place = Path(os.environ["XDG_CONFIG_HOME"]) / "opta" / "tools"
    place.mkdir(parents=True)
    os.mkfifo(place / "a.json")
    (place / "b.json").symlink_to("b.json")
    (place / "c.json").mkdir()
    Path(os.fsdecode(os.fsencode(place) + b"/\xff.json")).write_text("{")
    done = opta("-p", "hi", *script())
    assert done.returncode == 0
    assert done.stderr.count("warning: ") == len(done.stderr.splitlines()) == 4


def test_a_directory_that_is_gone_is_named_as_the_problem():
    gone = Path("gone")
    gone.mkdir()
    for arguments in (("-p", "hi", *script()), ("tools",), ("sessions", "list")):
        done = subprocess.run(
            ["sh", "-c", 'cd gone && rmdir ../gone; exec "$@"', "sh", *OPTA, *arguments],
            capture_output=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        assert "directory" in one_message(done.stderr)
        assert b"Errno" not in done.stderr
        assert done.returncode in (1, 2)
        gone.mkdir()


def test_without_a_home_the_session_still_works():
    env = {k: v for k, v in os.environ.items() if k != "HOME" and not k.startswith("XDG_")}
    unset = opta("-p", "hi", *script(), env=env | {"HOME": "/proc/no/home"})
    empty = opta("-p", "hi", *script(), env=env | {"HOME": ""})
    assert (unset.returncode, unset.stdout) == (0, "héllo →\n")
    assert "without being recorded" in one_message(unset.stderr)
    assert empty.returncode == 2
    assert "Set HOME" in one_message(empty.stderr)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "--model"),
        (("--model", ""), 2, "model must be text"),
        (("--model", "m\udcff"), 2, "model must be text"),
        (("--model", "m", "--base-url", "nonsense"), 2, "http://"),
        (("--model", "m", "--base-url", "http://[::1"), 2, "http://"),
        (("--model", "m", "--base-url", "http://localhost:99999/v1"), 2, "http://"),
        (("--model", "script:/no/such/file"), 2, "/no/such/file"),
    ],
)
def test_a_model_that_cannot_be_asked_is_one_message(arguments, code, said):
    done = opta("-p", "hi", *arguments, env=os.environ | {"OPTA_MODEL": ""})
    assert done.returncode == code
    assert said in one_message(done.stderr)
    assert ".;" not in done.stderr


def test_two_ways_to_choose_a_session_are_one_too_many():
    done = opta("-p", "hi", "--continue", "--resume", "x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--continue and --resume both choose a session" in done.stderr


@pytest.mark.parametrize("answered", [say(""), answer(reasoning="Hm."), say("  \n")])
def test_an_answer_without_text_is_told_and_exits_1(answered):
    with ModelServer([answered, say("now")]) as server:
        done = opta("-p", "hi", server=server)
        again = opta("-p", "and now?", "--continue", server=server)
    assert done.returncode == 1
    said, way_back = done.stderr.splitlines()
    assert "no answer" in said
    assert "opta --resume " in way_back
    assert done.stdout == ""
    assert again.stdout == "now\n"


def test_a_fault_of_our_own_is_one_line_and_its_traceback_in_the_log():
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1))\n"
        "import opta, agent.batch\n"
        "def broken(arguments): raise ZeroDivisionError('first line\\nsecond')\n"
        "agent.batch.run = broken\n"
        "sys.exit(opta.main())"
    )
    root = str(Path(OPTA[1]).parent)
    done = subprocess.run(
        [sys.executable, "-c", code, root, "-p", "hi"],
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    told = one_message(done.stderr)
    log = Path(os.environ["XDG_STATE_HOME"]) / "opta" / "opta.log"
    assert done.returncode == 1
    assert told == f"opta: internal error: ZeroDivisionError: first line (details in {log})\n"
    assert "Traceback" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_standard_input_that_nobody_writes_to_is_named_as_what_is_waited_for():
    process = subprocess.Popen(
        [*OPTA, "-p", "hi", *script()],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    start = time.monotonic()
    told = process.stderr.readline()
    waited = time.monotonic() - start
    out, rest = process.communicate("", timeout=TIMEOUT_S)
    assert "standard input" in told
    assert "/dev/null" in told
    assert waited < SOON_S
    assert (out, rest, process.returncode) == ("héllo →\n", "", 0)
