"""A tool that `opta tool add` wrote from its options is run, and does what the options say."""

from __future__ import annotations

import pytest

from tests.support.tool_command import editor

NEW = "tool add t --description D "
FILE = """\
name: t
description: D
bash: echo {P}
parameters:
  P: {type: string, description: p, default: from a file}
"""
BY_SYSTEM = [
    ("C159", "--command-default 'echo any'", {"linux": "any", "macos": "any"}),
    ("C160", "--command-windows 'echo %OS%' --command-default 'echo other'",
     {"linux": "other", "macos": "other"}),
    ("C160", "--command-windows 'echo %OS%'", {"linux": None, "macos": None}),
    ("C161", "--command-linux 'echo mine'", {"linux": "mine", "macos": None}),
    ("C161", "--command-linux 'echo mine' --command-default 'echo other'",
     {"linux": "mine", "macos": "other"}),
    ("C162", "--command-macos 'echo mine' --command-default 'echo other'",
     {"linux": "other", "macos": "mine"}),
    ("C173", "--step-command-default s 'echo any'", {"linux": "any", "macos": "any"}),
    ("C174", "--step s 'echo any' --step-command-windows s 'echo %OS%'",
     {"linux": "any", "macos": "any"}),
    ("C175", "--step s 'echo any' --step-command-linux s 'echo mine'",
     {"linux": "mine", "macos": "any"}),
    ("C176", "--step s 'echo any' --step-command-macos s 'echo mine'",
     {"linux": "any", "macos": "mine"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "printed"),
    [pytest.param(words, printed, marks=pytest.mark.row(row), id=f"{row}-{number}")
     for number, (row, words, printed) in enumerate(BY_SYSTEM)],
)  # fmt: skip
def test_each_system_runs_its_own_command(opta, monkeypatch, words, printed):
    added = opta(NEW + words)
    assert added.code == 0, added.err
    for system, text in printed.items():
        monkeypatch.setattr("tools.engine.commands.current_platform", lambda name=system: name)
        ran = opta("tool run t")
        if text is None:
            assert (ran.code, ran.out) == (1, "")
            assert "no command for " in ran.err
        else:
            assert (ran.code, ran.out, ran.err) == (0, f"{text}\n", "")


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        pytest.param("--script 'A=1\necho $A {P}\n' --parameter P p default=x", "1 x\n",
                     marks=pytest.mark.row("C155")),
        pytest.param("--script 'import sys\nprint(sys.version_info[0])' --shell python3", "3\n",
                     marks=pytest.mark.row("C156")),
        pytest.param("--script 'echo $((40 + 2))' --shell sh", "42\n",
                     marks=pytest.mark.row("C156")),
    ],
)  # fmt: skip
def test_a_script_runs_in_its_shell(opta, words, printed):
    added = opta(NEW + words)
    assert added.code == 0, added.err
    ran = opta("tool run t")
    assert (ran.code, ran.out, ran.err) == (0, printed, "")


@pytest.mark.row("C157")
def test_a_tool_from_a_file_runs(opta):
    opta.put("mine.yaml", FILE, opta.root)
    assert opta("tool add --from-file mine.yaml").code == 0
    assert opta("tool run t").out == "from a file\n"


@pytest.mark.row("C158")
def test_a_tool_written_in_the_editor_runs(opta, tmp_path):
    source = opta.put("mine.yaml", FILE, tmp_path)
    editor(tmp_path, f'cp {source} "$1"')
    assert opta("tool add t --editor").code == 0
    assert opta("tool run t --param P=now").out == "now\n"
