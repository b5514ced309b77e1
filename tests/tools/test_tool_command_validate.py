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


def test_values_that_an_inner_language_reads_are_a_warning(opta):
    opta.put(
        "t.yaml",
        """\
name: t
description: D
bash: python3 -c "print('{P}')"
parameters: {P: {type: string, description: What}}
""",
    )
    ran = opta("tool validate t")
    assert ran.code == 0
    assert "warning: .opta/tools/t.yaml:3:1: $.bash: high risk:" in ran.out


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
