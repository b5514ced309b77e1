"""Values that a script's own variables carry to where they are code: said before it runs."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from tests.tools.test_template_shell import NAMES, Stage, render
from tools.engine.hazards import HazardKind
from tools.engine.template import TemplateError
from tools.engine.template_shell import compile_shell

CARRIED = [
    ("x={P}; echo $((x))", "calculated by the shell, as $x"),
    ("x='{P}'; y=$x; z=\"${y#a}\"; (( z > 1 ))", "calculated by the shell, as $z"),
    ("x={P}; [[ $x -eq 1 ]]", "calculated"),
    ("x={P}; [[ -v $x ]]", "calculated"),
    ("x={P}; echo ${HOME:x:$x}", "calculated"),
    ("x={P}; a[x]=1", "calculated"),
    ("x={P}; a[$x]=1", "calculated"),
    ('x={P}; echo "${a[$x]}"', "calculated"),
    ("x={P}; let y=x", "calculated"),
    ('x={P}; echo "${x@P}"', "calculated"),
    ("x={P}; echo ${!x}", "calculated"),
    ('x={P}; test -v "$x"', "calculated"),
    ('x={P}; unset "$x"', "calculated"),
    ('x={P}; printf -v "$x" y', "calculated"),
    ('x={P}; read "$x"', "calculated"),
    ("for x in {P}; do echo $((x)); done", "calculated"),
    ("f() { local y={P}; echo $((y)); }; f", "calculated"),
    ("f() { local n=$2; [[ $n -gt 0 ]]; }; f a {P}", "calculated"),
    ("set -- {P}; echo $(( $1 ))", "calculated"),
    ("a=({P}); echo $((a[0]))", "calculated"),
    (": ${x:={P}}; echo $((x))", "calculated"),
    ("while read -r x; do echo $((x)); done <<EOF\n{P}\nEOF", "calculated"),
    ("echo {P} | while read -r x; do echo $((x)); done", "calculated"),
    ("declare -i n; read n <<< {P}", "calculated"),
    ("echo $(( $(echo {P}) ))", "calculated by the shell in what a command prints"),
    ("echo $(( `echo {P}` ))", "calculated"),
    ("x=$(printf %s '{P}' | tr -d ,); echo $((x))", "calculated"),
    ("x=$(cat <<EOF\n{P}\nEOF\n); (( x ))", "calculated"),
    ("[[ $(echo {P}) -eq 1 ]]", "calculated"),
    ('x={P}; eval "echo $x"', "read as code by eval, as $x"),
    ('x={P}; bash -c "echo $x"', "read as code by bash"),
    ('x={P}; trap "$x" EXIT', "read as code by trap"),
    ('x={P}; echo "$x" | sh', "read as code by sh"),
    ("x={P}; $x", "names the program to run, as $x"),
    ("ENV={P} sh x.sh", "run or loaded by programs, as $ENV"),
    ("make SHELL={P}", "programs, as $SHELL"),
    ("LD_PRELOAD={P} ls", "loaded by programs, as $LD_PRELOAD"),
    ('GIT_SSH_COMMAND="ssh -i {P}" git fetch', "programs, as $GIT_SSH_COMMAND"),
    ("export EDITOR={P}; git commit", "programs, as $EDITOR"),
    ("PATH={P}:$PATH; make", "programs, as $PATH"),
    ('x={P}; PYTHONSTARTUP="$x" python3 -i', "programs, as $PYTHONSTARTUP"),
    ('x={P}; env PYTHONPATH="$x/lib" python3 -m y', "programs, as $PYTHONPATH"),
]


@pytest.mark.row("C306")
@pytest.mark.parametrize(("source", "said"), CARRIED)
def test_a_value_that_a_variable_carries_to_where_it_is_code_is_a_hazard(
    source: str, said: str
) -> None:
    (hazard,) = compile_shell(source, NAMES).hazards
    assert hazard.kind is HazardKind.VARIABLE
    assert said in hazard.message
    assert "integer" in hazard.advice


@pytest.mark.parametrize("source", ["env ENV={P} sh x", "sudo PAGER={P} man x", "ENV={P} sh -i"])
def test_a_variable_in_front_of_another_program_is_a_hazard_too(source: str) -> None:
    assert compile_shell(source, NAMES).hazards


@pytest.mark.parametrize(
    "source",
    [
        'x={P}; y="$x"; echo "$y" ${#x} "${x%.*}" > "$x"',
        "declare -A m; x={P}; m[$x]=1; echo \"${m[$x]}\"; m[x]=2",
        "x={P}; n=$(wc -c <<< \"$x\"); echo $((n + 1))",
        "n=$(grep -c {P} file); echo $((n + 1))",
        "i=0; for f in {P}; do i=$((i + 1)); done; echo $i",
        "while read -r line; do n=$((n + 1)); done <<EOF\n{P}\nEOF",
        "f() { echo \"$1\" $(( $2 )); }; f {P} 1",
        "x={P}; [ \"$x\" -gt 1 ] && [[ $x == a* && 1 -eq 1 ]]",
        "a=({P}); for i in \"${!a[@]}\"; do echo \"${a[$i]}\"; done",
        "x={P}; \"$HOME/bin/program\" \"$x\"",
        "x={N}; echo $(({N} + 1))",
        "NAME={P} make; OTHER={P}; export THIRD={P}",
        "echo ENV {P}",
    ],
)  # fmt: skip
def test_a_value_that_variables_carry_as_data_is_none(source: str) -> None:
    assert compile_shell(source, NAMES).hazards == ()


INTEGERS = [
    "RANDOM={P}", "RANDOM+='{P}'", "OPTIND={P}", "HISTCMD={P}", "SECONDS={P}",
    "declare RANDOM={P}", "export SECONDS={P}", "for SECONDS in \"{P}\"; do :; done",
    "x=i; declare -$x n={P}",
]  # fmt: skip


@pytest.mark.parametrize("source", INTEGERS)
def test_variables_that_bash_itself_calculates_take_integers_only(
    tmp_path: Path, source: str
) -> None:
    with pytest.raises(TemplateError, match="must be an integer"):
        render(source, {"P": "a[$(touch canary)]"})
    Stage(tmp_path).run(render(source, {"P": "12"}))


@pytest.mark.parametrize("source", ["BASH_ALIASES[x]={P}", "BASH_CMDS[ls]={P}"])
def test_tables_of_commands_take_no_values(source: str) -> None:
    with pytest.raises(TemplateError, match="whose value bash runs") as caught:
        compile_shell(source, NAMES)
    assert (caught.value.line, caught.value.column) == (1, source.index("{") + 1)


def test_what_was_read_of_a_script_goes_without_the_garbage_collector() -> None:
    """Tool files are read by the thousand."""
    gc.collect()
    gc.disable()
    try:
        compile_shell("a {P} | b | c; x=$(d `e` | f {P}); { g; h; } | i <<< {P}", NAMES)
        assert gc.collect() == 0
    finally:
        gc.enable()
    compile_shell("a {P}" + " | a" * 100_000, NAMES)


def test_very_many_variables_are_followed_in_linear_time() -> None:
    chain = "".join(f"x{n + 1}=$x{n};" for n in range(5_000))
    hazards = compile_shell(f"x0={{P}};{chain} echo $((x5000))", NAMES).hazards
    assert len(hazards) == 1
    everywhere = "x={P}; echo $((x)); eval $x;" * 3_000
    assert len(compile_shell(everywhere, NAMES).hazards) == 3_000
