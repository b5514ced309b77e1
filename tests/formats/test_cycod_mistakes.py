"""What is said of a CYCOD tool file that breaks the rules: everything, each with its place."""

from __future__ import annotations

import time

import pytest

from tests.support.tool_files import cycod, load, refused

P = "parameters:\n  P: {type: string, description: p, required: true}\n"


def steps(*texts):
    return cycod(command="steps:\n" + "".join(f"  - {{{text}}}\n" for text in texts))


def parameter(more):
    return cycod(f"parameters:\n  P: {{description: p, required: true, {more}}}\n")


REFUSED = [
    ("name: t\nbash: x", "$.description", "is missing"),
    ("name: t\ndescription: ''\nbash: x", "$.description", "is empty"),
    ("name: 5\ndescription: d\nbash: x", "$.name", "must be text: found the number 5"),
    ('{"name": "a\\u001bb", "description": "d", "bash": "x"}', "$.name", "control character"),
    ("name: t\ndescription: d", "$", "says nothing to run"),
    ("name: t\ndescription: d\nshell: sh", "$", "says nothing to run"),
    (cycod("run: y"), "$.run", "several things to run: bash, run"),
    (cycod("type: alias\nbase-tool: b"), "$.type", "several things to run: bash, type"),
    (cycod(command="bash: [a]"), "$.bash", "must be text: found a list"),
    (cycod(command="bash: 5"), "$.bash", "must be text: found the number 5"),
    (cycod(command="bash: {PARAM}"), "$.bash", "must be text: found an object"),
    (cycod(command="bash:"), "$.bash", "must be text: found nothing"),
    (cycod(command="run: a 'b"), "$.run", "no closing quotation"),
    (cycod(command="commands: {}"), "$.commands", "holds no command"),
    (cycod(command="script: a\nshell: \"sh 'x\""), "$.shell", "names no program"),
    (cycod(command="type: alias"), "$.base-tool", "is missing"),
    (cycod(command="type: thing\nbase-tool: b"), "$.type", "is 'thing'"),
    (cycod(command="steps: []"), "$.steps", "is empty"),
    (cycod(command="steps: x"), "$.steps", "must be a list: found the text 'x'"),
    (cycod(command="steps: [x]"), "$.steps[0]", "must be a map"),
    (steps("bash: x"), "$.steps[0].name", "is missing"),
    (steps("name: a, bash: x", "name: a, bash: y"), "$.steps[1].name", "step 1 is called 'a' too"),
    (steps("name: a"), "$.steps[0]", "says nothing to run"),
    (steps("name: a, bash: x, use-tool: y"), "$.steps[0].use-tool", "bash, use-tool"),
    (steps("name: a, bash: x, with: {A: b}"), "$.steps[0].with", "needs use-tool"),
    (steps("name: a, use-tool: x, error-handling: {fallback: y}"),
     "$.steps[0].error-handling.fallback", "no shell"),
    (steps("name: build, bash: x", "name: b, bash: y, wait-for: [biuld]"),
     "$.steps[1].wait-for[0]", "there is no step 'biuld'"),
    (steps("name: build, bash: x", "name: b, bash: y, run-condition: '{biuld.exit-code} == 0'"),
     "$.steps[1].run-condition", "there is no step 'biuld'"),
    (steps("name: a, bash: x", "name: b, bash: y, run-condition: '{a.exit-kode} == 0'"),
     "$.steps[1].run-condition", "a step has no 'exit-kode'"),
    (steps("name: a, bash: x, output: {mode: loud}"), "$.steps[0].output.mode", "is 'loud'"),
    (steps("name: a, bash: x, output: {buffer-limit: 10 apples}"),
     "$.steps[0].output.buffer-limit", "must be a size"),
    (steps("name: a, bash: x, timeout: 0"), "$.steps[0].timeout", "at least 1 ms"),
    (steps("name: a, bash: x, parallel: 'yes'"), "$.steps[0].parallel", "must be true or false"),
    (steps("name: a, bash: x, error-handling: {retry: {attempts: -1}}"),
     "$.steps[0].error-handling.retry.attempts", "must be 0 or more"),
    (steps("name: a, bash: x, error-handling: {retry: {attempts: 1.5}}"),
     "$.steps[0].error-handling.retry.attempts", "must be a whole number"),
    (cycod("parameters: [P]"), "$.parameters", "must be a map: found a list"),
    (parameter("type: text"), "$.parameters.P.type", "is 'text'"),
    (parameter("validation: {minLength: -1}"), "$.parameters.P.validation.minLength", "0 or more"),
    (parameter("validation: {pattern: '('}"), "$.parameters.P.validation.pattern", "regex"),
    (parameter("validation: {minLength: 5, maxLength: 4}"),
     "$.parameters.P.validation.minLength", "is more than maxLength"),
    (cycod("parameters: {'a b': {description: x, required: true}}"),
     '$.parameters["a b"]', "cannot be the name"),
    (cycod("parameters: {a-b: {description: x, required: true}, "
           "a_b: {description: x, required: true}}"),
     "$.parameters.a_b", "would both be OPTA_TOOL_ARG_A_B"),
    (cycod("security: {execution-privilege: root}"),
     "$.security.execution-privilege", "is 'root'"),
    (cycod("security: {isolation: jail}"), "$.security.isolation", "is 'jail'"),
    (cycod("environment: {variables: {A: 1.10}}"), "$.environment.variables", "must be text"),
    (cycod("environment: {variables: {'A=': x}}"), "$.environment.variables", "cannot be"),
    (cycod("platforms: [linux, amiga]"), "$.platforms", "is 'amiga'"),
    (cycod("tags: [1]"), "$.tags", "must be a list of texts"),
    (cycod("timeout: 1e99"), "$.timeout", "at most 86400000 ms"),
    (cycod("tests: [{description: x}]"), "$.tests[0].name", "is missing"),
    (cycod("function-calling: {schema-generation: {parameter-mapping: {number: float}}}"),
     "$.function-calling.schema-generation.parameter-mapping.number", "is 'float'"),
]  # fmt: skip


@pytest.mark.row("C10", "C22", "C24", "C31", "C35", "C42", "C59", "C60")
@pytest.mark.parametrize(("text", "key", "said"), REFUSED)
def test_what_makes_a_tool_unusable_refuses_it_with_place_and_reason(text, key, said):
    problems = refused(text, "t.json" if text.startswith("{") else "t.yaml")
    assert list(problems) == [key]
    assert said in problems[key].message
    assert problems[key].line
    assert problems[key].column


def test_everything_wrong_with_a_file_is_told_at_once():
    text = (
        "name: 5\nbash: [x]\ntimeout: -1\nplatforms: [beos]\nparameters:\n  P:\n    type: bad\n"
        "tests:\n  - expected: {exit-code: zero}\n"
    )
    assert {key: (p.line, p.column) for key, p in refused(text).items()} == {
        "$.name": (1, 1), "$.description": (1, 1), "$.bash": (2, 1), "$.timeout": (3, 1),
        "$.platforms": (4, 1), "$.parameters.P.type": (7, 5), "$.tests[0].name": (9, 5),
        "$.tests[0].expected.exit-code": (9, 16),
    }  # fmt: skip


TOLERATED = [
    (cycod("parameters: {P: {required: true}}"), "$.parameters.P.description", "is missing"),
    (parameter("default: 5"), "$.parameters.P.default", "5 is no string"),
    (parameter("default: abc, validation: {maxLength: 2}"), "$.parameters.P.default",
     "longer than 2"),
    (cycod("version: 1.0"), "$.version", "must be a semantic version"),
    (cycod("version: '1.0.0.0'"), "$.version", "must be a semantic version"),
    (cycod(P + "tests: [{name: a, parameters: {P: 5}}]"), "$.tests[0].parameters.P",
     "5 is no string"),
    (cycod(P + "tests: [{name: a, parameters: {Q: x}}]"), "$.tests[0].parameters.Q",
     "there is no parameter 'Q'"),
    (cycod("timeout: 500\ntimeout: 600"), "$.timeout", "twice (first in line 4)"),
]  # fmt: skip


@pytest.mark.row("C43", "C394")
@pytest.mark.parametrize(("text", "key", "said"), TOLERATED)
def test_an_error_that_the_tool_can_live_with_is_told_and_it_loads(text, key, said):
    _, (problem,) = load(text)
    assert problem.key == key
    assert said in problem.message
    assert (problem.severity, problem.warning) == ("error", True)


def test_of_a_key_that_is_there_twice_the_last_one_counts():
    assert load(cycod("timeout: 500\ntimeout: 600"))[0].limits.timeout_ms == 600


WARNED = [
    (cycod("descripton: x"), "$.descripton", "did you mean description?"),
    (parameter("requierd: true"), "$.parameters.P.requierd", "did you mean required?"),
    (cycod("shell: sh"), "$.shell", ""),
    (cycod("parameters: {P: {description: p}}"), "$.parameters.P", "say required: or default:"),
    (parameter("validation: {minimum: 1}"), "$.parameters.P.validation.minimum", "number"),
    (parameter("examples: [a, 5]"), "$.parameters.P.examples[1]", ""),
    (parameter("validation: {enum: [a, 1]}"), "$.parameters.P.validation.enum[1]", ""),
    (cycod("parameters: {HOME: {description: p, required: true}}"), "$.parameters.HOME", ""),
    (cycod(command="bash: echo {WHO} {TEMP} {{THEY}} ${SHELL} {js,ts} {author: .x}"), "$.bash",
     "declare it below parameters"),
    (steps("name: a, bash: x", "name: b, bash: 'echo {c.output}'"), "$.steps[1].bash", ""),
    (cycod("input: '{WHO}'"), "$.input", "declare it"),
    (cycod("timeout: 30"), "$.timeout", "milliseconds"),
    (cycod("description: a\u202eb").replace("description: d\n", ""), "$.description", ""),
    (cycod("environment: {secrets: [A]}"), "$.environment.secrets", ""),
    (cycod("parameters: {}", "type: alias\nbase-tool: b").replace(": {}", ": {P: {}}"),
     "$.parameters", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key", "hint"), WARNED)
def test_what_its_author_should_know_is_a_warning(text, key, hint):
    found = {problem.key: problem for problem in load(text)[1]}
    assert found[key].severity == "warning"
    assert hint in found[key].hint
    assert found[key].line


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(?=(a+)+$)b", r"^(a|a)*\1b$", r"(.*)*\1x"])
def test_a_pattern_that_could_take_for_ever_takes_a_moment(pattern):
    started = time.process_time()
    _, (warning,) = load(
        parameter(f"validation: {{pattern: '{pattern}'}}, examples: ['{'a' * 5000}!']")
    )
    assert time.process_time() - started < 2
    assert warning.key == "$.parameters.P.examples[0]"
    assert "does not match" in warning.message or "Max limit" in warning.message
    assert len(warning.message) < 250


def test_keys_that_begin_with_x_are_anyones():
    assert load(cycod("x-own: {a: 1}"))[1] == []


def test_names_of_the_environment_are_no_mistake_in_variables():
    assert load(cycod("environment: {variables: {TOKEN: '{TOKEN}'}}"))[1] == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('bash: curl -H "A: b" x', 'curl -H "A: b" x'),
        ("bash: echo it's: {X}   # why", "echo it's: {X}"),
        ("bash: `date`: x", "`date`: x"),
        ("bash: {X} --flag", "{X} --flag"),
        ("bash: [ -f x ] && echo y", "[ -f x ] && echo y"),
        ("bash: @echo off", "@echo off"),
        ("run: prog --a: b", "prog --a: b"),
    ],
)
def test_a_command_without_the_quotes_yaml_wants_is_read_as_written(line, text):
    definition, warnings = load(cycod(command=line))
    command = definition.action.steps[0].command
    assert (command.text if line.startswith("bash") else " ".join(command.words)) == text
    mended = [w for w in warnings if "not YAML as written" in w.message]
    assert [(w.line, w.column, w.severity) for w in mended] == [(3, 1, "error")]


@pytest.mark.parametrize(
    "text",
    [
        "name: t\ndescription: a: b\nbash: x",
        "name: t\ndescription: d\nbash: a: b\n  more: c",
        'name: t\ndescription: d\nbash: "a" b',
        "name: t\ndescription: d\nbash: x: y\n\tz: 1",
    ],
)
def test_other_text_that_is_not_yaml_is_refused_with_its_place(text):
    (problem,) = refused(text).values()
    assert "not YAML" in problem.message or "tab" in problem.message
    assert problem.line
