"""Values in scripts: real shells run them, and a program says what reached it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tools.engine.hazards import HazardKind
from tools.engine.shell_variables import preamble
from tools.engine.template import Names, TemplateError, Value
from tools.engine.template_shell import (
    RenderedScript,
    compile_shell,
    split_words,
)

NAMES = Names(
    parameters=frozenset({"P", "Q", "N", "EMPTY", "LIST"}),
    predefined=frozenset({"WORKSPACE"}),
    steps=frozenset({"build"}),
)

HOSTILE = [
    "plain",
    "",
    " two  blanks ",
    "x;touch canary;#",
    "';touch canary;#",
    '";touch canary;#',
    "';{touch,canary};#",
    "x>(touch canary)",
    "$(touch canary)",
    "`touch canary`",
    "${HOME} $HOME $1 $$",
    "a\nb\n\nEOF\ntouch canary\n",
    "\n",
    "it's",
    'say "hi"',
    "back\\slash\\",
    "* ? [a-z] ~ ~root",
    "!! !$ {a,b} {1..3}",
    "a && touch canary || touch canary | tee canary &",
    "{P} {{P}} ${P} {build.output}",
    "a[$(touch canary)]",
    "([$(touch canary)]=1)",
    "[$(touch canary)]=x",
    "-v",
    "-n",
    "--",
    "=",
    "&",
    "esac",
    "ends with }",
    "é ☃ \U0001f600",
    b"\xff\xfe invalid \x80".decode("utf-8", "surrogateescape"),
    "\x01\x02\x7f\t\r\x1b[0m",
    "\udc88\udc81\udc82",
    "%s %d %n",
    "C:\\new\\table",
]


class Stage:
    """A directory with a program `show` that prints its arguments, each followed by NUL."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.bin, self.work = path / "bin", path / "work"
        self.bin.mkdir()
        self.work.mkdir()
        program = self.bin / "show"
        program.write_text("#!/bin/sh\nfor a; do printf '%s\\0' \"$a\"; done\nprintf '\\036'\n")
        program.chmod(0o755)

    def run(
        self, script: RenderedScript, shell: str = "bash", **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        file = self.path / "values"
        file.write_bytes(script.assignments())
        env = {"PATH": f"{self.bin}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "HOME": "/"}
        env |= variables
        program = "/bin/bash" if shell == "bash" else "/bin/dash"
        result = subprocess.run(
            [program, "-c", script.program(), "stage", str(file)],
            cwd=self.work,
            env=env,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
        left = sorted(path.name for path in self.work.iterdir())
        assert left == [], f"the value was run: {left}"
        return result

    def shown(self, script: RenderedScript, shell: str = "bash") -> list[list[str]]:
        """The argument lists with which `show` was called."""
        result = self.run(script, shell)
        assert result.stderr == b""
        calls = result.stdout.split(b"\x1e")
        assert calls.pop() == b""
        return [
            [word.decode("utf-8", "surrogateescape") for word in call.split(b"\0")[:-1]]
            for call in calls
        ]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def render(
    source: str,
    values: Mapping[str, Value],
    kind: str = "bash",
    escape: Mapping[str, bool | None] | None = None,
) -> RenderedScript:
    return compile_shell(source, NAMES, kind=kind, escape=escape).render(values)


Expected = Callable[[str], list[list[str]]]


def one(value: str) -> list[list[str]]:
    return [[value]]


def words(value: str) -> list[list[str]]:
    return [split_words(value)]


def stripped(value: str) -> list[list[str]]:
    return [[value.rstrip("\n")]]


def around(before: str, after: str = "") -> Expected:
    return lambda value: [[before + value + after]]


BOTH: list[tuple[str, str, Expected]] = [
    ("bare", "show {P}", words),
    ("double quotes", 'show "{P}"', one),
    ("single quotes", "show '{P}'", one),
    ("apostrophes in double quotes", "show \"File '{P}' not found\"",
     around("File '", "' not found")),
    ("quotes in single quotes", "show 'say \"{P}\"'", around('say "', '"')),
    ("glued", "show a'b'\"c{P}d\"e", around("abc", "de")),
    ("beside a variable", 'x=1; show "$x{P}$x"', around("1", "1")),
    ("a dollar before", 'show "$ {P}"', around("$ ")),
    ("assignment", 'x={P}; show "$x"', one),
    ("assignment before a command", 'x={P} sh -c \'show "$x"\'', one),
    ("exported", 'export x={P}; show "$x"', one),
    ("here-document", 'x=$(cat <<EOF\n<{P}>\nEOF\n)\nshow "$x"', around("<", ">")),
    ("quoted here-document", "x=$(cat <<'EOF'\n$x `a` \\ <{P}>\nEOF\n)\nshow \"$x\"",
     around("$x `a` \\ <", ">")),
    ("here-document without tabs", 'x=$(cat <<-EOF\n\t\t<{P}>\n\tEOF\n)\nshow "$x"',
     around("<", ">")),
    ("substitution", 'show "$(show "{P}" | tr "\\0\\036" "..")"', around("", "..")),
    ("substitution, bare", "show $(show '{P}' | wc -c >/dev/null; echo a)", lambda _: [["a"]]),
    ("backquotes", "x=`printf '%s.' '{P}'`; show \"$x\"", around("", ".")),
    ("backquotes in double quotes", 'show "`printf %s. \'{P}\'`"', around("", ".")),
    ("nested backquotes", "show \"`echo \\`printf '%s.' '{P}' >/dev/null; echo a\\``\"",
     lambda _: [["a"]]),
    ("nested substitutions", 'show "$(printf %s. "$(printf %s. "{P}")")"', around("", "..")),
    ("default", 'show "${nothing:-{P}}"', one),
    ("default, bare", "show ${nothing:-{P}}", one),
    ("alternative", 'x=1; show "${x:+<{P}>}"', around("<", ">")),
    ("pattern removal", "x='{P}'end; show \"${x#{P}}\"", lambda _: [["end"]]),
    ("comment", "show a # {P}\nshow b", lambda _: [["a"], ["b"]]),
    ("comment in a substitution", "show $( # {P}\necho a)", lambda _: [["a"]]),
    ("case subject", "case {P} in '{P}') show a;; *) show b;; esac", lambda _: [["a"]]),
    ("case pattern", "case '{P}' in {P}) show a;; *) show b;; esac", lambda _: [["a"]]),
    ("case in a substitution", 'show "$(case a in a) printf %s. "{P}";; esac)"', around("", ".")),
    ("function", 'f() { show "$1" "{P}"; }; f "{P}"', lambda value: [[value, value]]),
    ("loop", 'for x in "{P}"; do show "$x"; done', one),
    ("test", 'if [ "{P}" = \'{P}\' ]; then show a; fi', lambda _: [["a"]]),
    ("line continuation", 'show \\\n  "{P}"', one),
    ("backslash in quotes", 'show "\\{P}"', around("\\")),
    ("braces that are text", "show '{author: .[0]}{js,ts}' \"{P}\"",
     lambda value: [["{author: .[0]}{js,ts}", value]]),
    ("literal", "show '{{P}}' '{P}'", lambda value: [["{P}", value]]),
]  # fmt: skip

BASH: list[tuple[str, str, Expected]] = [
    ("$'…'", "show $'a\\'b{P}c\\n'", around("a'b", "c\n")),
    ('$"…"', 'show $"a{P}b"', around("a", "b")),
    ("here-string", 'x=$(cat <<< {P}; echo .); show "$x"', around("", "\n.")),
    ("process substitution", 'show "$(cat <(printf %s. "{P}"))"', around("", ".")),
    ("array", 'a=({P}); show "${a[@]}"', words),
    ("array in quotes", 'a=("{P}" b); show "${a[0]}"', one),
    ("array element", 'a[1]={P}; show "${a[1]}"', one),
    ("conditional", "if [[ {P} == {P} ]]; then show a; fi", lambda _: [["a"]]),
    ("regular expression", "if [[ '{P}' =~ ^{P}$ ]]; then show a; fi", lambda _: [["a"]]),
    ("replacement", 'x=axb; show "${x/x/{P}}"', around("a", "b")),
    ("quotes in quotes", 'show "${nothing:-"{P}"}"', one),
    ("local variable", 'f() { local x={P}; show "$x"; }; f', one),
    ("set -u", 'set -u; show "{P}"', one),
    ("set -f and IFS", 'set -f; IFS=; show "{P}"', one),
    ("extended pattern", "shopt -s extglob\ncase '{P}x' in @({P}|zz)x) show a;; esac",
     lambda _: [["a"]]),
]  # fmt: skip

CASES = [
    pytest.param(kind, source, expected, id=f"{kind}: {name}")
    for kind, table in (("bash", BOTH + BASH), ("sh", BOTH))
    for name, source, expected in table
]


@pytest.mark.row("C292")
@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_a_value_reaches_the_program_as_it_is(
    stage: Stage, kind: str, source: str, expected: Expected
) -> None:
    template = compile_shell(source, NAMES, kind=kind)
    for value in HOSTILE:
        rendered = template.render({"P": value})
        assert stage.shown(rendered, kind) == expected(value), (source, value)


def is_odd(kind: str, source: str, value: str, shown: bytes) -> bool:
    """What no notation says: `$'` in dash; bash doubles control characters and expands braces."""
    return (
        (kind == "sh" and b"$'" in shown)
        or ("\x01" in value and "a=(" in source)
        or ("{" in value and ':-"' in source)
    )


@pytest.mark.parametrize(("kind", "source", "expected"), CASES)
def test_what_the_person_is_shown_does_the_same(
    stage: Stage, kind: str, source: str, expected: Expected
) -> None:
    template = compile_shell(source, NAMES, kind=kind)
    for value in HOSTILE:
        shown = template.render({"P": value}).shown
        if is_odd(kind, source, value, shown.encode("utf-8", "surrogateescape")):
            continue
        assert stage.shown(RenderedScript(shown, {}, shown), kind) == expected(value), (
            source,
            value,
            shown,
        )


NUMBERS = [
    "show $(({N}+1))",
    'show "$((2 * {N}))"',
    "let x={N}; show $x",
    "let 'x={N}'; show $x",
    "((x = {N})); show $x",
    "for ((i=0; i<{N}; i++)) do show $i; done",
    "x=abc; show ${x:{N}}",
    "x=abc; show ${x:0:{N}}",
    "a=(1 2); show ${a[{N}]}",
    "a[{N}]=1; show ${#a[@]}",
    "if [[ {N} -gt 0 ]]; then show a; fi",
    "if [[ 1 -eq '{N}' ]]; then show a; fi",
    "declare -i i; i={N}; show $i",
    "show $[{N}]",
]


@pytest.mark.parametrize("source", NUMBERS)
def test_where_bash_calculates_only_integers_are_taken(stage: Stage, source: str) -> None:
    template = compile_shell(source, NAMES)
    result = stage.run(template.render({"N": "1"}))
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout
    for value in ("a[$(touch canary)]", "1;touch canary", "", "x", "1 1", "1\n"):
        with pytest.raises(TemplateError, match=r"line 1, column \d+: \{N\} .*integer"):
            template.render({"N": value})


REFUSED = [
    ("show \\{P}", 7),
    ("x=$'a\\{P}'", 7),
    ("unset {P}", 7),
    ("unset 'a[{P}]'", 10),
    ("read {P}", 6),
    ('printf "{P}" x', 9),
    ("printf -v {P} x", 11),
    ("wait -n -p {P}", 12),
    ("declare {P}", 9),
    ("command unset {P}", 15),
    ('x="1" unset {P}', 13),
    ("$x unset {P}", 10),
    ("!(unset {P})", 9),
    ("for x do unset {P}; done", 16),
    ("coproc X { unset {P}; }", 18),
    ("[[ a ]]&&unset {P}", 16),
    ("f() { unset {P}; }", 13),
    ("function f { unset {P}; }", 20),
    ("case x in x) unset {P};; esac", 20),
    ("time -p unset {P}", 15),
    ("PS4={P}; set -x", 5),
    ("env BASH_ENV={P} bash x", 14),
    ("x=$(unset {P})", 11),
    ('x="$(unset "{P}")"', 13),
    ("[[ -v {P} ]]", 7),
    ("[ -v {P} ]", 6),
    ("[ {P} a[1] ]", 3),
    ("test {P} x", 6),
    ("a=(1); declare b={P}", 18),
    ("for {P} in a; do :; done", 5),
    ("function {P} { :; }", 10),
    ("{P}() { :; }", 1),
    ("cat <<{P}\nEOF\n", 7),
    ("x=${{P}}", 5),
    ("echo $((1 + $(echo 1) + '{P}'))", 26),
    ("echo '{P}", 6),
    ('echo "{P}', 6),
    ("echo $(echo {P}", 6),
    ("echo `echo {P}", 6),
    ("echo {P})", 9),
    ("cat <<EOF\n{P}\n", 7),
    ("a[ {P} ]=1", 3),
    ("echo $((echo {P}) | cat)", 6),
    ('`echo "\\{P}"`', 1),
]


@pytest.mark.parametrize(("source", "column"), REFUSED)
def test_r2_a_place_that_cannot_hold_data_is_refused_when_it_is_read(
    source: str, column: int
) -> None:
    with pytest.raises(TemplateError) as refused:
        compile_shell(source, NAMES)
    assert refused.value.line == 1
    assert refused.value.column in (column, source.index("{P") + 1)


@pytest.mark.parametrize(
    "source",
    ["x=$'{P}'", "x=({P})", "cat <({P})", "cat <<< {P}", "[[ {P} ]]", "((x = {N}))", "x=$[{N}]"],
)
def test_what_only_bash_has_is_refused_in_sh(source: str) -> None:
    with pytest.raises(TemplateError, match="sh has no"):
        compile_shell(source, NAMES, kind="sh")


def test_the_error_names_line_and_column_of_the_placeholder() -> None:
    with pytest.raises(TemplateError) as refused:
        compile_shell("echo '{P}'\necho {Q}\n  unset {P}\n", NAMES)
    assert (refused.value.line, refused.value.column) == (3, 9)
    assert "{P}" in str(refused.value)


def test_other_shells_are_refused() -> None:
    with pytest.raises(TemplateError, match="environment"):
        compile_shell("echo {P}", NAMES, kind="fish")


WORDS = [
    ("-H 'Content-Type: application/json'", ["-H", "Content-Type: application/json"]),
    ('a "b c" d\\ e', ["a", "b c", "d e"]),
    ("it's", ["it's"]),
    ("", []),
    ("  \n\t ", []),
    ("''", [""]),
    ('""a', ["a"]),
    ("C:\\dir \\d+", ["C:\\dir", "\\d+"]),
    (r'"a\"b\\c"', ['a"b\\c']),
    ("$(id) ; * ~", ["$(id)", ";", "*", "~"]),
    ('open "quote', ["open", '"quote']),
]


@pytest.mark.row("C292")
@pytest.mark.parametrize(("value", "expected"), WORDS)
def test_r4_a_bare_value_is_split_into_words_without_being_expanded(
    stage: Stage, value: str, expected: list[str]
) -> None:
    assert split_words(value) == expected
    for kind in ("bash", "sh"):
        script = render("show {P}", {"P": value}, kind)
        assert stage.shown(script, kind) == [expected]


@pytest.mark.row("C290", "C308", "C329")
@pytest.mark.parametrize("kind", ["bash", "sh"])
def test_escape_shell_true_keeps_a_bare_value_one_word(stage: Stage, kind: str) -> None:
    template = compile_shell("show {P}", NAMES, kind=kind, escape={"P": True})
    for value in [*HOSTILE, "; rm -rf x", "`id`"]:
        assert stage.shown(template.render({"P": value}), kind) == [[value]]


@pytest.mark.row("C290")
def test_escape_shell_false_pastes_and_says_so(stage: Stage) -> None:
    rendered = render("show {P} '{Q}'", {"P": "a; show b", "Q": "q"}, escape={"P": False})
    assert rendered.raw
    assert [hazard.kind for hazard in rendered.hazards] == [HazardKind.RAW]
    assert stage.shown(rendered) == [["a"], ["b", "q"]]


@pytest.mark.parametrize("kind", ["bash", "sh"])
def test_arrays_are_words_when_bare_and_joined_by_blanks_in_quotes(stage: Stage, kind: str) -> None:
    script = render('show a{LIST}b "{LIST}"', {"LIST": ["1 2", "*", "$x"]}, kind)
    assert stage.shown(script, kind) == [["a1 2", "*", "$xb", "1 2 * $x"]]


@pytest.mark.parametrize("kind", ["bash", "sh"])
def test_an_empty_bare_value_vanishes_and_changes_nothing_else(stage: Stage, kind: str) -> None:
    source = "set -u\nIFS=\nshow a {EMPTY} b x{EMPTY} {EMPTY}#c --d={EMPTY}\n{EMPTY} show e"
    rendered = render(source, {"EMPTY": ""}, kind)
    expected = [["a", "b", "x", "#c", "--d="], ["e"]]
    assert stage.shown(rendered, kind) == expected
    shown = RenderedScript(rendered.shown, {}, rendered.shown)
    assert stage.shown(shown, kind) == expected


def test_predefined_values_are_one_word(stage: Stage) -> None:
    script = render("show {WORKSPACE}/x", {"WORKSPACE": "/my dir"})
    assert stage.shown(script) == [["/my dir/x"]]


@pytest.mark.parametrize("kind", ["bash", "sh"])
def test_a_value_of_five_megabytes_arrives_whole(stage: Stage, kind: str) -> None:
    value = "'x\"$(touch canary)`\n" * 270_000
    rendered = render("printf %s '{build.output}' | wc -c", {"build.output": value}, kind)
    assert stage.run(rendered, kind).stdout.split() == [str(len(value)).encode()]


def test_programs_do_not_inherit_the_values(stage: Stage) -> None:
    script = render("env '{P}=1'", {"P": "secret"})
    assert b"__opta" not in stage.run(script, __opta_0="old").stdout


def test_a_script_that_uses_the_prefix_gets_another() -> None:
    rendered = render("__opta_0=x; echo {P}", {"P": "y"})
    assert "__opta_0" not in rendered.variables


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_what_a_shell_cannot_hold_is_refused(value: str) -> None:
    with pytest.raises(TemplateError, match=r"column 6: \{P\} holds"):
        render("echo {P}", {"P": value})
    with pytest.raises(TemplateError):
        preamble({"x": value})


@pytest.mark.row("C303")
def test_a_command_with_an_unknown_name_is_not_run() -> None:
    with pytest.raises(TemplateError, match=r"line 1, column 8: \{TEMP_DIR\}"):
        render("rm -rf {TEMP_DIR}", {})
    with pytest.raises(TemplateError, match=r"\{P\} has no value"):
        render("rm -rf {P}", {})


def test_an_unknown_name_in_single_quotes_is_text(stage: Stage) -> None:
    rendered = render("show '{NF} {print}' '{P}' # {NOTE}", {"P": "x"})
    assert stage.shown(rendered) == [["{NF} {print}", "x"]]


INNER = [
    ("python -c \"import glob; print(glob.glob('{P}'))\"", "python"),
    ("python3.11 -uc '{P}'", "python"),
    ("/usr/bin/perl -ne '{P}' file", "perl"),
    ("node -e '{P}'", "node"),
    ("bash -c 'echo {P}'", "bash"),
    ('sudo timeout 5 sh -ec "{P}"', "sh"),
    ("powershell -Command \"Get-Item '{P}'\"", "powershell"),
    ('eval "x={P}"', "eval"),
    ("trap 'rm {P}' EXIT", "trap"),
    ("ssh host {P}", "ssh"),
    ("awk '{P} {print}' file", "awk"),
    ("sed 's/a/{P}/' file", "sed"),
    ("jq '.[\"{P}\"]' file", "jq"),
    ("echo {P} | bash", "bash"),
    ("python3 <<EOF\nprint('{P}')\nEOF", "python"),
    ('bash <<< "{P}"', "bash"),
    ("eval \"$(echo '{P}')\"", "eval"),
    ("cat <<EOF | sh\n{P}\nEOF", "sh"),
]


@pytest.mark.row("C306")
@pytest.mark.parametrize(("source", "program"), INNER)
def test_a_value_that_another_program_reads_as_code_is_named(source: str, program: str) -> None:
    (hazard,) = compile_shell(source, NAMES).hazards
    assert hazard.kind is HazardKind.INNER_LANGUAGE
    assert program in hazard.message


@pytest.mark.parametrize(
    "source",
    [
        "awk -v x={P} '{print x}' file",
        "sed -n 's/a/b/' {P}",
        "jq --arg x {P} '.[$x]'",
        "grep eval {P}file",
        "echo {P} | jq .",
        "python script.py {P}",
        "bash script.sh {P}",
        "x={P}; echo $x",
    ],
)
def test_a_value_that_stays_an_argument_is_not_flagged(source: str) -> None:
    assert compile_shell(source, NAMES).hazards == ()


@pytest.mark.parametrize(
    "source",
    ["ls && {P} x", "$x{P}", "/usr/bin/{P}", 'x="1" {P}', "exec {P}", "sudo -n {P}", "[[ a ]]|{P}"],
)
def test_a_value_that_names_the_program_is_flagged(source: str) -> None:
    (hazard,) = compile_shell(source, NAMES).hazards
    assert hazard.kind is HazardKind.PROGRAM


@pytest.mark.parametrize(
    ("source", "value", "flagged"),
    [
        ("grep {P}", "-f/etc/passwd", True),
        ('grep "{P}" x', "-f", True),
        ("grep x{P}", "a -f", True),
        ("grep -- {P}", "-f", False),
        ("grep --x={P}", "-f", False),
        ("grep {P}", "x", False),
        ("grep x > {P}", "-f", False),
    ],
)
def test_r3_a_value_that_may_be_an_option_is_flagged(
    source: str, value: str, flagged: bool
) -> None:
    kinds = [hazard.kind for hazard in render(source, {"P": value}).hazards]
    assert kinds == [HazardKind.OPTION] * flagged
