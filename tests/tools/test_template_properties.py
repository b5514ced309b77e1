"""Templates of any nesting, hostile values and text that is no template, in real shells."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.tools.test_template_shell import HOSTILE, Stage
from tools.engine.hazards import HazardKind
from tools.engine.template import Names, TemplateError
from tools.engine.template_shell import compile_shell, split_words

NAMES = Names(parameters=frozenset({"P", "Q", "N"}), steps=frozenset({"build"}))
VALUE = "\0"

ALLOW_FIXTURE = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@dataclass(frozen=True)
class Expression:
    """Shell text that is one word, what that word is (VALUE for the value), and whether only bash
    knows it.
    """

    source: str
    means: str
    bash: bool = False


LEAVES = [
    Expression('"{P}"', VALUE),
    Expression("'{P}'", VALUE),
    Expression("'\"{P}\"'", f'"{VALUE}"'),
    Expression('"it\'s \'{P}\' \\"{P}\\""', f"it's '{VALUE}' \"{VALUE}\""),
    Expression('"${nothing:-{P}}"', VALUE),
    Expression("${nothing-{P}}", VALUE),
    Expression("\"$(cat <<-'END'\n\t`x` $y \\ '{P}'.\n\tEND\n)\"", f"`x` $y \\ '{VALUE}'."),
    Expression('"$(cat <<END\n"{P}".\nEND\n)"', f'"{VALUE}".'),
    Expression("$'\\x41{P}\\''", f"A{VALUE}'", bash=True),
    Expression('"$(cat <<< {P}; echo .)"', f"{VALUE}\n.", bash=True),
    Expression('"$(a=(x "{P}"); printf %s. "${a[1]}")"', f"{VALUE}.", bash=True),
]

WRAPPERS = [
    ('"$(printf %s. WORD)"', ".", False),
    ('"${nothing:-$(printf %s. WORD)}"', ".", False),
    ('"$(x=WORD; printf %s. "$x" # it\'s {Q} "\n)"', ".", False),
    ('"$(case x in (x) printf %s. WORD;; esac)"', ".", False),
    ('"$(case x in x) if [ x ]; then printf %s. WORD; fi;; esac)"', ".", False),
    ('"$(f() { printf %s. "$1"; }; f WORD)"', ".", False),
    ('"$(for x in WORD; do printf %s. "$x"; done)"', ".", False),
    ('"$(cat <<END\n$(printf %s. WORD)\nEND\n)"', ".", False),
    ('"$( (printf %s. WORD) )"', ".", False),
    ('"$(printf %s. WORD "$((1 + {N}))")"', ".2.", False),
    ('"$(cat <(printf %s. WORD))"', ".", True),
    ('"$(if [[ x == x && -n y ]]; then printf %s. WORD; fi)"', ".", True),
    ('"$(a=(WORD); printf %s. "${a[@]}")"', ".", True),
]


def wrapped(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    def wrap(expression: Expression, wrapper: tuple[str, str, bool]) -> Expression:
        around, after, bash = wrapper
        # A document ends at the first line that is its delimiter, also within a substitution.
        delimiter = f"END{len(expression.source)}"
        source = around.replace("END", delimiter).replace("WORD", expression.source)
        return Expression(source, expression.means + after, bash or expression.bash)

    def glue(first: Expression, second: Expression) -> Expression:
        return Expression(
            first.source + second.source, first.means + second.means, first.bash or second.bash
        )

    return st.one_of(
        st.builds(wrap, inner, st.sampled_from(WRAPPERS)),
        st.builds(glue, inner, inner),
    )


EXPRESSIONS = st.recursive(st.sampled_from(LEAVES), wrapped, max_leaves=6)
HOSTILE_TEXT = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(alphabet="'\"`$(){}[]<>;&|\\\n \t*?~!#=-aEOFND{P}\udcff\x7fé", max_size=20),
)


@pytest.mark.row("C292")
@given(expression=EXPRESSIONS, value=HOSTILE_TEXT)
@ALLOW_FIXTURE
def test_r1_the_program_sees_the_bytes_of_the_value(
    tmp_path_factory: pytest.TempPathFactory, expression: Expression, value: str
) -> None:
    stage = Stage(tmp_path_factory.mktemp("stage"))
    for kind in ["bash"] if expression.bash else ["bash", "sh"]:
        template = compile_shell(f"show {expression.source}", NAMES, kind=kind)
        script = template.render({"P": value, "Q": value, "N": "1"})
        assert stage.shown(script, kind) == [[expression.means.replace(VALUE, value)]]


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_backquotes_may_be_nested(tmp_path: Path, levels: int) -> None:
    source = "'{P}'"
    for _ in range(levels):
        escaped = source.replace("\\", "\\\\").replace("`", "\\`")
        source = f"`printf %s. {escaped}`"
    script = compile_shell(f'x={source}; show "$x"', NAMES).render({"P": "a$(x)`y`'\\"})
    assert Stage(tmp_path).shown(script) == [["a$(x)`y`'\\" + "." * levels]]


def test_substitutions_may_be_nested_as_deep_as_bash_allows(tmp_path: Path) -> None:
    source = '"{P}"'
    for _ in range(60):
        source = f'"$(printf %s {source})"'
    script = compile_shell(f"show {source}", NAMES).render({"P": "$(x)'"})
    assert Stage(tmp_path).shown(script) == [["$(x)'"]]
    compile_shell("$(" * 5_000 + "x {P}" + ")" * 5_000, NAMES)


FRAGMENTS = [
    "{P}", "{P}", " ", " ", "\n", '"', "'", "$(", ")", "(", "`", "\\", "${x:-", "${x#", "${x/",
    "}", "$((", "))", "((", "[[ ", " ]]", "[ ", " ]", " == ", " -eq ", " -v ", "a=", "a[", "]",
    "a=(", "case ", " in ", "esac", ";;", "<<E\n", "\nE\n", "<<'E'\n", "<<<", "<(", "#", "$'",
    ";", "&&", "|", "echo ", "printf ", "printf -v a ", "unset ", "declare ", "declare -i ",
    "export ", "let ", "local ", "test ", "x", "1", "for x in ", "; do ", "done", "if ", "; then ",
    "fi", "f() {", "}", "{ ", "!", "$x", "$1", "@(", 'x="1" ', "command ", "é", "\t",
    "y=", "${y@P}", "${!y}", "read y ", "RANDOM=", "$((y))", "${a[$y]}", "[[ $y -eq 1 ]]",
    "set -- ", "$1", "$(echo ", "declare -A ", "while read y; do ", "for y in ", "<<-E\n",
]  # fmt: skip
AROUND = [
    "%s", 'echo "%s"', "echo $(%s)", "x=(%s)", "[[ %s ]]", "echo `%s`", "cat <<E\n%s\nE\n",
    'echo "${x:-%s}"', "echo ${x/%s}", "case %s in a) ;; esac", "declare %s", "a[%s]=1",
    "for i in %s; do :; done", "let %s", "[ %s ]",
]  # fmt: skip
ATTACKS = [
    "a[$(touch canary)]", "$(touch canary)", "';touch canary;'", '";touch canary;"',
    "\ntouch canary\n", "`touch canary`", "-va[$(touch canary)]", "([$(touch canary)]=1)", "-v",
    "E\ntouch canary\n", "}$(touch canary)",
]  # fmt: skip
SOURCES = st.builds(
    lambda around, parts: around.replace("%s", "".join(parts)),
    st.sampled_from(AROUND),
    st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=10),
)


@given(source=SOURCES, value=st.sampled_from(ATTACKS))
@settings(ALLOW_FIXTURE, max_examples=200)
def test_text_that_resembles_a_script_is_refused_or_safe(
    tmp_path_factory: pytest.TempPathFactory, source: str, value: str
) -> None:
    try:
        template = compile_shell(source, NAMES)
        script = template.render({"P": value})
    except TemplateError:
        return
    code = (HazardKind.INNER_LANGUAGE, HazardKind.PROGRAM, HazardKind.VARIABLE)
    if template.placeholders and not any(hazard.kind in code for hazard in template.hazards):
        Stage(tmp_path_factory.mktemp("stage")).run(script)


@given(st.text(alphabet="{P}'\"`$()<>E\n\\ ;#[]=|&!-a1", max_size=60))
@settings(deadline=None)
def test_no_text_raises_anything_but_a_template_error(source: str) -> None:
    places = []
    for kind in ("bash", "sh"):
        try:
            template = compile_shell(source, NAMES, kind=kind)
            template.render({"P": "1"})
        except TemplateError as error:
            places.append(error.line)
    assert all(line <= source.count("\n") + 1 for line in places)


@pytest.mark.parametrize("end", ["", "{P}"])
@pytest.mark.parametrize(
    "piece",
    ["$({P}", '"${x:-', '"$(', "`", "\\`", "cat <<E\n", "cat <<'E' {P}\n", "case a in a) ", "((",
     "{P}", " {P}", "a[", "'{P}'", "$'{P}'", "x=({P}) ", "[[ {P} ]] ", "[ {P} ] ", "@(",
     "eval {P};", "echo {P}|", "printf %s {P} ", "${x/{P}", "$(cat <<E\n", "cat <<E\n{P}\nE\n",
     "{NOPE} "],
)  # fmt: skip
def test_a_template_of_40_kb_is_read_in_linear_time(piece: str, end: str) -> None:
    started = time.process_time()
    with suppress(TemplateError):
        compile_shell(piece * (40_000 // len(piece)) + end, NAMES)
    # A fifth of a second of processor time, whatever else runs; a quadratic reading takes 20 s.
    assert time.process_time() - started < 5


@pytest.mark.parametrize("piece", ["'", '"', '\\"', '"\\\\', "a ", "'a' ", '"\\'])
def test_long_values_are_split_in_linear_time(piece: str) -> None:
    started = time.process_time()
    split_words(piece * (1_000_000 // len(piece)))
    assert time.process_time() - started < 10


@pytest.mark.parametrize("kind", ["bash", "sh"])
@pytest.mark.parametrize("source", ['printf %s "{P}"', "printf %s {P}", "printf %s '{P}'"])
def test_a_value_of_5_mb_full_of_quotes_arrives_in_linear_time(
    tmp_path: Path, kind: str, source: str
) -> None:
    value = "abc \n'\\\"$`" * 500_000
    template = compile_shell(f"{source} | cksum", NAMES, kind=kind, escape={"P": True})
    expected = subprocess.run(["cksum"], input=value.encode(), capture_output=True, check=True)
    # A second, far from the deadline; where each quote costs as much as all before it, minutes.
    ran = Stage(tmp_path).run(template.render({"P": value}), kind)
    assert ran.stdout == expected.stdout
