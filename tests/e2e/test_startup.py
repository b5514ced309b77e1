"""Which modules the command loads before it has something to show: start-up time is imports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mcp_session import entry
from tests.support.model_server import ModelServer, call, say
from tests.support.terminal import Terminal, needs_tmux

HEAVY = frozenset(
    ["asyncio", "httpx2", "jsonschema_rs", "mcp", "pathspec", "prompt_toolkit", "pygments", "rich",
     "ruamel", "ssl", "tiktoken", "tree_sitter", "tree_sitter_bash", "yaml"]
)  # fmt: skip

CUSTOM_TOOLS_ONLY = frozenset(
    ["tools.engine.prepared", "tools.engine.run", "tools.engine.template_shell",
     "tools.formats.cycod", "tools.sources.plan_checks"]
)  # fmt: skip
SERVERS_ONLY = frozenset(
    ["tools.sources.mcp.calls", "tools.sources.mcp.connection", "tools.sources.mcp.login",
     "tools.sources.mcp.sdk"]
)  # fmt: skip

READY = b"\x1b[?2004h"
"""Bracketed paste is switched on: the prompt is drawn and takes keys."""

PROBE = """
import atexit, sys
atexit.register(lambda: sys.stderr.write("\\n".join(sys.modules)))
"""
RUN = PROBE + "import opta\nsys.argv = ['opta', *sys.argv[1:]]\nsys.exit(opta.main())"


def modules_of(code: str, *arguments: str) -> set[str]:
    """Run `code` in a fresh interpreter; return the modules it had loaded when it ended."""
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return set(result.stderr.splitlines())


def test_the_version_loads_the_launcher_and_nothing_else():
    assert modules_of(RUN, "--version") - modules_of(PROBE) == {"opta"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["sessions", "--help"], ["loop", "--help"]], ids=" ".join
)
def test_the_help_loads_nothing_heavy(arguments):
    loaded = modules_of(RUN, *arguments)
    assert "agent.cli" in loaded
    assert sorted(loaded & HEAVY) == []


def test_listing_tools_loads_neither_the_network_nor_the_screen():
    loaded = modules_of(RUN, "tools", "list")
    assert "tools.registry" in loaded
    assert sorted(loaded & {"httpx2", "prompt_toolkit", "rich", "ruamel", "tree_sitter"}) == []


def test_listing_tool_files_loads_neither_the_engine_nor_the_built_ins():
    loaded = modules_of(RUN, "tool", "list")
    assert "tools.commands.tool.showing" in loaded
    engine = {"asyncio", "tools.engine.run", "tools.executor", "tools.builtin.run_command"}
    assert sorted(loaded & engine) == []


def test_one_job_loads_neither_the_screen_nor_the_token_counter(monkeypatch, tmp_path):
    with ModelServer([call("run_command", command="echo"), say("Done.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        flags = ["--model", "m", "--dangerously-skip-permissions", "--output-format", "stream-json"]
        loaded = modules_of(RUN, "-p", "go", *flags)
    assert len(server.requests) == 2
    assert sorted(loaded & {"prompt_toolkit", "rich", "ruamel", "tiktoken", "yaml"}) == []
    assert sorted(loaded & (CUSTOM_TOOLS_ONLY | SERVERS_ONLY)) == []


def test_an_answer_without_calls_loads_no_database_and_no_parser(monkeypatch):
    with ModelServer([say("Hello.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        loaded = modules_of(RUN, "-p", "go", "--model", "m")
    assert len(server.requests) == 1
    late = {
        "agent.model.responses", "jsonschema_rs", "pathspec", "sqlite3", "tree_sitter",
        "tree_sitter_bash", "yaml", *CUSTOM_TOOLS_ONLY, *SERVERS_ONLY,
    }  # fmt: skip
    assert sorted(loaded & late) == []


@needs_tmux
@pytest.mark.parametrize("servers", [0, 10])
def test_the_first_prompt_loads_the_line_editor_and_nothing_that_can_wait(servers):
    configured = {f"server{n}": entry("hang") for n in range(servers)}
    Path(".mcp.json").write_text(json.dumps({"mcpServers": configured}))
    environment = {"PYTHONPROFILEIMPORTTIME": "1", "OPTA_MODEL": "m", "OPENAI_API_KEY": "k"}
    opta = Path(sys.executable).parent / "opta"
    with Terminal([opta, "--trust"], columns=120, env=environment) as terminal:
        terminal.wait(lambda _: READY in terminal.output(), everything=True)
        before_paint = terminal.output().partition(READY)[0].decode()
    loaded = set(re.findall(r"\| +([\w.]+)\r?$", before_paint, re.MULTILINE))
    assert {"argparse", "prompt_toolkit"} <= loaded
    late = {
        "httpx2", "jsonschema_rs", "mcp", "pathspec", "rich", "ruamel", "tiktoken", "tree_sitter",
        "tree_sitter_bash", "sqlite3", "tools.actions", "tools.engine.process",
        "tools.files.protected", "tools.permissions.gate", "tools.permissions.rules",
    }  # fmt: skip
    assert sorted(loaded & late) == []
    assert "tools.sources.mcp" not in before_paint


def test_without_a_server_the_sdk_of_mcp_is_never_loaded(monkeypatch):
    with ModelServer([say("Done.")]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        assert "mcp" not in modules_of(RUN, "-p", "go", "--model", "m")


def test_the_doctor_loads_no_chat():
    code = PROBE + "import agent.doctor_command"
    assert sorted(modules_of(code) & {"agent.app", "agent.chat", "agent.loop"}) == []


def test_serving_tools_loads_no_screen():
    loaded = modules_of(RUN, "mcp", "serve", "--trust")
    assert "agent.serving.sdk" in loaded
    assert sorted(loaded & {"prompt_toolkit", "pygments", "rich", "ruamel"}) == []


def test_listing_servers_connects_to_none_and_loads_no_sdk(tmp_path):
    record = tmp_path / "record"
    Path(".mcp.json").write_text(json.dumps({"mcpServers": {"ok": entry("ok", record)}}))
    loaded = modules_of(RUN, "mcp", "list", "--trust")
    assert sorted(loaded & {"mcp", "httpx2", "prompt_toolkit", "rich"}) == []
    assert not record.exists()
