"""`opta -p`: what standard output holds, what the exit code says, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.cli import OPTA, connected, lines, opta
from tests.support.model_server import (
    End,
    ModelServer,
    Reply,
    answer,
    call,
    chat_chunk,
    error,
    say,
    scripted_call,
    sse,
)
from tests.support.processes import has_ended
from tests.support.soon import SOON_S, until

SKIP = "--dangerously-skip-permissions"


def test_text_holds_the_answer_alone():
    with ModelServer([call("file_search", pattern="x"), say("The **answer**.")]) as server:
        done = opta("-p", "a question", server=server)
    assert (done.returncode, done.stdout) == (0, "The **answer**.\n")
    assert "Search" in done.stderr


def test_json_is_one_object_that_tells_how_it_went():
    with ModelServer([call("run_command", command="exit 3"), say("ok")]) as server:
        done = opta("-p", "go", "--output-format", "json", SKIP, server=server)
    told = json.loads(done.stdout)
    assert done.returncode == 0
    assert (told["result"], told["end"], told["exit_code"], told["requests"]) == (
        "ok",
        "done",
        0,
        2,
    )
    assert told["usage"] == {"input_tokens": 20, "output_tokens": 10, "cached_tokens": 0}
    assert [(c["tool"], c["exit_code"]) for c in told["calls"]] == [("run_command", 3)]


def test_stream_json_is_one_object_per_event_and_a_result_at_the_end():
    with ModelServer([say("hello")]) as server:
        done = opta("-p", "hi", "--output-format", "stream-json", server=server)
    events = lines(done.stdout)
    assert events[0]["type"] == "turn"
    assert "".join(e["text"] for e in events if e["type"] == "text") == "hello"
    assert events[-1]["type"] == "result"
    assert all(e["v"] == 1 for e in events)


def test_the_prompt_comes_from_standard_input_too():
    with ModelServer([say("ok"), say("ok")]) as server:
        opta("-p", stdin="from the pipe", server=server)
        opta("-p", "summarise this", stdin="the text", server=server)
        sent = [r.json["messages"][-1]["content"] for r in server.requests]
    assert sent[0].endswith("from the pipe")
    assert sent[1].endswith("summarise this\n\nthe text")


def test_r46_an_ask_nobody_can_answer_is_denied_told_to_the_model_and_exits_3():
    with ModelServer([call("run_command", command="touch made"), say("I could not.")]) as server:
        done = opta("-p", "go", server=server)
        (told,) = server.results
    assert done.returncode == 3
    assert done.stdout == "I could not.\n"
    assert "Permission denied" in told
    assert not Path("made").exists()


def test_a_tag_that_allows_a_tool_does_not_allow_values_that_may_do_harm():
    tools = Path.home().parent / "config" / "opta" / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    (tools / "find.yaml").write_text(
        "name: find\ndescription: Find\nbash: echo found; grep {P} /dev/null || true\n"
        "tags: [read]\nparameters: {P: {type: string, description: p, required: true}}\n"
    )
    flags = ("--auto-approve", "tool:read")
    with ModelServer([call("find", P="x"), call("find", P="--version"), say("ok")]) as server:
        done = opta("-p", "go", server=server, flags=flags)
    allowed, denied = server.results
    assert (done.returncode, allowed) == (3, "found")
    assert denied.startswith(
        "Permission denied: no rule allows it; high risk: {P} begins with a dash and may be taken "
        "for an option: --version, and nobody is there to be asked. Nothing was done."
    )


def test_an_allow_rule_lets_it_run_and_a_deny_rule_beats_every_flag():
    turns = [call("run_command", command="touch made"), say("done")]
    with ModelServer(turns * 2) as server:
        allowed = opta("-p", "go", "--allow", "run_command(touch:*)", server=server)
        assert Path("made").exists()
        Path("made").unlink()
        opta("-p", "go", "--deny", "run_command(touch:*)", SKIP, server=server)
        (told,) = server.results
    assert allowed.returncode == 0
    assert not Path("made").exists()
    assert "run_command(touch:*)" in told
    assert "--deny" in told


def test_limits_exit_4_and_failures_exit_1():
    with ModelServer([call("file_search", pattern="x")] * 9) as server:
        limited = opta("-p", "go", "--max-turns", "2", server=server)
        assert len(server.requests) == 2
    with ModelServer([error(400, "nonsense")]) as server:
        failed = opta("-p", "go", server=server)
    assert limited.returncode == 4
    assert "--max-turns" in limited.stderr
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert "Traceback" not in failed.stderr


def test_a_job_that_did_not_end_well_says_what_to_do_in_whole_sentences():
    wrong = call("read_file", path=5)
    slow = error(429, "slow down", headers={"Retry-After": "0"})
    with ModelServer([wrong, slow, say("")]) as server:
        empty = opta("-p", "go", server=server).stderr.splitlines()
    with ModelServer([call("file_search", pattern="x")]) as server:
        limited = opta("-p", "go", "--max-turns", "1", server=server).stderr.splitlines()
    assert "; nothing was done: - $.path: got 5" in empty[0]
    assert empty[1].endswith(": slow down. Trying again in 0 s.")
    assert empty[2] == "opta: The model gave no answer. Ask it to go on."
    assert " was reached. Raise --max-turns, " in limited[-2]
    for told in (empty, limited):
        assert told[-1].startswith("To go on with this session: opta --resume ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-p",),
        ("--output-format", "json"),
        ("-p", "x", "--max-turns", "0"),
        ("-p", "x", "--mode", "yolo"),
        ("--no-such-flag",),
        ("-p", "x", "--allow", "run_command("),
        ("-p", "x", "-C", "/no/such/directory"),
    ],
)
def test_wrong_usage_exits_2_with_one_message(arguments):
    done = opta(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("opta: ")
    assert len(done.stderr.strip().splitlines()) <= 3
    assert "Traceback" not in done.stderr


def test_a_broken_config_names_file_line_and_column_and_exits_2():
    config = Path.home().parent / "config" / "opta" / "config.yml"
    config.parent.mkdir(parents=True)
    config.write_text("model: x\napi: telepathy\n")
    wrong_value = opta("-p", "hi")
    config.write_text("model: [x\n")
    no_yaml = opta("-p", "hi")
    for done, place in ((wrong_value, "2:1"), (no_yaml, "1:8")):
        assert done.returncode == 2
        assert f"config.yml:{place}: " in done.stderr
        assert "Traceback" not in done.stderr
    assert "chat" in wrong_value.stderr


def test_too_much_or_undecodable_standard_input_is_one_clear_error():
    flood = subprocess.run([*OPTA, "-p"], input=b"x" * 100_000_000, capture_output=True, timeout=60)
    binary = subprocess.run([*OPTA, "-p"], input=b"abc\xff", capture_output=True, timeout=60)
    assert flood.returncode == binary.returncode == 2
    assert b"MiB" in flood.stderr
    assert b"byte 3" in binary.stderr


def test_a_reader_that_leaves_early_ends_opta_quietly():
    with ModelServer([say("word " * 200_000, piece=4000)]) as server:
        command = [*OPTA, "-p", "hi", "--output-format", "stream-json", *connected(server)]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        process.stdout.read(10)
        process.stdout.close()
        told = process.stderr.read()
        process.wait(timeout=20)
        process.stderr.close()
    assert b"Traceback" not in told


@pytest.mark.parametrize("words", [["tools"], ["permissions", "list"]])
def test_a_reader_of_a_long_listing_that_leaves_early_hears_nothing_more(words):
    config = Path(os.environ["XDG_CONFIG_HOME"], "opta")
    (config / "tools").mkdir(parents=True)
    for number in range(200):
        tool = {"name": f"a_tool_with_a_long_name_{number}", "description": "x", "bash": "true"}
        (config / "tools" / f"{number}.json").write_text(json.dumps(tool))
    rules = [f"run_command(a rather long command {number})" for number in range(300)]
    (config / "config.yml").write_text(json.dumps({"permissions": {"allow": rules}}))
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*OPTA, *words], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=SOON_S
    )
    os.close(writer)
    assert done.stderr == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_job_with_130_and_a_valid_session(number):
    with ModelServer([Reply(sse(chat_chunk("never ends")), end=End.HANG)]) as server:
        process = subprocess.Popen(
            [*OPTA, "-p", "hi", "--output-format", "json", *connected(server)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        server.wait_for_requests(1)
        start = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert time.monotonic() - start < SOON_S
    assert json.loads(out)["end"] == "cancelled"
    assert b"Traceback" not in err


def test_an_interrupt_ends_a_running_command_with_all_it_started():
    with ModelServer([call("run_command", command="sleep 300 & echo $! > pid; wait")]) as server:
        process = subprocess.Popen(
            [*OPTA, "-p", "hi", SKIP, *connected(server)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        until(lambda: Path("pid").exists() and Path("pid").read_text().strip())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130
    assert has_ended(int(Path("pid").read_text()))


def test_continue_goes_on_with_the_newest_session_of_this_directory():
    with ModelServer([say("I am Ada."), say("Ada.")]) as server:
        opta("-p", "who are you", server=server)
        again = opta("-p", "say it again", "--continue", server=server)
        texts = [m["content"] for m in server.sent_messages]
    assert again.returncode == 0
    assert texts[2] == "I am Ada."
    assert texts[1].endswith("who are you")
    assert texts[3] == "say it again"


def test_resume_takes_an_id_and_says_when_there_is_none():
    with ModelServer([say("one"), say("two")]) as server:
        first = opta("-p", "a", "--output-format", "json", server=server)
        identity = json.loads(first.stdout)["session_id"]
        second = opta("-p", "b", "--resume", identity, server=server)
        assert len(server.sent_messages) == 4
    missing = opta("-p", "b", "--resume", "000000-none")
    assert second.returncode == 0
    assert missing.returncode == 1
    assert "opta sessions list" in missing.stderr


def test_calls_of_one_message_overlap():
    sleeps = answer(calls=[scripted_call("run_command", command="sleep 1")] * 4)
    with ModelServer([sleeps, say("ok")]) as server:
        done = opta("-p", "go", "--output-format", "json", SKIP, server=server)
    assert json.loads(done.stdout)["duration_ms"] < 3000


def test_the_request_holds_a_stable_prefix_and_the_environment_in_the_first_message():
    with ModelServer([say("a"), say("b")]) as server:
        opta("-p", "one", server=server)
        opta("-p", "two", server=server)
        first, second = (request.json for request in server.requests)
    assert first["messages"][0] == second["messages"][0]
    assert first["messages"][0]["role"] == "system"
    assert first["tools"] == second["tools"]
    assert f"Working directory: {Path.cwd().resolve()}" in first["messages"][1]["content"]


LOOK = """\
name: look
description: d
schema: {type: object, properties: {paths: {type: array, items: {type: string}}}}
code: |
  export async function execute({ paths }, { platform }) {
    const read = async (path) => {
      try { return await platform.fs.readFile(path); } catch (error) { return error.message; }
    };
    const texts = [];
    for (const path of paths) texts.push(await read(path));
    return texts.join("\\n");
  }
"""


def test_agents_md_is_read_only_where_trusted_and_nested_ones_on_first_touch():
    Path("AGENTS.md").write_text("Always say please.")
    Path("sub").mkdir()
    Path("sub/AGENTS.md").write_text("In here, say thanks.")
    Path("sub/a.txt").write_text("text")
    turns = [call("read_file", path="sub/a.txt"), call("read_file", path="sub/a.txt"), say("ok")]
    with ModelServer(turns * 2) as server:
        untrusted = opta("-p", "go", server=server)
        assert "please" not in json.dumps(server.requests[-1].json)
        opta("-p", "go", "--trust", server=server)
        sent = json.dumps(server.requests[-1].json)
    assert "--trust" in untrusted.stderr
    assert sent.count("Always say please.") == 1
    assert sent.count("In here, say thanks.") == 1


def test_agents_md_of_a_directory_is_told_when_the_program_of_a_tool_touches_a_file_there():
    for name in ("sub", "denied", "later"):
        Path(name).mkdir()
        Path(name, "AGENTS.md").write_text(f"Of {name}.")
        Path(name, "a.txt").write_text("text")
    tools = Path(".opta/tools")
    tools.mkdir(parents=True)
    (tools / "look.yml").write_text(LOOK)
    look = call("look", paths=["sub/a.txt", "denied/a.txt"])
    with ModelServer([look, look, call("read_file", path="later/a.txt"), say("ok")]) as server:
        flags = ("--allow", "look", "--deny", "read_file(denied/**)")
        done = opta("-p", "go", "--trust", *flags, server=server)
        results = server.results
    assert done.returncode == 0, done.stderr
    seen = "text\nPermission denied"
    assert results[0].startswith(seen)
    assert results[0].endswith('<instructions file="sub/AGENTS.md">\nOf sub.\n</instructions>')
    assert results[1].startswith(seen)
    assert "Of sub." not in results[1], "it was told"
    assert "Of later." in results[2]
    assert "Of denied." not in "".join(results)


def test_usage_of_a_session_goes_on_counting_after_it_is_continued():
    with ModelServer([say("one"), say("two")]) as server:
        opta("-p", "a", server=server)
        again = opta("-p", "b", "--continue", "--output-format", "json", server=server)
        limited = opta("-p", "c", "--continue", "--max-tokens-total", "20", server=server)
    told = json.loads(again.stdout)
    assert told["requests"] == 2
    assert told["usage"] == {"input_tokens": 20, "output_tokens": 10, "cached_tokens": 0}
    assert limited.returncode == 4


def test_a_session_that_goes_on_in_another_directory_is_told_where_it_is(tmp_path):
    with ModelServer([say("one"), say("two")]) as server:
        first = opta("-p", "a", "--output-format", "json", server=server)
        identity = json.loads(first.stdout)["session_id"]
        opta("-p", "b", "--resume", identity, server=server, cwd=tmp_path)
        assert f"Working directory: {tmp_path.resolve()}" in server.sent_messages[-1]["content"]


def test_what_was_lost_in_a_summary_is_told_again():
    config = Path.home().parent / "config" / "opta" / "config.yml"
    config.parent.mkdir(parents=True)
    config.write_text("context_window: 2000\n")
    Path("AGENTS.md").write_text("Always say please.")
    turns = [say("word " * 3000), say("SUMMARY"), say("after")]
    with ModelServer(turns) as server:
        opta("-p", "a", "--trust", server=server)
        done = opta("-p", "b", "--continue", "--trust", server=server)
        (user,) = [m["content"] for m in server.sent_messages if m["role"] == "user"]
    assert done.stdout == "after\n"
    assert "SUMMARY" in user
    assert user.count("Always say please.") == 1
    assert "Working directory:" in user


def test_settings_reach_the_request_and_header_secrets_reach_no_file():
    base = Path.home().parent
    config = base / "config" / "opta" / "config.yml"
    config.parent.mkdir(parents=True)
    config.write_text(
        "request: {temperature: 0.25}\nheaders: {api-key: canary-0123456789}\n"
        "server: {output_limit_key: max_completion_tokens}\nmax_output_tokens: 99\n"
    )
    with ModelServer([say("the key is canary-0123456789")]) as server:
        done = opta("-p", "a", server=server)
        (sent,) = server.requests
    assert done.returncode == 0
    assert (sent.json["temperature"], sent.json["max_completion_tokens"]) == (0.25, 99)
    assert sent.headers["api-key"] == "canary-0123456789"
    files = [path for path in (base / "state").rglob("*") if path.is_file()]
    assert files
    assert not any(b"canary-0123456789" in path.read_bytes() for path in files)
    config.write_text("headers: {api-key: 1}\n")
    wrong = opta("-p", "a")
    assert wrong.returncode == 2
    assert "config.yml:1:" in wrong.stderr


def test_a_server_that_cuts_the_prompt_is_told_of_once():
    turns = [call("file_search", pattern="x").but(input_tokens=2048)] * 2
    with ModelServer(
        [*turns, say("ok", input_tokens=2048), say("ok", input_tokens=9000)]
    ) as server:
        cut = opta("-p", "word " * 6000, server=server)
        whole = opta("-p", "word " * 6000, server=server)
    assert cut.stderr.count("2,048 of about") == 1
    assert "context_window" in cut.stderr
    assert "of about" not in whole.stderr


def interrupted_when(server, requests):
    """Interrupt a continued job once it has sent this many requests; return its JSON."""
    process = subprocess.Popen(
        [*OPTA, "-p", "b", "--continue", "--output-format", "json", *connected(server)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    server.wait_for_requests(requests)
    time.sleep(0.3)  # into the wait itself; earlier would be right as well
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert b"Traceback" not in err
    return json.loads(out)


def test_an_interrupt_ends_the_wait_before_another_try():
    limited = error(429, "slow down", headers={"Retry-After": "50"})
    with ModelServer([say("one"), limited, say("after")]) as server:
        opta("-p", "a", server=server)
        assert interrupted_when(server, 2)["end"] == "cancelled"
        assert opta("-p", "c", "--continue", server=server).stdout == "after\n"


def test_an_interrupt_ends_a_summary_and_leaves_the_history_as_it_was():
    long = "word " * 3000
    with ModelServer(
        [say(long), Reply(sse(chat_chunk("SUMM")), end=End.HANG), say("after")]
    ) as server:
        opta("-p", "a", server=server)
        config = Path.home().parent / "config" / "opta" / "config.yml"
        config.parent.mkdir(parents=True)
        config.write_text("context_window: 2000\n")
        assert interrupted_when(server, 2)["end"] == "cancelled"
        config.unlink()
        assert opta("-p", "c", "--continue", server=server).stdout == "after\n"
        assert any(m["content"] == long for m in server.sent_messages)


def test_a_missing_key_exits_2_and_says_what_to_set():
    no_key = opta("-p", "hi", "--model", "m", "--base-url", "https://example.invalid/v1")
    assert no_key.returncode == 2
    assert "OPENAI_API_KEY" in no_key.stderr
