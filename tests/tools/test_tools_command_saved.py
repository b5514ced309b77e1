"""Switches made in one run hold in the next, and other tools stay as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.configuration import read_settings
from agent.project import trust_in
from agent.tool_registry import build_registry, build_tools_command
from tools.cost import Form


def tool_file(directory, name):
    directory.mkdir(parents=True, exist_ok=True)
    data = {
        "name": name,
        "description": "d",
        "parameters": {"type": "object", "properties": {}},
        "command": "true",
    }
    (directory / f"{name}.json").write_text(json.dumps(data))


def fresh_run(root, *, trusted):
    """Return `/tools` and the registry as a new process would have them."""
    trust = trust_in(root, given=trusted)
    settings = read_settings(root, {}, trusted=trust.settings)
    registry = build_registry(trust, settings)
    return build_tools_command(root, registry, settings, lambda: Form.JSON_LINES), registry


def offered(registry):
    return [schema["function"]["name"] for schema in registry.wire()]


@pytest.mark.row("E105", "A8", "A9", "A10")
@pytest.mark.parametrize("trusted", [True, False])
def test_a_switch_survives_a_restart(tmp_path, trusted):
    user = Path.home().parent / "config" / "opta" / "tools"
    for directory, name in [(user, "mine"), (user, "other"), (tmp_path / ".opta/tools", "local")]:
        tool_file(directory, name)
    command, registry = fresh_run(tmp_path, trusted=trusted)
    assert ("local" in offered(registry)) is trusted
    assert command.run(["disable", "mine"]).done
    assert command.run(["disable", "git"]).done
    command, registry = fresh_run(tmp_path, trusted=trusted)
    assert not {"mine", "git"} & set(offered(registry))
    assert "other" in offered(registry)
    assert registry.find("mine").reason == "disabled in the settings"
    assert command.run(["enable", "mine"]).done
    command, registry = fresh_run(tmp_path, trusted=trusted)
    assert "mine" in offered(registry)
    assert "git" not in offered(registry)


@pytest.mark.row("E81")
def test_the_setting_leaves_all_custom_tools_out(tmp_path):
    config = Path.home().parent / "config" / "opta"
    tool_file(config / "tools", "mine")
    (config / "config.yml").write_text("tools:\n  autoLoadCustomTools: false\n")
    _, registry = fresh_run(tmp_path, trusted=False)
    assert registry.find("mine") is None


@pytest.mark.row("E80")
def test_the_setting_hides_the_costs(tmp_path):
    config = Path.home().parent / "config" / "opta"
    config.mkdir(parents=True)
    (config / "config.yml").write_text("tools:\n  showTokenCosts: false\n")
    command, _ = fresh_run(tmp_path, trusted=False)
    assert "tokens" not in command.run([]).text.partition("Usage:")[0]
