"""The chat as a person has it: the real command in a real terminal against a real server."""

from __future__ import annotations

import contextlib
import json
import re
import time
from pathlib import Path

import pytest

from agent.slash import COMMANDS, ELSEWHERE
from agent.ui.menu import GRACE_S
from tests.support.cli import OPTA, connected, opta
from tests.support.model_server import End, ModelServer, Reply, call, chat_chunk, error, say, sse
from tests.support.soon import SOON_S
from tests.support.terminal import Terminal, needs_tmux

pytestmark = needs_tmux


@contextlib.contextmanager
def chat(server, *flags, **size):
    with Terminal([*OPTA, *connected(server), *flags], **size) as terminal:
        terminal.wait("ask ·")
        yield terminal


def enter(terminal, text):
    """Send a message as a turn of its own: one sent while the model answers joins that turn."""
    terminal.wait(lambda screen: "(Esc to stop)" not in screen)
    terminal.type(text)
    terminal.send("Enter")


def answer(terminal, key):
    """Answer a question, which takes no keys before the keyboard was quiet for a moment."""
    time.sleep(GRACE_S + 0.1)
    terminal.send(key)


def leave(terminal):
    terminal.send("C-d")
    return terminal.wait_exit()


def user_config(**tools):
    """Write a tool of the user's own."""
    directory = Path.home().parent / "config" / "opta" / "tools"
    directory.mkdir(parents=True, exist_ok=True)
    for name, command in tools.items():
        data = {"name": name, "description": f"The {name} tool", "command": command,
                "parameters": {"type": "object", "properties": {}}}  # fmt: skip
        (directory / f"{name}.json").write_text(json.dumps(data))


def bottom_line_tokens(terminal):
    found = re.search(r"([\d.]+)(k?)/128k tokens", terminal.screen())
    return float(found[1]) * (1000 if found[2] else 1)


def test_the_bottom_line_counts_the_tools_before_the_first_message_and_after_a_switch():
    total = sum(
        tool["tokens"]
        for tool in json.loads(opta("tools", "--format", "json").stdout)["tools"]
        if tool["enabled"]
    )
    with ModelServer([say("Hi.", input_tokens=5000)]) as server, chat(server) as terminal:
        terminal.wait("128k tokens")
        at_start = bottom_line_tokens(terminal)
        assert total < at_start < total + 1000
        enter(terminal, "/tools disable run_command")
        terminal.wait("Disabled tool: run_command (-245 tokens)")
        terminal.wait(lambda _: at_start - 400 < bottom_line_tokens(terminal) < at_start - 100)
        enter(terminal, "hello")
        terminal.wait("5.0k/128k")
        enter(terminal, "/tools enable run_command")
        terminal.wait(lambda _: 5200 <= bottom_line_tokens(terminal) <= 5300)


def test_a_server_that_counts_few_tokens_makes_no_bottom_line_below_nothing():
    with ModelServer([say("Hi.", input_tokens=10)]) as server, chat(server) as terminal:
        enter(terminal, "hello")
        terminal.wait("Hi.")
        enter(terminal, "/tools disable run_command")
        terminal.wait("Disabled tool: run_command")
        terminal.wait(lambda screen: "· 0/128k tokens (0%)" in screen)
        enter(terminal, "/tools enable run_command")
        terminal.wait(lambda _: 10 <= bottom_line_tokens(terminal) < 30)


def test_a_conversation_with_a_question_and_the_way_back():
    turns = [
        say("Let me see."),
        call("run_command", command="env echo m''ade"),
        say("It says made."),
    ]
    with ModelServer([*turns, say("Welcome back.")]) as server:
        with chat(server) as terminal:
            enter(terminal, "hello")
            terminal.wait("Let me see.")
            enter(terminal, "run it")
            screen = terminal.wait("[y] yes, once")
            assert "$ env echo m''ade" in screen
            answer(terminal, "y")
            terminal.wait("It says made.")
            assert leave(terminal) == 0
            goodbye = terminal.scrollback()
        identity = goodbye.split("opta --resume ")[1].split()[0]
        with chat(server, "--resume", identity) as terminal:
            terminal.wait("It says made.", everything=True)
            enter(terminal, "still there?")
            terminal.wait("Welcome back.")
        assert [m["role"] for m in server.sent_messages] == [
            "system", "user", "assistant", "user", "assistant", "tool", "assistant", "user",
        ]  # fmt: skip


def test_a_session_that_was_summarised_is_shown_without_what_only_the_model_reads():
    talk = [say("First. " * 300), say("Second. " * 300), say("THE SUMMARY")]
    with ModelServer(talk) as server:
        with chat(server) as terminal:
            enter(terminal, "one")
            terminal.wait("First.")
            enter(terminal, "two")
            terminal.wait("Second.")
            enter(terminal, "/compact")
            terminal.wait("The conversation was summarised")
            assert leave(terminal) == 0
        with chat(server, "--continue") as terminal:
            terminal.wait("What was said before is summarised for the model.")
            assert "<environment>" not in terminal.scrollback()
            assert "THE SUMMARY" not in terminal.scrollback()


@pytest.mark.row("E145")
def test_a_tool_of_ones_own_is_offered_asked_for_and_run():
    user_config(greet="echo hello from the tool")
    with ModelServer([call("greet"), say("done")]) as server, chat(server) as terminal:
        enter(terminal, "greet me")
        screen = terminal.wait("[y] yes, once")
        assert "echo hello from the tool" in screen
        answer(terminal, "y")
        terminal.wait("done")
        assert "hello from the tool" in server.sent_messages[-1]["content"]


@pytest.mark.row("E67", "E145")
def test_what_the_program_of_a_tool_asks_for_is_asked_for_by_its_name():
    directory = Path.home().parent / "config" / "opta" / "tools"
    directory.mkdir(parents=True)
    (directory / "build.yml").write_text(
        "name: build\ndescription: d\nschema: {type: object, properties: {}}\n"
        "code: |\n  export async function execute(args, { platform }) {\n"
        "    return (await platform.executor.execute('env', ['echo', 'built'])).stdout;\n  }\n"
    )
    with (
        ModelServer([call("build"), say("done")]) as server,
        chat(server, columns=160, rows=50) as terminal,
    ):
        enter(terminal, "build it")
        screen = terminal.wait("[y] yes, once")
        assert "build.yml:5) with deno" in screen
        assert "256 MB" in screen
        answer(terminal, "y")
        screen = terminal.wait("$ env echo built")
        assert "asked for by build" in screen
        terminal.wait("[y] yes, once")
        answer(terminal, "y")
        terminal.wait("done")
        assert server.sent_messages[-1]["content"] == "built\n"


@pytest.mark.row("C306")
def test_a_value_that_may_do_harm_is_said_to_be_a_high_risk_in_the_question():
    tools = Path.home().parent / "config" / "opta" / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    (tools / "find.yaml").write_text(
        "name: find\ndescription: Find\nbash: grep {P} /dev/null\ntags: [read]\n"
        "parameters: {P: {type: string, description: p, required: true}}\n"
    )
    (tools / "calc.yaml").write_text(
        "name: calc\ndescription: Calculate\nbash: python3 -c \"print('{P}')\"\ntags: [read]\n"
        "parameters: {P: {type: string, description: p, required: true}}\n"
    )
    calls = [call("find", P="plain"), call("find", P="-f/etc/passwd"), call("calc", P="')or(1")]
    with ModelServer([*calls, say("done")]) as server, chat(server, rows=40) as terminal:
        enter(terminal, "go")
        screen = terminal.wait("[y] yes, once")
        assert "asked because no rule allows it" in screen
        assert "high risk" not in screen
        for said in (
            "! high risk: {P} begins with a dash and may be taken for an option: -f/etc/passwd",
            "! high risk: {P} is read as code by python: ')or(1",
        ):
            answer(terminal, "y")
            screen = terminal.wait(lambda s, said=said: said in s.replace("\n", " "))
            assert "asked because no rule allows it" in screen
        answer(terminal, "y")
        terminal.wait("done")


def test_only_what_a_file_calls_critical_is_called_so():
    tools = Path(".opta/tools")
    tools.mkdir(parents=True, exist_ok=True)
    for level in ("medium", "critical"):
        (tools / f"{level}.yml").write_text(
            f"name: {level}\ndescription: Does it\nruntime: node\ncode: |\n"
            "  async function execute() { return 'did it' }\n"
            "schema: {type: object, properties: {}}\n"
            f"permissions: {{riskLevel: {level}}}\n"
        )
    calls = [call("medium"), call("critical"), say("done")]
    with ModelServer(calls) as server, chat(server, "--trust", rows=40) as terminal:
        enter(terminal, "go")
        screen = terminal.wait("Call medium?")
        assert "risk" not in screen
        answer(terminal, "y")
        screen = terminal.wait("Call critical?")
        assert "critical risk · asked because no rule allows it" in screen


@pytest.mark.row("E100", "E104", "E105")
def test_a_switched_tool_leaves_the_next_request_and_stays_off_after_a_restart():
    user_config(greet="echo hi")
    with ModelServer([say(f"answer {n}") for n in range(4)]) as server:
        with chat(server) as terminal:
            enter(terminal, "one")
            terminal.wait("answer 0")
            assert "greet" in server.offered
            enter(terminal, "/tools disable greet")
            terminal.wait("✗ Disabled tool: greet (-")
            enter(terminal, "two")
            terminal.wait("answer 1")
            assert "greet" not in server.offered
            leave(terminal)
        with chat(server) as terminal:
            enter(terminal, "three")
            terminal.wait("answer 2")
            assert "greet" not in server.offered
            enter(terminal, "/tools enable greet")
            terminal.wait("✓ Enabled tool: greet (+")
            enter(terminal, "four")
            terminal.wait("answer 3")
            assert "greet" in server.offered


def test_a_tool_file_that_appears_or_breaks_is_told_at_the_next_turn():
    server = ModelServer([say("answer 0"), say("answer 1")])
    with server, chat(server, columns=200) as terminal:
        enter(terminal, "one")
        terminal.wait("answer 0")
        user_config(greet="echo hi")
        broken = Path.home().parent / "config" / "opta" / "tools" / "broken.json"
        broken.write_text('{"name": "broken",\n "description": }')
        enter(terminal, "two")
        screen = terminal.wait("answer 1")
        assert "tool added: greet" in screen
        assert "broken.json:2" in screen
        assert "greet" in server.offered


@pytest.mark.parametrize("key", ["C-c", "Escape"])
def test_stopping_the_model_gives_the_prompt_back_at_once(key):
    hanging = Reply(sse(chat_chunk("I begin and")), end=End.HANG)
    with ModelServer([hanging, say("I listen.")]) as server, chat(server) as terminal:
        enter(terminal, "go")
        terminal.wait("I begin and")
        start = time.monotonic()
        terminal.send(key)
        terminal.wait("Stopped.")
        assert time.monotonic() - start < SOON_S
        enter(terminal, "again")
        terminal.wait("I listen.")
        assert [m["role"] for m in server.sent_messages] == [
            "system", "user", "assistant", "user",
        ]  # fmt: skip


def test_stopping_while_a_retry_waits_and_while_a_command_runs():
    script = [
        error(429, "slow down", headers={"Retry-After": "60"}),
        call("run_command", command="sleep 60"),
        say("I listen."),
    ]
    skip = "--dangerously-skip-permissions"
    with (
        ModelServer(script) as server,
        Terminal([*OPTA, *connected(server), skip]) as terminal,
    ):
        terminal.wait("skip permissions")
        enter(terminal, "one")
        terminal.wait("60 s")
        terminal.send("C-c")
        terminal.wait("Stopped.")
        enter(terminal, "two")
        terminal.wait("sleep 60")
        server.wait_for_requests(2)
        terminal.send("C-c")
        terminal.wait(lambda screen: screen.count("Stopped.") == 2)
        enter(terminal, "three")
        terminal.wait("I listen.")
        results = [m for m in server.sent_messages if m["role"] == "tool"]
        assert "outcome is unknown" in results[0]["content"]


def test_a_command_typed_by_the_person_shows_all_it_printed():
    with ModelServer() as server, chat(server) as terminal:
        enter(terminal, "!seq 100 130")
        shown = terminal.wait("  130\n", everything=True)
        assert all(f"  {number}\n" in shown for number in range(100, 131))
        enter(terminal, "!seq 10000 11000")
        terminal.wait("… 801 more lines (Ctrl-O shows all)", everything=True)


def test_ctrl_o_shows_what_was_shortened_the_last_first():
    commands = ["seq 100 130", "seq 200 230", "echo short"]
    calls = [call("run_command", command=command) for command in commands]
    with ModelServer([*calls, say("All run.")]) as server, chat(server) as terminal:
        enter(terminal, "go")
        terminal.wait("All run.")
        assert "  215" not in terminal.scrollback()
        terminal.send("C-o")
        shown = terminal.wait("  215", everything=True)
        assert shown.count("● seq 200 230") == 2
        assert "  115" not in shown
        terminal.send("C-o")
        shown = terminal.wait("  115", everything=True)
        terminal.send("C-o")
        terminal.wait("Nothing else was shortened.")
        terminal.type("typed")
        terminal.wait("> typed")


def test_a_command_typed_by_the_person_runs_unasked_and_is_told_to_the_model():
    with ModelServer([say("I see it.")]) as server, chat(server) as terminal:
        enter(terminal, "!echo typed by m''e")
        terminal.wait("typed by me")
        enter(terminal, "what did I do?")
        terminal.wait("I see it.")
        sent = server.sent_messages[-1]["content"]
        assert "$ echo typed by m''e" in sent
        assert "typed by me" in sent


def test_a_command_of_other_programs_is_answered_with_where_it_is_here():
    own_command("review", "Review @$1.")
    with ModelServer([say("Reviewed.")]) as server, chat(server, columns=120) as terminal:
        enter(terminal, "/doctor")
        terminal.wait("There is no command /doctor: `opta doctor`, in a shell or behind !.")
        enter(terminal, "/review x.py")
        terminal.wait("Reviewed.")
        assert not set(ELSEWHERE) & {command.name for command in COMMANDS}


def test_a_failed_command_tells_its_exit_code_once():
    with ModelServer() as server, chat(server) as terminal:
        enter(terminal, "!echo why; exit 7")
        terminal.wait("exit 7")
        screen = terminal.wait(lambda screen: "\n  why\n" in screen)
        assert "exit code" not in screen
        enter(terminal, "exit")
        assert terminal.wait_exit() == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "No model is chosen."),
        (["--model", "gpt-x"], "There is no API key for https://api.openai.com/v1."),
    ],
)
def test_what_is_missing_for_a_first_message_is_said_before_it(flags, said):
    with Terminal([*OPTA, *flags], columns=120) as terminal:
        terminal.wait(said)
        screen = terminal.wait("ask ·")
        assert screen.index("/help for commands and keys") < screen.index(said)


def test_what_is_said_while_the_model_works_joins_its_next_step():
    Path("notes.txt").write_text("the secret of soup")
    turns = [
        call("run_command", command="until test -e go; do sleep 0.05; done"),
        say("Understood."),
    ]
    flags = ["--allow", "run_command"]
    with ModelServer([*turns, say("Later.")]) as server:
        with chat(server, *flags) as terminal:
            terminal.type("start")
            terminal.send("Enter")
            terminal.wait("until test")
            for text in ("use salt, see @notes.txt", "and pepper", "/cost", "last"):
                terminal.type(text)
                terminal.send("Enter")
                terminal.wait(f"queued: {text}" if text != "last" else "and 1 more queued")
            Path("go").touch()
            shown = terminal.wait(lambda s: "Later." in s and "Requests:" in s, everything=True)
            order = ["> start", "● until", "> use salt", "> and pepper", "Understood.", "Requests:"]
            assert sorted(order, key=shown.index) == order
            joined = server.requests[1].json["messages"]
            assert [m["role"] for m in joined[-3:]] == ["assistant", "tool", "user"]
            said = joined[-1]["content"]
            assert "the secret of soup" in said
            assert said.index("use salt") < said.index("and pepper")
            assert "last" not in said
            assert server.sent_messages[-1]["content"] == "last"
            before = server.sent_messages
            assert leave(terminal) == 0
            identity = terminal.scrollback().split("opta --resume ")[1].split()[0]
        server.add(say("Back."))
        opta("-p", "again", "--resume", identity, server=server)
        assert server.sent_messages[: len(before)] == before


def test_an_image_that_is_dropped_on_the_terminal_goes_along(tmp_path):
    shot = tmp_path / "my shot.png"
    shot.write_bytes(b"\x89PNG\r\n\x1a\n")
    with ModelServer([say("A dot.")]) as server, chat(server) as terminal:
        terminal.type("what is ")
        terminal.paste(f"'{shot}' ")
        terminal.type("?")
        terminal.send("Enter")
        terminal.wait("A dot.")
        text, image = server.sent_messages[-1]["content"]
    assert text["text"].endswith(f'what is @"{shot}" ?')
    assert image["type"] == "image_url"


def test_a_mentioned_file_goes_along():
    Path("notes.txt").write_text("the secret of soup")
    with ModelServer([say("Soup it is.")]) as server, chat(server) as terminal:
        enter(terminal, "read @notes.txt please")
        terminal.wait("Soup it is.")
        assert "the secret of soup" in server.sent_messages[-1]["content"]


def test_failures_are_one_sentence_and_a_next_step():
    with ModelServer([error(401, "Incorrect API key provided: sk-abc")]) as server:
        with chat(server) as terminal:
            enter(terminal, "hi")
            terminal.wait("OPENAI_API_KEY")
            assert "Traceback" not in terminal.scrollback()
        gone = server.base_url
    with Terminal([*OPTA, "--base-url", gone, "--model", "m"]) as terminal:
        terminal.wait("ask ·")
        enter(terminal, "hi")
        terminal.wait(lambda screen: gone.split("/")[2] in screen)
        enter(terminal, "/exit")
        assert terminal.wait_exit() == 0


def own_command(name, text):
    directory = Path.home().parent / "config" / "opta" / "commands"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.md").write_text(text)


def test_a_command_of_ones_own_is_offered_and_sends_its_text():
    own_command("review", "---\ndescription: look for mistakes\n---\nReview @$1 for $ARGUMENTS.\n")
    own_command("help", "never meant instead of opta's own")
    Path("soup.py").write_text("the secret of soup")
    with ModelServer([say("Reviewed.")]) as server, chat(server, rows=50) as terminal:
        terminal.type("/rev")
        terminal.wait("look for mistakes")
        terminal.send("Tab")
        enter(terminal, " soup.py too salty")
        terminal.wait("Review @soup.py for soup.py too salty.")
        terminal.wait("Reviewed.")
        sent = server.sent_messages[-1]["content"]
        assert "Review @soup.py for soup.py too salty." in sent
        assert "the secret of soup" in sent
        enter(terminal, "/help")
        terminal.wait(lambda screen: "/review" in screen and "look for mistakes" in screen)
        assert len(server.requests) == 1


def test_a_command_of_ones_own_that_is_broken_says_where():
    own_command("bad", "---\ndescription: [\n---\nText")
    own_command("nothing", "\n")
    with ModelServer() as server, chat(server, columns=200) as terminal:
        enter(terminal, "/bad")
        terminal.wait("commands/bad.md:3:1: ")
        enter(terminal, "/nothing")
        terminal.wait("commands/nothing.md is empty.")
        enter(terminal, "/nix")
        terminal.wait("There is no command /nix")
        assert not server.requests


def test_init_asks_the_model_for_an_agents_md():
    with ModelServer([say("Written.")]) as server, chat(server) as terminal:
        enter(terminal, "/init in German")
        terminal.wait("Written.")
        sent = server.sent_messages[-1]["content"]
        assert "Write AGENTS.md" in sent
        assert sent.rstrip().endswith("in German")


def test_every_slash_command_is_offered_at_once():
    with ModelServer() as server, chat(server, rows=40) as terminal:
        terminal.type("/")
        terminal.wait(lambda screen: all(f"\n /{c.name} " in screen for c in COMMANDS))


def test_what_may_follow_a_command_is_offered_word_by_word():
    user_config(deploy="true", depart="true")
    with ModelServer() as server, chat(server, rows=40) as terminal:
        terminal.type("/tools dis")
        terminal.wait("take a tool out of the next request")
        terminal.send("Tab")
        terminal.type(" dep")
        terminal.wait(lambda screen: " depart " in screen and "The deploy tool" in screen)
        terminal.type("l")
        terminal.wait(lambda screen: " depart " not in screen)
        terminal.send("Tab")
        terminal.wait("> /tools disable deploy")
        terminal.send("Enter")
        terminal.wait("deploy", everything=True)
        terminal.type("/tools disable dep")
        terminal.wait(
            lambda screen: "The depart tool" in screen and "The deploy tool" not in screen
        )
        terminal.send("C-c")
        terminal.type("/permissions mode pl")
        terminal.wait("\n plan")
        terminal.send("Tab")
        terminal.send("Enter")
        terminal.wait("plan ·")


def test_enter_sends_a_command_though_words_are_offered_after_it():
    with ModelServer() as server, chat(server, rows=50) as terminal:
        terminal.type("/tools ")
        terminal.wait("where the tokens go")
        terminal.send("Enter")
        terminal.wait("Available Tools:")


def test_a_file_with_a_blank_in_its_name_is_completed_and_goes_along():
    Path("two words.txt").write_text("the secret of soup")
    with ModelServer([say("Soup it is.")]) as server, chat(server) as terminal:
        terminal.type("read @two")
        terminal.wait('"two words.txt"')
        terminal.send("Tab")
        terminal.wait('> read @"two words.txt"')
        terminal.send("Enter")
        terminal.wait("Soup it is.")
        assert "the secret of soup" in server.sent_messages[-1]["content"]


def test_slash_commands_answer():
    with ModelServer([say("answer 0"), say("answer 1")]) as server, chat(server) as terminal:
        enter(terminal, "/help")
        terminal.wait("Ctrl-D   leave")
        shown = terminal.scrollback().split("> /help\n\n")[1].splitlines()
        assert all(line[0] in "/!@ASUE>" for line in shown[:-1] if line), "a line was wrapped"
        enter(terminal, "one")
        terminal.wait("answer 0")
        enter(terminal, "/cost")
        terminal.wait("Requests: 1")
        enter(terminal, "/permissions")
        terminal.wait("Mode: ask")
        enter(terminal, "/model other-model")
        terminal.wait("Model: other-model")
        enter(terminal, "/nonsense")
        terminal.wait("There is no command /nonsense")
        enter(terminal, "/modle other")
        terminal.wait("There is no command /modle (did you mean /model?)")
        enter(terminal, "/Jobs")
        terminal.wait("Nothing was started.")
        enter(terminal, "/no-such_1")
        terminal.wait("There is no command /no-such_1")
        assert len(server.requests) == 1
        enter(terminal, "/clear")
        terminal.wait("A new conversation begins.")
        enter(terminal, "two")
        terminal.wait("answer 1")
        assert server.requests[-1].json["model"] == "other-model"
        assert len(server.sent_messages) == 2
        enter(terminal, "/quit")
        assert terminal.wait_exit() == 0


def test_it_works_at_twenty_columns():
    server = ModelServer([say("A rather long answer in a rather narrow window.")])
    with server, Terminal([*OPTA, *connected(server)], columns=20, rows=12) as terminal:
        terminal.wait(">")
        enter(terminal, "hi")
        terminal.wait("window.")
        assert "Traceback" not in terminal.scrollback()


def unwrapped(screen):
    """The text of a screen without any white space, wherever lines were wrapped."""
    return "".join(screen.split())


def project_tool(name, command):
    directory = Path(".opta/tools")
    directory.mkdir(parents=True, exist_ok=True)
    data = {"name": name, "description": f"The {name} tool", "command": command,
            "parameters": {"type": "object", "properties": {}}}  # fmt: skip
    (directory / f"{name}.json").write_text(json.dumps(data))


def test_a_project_is_asked_about_by_content_and_no_is_the_default():
    project_tool("greet", "echo hello from the project")
    with ModelServer([say("answer 0"), say("answer 1")]) as server:
        with Terminal([*OPTA, *connected(server)]) as terminal:
            screen = terminal.wait("Trust what this project brings?")
            assert "echo hello from the project" in screen
            answer(terminal, "Enter")
            terminal.wait("ask ·")
            enter(terminal, "one")
            terminal.wait("answer 0")
            assert "greet" not in server.offered
            leave(terminal)
        with Terminal([*OPTA, *connected(server)]) as terminal:
            terminal.wait("Trust what this project brings?")
            answer(terminal, "y")
            terminal.wait("ask ·")
            enter(terminal, "two")
            terminal.wait("answer 1")
            assert "greet" in server.offered
            leave(terminal)
        with chat(server):
            pass  # What was trusted is not asked about again.


def test_a_trusted_project_that_changes_is_asked_about_again_with_the_difference():
    project_tool("greet", "echo one")
    with ModelServer([say("answer 0"), say("answer 1"), say("answer 2")]) as server:
        with Terminal([*OPTA, *connected(server)], rows=40) as terminal:
            terminal.wait("Trust what this project brings?")
            answer(terminal, "y")
            terminal.wait("ask ·")
            enter(terminal, "one")
            terminal.wait("answer 0")
            assert "greet" in server.offered
            project_tool("greet", "echo two")
            enter(terminal, "two")
            screen = terminal.wait("Trust what has changed?")
            assert "echoone" in unwrapped(screen)
            assert "echotwo" in unwrapped(screen)
            answer(terminal, "n")
            terminal.wait("answer 1")
            assert "greet" not in server.offered
            enter(terminal, "three")
            terminal.wait("answer 2")
            assert "greet" not in server.offered
            leave(terminal)
        with Terminal([*OPTA, *connected(server)], rows=40) as terminal:
            screen = terminal.wait("Trust what this project brings?")
            assert "echotwo" in unwrapped(screen)


def test_esc_esc_goes_back_to_an_earlier_message_to_write_it_anew():
    turns = [say(f"answer {number}") for number in range(4)]
    with ModelServer(turns) as server:
        with chat(server) as terminal:
            for number, text in enumerate(["first things", "second things", "third"]):
                enter(terminal, text)
                terminal.wait(f"answer {number}")
            terminal.wait(lambda screen: "(Esc to stop)" not in screen)
            terminal.send("Escape")
            terminal.wait("Press Esc again to go back")
            terminal.send("Escape")
            listed = terminal.wait("Go back to before which of your messages?").split("which")[1]
            assert listed.index("third") < listed.index("second") < listed.index("first things")
            terminal.send("Down")
            terminal.send("Enter")
            terminal.wait("Taken back: that message and all that followed it.")
            terminal.wait("> second")
            terminal.type(" but better")
            terminal.send("Enter")
            terminal.wait("answer 3")
            sent = [message["content"] for message in server.sent_messages[1:]]
            assert [text.split("\n")[-1] for text in sent] == [
                "first things", "answer 0", "second things but better",
            ]  # fmt: skip
            assert leave(terminal) == 0
            identity = terminal.scrollback().split("opta --resume ")[1].split()[0]
        server.add(say("answer 4"))
        opta("-p", "and after a restart", "--resume", identity, server=server)
        again = [message["content"] for message in server.sent_messages[1:]]
        assert again == [*sent, "answer 3", "and after a restart"]
    # What was taken back is not lost to the person.
    assert "third" in opta("sessions", "show", identity).stdout


def test_there_is_nothing_to_go_back_to_in_a_new_chat_and_esc_changes_ones_mind():
    with ModelServer([say("answer 0"), say("answer 1")]) as server, chat(server) as terminal:
        enter(terminal, "/rewind")
        terminal.wait("There is no message to go back to.")
        enter(terminal, "one")
        terminal.wait("answer 0")
        enter(terminal, "/rewind")
        terminal.wait("Go back to before which")
        terminal.send("Escape")
        terminal.wait(lambda screen: "Go back" not in screen)
        enter(terminal, "two")
        terminal.wait("answer 1")
        assert [message["content"] for message in server.sent_messages][2:] == ["answer 0", "two"]
