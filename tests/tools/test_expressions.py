"""Expressions are JavaScript over references; what a reference holds is never source text."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import hypothesis.strategies as st
import psutil
import pytest
from hypothesis import given, settings

from tests.support.processes import has_ended
from tests.support.soon import until
from tools.engine.expressions import (
    ExpressionError,
    check,
    choose,
    condition,
    evaluate,
    string_literals,
)
from tools.engine.javascript import TIME_LIMIT_S
from tools.engine.template import Names

ROOT = Path(__file__).parents[2]

NAMES = Names(
    frozenset({"A", "name", "OUTPUT-FORMAT", "LIST"}),
    frozenset({"OS"}),
    frozenset({"build", "try-https", "try-ssh", "skipped"}),
)
HOSTILE = "it's \"x\" \\ ${1} `b` {A} \n\u2028 '+(()=>{throw 1})()+'"
VALUES = {
    ("A", None): HOSTILE,
    ("name", None): "abc",
    ("OUTPUT-FORMAT", None): "json",
    ("LIST", None): [1, "two"],
    ("OS", None): "linux",
    ("build", "exit-code"): 0,
    ("build", "output"): "it's done",
    ("try-https", "exit-code"): 128,
    ("try-ssh", "exit-code"): 0,
    ("skipped", "exit-code"): None,
    ("skipped", "output"): "",
}


def look(name, step_property):
    return VALUES[name, step_property]


def true(source):
    assert check(source, NAMES) == []
    return condition(source, NAMES, look)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{build.exit-code} == 0", True),
        ("{build.exit-code} != 0", False),
        ("{try-https.exit-code} != 0", True),
        ("{skipped.exit-code} == 0", False),
        ("{skipped.exit-code} != 0", True),
        ("{skipped.output} == ''", True),
        ("'{skipped.exit-code}' == ''", True),
        ("(({try-https.exit-code} == 0) || ({try-ssh.exit-code} == 0)) && ({build.exit-code} == 0)",
         True),
        ("{try-https.exit-code}/2 == 64 && {build.exit-code} / 2 == 0", True),
        ("{name} == 'abc'", True),
        ("'{name}' == 'abc'", True),
        ('"<{name}|{name}>" == "<abc|abc>"', True),
        ("`<{name}>` === '<abc>'", True),
        ("'{try-https.exit-code}' === '128'", True),
        ("'{LIST}' == '[1,\"two\"]' && {LIST}.length == 2", True),
        ("{OS}.toUpperCase() == 'LINUX'", True),
        ("{OUTPUT-FORMAT} == 'json'", True),
        ("'{build.output}'.includes('done')", True),
        ("[1, 2].map(x => {return x + 1})[0] == 2", True),
        ("({build: 1}).build == 1 && ((name) => ({name}))(2).name == 'abc'.length", False),
        ("/^a{1}b/.test({name}) && /[/]/.test('/')", True),
        ("{name} // '{nothing", True),
        ("/* {FOO} ' */ true", True),
        ("[] ? 1 : 0", True),
        ("''", False),
    ],
)  # fmt: skip
def test_conditions(source, expected):
    assert true(source) is expected


def test_a_value_is_data_wherever_its_reference_stands():
    wanted = json.dumps(HOSTILE).replace("{", "\\u007b")
    assert true(f"{{A}} === {wanted}")
    assert true(f"'{{A}}' === {wanted}")
    assert true(f'"{{A}}" === {wanted}')
    assert true(f"`{{A}}` === {wanted}")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=50))
def test_any_text_survives(text):
    text = text.encode("utf-8", "replace").decode()
    source = "'x{A}' === 'x' + {A} && `{A}y`.length === {A}.length + 1 && !({A} < {A})"
    assert condition(source, NAMES, lambda *_: text)
    assert evaluate("value", {"value": text}) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text("aé'\"\\{}\n\u2028"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab_"), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=150, deadline=None)
@given(json_values)
def test_any_json_value_comes_back(value):
    assert evaluate("value", {"value": value}) == value


@settings(max_examples=200, deadline=None)
@given(st.text("{}'\"`/\\()[]$A.name=<? :+\n*b", max_size=30))
def test_no_text_makes_the_reader_fail_otherwise_than_with_a_problem(source):
    if not check(source, NAMES):
        try:
            condition(source, NAMES, look)
        except ExpressionError:
            return
    for problem in check(source, NAMES):
        assert problem.message
        assert 1 <= problem.line <= source.count("\n") + 1
        assert problem.column >= 1


@pytest.mark.parametrize(
    ("source", "part", "place"),
    [
        ("1 +", "SyntaxError", (1, 4)),
        ("{name} nonsense", "nonsense", (1, 8)),
        ("true &&\n  {name} oops", "oops", (2, 10)),
        ("while (true) {}", "SyntaxError", (1, 1)),
        ("{bild.exit-code} == 0", "'build'", (1, 1)),
        ("1 == 1 && '{bild.output}' == 'x'", "'build'", (1, 12)),
        ("true &&\n {NAM} == 1", "'NAM'", (2, 2)),
        ("/{name}/.test('x')", "regular expression", (1, 2)),
    ],
)
def test_what_is_wrong_is_told_with_its_place_before_anything_runs(source, part, place):
    (problem,) = check(source, NAMES)
    assert part in problem.message
    assert (problem.line, problem.column) == place
    with pytest.raises(ExpressionError):
        condition(source, NAMES, look)


def test_a_check_does_not_run_anything():
    start = time.process_time()
    assert check("(() => { while (true); })()", NAMES) == []
    assert time.process_time() - start < TIME_LIMIT_S / 2


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("(() => { while (true); })()", "longer than 0.25 s"),
        ("/(a+)+$/.test('a'.repeat(40) + 'b')", "longer than 0.25 s"),
        ("'x'.repeat(1e9)", "16 MB"),
        (
            "(() => { const all = []; for (;;) all.push('x'.repeat(1000) + all.length); })()",
            "16 MB",
        ),
        ("(function f() { return f() })()", "stack"),
        ("value =>", "SyntaxError"),
        ("undefined", "undefined"),
        ("value => 1", "function"),
        ("1 / 0", "Infinity"),
        ("nope", "nope is not defined"),
        ("(() => { throw 1 })()", "1"),
    ],
)
def test_an_expression_that_cannot_give_a_value_costs_little_and_says_why(source, part):
    start = time.process_time()
    with pytest.raises(ExpressionError, match="Correct it in the tool file") as caught:
        evaluate(source, {"value": 1})
    assert part in str(caught.value)
    assert time.process_time() - start < 4 * TIME_LIMIT_S


@pytest.mark.parametrize(
    "source", ["new Array(1e9).join('')", "'a'.repeat(4e6).indexOf('a'.repeat(2e6) + 'b')"]
)
def test_what_the_engine_cannot_stop_is_ended_and_costs_nothing_more(source):
    evaluate("1", {})
    (before,) = workers()
    with pytest.raises(ExpressionError, match=r"longer than 0\.25 s"):
        evaluate(source, {})
    assert before not in workers()
    assert evaluate("6 * 7", {}) == 42
    assert len(workers()) == 1


def test_expressions_of_all_threads_are_evaluated_and_end_with_the_program():
    code = (
        "import sys, os\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from tools.engine.expressions import evaluate\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    found = list(pool.map(lambda n: evaluate('n * 2', {'n': n}), range(50)))\n"
        "assert found == [n * 2 for n in range(50)]\n"
        "import psutil; print(psutil.Process().children()[0].pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    worker = int(done.stdout)
    until(lambda: has_ended(worker))


def workers():
    """The processes in which this one evaluates expressions."""
    children = psutil.Process().children()
    return {child.pid for child in children if "javascript_worker" in " ".join(child.cmdline())}


def test_without_the_engine_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr("tools.engine.javascript.MODULE", "no_such_engine")
    monkeypatch.setattr("tools.engine.javascript._worker", None)
    with pytest.raises(ExpressionError, match="pip install quickjs-ng"):
        evaluate("1", {})


def test_an_expression_reaches_nothing_outside_and_leaves_nothing_behind():
    hosts = ["require", "process", "fetch", "std", "os", "print", "console", "setTimeout"]
    found = evaluate(f"[{','.join(f'typeof {name}' for name in hosts)}]", {})
    assert set(found) == {"undefined"}
    assert evaluate("globalThis.left = 1", {}) == 1
    assert evaluate("typeof left", {}) == "undefined"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers that interrupt")
def test_an_interrupt_leaves_no_answer_to_be_taken_for_that_of_the_next_expression():
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT_S / 10)
        with pytest.raises(KeyboardInterrupt):
            evaluate("(() => { while (true) {} })()", {})
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert evaluate("'mine'", {}) == "mine"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("A ? 'x' : 'y'", "x"),
        ("!name ? 1 : 2", 2),
        ("OUTPUT-FORMAT == 'json' ? '--json' : ''", "--json"),
        ("name-1 ? 'a' : 'b'", "b"),
        ("build.exit-code == 0 ? 'ok' : 'bad'", "ok"),
        ("name == 'abc' ? name + '!' : 'name'", "abc!"),
        ("'{name}' == 'abc' ? 1 : 2", 1),
        ("name.length", 3),
    ],
)
def test_names_stand_for_themselves_in_a_conditional(source, expected):
    assert check(source, NAMES, bare=True) == []
    assert choose(source, NAMES, look) == expected


def test_the_texts_of_an_expression():
    assert string_literals("value ? '--a' : \"\" + '\\n' + `x`") == {"--a", ""}
