"""`opta config` in the real program: what counts, where it was said, and how it is changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pexpect
import pytest

from tests.support.cli import OPTA, opta
from tests.support.tool_command import editor
from tools.permissions.trust import inspect
from tools.permissions.trust_store import TrustStore
from tools.storage import config_dir, global_dir, state_dir


def config(*words, **how):
    done = opta("config", *words, **how)
    assert "Traceback" not in done.stderr
    return done


def shown(*keys, flags=(), **how):
    """What `show` tells programs of some settings: key, value, source."""
    done = config("show", *keys, "--format", "json", flags=flags, **how)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return [(entry["key"], entry["value"], entry["source"]) for entry in told["settings"]]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def user_file(text=None):
    path = config_dir() / "config.yml"
    return path if text is None else write(path, text)


PROJECT = Path(".opta/config.yml")


def trust():
    TrustStore(state_dir()).grant(inspect(Path.cwd()))


def test_every_value_says_where_it_is_from_and_what_it_beats():
    write(global_dir() / "config.yml", "enforce: [undo]\nundo: false\nmax_turns: 9\n")
    user_file("# mine\nmodel: a\nundo: true\npermissions:\n  deny: [deploy]\n")
    write(PROJECT, "model: b\npermissions:\n  deny: [publish]\ntools: {git: {enabled: false}}\n")
    trust()
    user, managed = str(user_file()), str(global_dir() / "config.yml")
    environment = {**os.environ, "OPTA_MODEL": "c"}
    assert shown("model", "undo", "max_turns", "mode", "permissions.deny", "tools.git") == [
        ("model", "b", ".opta/config.yml:1"),
        ("undo", False, f"{managed}:2"),
        ("max_turns", 9, f"{managed}:3"),
        ("mode", "ask", "default"),
        ("permissions.deny", "deploy", f"{user}:5"),
        ("permissions.deny", "publish", ".opta/config.yml:3"),
        ("tools.git.enabled", False, ".opta/config.yml:4"),
    ]
    assert shown("model", env=environment) == [("model", "c", "environment OPTA_MODEL")]
    assert shown("model", env=environment, flags=["--model", "d"]) == [
        ("model", "d", "flag --model")
    ]
    told = config("show", "model", env=environment).stdout
    assert told == (
        "model  c  (environment OPTA_MODEL)\n"
        f"       not a  ({user}:2)\n"
        "       not b  (.opta/config.yml:1)\n"
    )
    whole = config("show")
    assert f"{managed}: used\n" in whole.stdout
    assert ".mimir/config.yml: not there\n" in whole.stdout
    assert f"undo is ignored: {managed}:1 enforces it" in whole.stderr


def test_what_an_untrusted_project_says_is_shown_as_not_used():
    write(PROJECT, "model: theirs\nmode: plan\npermissions:\n  deny: [deploy]\n")
    told = config("show", "model", "permissions", "mode")
    counting, unused = told.stdout.split("\n\n")
    assert "theirs" not in counting
    assert unused.splitlines() == [
        "Not used, because this directory is not trusted (opta asks when a chat starts here):",
        "model             theirs  (.opta/config.yml:1)",
        "permissions.deny  deploy  (.opta/config.yml:4)",
    ]
    assert ".opta/config.yml:2: mode: ignored: a project may not set it" in told.stderr
    assert ".opta/config.yml: not used: not trusted\n" in config("show").stdout
    assert shown("model", flags=["--trust"]) == [("model", "theirs", ".opta/config.yml:1")]
    write(PROJECT, "model: [broken\n")
    broken = config("show", "model")
    assert (broken.returncode, broken.stdout) == (0, "model  not set\n")
    assert ".opta/config.yml:1:8:" in broken.stderr


def test_no_secret_is_shown():
    user_file(
        "api_key: canary-key-1234\n"
        "base_url: https://me:canary-pass-1@example.test/v1?token=canary-token-1\n"
        "headers: {Authorization: Bearer canary-header-1, X-From: '${NAME}'}\n"
        "request: {user_token: canary-request-1, temperature: 0.5}\n"
        "mcpServers:\n"
        "  a: {command: b, env: {A: canary-env-1, C: '${D}'}, headers: {X: canary-head-1}}\n"
    )
    for words in (("show",), ("show", "--format", "json"), ("get", "api_key"), ("get", "headers")):
        done = config(*words, env={**os.environ, "OPENAI_API_KEY": "canary-variable-1"})
        assert "canary" not in done.stdout + done.stderr
        assert "[redacted]" in done.stdout
    assert shown("request.temperature", "mcpServers.a.env")[0][1] == 0.5
    assert shown("mcpServers.a.env")[0][1] == {"A": "[redacted]", "C": "${D}"}
    user_file("model: x\n")
    environment = {**os.environ, "OPENAI_API_KEY": "canary-variable-1"}
    assert shown("api_key", env=environment) == [
        ("api_key", "[redacted]", "environment OPENAI_API_KEY")
    ]


def test_get_prints_a_value_alone():
    user_file("model: gpt x\nundo: false\nrequest: {temperature: 0.5}\n")
    assert config("get", "model").stdout == "gpt x\n"
    assert config("get", "undo").stdout == "false\n"
    assert config("get", "request").stdout == '{"temperature": 0.5}\n'
    assert config("get", "request.temperature").stdout == "0.5\n"
    missing = config("get", "max_turns")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr == "opta: max_turns is not set\n"
    unknown = config("get", "tools.maxCustomTool")
    assert unknown.returncode == 2
    assert "Did you mean tools.maxCustomTools?" in unknown.stderr


def test_set_keeps_what_was_written_by_hand_and_unset_takes_it_back():
    before = "# mine\nmodel: a  # cheap\ntools:\n  # noisy\n  git: {enabled: false}\n"
    user_file(before)
    assert config("set", "model", "b").stdout.startswith("Saved model in ")
    assert config("set", "permissions.deny", "run_command(git push:*)", "deploy").returncode == 0
    assert config("set", "tools.maxCustomTools", "20").returncode == 0
    assert config("set", "request.temperature", "0.5").returncode == 0
    assert user_file().read_text() == (
        "# mine\nmodel: b  # cheap\ntools:\n  # noisy\n  git: {enabled: false}\n"
        "  maxCustomTools: 20\n"
        "permissions:\n  deny:\n    - run_command(git push:*)\n    - deploy\n"
        "request:\n  temperature: 0.5\n"
    )
    for key in ("permissions.deny", "request.temperature", "tools.maxCustomTools"):
        assert config("unset", key).returncode == 0
    assert config("set", "model", "a").returncode == 0
    assert user_file().read_text() == before
    again = config("unset", "mode")
    assert again.returncode == 1
    assert "mode is not set in" in again.stderr


def test_a_file_whose_last_setting_is_removed_keeps_its_comments_and_begins_anew():
    user_file("# mine\nmodel: a\n# more\n")
    assert config("unset", "model").returncode == 0
    assert user_file().read_text() == "# mine\n# more\n"
    user_file("{}\n")
    assert config("set", "permissions.deny", "deploy").returncode == 0
    assert user_file().read_text() == "permissions:\n  deny:\n    - deploy\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("modle", "x"), "modle is not a setting. Did you mean model?"),
        (("mode", "plann"), "must be one of ask, accept-edits, auto-sandbox, plan, not 'plann'"),
        (("max_turns", "0"), "must be a whole number above 0, not 0"),
        (("permissions.deny", "run_command("), "has no closing parenthesis"),
        (("model", "a", "b"), "model takes one value, not 2"),
        (("tools.git", "false"), "tools.git is not a setting. `opta config show` lists"),
        (("skip_permissions", "true"), "give --dangerously-skip-permissions each time"),
        (("enforce", "mode"), "only the managed file"),
        (("mode", "plan", "--scope", "project"), "a project may not set mode: use --scope user"),
    ],
)
def test_what_cannot_be_set_is_refused_before_anything_is_written(words, said):
    user_file("# mine\n")
    done = config("set", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert user_file().read_text() == "# mine\n"
    assert not PROJECT.exists()


def test_set_says_what_keeps_the_value_from_counting():
    done = config("set", "model", "a", env={**os.environ, "OPTA_MODEL": "b"})
    assert done.stderr == "opta: it does not count here: environment OPTA_MODEL says b\n"
    assert config("set", "model", "a").stderr == ""
    assert config("set", "stop_hook_command", "true", "done").stderr == "", "hooks add up"
    assert config("set", "max_turns", "3", "--scope", "project").stderr == (
        "opta: it is not used yet: opta asks for trust in it at the next start here\n"
    )
    trust()
    assert config("set", "model", "ours", "--scope", "project").stderr == ""
    assert shown("model") == [("model", "ours", ".opta/config.yml:2")], "the trust was kept"


def test_a_file_that_is_a_link_counts_and_is_left_to_the_person(tmp_path):
    real = write(tmp_path / "dotfiles.yml", "model: a\n")
    user_file("")
    user_file().unlink()
    user_file().symlink_to(real)
    assert shown("model")[0][1] == "a"
    for words in (("set", "model", "b"), ("unset", "model"), ("edit",)):
        done = config(*words)
        assert done.returncode == 1
        assert f"is a link, and opta writes through none. Change {real} itself." in done.stderr
    assert real.read_text() == "model: a\n"


def test_a_setting_of_a_broken_file_is_left_to_the_person():
    user_file("model: [a\n")
    done = config("set", "mode", "plan")
    assert done.returncode == 1
    assert f"{user_file()}:1:8:" in done.stderr
    assert user_file().read_text() == "model: [a\n"


def test_a_wrong_value_can_be_put_right_with_set():
    user_file("mode: plann\n")
    assert config("show").returncode == 2
    assert config("set", "mode", "plan").returncode == 0
    assert shown("mode")[0][1] == "plan"


def test_edit_writes_what_is_right_and_warns(tmp_path):
    user_file("model: a\n")
    editor(tmp_path, 'echo "modle: b" >> "$1"')
    done = config("edit")
    assert done.returncode == 0
    assert "modle: unknown setting; did you mean model?" in done.stderr
    assert user_file().read_text() == "model: a\nmodle: b\n"
    editor(tmp_path, "true")
    assert config("edit").stdout == "Nothing was changed.\n"


def test_edit_leaves_the_file_where_there_is_a_mistake_and_keeps_the_text(tmp_path):
    user_file("model: a\n")
    editor(tmp_path, 'echo "mode: plann" >> "$1"')
    done = config("edit")
    assert done.returncode == 2
    place, kept = done.stderr.splitlines()
    assert f"{user_file()}:2:1: mode must be one of" in place
    assert user_file().read_text() == "model: a\n"
    text = Path(kept.partition("Your text is kept in ")[2].rstrip(".")).read_text()
    assert text == "model: a\nmode: plann\n"


def test_edit_offers_to_go_on_and_mends(tmp_path):
    write(PROJECT, "model: a\n")
    trust()
    editor(tmp_path, 'grep -q plann "$1" && sed -i s/plann:/model:/ "$1" || echo "plann: [" > "$1"')
    child = pexpect.spawn(
        OPTA[0], [*OPTA[1:], "config", "edit", "--scope", "project"], timeout=30, encoding="utf-8"
    )
    child.expect(r"config.yml:2:1: .*Edit it again\? \[y/N\]")
    editor(tmp_path, 'echo "model: b" > "$1"')
    child.sendline("y")
    child.expect("Saved .opta/config.yml")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert PROJECT.read_text() == "model: b\n"
    assert shown("model") == [("model", "b", ".opta/config.yml:1")], "the trust was kept"


def test_edit_writes_nothing_over_a_change_of_somebody_else(tmp_path):
    path = user_file("model: a\n")
    editor(tmp_path, f'echo "model: b" > "$1"; echo "model: c" > {path}')
    done = config("edit")
    assert done.returncode == 2
    assert "was changed by something else meanwhile" in done.stderr
    assert path.read_text() == "model: c\n"
