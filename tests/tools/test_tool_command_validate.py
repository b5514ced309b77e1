"""`opta tool validate`: everything that is wrong, with its place, and what can be repaired."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples" / "002" / "tools"


@pytest.mark.row("C221", "C224", "C223")
@pytest.mark.parametrize("scope", ["", "-a", "--scope any", "--scope user", "-u"])
def test_a_valid_tool_is_one_line(opta, scope):
    opta.put("t.yaml", "name: t\ndescription: D\nbash: echo a\n", opta.user)
    ran = opta(f"tool validate t {scope}")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("t: valid (")
    assert len(ran.out.splitlines()) == 1


@pytest.mark.row("C224")
def test_all_that_is_wrong_is_told_at_once_with_its_place(opta):
    opta.put(
        "t.yaml",
        """\
name: t
descripton: D
bash: echo {X}
run: echo
parameters:
  P:
    type: text
    description: What
""",
    )
    ran = opta("tool validate t")
    assert ran.code == 1
    lines = ran.out.splitlines()
    assert [line.split(": ")[:3] for line in lines] == [
        ["error", ".opta/tools/t.yaml:1:1", "$.description"],
        ["warning", ".opta/tools/t.yaml:2:1", "$.descripton"],
        ["warning", ".opta/tools/t.yaml:3:1", "$.bash"],
        ["error", ".opta/tools/t.yaml:4:1", "$.run"],
        ["warning", ".opta/tools/t.yaml:6:3", "$.parameters.P"],
        ["error", ".opta/tools/t.yaml:7:5", "$.parameters.P.type"],
    ]
    assert "did you mean description?" in ran.out


@pytest.mark.row("C361")
def test_detailed_shows_the_lines_and_what_was_understood(opta):
    opta.put("t.yaml", "name: t\ndescription: D\nbash: echo {X}\ntests:\n  - name: one\n")
    ran = opta("tool validate t --detailed")
    assert ran.code == 0
    assert "    3 | bash: echo {X}\n" in ran.out
    assert "  tests: one\n" in ran.out
    assert "risk: high" in ran.out


@pytest.mark.row("C222", "C223")
def test_fix_writes_blocks_and_shows_the_diff(opta):
    opta("tool import", str(EXAMPLES / "github-commit-stats.UNPARSEABLE.yaml"))
    path = opta.local / "github-commit-stats.yaml"
    before = path.read_text()
    ran = opta("tool validate github-commit-stats")
    assert ran.code == 1
    assert "validate --fix" in ran.out
    assert path.read_text() == before
    ran = opta("tool validate github-commit-stats --fix")
    assert ran.code == 0
    assert "\n+    bash: |-\n" in ran.out
    assert ran.out.count("\n-    bash:") == 2
    fixed = EXAMPLES / "github-commit-stats.repaired.yaml"
    opta("tool import", str(fixed), "-u", "--override")
    assert opta.written("github-commit-stats") == opta.written("github-commit-stats", opta.user)
    assert opta("tool validate github-commit-stats --fix").out.count("Fixed") == 0


def test_fix_leaves_files_of_other_programs_as_they_are_and_mends_the_others(opta):
    text = 'name: {}\ndescription: D\nbash: curl -H "A: b" {}\n'
    theirs = opta.put("t.yaml", text.format("t", "x"), opta.root / ".cycod" / "tools")
    mine = opta.put("u.yaml", text.format("u", "x"))
    ran = opta("tool validate --all --fix")
    assert theirs.read_text() == text.format("t", "x")
    assert "bash: |-\n" in mine.read_text()
    assert ".cycod/tools/t.yaml is in none of opta's own directories and stays as it is" in ran.err
    assert "2 checked, 1 with errors." in ran.out
    assert "validate --fix" not in ran.out


def test_the_reference_block_is_reported_and_nothing_breaks(opta):
    ran = opta("tool validate", str(EXAMPLES / "schema-reference.yaml"), "--format", "json")
    assert ran.code == 1
    (report,) = json.loads(ran.out)
    assert report["valid"] is False
    told = [problem["message"] for problem in report["problems"]]
    assert len([p for p in report["problems"] if p["severity"] == "error"]) >= 3
    assert any("twice" in message for message in told)
    assert all(problem["line"] >= 1 for problem in report["problems"])


def test_aliases_and_steps_need_the_tools_they_name(opta):
    opta.put("a.yaml", "name: a\ndescription: D\ntype: alias\nbase-tool: git-clone\n")
    opta.put("b.yaml", "name: b\ndescription: D\ntype: alias\nbase-tool: c\n")
    opta.put("c.yaml", "name: c\ndescription: D\ntype: alias\nbase-tool: b\n")
    opta.put("d.yaml", "name: d\ndescription: D\nsteps:\n  - name: s\n    use-tool: aa\n")
    assert "a.yaml:4:1: $.base-tool: base tool git-clone not found" in opta("tool validate a").out
    assert "in a ring: b -> c -> b" in opta("tool validate b").out
    assert "$.steps[0].use-tool: there is no tool aa (did you mean a?)" in (
        opta("tool validate d").out
    )


def test_tools_that_use_each_other_are_told_with_the_whole_ring(opta):
    use = "name: {}\ndescription: D\nsteps:\n  - {{name: s, use-tool: {}}}\n"
    for name, used in (("a", "b"), ("b", "c"), ("self", "self"), ("outside", "a")):
        opta.put(f"{name}.yaml", use.format(name, used))
    opta.put("c.yaml", "name: c\ndescription: D\ntype: alias\nbase-tool: a\n")
    message = "$.steps[0].use-tool: these tools use each other: "
    assert f"{message}a -> b -> c -> a" in opta("tool validate a").out
    assert f"{message}self -> self" in opta("tool validate self").out
    assert "$.base-tool: these tools use each other: c -> a -> b -> c" in (
        opta("tool validate c").out
    )
    assert opta("tool validate outside").code == 0


HAZARDS = [
    ("bash: python3 -c \"print('{P}')\"", "3:26: $.bash", "read as code by python", "an argument"),
    ("bash: |\n  echo a\n  awk '/{P}/' f", "5:9: $.bash", "read as code by awk", "an argument"),
    ("bash: sh -c \"echo {P}\"", "3:19: $.bash", "read as code by sh", "an argument"),
    ("bash: ssh host \"ls {P}\"", "3:20: $.bash", "read as code by ssh", "an argument"),
    ("bash: eval \"{P}\"", "3:13: $.bash", "read as code by eval", "an argument"),
    ("bash: jq \".{P}\" f", "3:12: $.bash", "read as code by jq", "an argument"),
    ("run: perl -e {P}", "3:14: $.run", "read as code by perl", "an argument"),
    ("pwsh: Invoke-Expression {P}", "3:25: $.pwsh", "read as code by invoke-expression", "an arg"),
    ("cmd: powershell -Command {P}", "3:26: $.cmd", "read as code by powershell", "an argument"),
    ("bash: grep {P} f", "3:12: $.bash", "option where it begins with a dash", "write -- before"),
    ("bash: grep -e {P} f", "3:15: $.bash", "with a dash", "write -- before"),
    ("run: grep --include -e {P} f", "3:24: $.run", "with a dash", "write -- before"),
    ("run: grep -e -e {P} f", "3:17: $.run", "with a dash", "write -- before"),
    ("bash: git log --grep={P}", "3:22: $.bash", "several words, and one", "put it in quotes"),
    ("run: git log {P}", "3:14: $.run", "option where it begins with a dash", "write -- before"),
    ("bash: sudo {P} x", "3:12: $.bash", "names the program", "write the program's name"),
    ("steps:\n  - name: a\n    bash: x\n  - name: b\n    bash: grep -- {P}; git show {P}",
     "7:33: $.steps[1].bash", "begins with a dash", "write -- before"),
    ("commands: {default: 'grep {P} f'}", "3:27: $.commands.default", "with a dash", "write -- "),
]  # fmt: skip


@pytest.mark.row("C306")
@pytest.mark.parametrize(("command", "place", "said", "advice"), HAZARDS)
def test_values_that_may_do_harm_are_a_warning_at_their_place(opta, command, place, said, advice):
    declared = "{P: {type: string, description: What, required: true}}"
    opta.put("t.yaml", f"name: t\ndescription: D\n{command}\nparameters: {declared}\n")
    ran = opta("tool validate t")
    assert ran.code == 0
    (warning,) = (line for line in ran.out.splitlines() if f"{place}: high risk: {{P}} " in line)
    assert warning.startswith("warning: .opta/tools/t.yaml:")
    assert said in warning
    assert advice in warning.rpartition("(")[2]


JSON_TOOL = """\
{
  "name": "t", "description": "d",
  "parameters": {"type": "object", "properties": {
    "p": {"type": "string"}, "kind": {"type": "string", "enum": ["a", "b"]}, "n": {"type": "number"}
  }},
  "command": %s
}
"""


@pytest.mark.parametrize(
    ("command", "warning"),
    [
        ("echo; ls $OPTA_TOOL_ARG_P", "6:24: $.command: $OPTA_TOOL_ARG_P is not in quotes"),
        ("ls ${OPTA_TOOL_ARG_P}", "6:18: $.command: $OPTA_TOOL_ARG_P is not in quotes"),
        ('eval "$OPTA_TOOL_ARG_P"', "high risk: $OPTA_TOOL_ARG_P is read as code by eval"),
        ('rm -- "$OPTA_TOOL_ARG_P"; sh -c "$OPTA_TOOL_ARG_P"', "is read as code by sh"),
        ('ls "$OPTA_TOOL_ARG_P"', "high risk: $OPTA_TOOL_ARG_P may be taken for an option"),
        ('ls -- "$OPTA_TOOL_ARG_P"', ""),
        ("ls $OPTA_TOOL_ARG_KIND $OPTA_TOOL_ARG_N; x=$OPTA_TOOL_ARG_P", ""),
        ("cat <<E\\n$OPTA_TOOL_ARG_P\\nE", ""),
        ("sh -c 'echo \"$OPTA_TOOL_ARG_P\"'", ""),
        ("awk '{print $1}'; echo '$OPTA_TOOL_ARG_P'", ""),
    ],
)  # fmt: skip
def test_variables_of_a_json_tool_that_are_not_in_quotes_or_do_harm(opta, command, warning):
    opta.put("t.json", JSON_TOOL % json.dumps(command.replace("\\n", "\n")))
    ran = opta("tool validate t")
    assert ran.code == 0, ran.out
    assert warning in ran.out
    assert ran.out.startswith("t: valid (") is (warning == "")


def test_a_raw_value_is_a_warning_at_its_place(opta):
    opta.put(
        "t.yaml",
        "name: t\ndescription: D\nbash: ls {P}\n"
        "parameters: {P: {description: d, required: true, security: {escape-shell: false}}}\n",
    )
    said = "t.yaml:3:10: $.bash: high risk: {P} is pasted into the script as it is"
    assert said in opta("tool validate t").out


@pytest.mark.parametrize(
    ("command", "declared"),
    [
        ('bash: python3 -c "print({P})"', "type: number"),
        ('bash: python3 -c "print({P})"', "type: boolean"),
        ('bash: sh -c "systemctl {P} x"', "validation: {enum: [start, stop]}"),
        ("bash: awk '/{P}/' f", "validation: {pattern: '^[a-z]{1,9}(?:\\d|_)+$'}"),
        ("bash: grep {P} f", "validation: {pattern: '^[^-]'}"),
        ("bash: grep {P} f", "format: '--regexp={value}'"),
        ("bash: head -n {P} f", "type: number"),
        ('bash: \'git log --grep="{P}"; git log "--grep={P}"\'', "type: string"),
        ("bash: grep -- {P} f", "type: string"),
        ('bash: grep -rn -e a -e "{P}" f', "type: string"),
        ("run: egrep --regexp {P} f", "type: string"),
        ("bash: printf '%s' {P}; [ {P} = a ]; for x in {P}; do echo {P}; done", "type: string"),
    ],
)
def test_values_that_cannot_do_harm_are_no_warning(opta, command, declared):
    parameter = f"{{P: {{description: What, required: true, {declared}}}}}"
    opta.put("t.yaml", f"name: t\ndescription: D\n{command}\nparameters: {parameter}\n")
    assert opta("tool validate t").out.startswith("t: valid (")


@pytest.mark.parametrize(
    "pattern",
    ["^[a-z]+", "[a-z]+$", "^a|b$", "^.*$", "^[^a]$", r"^\\s$", "^[a-z;]$", "^a$|^.*$", r"^a\\$"],
)
def test_a_pattern_that_admits_more_is_no_protection(opta, pattern):
    declared = f"{{P: {{description: p, required: true, validation: {{pattern: '{pattern}'}}}}}}"
    opta.put("t.yaml", f"name: t\ndescription: D\nbash: eval {{P}}\nparameters: {declared}\n")
    assert "high risk: {P} is read as code by eval" in opta("tool validate t").out


def test_all_checks_every_file_and_sums_up(opta):
    opta.put("good.yaml", "name: good\ndescription: D\nbash: a\n")
    opta.put("bad.yaml", "name: bad\n")
    opta.put("worse.yaml", "name: [\n", opta.user)
    ran = opta("tool validate --all")
    assert ran.code == 1
    assert ran.out.endswith("3 checked, 2 with errors.\n")
    assert [r["valid"] for r in json.loads(opta("tool validate --all --format json").out)] == [
        False, True, False,
    ]  # fmt: skip
    assert opta("tool validate --all good").code == 2
    assert opta("tool validate").code == 2


BAD_INPUT = {
    "empty": b"", "latin": "name: t\u00e9".encode("latin-1"), "tabs": b"name: t\n\tbash: a\n",
    "deep": b"a: " + b"[" * 10_000, "bomb": b"a: &a [x]\nb: &b [" + b"*a," * 99_999 + b"]\n",
    "nul": b"name: t\0", "list": b"- a\n", "scalar": b"text", "utf16": "name: t".encode("utf-16"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_INPUT)
@pytest.mark.parametrize(
    "line", ["validate t --fix", "list", "get t", "export t --format json", "edit t", "test t"]
)
def test_bad_files_give_one_message_and_stay_as_they_are(opta, name, line):
    os.environ["EDITOR"] = "true"
    opta.local.mkdir(parents=True)
    path = opta.local / "t.yaml"
    path.write_bytes(BAD_INPUT[name])
    ran = opta(f"tool {line}")
    assert ran.code in (0, 1)
    assert "Traceback" not in ran.err
    assert "t.yaml" in ran.out + ran.err or line in ("list", "edit t")
    assert path.read_bytes() == BAD_INPUT[name]


def test_names_that_the_api_cannot_tell_apart_are_errors_of_list_and_validate(opta):
    for name in ("a.b", "a_b", "read_file"):
        opta.put(f"{name}.yaml", f"name: {name}\ndescription: d\nbash: 'true'\n")
    listed = opta("tool list --trust")
    assert "the API sees 'a_b' and 'a.b'" in listed.err
    assert "conflicts with built-in tool read_file" in listed.err
    checked = opta("tool validate --all --trust")
    assert checked.code == 1
    assert "a.b: valid" in checked.out
    assert "the API sees 'a_b' and 'a.b'" in checked.out
    assert "conflicts with built-in tool read_file" in checked.out


def test_a_broken_config_toml_is_told_by_list_and_validate(opta):
    opta.put("good.yaml", "name: good\ndescription: d\nbash: 'true'\n")
    config = opta.root / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text("[custom_tools.t]\ncommand = [")
    assert ".codex/config.toml:2:12: this is not TOML" in opta("tool list --trust").err
    checked = opta("tool validate --all --trust")
    assert checked.code == 1
    assert ".codex/config.toml:2:12: this is not TOML" in checked.out
    config.write_text("[custom_tools.t]\ncommand = ['true']\n[custom_tools.u]\ncommand = 1\n")
    assert "[custom_tools.u" not in opta("tool list --trust").out
    assert "custom_tools.u.command" in opta("tool list --trust").err
    assert opta("tool validate --all --trust").out.count("custom_tools.u.command") == 1


def test_the_table_stays_readable_with_a_name_of_any_length(opta):
    opta.put("long.yaml", f"name: {'n' * 5000}\ndescription: d\nbash: 'true'\n")
    assert all(len(line) < 200 for line in opta("tool list").out.splitlines())


def test_a_tool_that_is_missing_is_told_beside_what_cannot_run(opta):
    opta.put(
        "t.yaml",
        "name: t\ndescription: D\ntags: [read]\nsteps:\n"
        "  - {name: a, use-tool: nowhere}\n"
        "  - {name: b, bash: 'echo \"{a.output}'}\n"
        "  - {name: c, bash: 'true', run-condition: '{a.exit-code} =='}\n",
    )
    said = opta("tool validate t").out
    assert "t.yaml:5:15: $.steps[0].use-tool: there is no tool nowhere" in said
    assert "$.steps[1].bash: line 1, column 6: What opens here is not closed" in said
    assert "$.steps[2].run-condition: SyntaxError" in said
    assert [line.partition(":")[0] for line in said.splitlines()] == ["error"] * 3


def test_a_toml_file_among_tool_files_is_told_instead_of_being_passed_over(opta):
    opta.put("t.toml", 'name = "t"\ndescription = "D"\nbash = "echo t"\n')
    opta.put("good.yaml", "name: good\ndescription: D\nbash: echo\ntags: [read]\n")
    said = "error: .opta/tools/t.toml: is not read: in TOML, tools are tables [custom_tools.NAME]"
    checked = opta("tool validate --all")
    assert checked.code == 1
    assert said in checked.out
    assert "2 checked, 1 with errors." in checked.out
    listed = opta("tool list --trust")
    assert said in listed.err
    assert "good" in listed.out


def test_an_alias_that_sets_what_its_tool_does_not_have_is_a_warning(opta):
    opta.put(
        "find.yaml",
        "name: find\ndescription: D\nbash: grep -- {TEXT} f\ntags: [read]\n"
        "parameters: {TEXT: {description: What, required: true}}\n",
    )
    alias = "name: todo\ndescription: D\ntype: alias\nbase-tool: find\ntags: [read]\n"
    path = opta.put("todo.yaml", f"{alias}default-parameters: {{TEX: TODO}}\n")
    said = opta("tool validate todo")
    assert said.code == 0
    place = "6:22: $.default-parameters.TEX"
    assert f"{place}: find has no parameter TEX (did you mean TEXT?)" in said.out
    path.write_text(f"{alias}default-parameters: {{TEXT: TODO}}\n")
    assert opta("tool validate todo").out.startswith("todo: valid (")
