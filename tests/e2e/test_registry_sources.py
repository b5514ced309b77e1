"""Where tools come from, in the real program: which are listed, offered and run, and at whose word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli import opta
from tests.support.model_server import ModelServer, say
from tools.storage import config_dir, global_dir


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def tool_file(directory, name, command="echo done"):
    tool = {"name": name, "description": f"{name} it", "command": command,
            "parameters": {"type": "object", "properties": {}}}  # fmt: skip
    return write(directory / f"{name}.json", json.dumps(tool))


def offered(server):
    return [tool["function"]["name"] for tool in server.requests[-1].json["tools"]]


@pytest.mark.row("E17")
def test_where_local_tools_are_disabled_none_is_read_and_tools_says_why():
    tool_file(Path(".opta/tools"), "theirs")
    tool_file(config_dir() / "tools", "mine")
    tool_file(global_dir() / "tools", "shared")
    managed = write(
        global_dir() / "config.yml", "model: x\nenforcement: {disableLocalTools: true}\n"
    )
    # What the machine's owner has set so nobody sets back.
    write(config_dir() / "config.yml", "enforcement: {disableLocalTools: false}\n")
    listed = opta("tools", "--trust")
    assert "shared" in listed.stdout
    assert "theirs" not in listed.stdout
    assert "mine" not in listed.stdout
    assert (
        "warning: not loaded, for enforcement.disableLocalTools is set in "
        f"{managed}:2: .opta/tools, {config_dir()}/tools\n"
    ) in listed.stdout
    assert f"enforcement.disableLocalTools is ignored: {managed}:2 enforces it" in listed.stderr
    with ModelServer([say("done")]) as server:
        assert opta("-p", "go", "--trust", server=server).returncode == 0
        assert "shared" in offered(server)
        assert not {"theirs", "mine"} & set(offered(server))


@pytest.mark.row("E17")
def test_local_tools_are_disabled_by_the_person_or_the_machine_and_not_by_a_project():
    tool_file(config_dir() / "tools", "mine")
    write(Path(".opta/config.yml"), "enforcement: {disableLocalTools: true}\n")
    listed = opta("tools", "--trust")
    assert "✓ mine" in listed.stdout
    assert "a project may not set it" in listed.stderr
    write(config_dir() / "config.yml", "enforcement: {disableLocalTools: true}\n")
    listed = opta("tools", "--trust")
    assert "✓ mine" not in listed.stdout
    assert f"{config_dir()}/config.yml:1: {config_dir()}/tools\n" in listed.stdout
