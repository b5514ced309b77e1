"""Settings: layers, where values come from, what a project may not say, errors with their place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.settings import load_settings
from agent.settings_files import SettingsError
from agent.settings_keys import KEYS
from agent.settings_values import Settings
from scripts import settings_table
from tests.support.tool_files import EXAMPLES
from tools.permissions.mode import Mode
from tools.permissions.rules import Verdict
from tools.permissions.trust import inspect

REPOSITORY = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The four files of settings; each is written by `write`."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    monkeypatch.setenv("OPTA_GLOBAL_DIR", str(tmp_path / "etc"))
    (tmp_path / "project").mkdir()
    return {
        "managed": tmp_path / "etc" / "config.yml",
        "user": tmp_path / "home" / ".config" / "opta" / "config.yml",
        "project": tmp_path / "project" / ".opta" / "config.yml",
        "mimir": tmp_path / "project" / ".mimir" / "config.yml",
        "root": tmp_path / "project",
    }


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


def load(places, trusted=True, flags=None, environ=None) -> Settings:
    return load_settings(
        places["root"],
        trusted=inspect(places["root"]) if trusted else None,
        flags=flags or {},
        environ=environ or {},
    )


def error_of(places, **more) -> str:
    with pytest.raises(SettingsError) as caught:
        load(places, **more)
    return str(caught.value)


def rules_of(settings: Settings) -> list[tuple[str, str, str]]:
    return [(rule.verdict.value, rule.text, rule.origin) for rule in settings.rules]


def test_without_any_file_the_defaults_hold(places) -> None:
    found = load(places)
    assert (found.model, found.base_url, found.api) == ("", "https://api.openai.com/v1", "chat")
    assert (found.mode, found.rules, found.warnings) == (Mode.ASK, (), ())
    assert found.price_per_1000 == 0.001
    assert found.source("model") == "default"


def test_the_nearer_layer_wins_and_says_where_it_is(places) -> None:
    write(places["managed"], "model: a\n")
    assert load(places).source("model") == f"{places['managed']}:1"
    write(places["user"], "# mine\nmodel: b\n")
    found = load(places)
    assert (found.model, found.source("model")) == ("b", "~/.config/opta/config.yml:2")
    write(places["user"], f"model: b\nprojects:\n  {places['root']}:\n    model: mine\n")
    assert load(places).source("model") == "~/.config/opta/config.yml:4"
    write(places["project"], "model: c\n")
    assert load(places).source("model") == ".opta/config.yml:1"
    environ = {"OPTA_MODEL": "d"}
    assert load(places, environ=environ).source("model") == "environment OPTA_MODEL"
    found = load(places, environ=environ, flags={"model": "e"})
    assert (found.model, found.source("model")) == ("e", "flag --model")


def test_settings_of_another_project_are_not_read(places) -> None:
    write(
        places["user"],
        f"projects:\n  {places['root']}-evil:\n    model: x\n  /other: {{model: y}}\n",
    )
    assert load(places).model == ""


def test_r22_an_untrusted_project_says_nothing_not_even_errors(places) -> None:
    write(places["project"], "model: [broken\n")
    write(places["mimir"], "tools: {git: {enabled: false}}\n")
    found = load(places, trusted=False)
    assert (found.model, dict(found.switches), found.warnings) == ("", {}, ())


def test_r26_a_project_may_lower_a_limit_of_the_person_not_raise_it(places) -> None:
    limits = "max_turns: {n}\nmax_tokens_total: {n}\ntools: {{maxExecutionTime: {n}}}\n"
    write(places["user"], limits.format(n=100))
    write(places["project"], limits.format(n=50))
    lowered = load(places)
    assert (lowered.max_turns, lowered.max_tokens_total, lowered.max_execution_ms) == (50, 50, 50)
    write(places["project"], limits.format(n=101))
    kept = load(places)
    assert (kept.max_turns, kept.max_tokens_total, kept.max_execution_ms) == (100, 100, 100)
    assert len(kept.warnings) == 3
    assert kept.warnings[0].endswith(
        ".opta/config.yml:1: max_turns is ignored: a project may not raise it above that of "
        "~/.config/opta/config.yml:1"
    )
    assert load(places, flags={"max_turns": 500}).max_turns == 500, "the person may"


def test_r26_a_trusted_project_can_only_narrow(places) -> None:
    write(
        places["project"],
        "base_url: http://evil.example/v1\napi: responses\napi_key: k\napi_key_env: OTHER\n"
        "mode: accept-edits\nskip_permissions: true\n"
        "enforce: [model]\n"
        "projects: {/x: {model: y}}\n"
        "permissions:\n  allow: [run_command]\n  ask: [write_file]\n"
        "  deny: ['run_command(rm:*)']\n",
    )
    found = load(places, environ={"OPENAI_API_KEY": "mine", "OTHER": "theirs"})
    assert (found.base_url, found.api) == ("https://api.openai.com/v1", "chat")
    assert (found.api_key, found.mode, found.skip_permissions) == ("mine", Mode.ASK, False)
    assert rules_of(found) == [
        ("ask", "write_file", ".opta/config.yml:11"),
        ("deny", "run_command(rm:*)", ".opta/config.yml:12"),
    ]
    noticed = "\n".join(found.warnings)
    for key in ("base_url", "api", "api_key", "api_key_env", "mode", "skip_permissions", "enforce",
                "projects", "permissions.allow"):  # fmt: skip
        assert f": {key}: " in noticed


def test_rules_of_all_layers_add_up(places) -> None:
    write(places["managed"], "permissions: {deny: [deploy]}\n")
    write(places["user"], "permissions:\n  allow:\n    - 'run_command(npm test:*)'\n")
    flags = {
        "permissions.allow": ["read_file"], "permissions.deny": ["x"], "permissions.ask": [],
        "auto_approve": ["tool:read"], "auto_deny": ["tool:run"],
    }  # fmt: skip
    assert rules_of(load(places, flags=flags)) == [
        ("deny", "deploy", f"{places['managed']}:1"),
        ("allow", "run_command(npm test:*)", "~/.config/opta/config.yml:3"),
        ("allow", "read_file", "flag --allow"),
        ("deny", "x", "flag --deny"),
        ("allow", "tool:read", "flag --auto-approve"),
        ("deny", "tool:run", "flag --auto-deny"),
    ]


def test_rules_for_one_project_stay_there(places) -> None:
    write(
        places["user"],
        f"projects:\n  {places['root']}: {{permissions: {{allow: [a]}}}}\n"
        "  /x: {permissions: {allow: [b]}}\n",
    )
    assert [rule.text for rule in load(places).rules] == ["a"]


def test_what_the_managed_file_enforces_nobody_overrides(places) -> None:
    write(places["managed"], "model: fixed\nenforce: [model, skip_permissions, tools.git]\n"
                             "tools: {git: {enabled: false}}\n")  # fmt: skip
    write(places["user"], "model: mine\ntools: {git: {enabled: true}}\n")
    found = load(
        places, environ={"OPTA_MODEL": "x"}, flags={"model": "y", "skip_permissions": True}
    )
    assert (found.model, found.skip_permissions) == ("fixed", False)
    assert dict(found.switches) == {"git": False}
    assert sum("enforces it" in line for line in found.warnings) == 5
    write(places["managed"], "enforce: [modle]\n")
    assert "'modle' is not the name of a setting" in error_of(places)


@pytest.mark.row("E79")
def test_the_documented_mimir_config_is_read_when_trusted(places) -> None:
    documented = (EXAMPLES / "004" / "config.yml").read_text()
    write(places["mimir"], f"{documented}model: {{this: is theirs}}\n")
    found = load(places)
    assert dict(found.switches) == {
        "file_operations": True, "file_search": True, "bash_execution": True, "git": True,
        "run_tests": True, "analyze_dependencies": False,
    }  # fmt: skip
    assert (found.show_token_costs, found.load_custom_tools) == (True, True)
    assert found.max_execution_ms == 60_000
    assert (found.model, found.warnings) == ("", ())
    write(places["mimir"], "tools: {showTokenCosts: false, autoLoadCustomTools: false}\n")
    found = load(places)
    assert (found.show_token_costs, found.tool_settings().load_custom) == (False, False)


def test_the_nearest_switch_of_a_tool_wins(places) -> None:
    write(places["user"], "tools: {a: {enabled: true}, b: {enabled: true}, c: {enabled: true}}\n")
    write(places["mimir"], "tools: {b: {enabled: false}, c: {enabled: false}}\n")
    write(places["project"], "tools: {c: {enabled: true}}\n")
    found = load(places)
    assert dict(found.tool_settings().switches) == {"a": True, "b": False, "c": True}
    assert found.source("tools.b") == ".mimir/config.yml:1"


def test_the_mimir_config_as_printed_is_one_warning(places) -> None:
    printed = EXAMPLES / "004" / "config.as-printed.yml.txt"
    write(places["mimir"], printed.read_text())
    found = load(places)
    (warning,) = found.warnings
    assert ".mimir/config.yml:7:1: " in warning
    assert "'enabled' is there twice" in warning
    assert dict(found.switches) == {}


def test_a_broken_mimir_config_is_a_warning(places) -> None:
    write(places["mimir"], "tools: [\n")
    (warning,) = load(places).warnings
    assert ".mimir/config.yml:" in warning


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model: [a\n", "config.yml:1:8: this is not YAML"),
        ("a: 1\nmodel: 3\n", "config.yml:2:1: model must be text, not 3 ($.model)"),
        ("mode: yolo\n", "mode must be one of ask, accept-edits, auto-sandbox, plan, not 'yolo'"),
        ("api: 1\n", "api must be one of chat, responses, not 1"),
        ("base_url: example.com\n", "base_url must be an http:// or https:// address"),
        ("base_url: 'http://a b'\n", "base_url must be an http:// or https:// address"),
        ("context_window: many\n", "context_window must be a whole number above 0, not 'many'"),
        ("context_window: true\n", "must be a whole number above 0, not true"),
        ("price_input: -1\n", "price_input must be a number, 0 or more, not -1"),
        ("permissions: [a]\n", "config.yml:1:1: must hold `name: value` lines ($.permissions)"),
        ("permissions: {allow: a}\n", "permissions.allow must be a list of permission rules"),
        ("permissions:\n  deny:\n    - ok\n    - 'ok('\n", "config.yml:4:7: the rule 'ok('"),
        ("permissions: {deny: [1]}\n", "permissions.deny must be a list of permission rules"),
        ("tools: {git: {enabled: 1}}\n", "must be true or false ($.tools.git.enabled)"),
        ("tools: {maxExecutionTime: 0}\n", "tools.maxExecutionTime must be a whole number above 0"),
        ("- a\n", "must hold `name: value` lines"),
        ("model: a\nmodel: b\n", "config.yml:2:1: the key 'model' is there twice"),
        ("projects: []\n", "must hold `name: value` lines ($.projects)"),
        ("model: \"a\\nb\"\n", "model must be text"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["user", "managed", "project"])
def test_a_wrong_value_is_an_error_with_file_line_and_column(places, place, text, words) -> None:
    write(places[place], text)
    if _is_ignored(place, text):
        assert "ignored" in load(places).warnings[0]
        return
    message = error_of(places)
    assert words in message
    assert str(places[place]) in message


def _is_ignored(place: str, text: str) -> bool:
    name = text.split(":")[0]
    if name == "projects":
        return place != "user"
    narrowed = name in KEYS and not KEYS[name].project
    return place == "project" and (narrowed or "{allow" in text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("modell: x\n", "config.yml:1: modell: unknown setting; did you mean model?"),
        ("modle: x\n", "did you mean model?"),
        ("permisions: {allow: [a]}\n", "did you mean permissions?"),
        ("xyzzy: x\n", "config.yml:1: xyzzy: unknown setting"),
        ("permissions: {alow: [a]}\n", "did you mean permissions.allow?"),
        ("tools: {showTokenCost: true}\n", "tools.showTokenCost"),
        ("tools: {maxExecutionTimes: 3}\n", "did you mean tools.maxExecutionTime?"),
        ("tools: {git: false}\n", "`git: {enabled: false}`"),
        ("tools: {git: {enable: false}}\n", "known: enabled"),
        ("auto_approve: ['tool:read']\n", "unknown setting"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_a_warning_with_the_nearest_key(places, text, words) -> None:
    write(places["user"], text)
    (warning,) = load(places).warnings
    assert words in warning


@pytest.mark.parametrize("text", ["", "# nothing\n", "model:\ntools:\npermissions: {}\n"])
def test_empty_values_say_nothing(places, text) -> None:
    write(places["user"], text)
    assert load(places).values == {}


def test_environment_and_flags_are_checked_too(places) -> None:
    assert "environment OPTA_API: api must be" in error_of(places, environ={"OPTA_API": "soap"})
    assert "OPTA_CONTEXT_WINDOW" in error_of(places, environ={"OPTA_CONTEXT_WINDOW": "8k"})
    assert "flag --allow: the rule 'x('" in error_of(places, flags={"permissions.allow": ["x("]})
    assert "flag --auto-approve" in error_of(places, flags={"auto_approve": ["read"]})
    found = load(places, environ={"OPENAI_BASE_URL": "http://a/v1/", "OPTA_CONTEXT_WINDOW": "8000"})
    assert (found.base_url, found.context_window) == ("http://a/v1", 8000)
    both = {"OPENAI_BASE_URL": "http://a/v1", "OPTA_BASE_URL": "http://b/v1", "OPTA_MODEL": ""}
    found = load(places, environ=both)
    assert (found.base_url, found.source("model")) == ("http://b/v1", "default")


def test_a_key_in_the_file_stays_out_of_the_environment_and_of_texts(places) -> None:
    write(places["user"], "api_key: sk-canary\n")
    found = load(places)
    assert found.api_key == "sk-canary"
    assert "sk-canary" not in repr(found)
    assert "sk-canary" not in str(dict(os.environ))
    places["user"].chmod(0o644)
    assert "chmod 600" in load(places).warnings[0]


def test_a_key_in_the_file_is_not_sent_to_an_address_from_elsewhere(places) -> None:
    write(places["user"], "api_key: filed\nbase_url: http://mine.example/v1\n")
    environ = {"OPENAI_API_KEY": "exported"}
    assert load(places, environ=environ).api_key == "filed"
    elsewhere = {"OPENAI_BASE_URL": "http://other.example/v1"}
    assert load(places, environ=elsewhere).api_key == ""
    assert load(places, environ=environ | elsewhere).api_key == "exported"
    assert load(places, environ=environ, flags={"base_url": "http://x/v1"}).api_key == "exported"


def test_a_named_variable_holds_the_key(places) -> None:
    write(places["user"], "api_key_env: ROUTER_KEY\n")
    found = load(places, environ={"ROUTER_KEY": "r", "OPENAI_API_KEY": "o"})
    assert (found.api_key, found.api_key_env) == ("r", "ROUTER_KEY")


def test_files_that_are_none_are_refused_without_waiting(places) -> None:
    places["user"].parent.mkdir(parents=True)
    os.mkfifo(places["user"])
    assert "not a regular file" in error_of(places)
    places["user"].unlink()
    places["user"].mkdir()
    assert "not a regular file" in error_of(places)


def test_project_settings_behind_a_link_are_refused(places, tmp_path) -> None:
    write(tmp_path / "other.yml", "model: x\n")
    places["project"].parent.mkdir()
    places["project"].symlink_to(tmp_path / "other.yml")
    assert "it is a link" in error_of(places)


@pytest.mark.parametrize("data", [b"model: \xe9\n", b"\xff\xfem\0", b"a:\n\t- b\n", b"\x00"])
def test_bytes_that_are_no_settings_are_one_clear_error(places, data) -> None:
    write(places["user"], "")
    places["user"].write_bytes(data)
    message = error_of(places)
    assert "\n" not in message
    assert str(places["user"]) in message


def test_every_key_has_a_place_in_the_documentation() -> None:
    text = settings_table.PAGE.read_text(encoding="utf-8")
    assert settings_table.table() in text, "run `make docs`"


def test_yaml_is_not_imported_while_there_is_no_file(places) -> None:
    code = (
        "import sys; from pathlib import Path; from agent.settings import load_settings\n"
        "flags = {'permissions.allow': ['x']}\n"
        "load_settings(Path(), trusted=None, flags=flags, environ={})\n"
        "heavy = {'yaml', 'ruamel', 'jsonschema_rs', 'httpx2', 'rich', 'tools.registry'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=places["root"], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_verdicts_in_files_are_the_three_of_the_gate() -> None:
    assert {f"permissions.{verdict.value}" for verdict in Verdict} == {
        name for name in KEYS if name.startswith("permissions.") and name != "permissions.default"
    }
    assert set(KEYS["permissions.default"].choices) == {verdict.value for verdict in Verdict}
