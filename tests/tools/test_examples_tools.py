"""The tools of the CYCOD document in all that they promise, run by hand with stubs or a server."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.examples import Examples
from tests.support.tool_files import EXAMPLES, load

TOOLS = "002/tools/"
GIT = r"""
for directory; do :; done
printf '%s|' "$GIT_TERMINAL_PROMPT" >> asked; cat >> asked
case $2 in https:*) code=$HTTPS ;; *) code=$SSH ;; esac
[ "$code" = 0 ] && mkdir -p "$directory/.git"
exit $code
"""
"""A git that clones, or does not, as `$HTTPS` and `$SSH` say; it notes what it could ask."""


@pytest.fixture
def examples(opta, tmp_path):
    return Examples(opta, tmp_path)


def definition(name):
    return load((EXAMPLES / TOOLS / name).read_bytes(), name)[0]


# weather-lookup


@pytest.mark.row("C364")
def test_weather_lookup(examples):
    name = examples.put(TOOLS + "weather-lookup.yaml")
    examples.stub("curl")
    assert examples.run(name, LOCATION="London").out == "curl <-s> <wttr.in/London?format=3>\n"
    refused = examples.run(name, LOCATION="X")
    assert (refused.code, refused.out) == (1, "")
    assert '$.LOCATION: got "X", wanted at least 2 characters' in refused.err
    assert examples.calls == ["curl <-s> <wttr.in/London?format=3>"]
    tool = definition("weather-lookup.yaml")
    assert (tool.limits.timeout_ms, "read" in tool.metadata["tags"]) == (10000, True)


# github-commit-stats

MESSAGES = "it's $(touch canary) `touch canary` \\n \\\\ '; touch canary; '"


def commits(*authors):
    """What the interface of the site answers, longer than one argument of a program can be."""
    return json.dumps(
        [{"commit": {"author": {"name": name}, "message": MESSAGES * 1000}} for name in authors]
    )


@pytest.mark.row("C365")
@pytest.mark.parametrize("form", ["UNPARSEABLE", "repaired"])
def test_commit_stats_count_what_the_site_answers_and_run_none_of_it(examples, form):
    if shutil.which("jq") is None:
        pytest.skip("the example needs jq, which is not installed")
    name = examples.put(TOOLS + f"github-commit-stats.{form}.yaml")
    answer = commits("O'Neil $(touch canary)", "Ada", "Ada")
    assert len(answer) > 128 * 1024
    Path("answer").write_text(answer)
    examples.stub("curl", "cat answer", shown=False)
    ran = examples.run(name, OWNER="o", REPO="r")
    assert ran.code == 0, ran.err
    assert ran.out.endswith("]\nAda: 2 commits\nO'Neil $(touch canary): 1 commits\n")
    url = "https://api.github.com/repos/o/r/commits?per_page=10"
    assert examples.calls == [f"curl <-s> <{url}>"]
    assert not Path("canary").exists()
    refused = examples.run(name, OWNER="a b", REPO="r")
    assert (refused.code, refused.out, len(examples.calls)) == (1, "", 1)


@pytest.mark.row("C366")
def test_commit_stats_count_again_twice_after_a_second_and_two(examples):
    name = examples.put(TOOLS + "github-commit-stats.repaired.yaml")
    examples.stub("curl", "echo []", shown=False)
    examples.stub("jq", "date +%s%N >> times; exit 5")
    ran = examples.run(name, OWNER="o", REPO="r")
    assert (ran.code, "count-authors: exit code: 5; 3 tries" in ran.err) == (5, True)
    first, second, third = (int(line) / 1e9 for line in Path("times").read_text().split())
    assert second - first >= 1
    assert third - second >= 2


@pytest.mark.row("C367")
@pytest.mark.parametrize("token", [None, "hunter2hunter2"])
def test_commit_stats_pass_the_token_of_the_process_on(examples, token):
    name = examples.put(TOOLS + "github-commit-stats.repaired.yaml")
    examples.stub("curl", 'echo "${GITHUB_TOKEN-not set}" > token; exit 1')
    if token:
        os.environ["GITHUB_TOKEN"] = token
    assert "1: fetch-commits" in examples.run(name, "--dry-run", OWNER="o", REPO="r").out
    examples.run(name, OWNER="o", REPO="r")
    assert Path("token").read_text() == f"{token or 'not set'}\n"


# github-repo-clone, and what is built on it


@pytest.fixture
def cloning(examples):
    """Run a tool with a git whose two ways end as said, and npm."""

    def run(name="github-repo-clone", https=0, ssh=0, **arguments):
        os.environ.update(HTTPS=str(https), SSH=str(ssh))
        return examples.run(name, **arguments)

    examples.put(TOOLS + "github-repo-clone.yaml")
    examples.stub("git", GIT)
    examples.stub("npm", "pwd > installed")
    return run


HTTPS = "git <clone> <https://github.com/o/r.git> <r>"
SSH = "git <clone> <git@github.com:o/r.git> <r>"


@pytest.mark.row("C368", "C370")
@pytest.mark.parametrize(
    ("https", "ssh", "calls", "code", "said"),
    [(0, 0, [HTTPS, "npm <install>"], 0, "Successfully cloned o/r"),
     (128, 0, [HTTPS, SSH, "npm <install>"], 0, "Successfully cloned o/r"),
     (128, 128, [HTTPS, SSH], 1, "Failed to clone o/r using both HTTPS and SSH")],
)  # fmt: skip
def test_a_clone_tries_ssh_after_https_and_installs_what_it_got(
    examples, cloning, https, ssh, calls, code, said
):
    ran = cloning(https=https, ssh=ssh, OWNER="o", REPO="r")
    assert (examples.calls, ran.code) == (calls, code)
    assert ran.out.splitlines()[-1] == said
    assert ("try-ssh: skipped" in ran.err) is (https == 0)
    assert ("install-deps: skipped" in ran.err) is (code == 1)
    # Nobody is there to type a password, and git must not wait for one.
    assert Path("asked").read_text() == "0|" * (len(calls) - ("npm <install>" in calls))
    assert Path("r/installed").exists() is (code == 0)


def test_without_npm_the_clone_fails_and_says_so(examples, cloning):
    (Path(os.environ["PATH"].split(os.pathsep)[0]) / "npm").unlink()
    examples.only("sh", "bash", "mkdir", "cat")
    ran = cloning(OWNER="o", REPO="r")
    assert (ran.code, ran.out.splitlines()[-1]) == (1, "npm not found")
    assert "install-deps: not started: check-deps failed" in ran.err


def test_the_programs_it_needs_are_looked_for_while_it_clones(examples, cloning):
    examples.startup.write_text("echo started >> starts\n")
    wait = "until [ $(wc -l < starts) -ge 2 ]; do sleep 0.05; i=$((i+1)); [ $i -lt 400 ] || exit 9"
    examples.stub("git", f"i=0; {wait}; done; {GIT}")
    assert cloning(OWNER="o", REPO="r").code == 0


@pytest.mark.row("C137", "C378")
@pytest.mark.parametrize("file", ["clone-my-repo.yaml", "clone-my-repo.first.yaml"])
def test_an_alias_clones_its_own_repository(examples, cloning, file):
    name = examples.put(TOOLS + file)
    ran = cloning(name)
    url = "https://github.com/my-username/my-project.git"
    assert examples.calls == [
        f"git <clone> <{url}> <./projects/my-project>", "npm <install>"
    ]  # fmt: skip
    assert ran.out.splitlines()[-1] == "Successfully cloned my-username/my-project"
    assert Path("projects/my-project/.git").is_dir()


@pytest.mark.row("C378")
def test_a_caller_of_the_alias_may_say_another_repository(examples, cloning):
    name = examples.put(TOOLS + "clone-my-repo.yaml")
    assert cloning(name, REPO="other").code == 0
    url = "https://github.com/my-username/other.git"
    assert examples.calls[0] == f"git <clone> <{url}> <./projects/other>"


@pytest.mark.row("C141")
def test_an_alias_has_the_steps_rights_time_and_tags_of_its_base(examples, opta):
    base = (EXAMPLES / TOOLS / "github-repo-clone.yaml").read_text()
    opta.put("github-repo-clone.yaml", f"{base}\ntimeout: 700\n", opta.user)
    name = examples.put(TOOLS + "clone-my-repo.yaml")
    shown = opta(f"tool run {name} --dry-run").out
    for step in ("1: try-https", "2: try-ssh", "3: check-deps", "4: install-deps"):
        assert f"# Step {step}" in shown
    assert "needs filesystem:write:./projects/my-project" in shown
    examples.stub("git", "exec sleep 30")
    late = examples.run(name)
    assert late.code == 124
    assert opta("tool list --tag git --format simple").out.split() == [
        "clone-my-repo", "github-repo-clone",
    ]  # fmt: skip


@pytest.mark.row("C141")
@pytest.mark.parametrize("rule", ["github-repo-clone", "tool:write"])
def test_r48_a_rule_against_a_tool_is_one_against_what_is_made_of_it(examples, cloning, opta, rule):
    (opta.user.parent / "config.yml").write_text(f"permissions:\n  deny: ['{rule}']\n")
    text = (EXAMPLES / TOOLS / "setup-project.yaml").read_text()
    opta.put("setup.yaml", text.replace("setup-project", "setup"), opta.user)
    for name in (examples.put(TOOLS + "clone-my-repo.yaml"), "setup"):
        refused = cloning(name)
        assert (refused.code, refused.out, examples.calls) == (1, "", [])
        assert "Not run: denied" in refused.err
        assert f"rule {rule}" in refused.err


@pytest.mark.row("C142")
def test_setup_project_clones_by_another_tool_and_then_installs(examples, cloning, opta):
    name = examples.put(TOOLS + "setup-project.yaml")
    told = opta(f"tool validate {name}").out
    assert "{OWNER} is no parameter of this tool" in told
    assert "{REPO} is no parameter of this tool" in told
    failed = cloning(name, https=128, ssh=128)
    assert failed.code == 1
    assert "install-deps: not started: clone-repo failed" in failed.err
    # The names stay as they stand there, and git is who says that there is no such repository.
    url = "https://github.com/{OWNER}/{REPO}.git"
    assert examples.calls[0] == f"git <clone> <{url}> <{opta.root}>"
    text = (EXAMPLES / TOOLS / "setup-project.yaml").read_text()
    declared = "parameters:\n  OWNER: {type: string, description: o, required: true}\n" \
               "  REPO: {type: string, description: r, required: true}\n"  # fmt: skip
    opta.put("setup-project.yaml", f"{text}\n{declared}", opta.user)
    before = len(examples.calls)
    ran = cloning(name, OWNER="o", REPO="r")
    url = "https://github.com/o/r.git"
    assert (ran.code, examples.calls[before:]) == (
        0, [f"git <clone> <{url}> <{opta.root}>", "npm <install>", "npm <install>"],
    )  # fmt: skip


# search-code and find-files


@pytest.mark.row("C372")
def test_search_code_finds_exactly_the_text(examples):
    name = examples.put(TOOLS + "search-code.yaml")
    Path("a.js").write_text("TODO: x\ntodo: x\nTODO: xy\nTODO x\n")
    assert examples.run(name, PATTERN="TODO: x").out == (
        "./a.js:TODO: x\n./a.js:todo: x\n./a.js:TODO: xy\n"
    )
    options = {"CASE_SENSITIVE": True, "WHOLE_WORD": True}
    assert examples.run(name, PATTERN="TODO: x", **options).out == "./a.js:TODO: x\n"
    examples.stub("grep")
    out = examples.run(name, PATTERN="x").out
    assert out == "grep <-r> <-i> <x> <.> <--include=*.*>\n"
    out = examples.run(name, PATTERN="x", FILE_TYPE="js", **options).out
    assert out == "grep <-r> <-w> <x> <.> <--include=*.js>\n"


@pytest.mark.row("C372")
@pytest.mark.parametrize(
    "pattern", ['"; touch canary; "', "$(touch canary)", "-e x", "`touch canary`"]
)
def test_no_pattern_of_search_code_runs_anything(examples, pattern):
    name = examples.put(TOOLS + "search-code.yaml")
    examples.stub("grep")
    ran = examples.run(name, PATTERN=pattern, DIRECTORY="x;touch canary")
    words = f"grep <-r> <-i> <{pattern}> <x;touch> <canary> <--include=*.*>"
    assert (ran.out, examples.calls) == (f"{words}\n", [words])
    assert not Path("canary").exists()
    flagged = "high risk: {PATTERN} begins with a dash and may be taken for an option"
    assert (flagged in ran.err) is pattern.startswith("-")


@pytest.mark.row("C373")
def test_search_code_stays_below_the_directory(examples):
    name = examples.put(TOOLS + "search-code.yaml")
    examples.stub("grep")
    refused = examples.run(name, PATTERN="x", DIRECTORY="/etc")
    assert (refused.code, refused.out, examples.calls) == (1, "", [])
    assert 'got "/etc"' in refused.err
    assert examples.run(name, PATTERN="x", DIRECTORY="./src").code == 0


@pytest.mark.row("C374")
@pytest.mark.parametrize(("text", "code"), [("function f() {}\n", 0), ("const f = 1\n", 1)])
def test_the_test_of_search_code_passes_where_there_is_something_to_find(
    examples, opta, text, code
):
    name = examples.put(TOOLS + "search-code.yaml")
    opta.put("a.js", text, Path("src"))
    ran = opta(f"tool test {name} --yes")
    assert (ran.code, "test-basic-search" in ran.out) == (code, True)


@pytest.mark.row("C375", "C376")
def test_find_files_hands_its_pattern_over_as_it_is(examples, opta):
    name = examples.put(TOOLS + "find-files.yaml")
    for file in ("a.txt", "sub/b.txt", "c.log"):
        opta.put(Path(file).name, "", Path(file).parent)
    Path("d.txt").mkdir()
    assert sorted(examples.run(name, PATTERN="*.txt").out.split()) == ["./a.txt", "./sub/b.txt"]
    examples.stub("find")
    assert examples.run(name, PATTERN="*.txt").out == "find <.> <-type> <f> <-name> <*.txt>\n"
    refused = examples.run(name, PATTERN="x", DIRECTORY="a|b")
    assert (refused.code, refused.out, len(examples.calls)) == (1, "", 1)
    assert 'got "a|b"' in refused.err
    flagged = examples.run(name, PATTERN="x", DIRECTORY="-delete")
    assert "{DIRECTORY} begins with a dash and may be taken for an option: -delete" in flagged.err


@pytest.mark.row("C377")
def test_the_tests_of_find_files_pass_if_one_of_the_texts_is_there(examples, opta):
    name = examples.put(TOOLS + "find-files.yaml")
    Path("test-data").mkdir()
    ran = opta(f"tool test {name} --yes")
    assert (ran.code, ran.out.count("passed: ")) == (0, 2), ran.out
    text = (opta.user / f"{name}.yaml").read_text()
    opta.put(f"{name}.yaml", text.replace('"find"]', '"Get-Item"]'), opta.user)
    ran = opta(f"tool test {name} --yes")
    assert (ran.code, "failed: test-platform-specific" in ran.out) == (1, True)


# complex-workflow, and the schema of the sample


@pytest.mark.row("C283")
def test_complex_workflow_skips_its_second_step_where_the_first_may_fail(examples, opta):
    name = examples.put(TOOLS + "complex-workflow.yaml")
    examples.stub("command1", "exit 3")
    examples.stub("command2")
    assert "step2: not started: step1 failed" in examples.run(name, PARAM1="a").err
    path = opta.user / f"{name}.yaml"
    first = "    bash: command1 {PARAM1}\n"
    path.write_text(path.read_text().replace(first, f"{first}    continue-on-error: true\n"))
    ran = examples.run(name, PARAM1="a")
    assert (ran.code, ran.out) == (0, "command1 <a>\n")
    assert "step2: skipped: {step1.exit-code} == 0 is false" in ran.err


@pytest.mark.row("C110")
def test_the_schema_of_the_sample_is_what_the_model_sees():
    wanted = json.loads((EXAMPLES / TOOLS / "weather-lookup.expected-schema.json").read_text())
    assert definition("weather-lookup.function-calling.yaml").wire["function"] == wanted
