"""The tables of docs/coming-from.md: each row is a difference, and each is held by a test here."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cli import opta as program
from tests.support.code_tools import code_tool
from tests.support.model_server import ModelServer, call, say
from tests.support.tool_command import editor
from tests.support.tool_files import EXAMPLES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "coming-from.md").read_text()
CHECKS: dict[str, Callable] = {}
"""The tests of rows, by what the row says first."""


def row(title):
    def add(function):
        CHECKS[title] = function
        return function

    return add


def rows(heading):
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (?!where|there|---)(.*?) \|", section, re.MULTILINE)


def put(opta, text, name="t"):
    opta.put(f"{name}.yaml", f"description: d\n{text}\n", opta.user)


P = "parameters: {P: {description: p, required: true%s}}"


def test_every_row_has_a_test():
    assert sorted(CHECKS) == sorted([*rows("CYCOD"), *rows("Mimir")])


@pytest.mark.parametrize("title", rows("CYCOD") + rows("Mimir"))
def test_a_row_is_true(title, opta):
    CHECKS[title](opta)


@row("a value in a command")
def data_everywhere(opta):
    put(opta, "bash: |\n  printf '<%s>' {P} \"{P}\" '{P}' $(echo \"{P}\")\n" + P % "")
    ran = opta("tool run t", "--param", "P=a $(id);b")
    assert ran.out == "<a><$(id);b><a $(id);b><a $(id);b><a><$(id);b>"


@row("`escape-shell: true`")
def one_word(opta):
    put(opta, "bash: printf '<%s>' {P}\n" + P % ", security: {escape-shell: true}")
    assert opta("tool run t", "--param", "P=a b").out == "<a b>"


@row("`escape-shell: false`")
def pasted(opta):
    put(opta, "bash: printf '<%s>' {P}\n" + P % ", security: {escape-shell: false}")
    ran = opta("tool run t", "--param", "P=a; echo b")
    assert (ran.out, "high risk: {P} is pasted" in ran.err) == ("<a>b\n", True)


@row("an undeclared `{NAME}` in a command")
def undeclared(opta):
    put(opta, "bash: touch here; rm -rf {TEMP_DIR}/x")
    ran = opta("tool run t")
    assert (ran.code, "{TEMP_DIR} is neither a parameter" in ran.err) == (1, True)
    assert not Path("here").exists()


@row("an undeclared `{NAME}` in `environment.variables`")
def from_the_environment(opta):
    put(opta, 'bash: echo "${KEY-not set}"\nenvironment: {variables: {KEY: "{MY_KEY}"}}')
    assert opta("tool run t").out == "not set\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_KEY", "value")
        assert opta("tool run t").out == "value\n"


@row("a parameter without value")
def no_value(opta):
    put(opta, "bash: printf '<%s>' a {P} \"{P}\"\nparameters: {P: {description: p}}")
    assert opta("tool run t").out == "<a><>"


@row("`required: true` beside a `default`")
def default_satisfies(opta):
    put(opta, "bash: echo {P}\n" + P % ", default: x")
    assert opta("tool run t").out == "x\n"


STEPS = "steps:\n  - {name: a, bash: exit 3%s}\n  - {name: b, bash: echo b}\n"


@row("a failed step")
def a_failed_step(opta):
    put(opta, STEPS % "" + "resources: {cleanup: [{final-command: touch cleaned}]}")
    ran = opta("tool run t")
    assert (ran.code, ran.out, Path("cleaned").exists()) == (3, "", True)
    put(opta, STEPS % ", continue-on-error: true", "u")
    assert opta("tool run u").out == "b\n"


@row("a skipped step")
def a_skipped_step(opta):
    put(
        opta,
        """\
steps:
  - {name: a, bash: echo a, run-condition: "1 == 2"}
  - {name: b, bash: 'echo "<{a.output}>"', run-condition: "{a.exit-code} != 0"}
  - {name: c, bash: echo c, run-condition: "{a.exit-code} == 0"}""",
    )
    assert opta("tool run t").out == "<>\n"


@row("a step that refers to a later one")
def a_later_step(opta):
    put(opta, "steps:\n  - {name: a, bash: 'echo {b.output}!'}\n  - {name: b, bash: echo b}")
    assert "b!" in opta("tool run t").out


@row("`parallel: true`")
def parallel(opta):
    put(
        opta,
        """\
steps:
  - {name: a, bash: 'until [ -e started ]; do sleep 0.01; done', timeout: 20000}
  - {name: b, bash: touch started, parallel: true}""",
    )
    assert opta("tool run t").code == 0


@row("`retry: {attempts: 3, delay: 1000}`")
def further_runs(opta):
    retry = "error-handling: {retry: {attempts: 3, delay: 20}}"
    put(opta, f"steps:\n  - {{name: a, bash: echo x >> runs; exit 1, {retry}}}")
    assert opta("tool run t").code == 1
    assert Path("runs").read_text() == "x\n" * 4


@row("`timeout` of a tool")
def timeout(opta):
    retry = "continue-on-error: true, error-handling: {retry: {attempts: 9, delay: 60000}}"
    put(
        opta,
        f"timeout: 300\nsteps:\n  - {{name: a, bash: exit 1, {retry}}}\n"
        "  - {name: b, bash: sleep 60}",
    )
    assert opta("tool run t").code == 124


@row("a command that needed quotes in YAML")
def unquoted(opta):
    put(opta, 'bash: echo "Authorization: x"')
    assert opta("tool run t").out == "Authorization: x\n"
    said = opta("tool validate t")
    assert (said.code, "is not YAML as written" in said.out) == (1, True)
    assert opta("tool validate t --fix").code == 0
    assert "bash: |-\n  echo" in (opta.user / "t.yaml").read_text()


@row("a key that is there twice")
def twice(opta):
    put(opta, "bash: echo 1\nbash: echo 2")
    assert opta("tool run t").out == "2\n"
    assert "is there twice" in opta("tool validate t").out


@row("`tags: [read]`")
def read_asks(opta):
    put(opta, "bash: echo found\ntags: [read]")
    for flags, found in (((), "Permission denied"), (("--auto-approve", "tool:read"), "found")):
        with ModelServer([call("t"), say("ok")]) as server:
            program("-p", "go", server=server, flags=flags)
            (result,) = server.results
        assert result.startswith(found)


@row("no tag of `read`, `write`, `run`")
def no_tag(opta):
    put(opta, "bash: x\ntags: [search]")
    assert json.loads(opta("tool get t --format json --detail").out)["risk"] == "high"


@row("`required-permissions`")
def permissions(opta):
    put(opta, 'bash: echo a\nsecurity: {required-permissions: ["network:api.github.com"]}')
    said = "declares that it needs network:api.github.com (not enforced)"
    assert said in opta("tool run t --dry-run").out


@row("`isolation: none`")
def isolation_none(opta):
    put(opta, "bash: echo a\nsecurity: {isolation: none}")
    ran = opta("tool run t --dry-run")
    assert "isolation: none is the same as process" in ran.out


@row("`isolation: container`, `execution-privilege: reduced`")
def refused(opta):
    put(opta, "bash: touch here\nsecurity: {isolation: container}")
    assert "which this machine cannot do" in opta("tool run t").err
    put(opta, "bash: touch here\nsecurity: {execution-privilege: reduced}")
    assert opta("tool run t").code != 0
    assert not Path("here").exists()


@row("`execution-privilege: elevated`")
def elevated(opta):
    put(opta, "bash: touch here\nsecurity: {execution-privilege: elevated}")
    refused = opta("tool run t")
    assert refused.code != 0
    assert "it asks first, and nobody can be asked here" in refused.err
    assert not Path("here").exists()


@row("`isolation: sandbox`")
def sandboxed(opta):
    outside = Path("..").resolve() / "outside"
    put(opta, f"bash: echo ran; touch {outside}\nsecurity: {{isolation: sandbox}}")
    ran = opta("tool run t")
    assert (ran.out == "ran\n") is not ("which this machine cannot do" in ran.err)
    assert not outside.exists()


@row("`script` with `shell: python3` and the like")
def scripts(opta):
    put(opta, "shell: python3\nscript: print('{P}')\n" + P % "")
    assert "read OPTA_TOOL_ARG_<NAME> from the environment" in opta("tool validate t").out
    text = "shell: python3\nscript: |\n  import os; print(os.environ['OPTA_TOOL_ARG_P'])\n"
    put(opta, text + P % "")
    assert opta("tool run t", "--param", "P=');x('").out == "');x('\n"


@row("`pattern`")
def patterns(opta):
    put(opta, "bash: echo {P}\n" + P % ", validation: {pattern: '^[a-z]+$'}")
    assert opta("tool run t", "--param", "P=a\n").code == 1
    put(opta, "bash: echo {P}\n" + P % ", validation: {pattern: '^(a+)+$'}")
    assert opta("tool run t", "--param", f"P={'a' * 200}b").code == 1


@row("`output-contains` in a test")
def both_streams(opta):
    test = "tests: [{name: a, expected: {output-contains: told}}]"
    put(opta, f"bash: echo told >&2\n{test}")
    assert opta("tool test t --yes").code == 0


@row("`min-cycod-version`")
def level(opta):
    put(opta, 'bash: echo a\nmin-cycod-version: "1.0.0"')
    assert opta("tool run t").out == "a\n"
    put(opta, 'bash: echo a\nmin-cycod-version: "99.0.0"')
    assert "at least 99.0.0; this opta covers CYCOD" in opta("tool validate t").out


def mimir(opta, more=""):
    text = (EXAMPLES / "004" / "run_tests.yml").read_text()
    opta.put("run_tests.yml", text + more, opta.root / ".mimir" / "tools")


@row("a tool with `code`")
def code(opta):
    mimir(opta)
    shown = opta("tool run run_tests --param pattern=x --trust --dry-run").out
    assert "runs its program (.mimir/tools/run_tests.yml:29) with deno" in shown


def run_program(opta, code, **permissions):
    """Run a program of the user's own, which asks for nothing that has to be asked about."""
    permissions = {"autoAccept": True, **permissions}
    text = code_tool("t", code=f"export async function execute(args, {{ platform }}) {{ {code} }}")
    opta.put("t.yml", json.dumps({**json.loads(text), "permissions": permissions}), opta.user)
    return opta("tool run t")


@row("`permissions.allowlist`")
def allowlist(opta):
    for command, allowed in (("echo a", True), ("echo a; ls", False), ("ls", False)):
        code = f"return (await platform.executor.execute({command!r})).stdout;"
        ran = run_program(opta, code, allowlist=["echo*"])
        assert (ran.out.strip() == "a") is allowed
        assert ("may not run `ls`" in ran.err + ran.out) is not allowed


@row("`platform.fs`, `platform.executor`")
def asked_for(opta):
    (opta.root / "a.txt").write_text("there")
    code = "return await platform.fs.readFile('a.txt');"
    assert run_program(opta, code).out.strip() == "there"
    opta("permissions add deny read_file(a.txt)")
    denied = run_program(opta, code)
    assert "read_file(a.txt)" in denied.out + denied.err
    assert denied.code != 0


@row("what a program prints")
def printed(opta):
    ran = run_program(opta, "console.log('[INFO] so far'); return 'result';")
    assert (ran.code, ran.out) == (0, "result\n")


@row("what a program throws")
def thrown(opta):
    ran = run_program(opta, "throw new Error('no');")
    assert ran.code == 1
    assert "Error: no" in ran.out + ran.err


@row("`tokenCost`")
def declared_cost(opta):
    mimir(opta)
    assert re.search(r"run_tests .*~\d+ tokens \(declared 450\)", opta("tools --trust").out)


@row("`autoAccept`")
def auto_accept(opta):
    for directory, level, runs in (
        (opta.user, "high", True), (opta.user, "critical", False), (opta.local, "high", False),
    ):  # fmt: skip
        permissions = {"autoAccept": True, "riskLevel": level}
        file = opta.put("t.yml", code_tool("t", permissions=permissions), directory)
        with ModelServer([call("t"), say("done")]) as server:
            program("-p", "go", "--trust", server=server)
            assert ("it ran" in server.sent_messages[-1]["content"]) is runs
        file.unlink()


@row("`riskLevel`")
def risk_level(opta):
    text = (EXAMPLES / "004" / "run_tests.yml").read_text()
    for level, risk in (("low", "high"), ("critical", "critical")):
        changed = re.sub(r"riskLevel: \w+", f"riskLevel: {level}", text)
        assert changed.count(f"riskLevel: {level}") == 1
        opta.put("run_tests.yml", changed, opta.root / ".mimir" / "tools")
        shown = json.loads(opta("tool get run_tests --trust --format json --detail").out)
        assert shown["risk"] == risk


@row("`.mimir/config.yml`")
def config(opta):
    (opta.root / ".mimir").mkdir()
    (opta.root / ".mimir" / "config.yml").write_text("tools: {git: {enabled: false}}\n")
    assert "✗ git " in opta("tools --trust").out
    (opta.root / ".opta").mkdir()
    (opta.root / ".opta" / "config.yml").write_text("tools: {git: {enabled: true}}\n")
    assert "✓ git " in opta("tools --trust").out


def test_files_of_other_programs_are_found_and_never_written(opta):
    text = "description: d\nbash: echo there\n"
    path = opta.put("t.yaml", text, opta.root / ".cycod" / "tools")
    assert opta("tool run t --trust").out == "there\n"
    assert "belongs to another program" in opta("tool remove t --trust --force").err
    editor(opta.root, f'touch "{opta.root}/opened"; echo "# more" >> "$1"')
    edited = opta("tool edit t --trust")
    assert edited.code == 1
    assert ".cycod/tools/t.yaml belongs to another program" in edited.err
    assert not (opta.root / "opened").exists()
    assert path.read_text() == text
    opta.local.mkdir(parents=True)
    shutil.copy(path, opta.local)
    (opta.local / "t.yaml").write_text("description: d\nbash: echo here\n")
    assert opta("tool run t --trust").out == "here\n"


@pytest.mark.parametrize("directory", [".cycod/tools", ".mimir/tools"])
def test_files_of_other_programs_in_the_home_are_found(opta, directory):
    opta.put("t.yaml", "description: d\nbash: echo home\n", Path.home() / directory)
    assert opta("tool run t").out == "home\n"
