"""Whatever a tool file holds, reading it gives a tool or an error with a place, and soon."""

from __future__ import annotations

import json
import random
import time

import hypothesis.strategies as st
import pytest
import yaml
from hypothesis import given, settings

from tests.support.tool_files import EXAMPLES, cycod, origin
from tools.formats import codex, read
from tools.formats.cycod_keys import TOOL
from tools.formats.fields import Key, Kind
from tools.formats.findings import MOST
from tools.formats.problems import ToolFileError

SEEDS = [path.read_bytes() for path in sorted((EXAMPLES / "002" / "tools").glob("*.yaml"))]

WORDS = st.sampled_from([
    "", "a", "s1", "{a}", "{s1.output}", "true", "10MB", "1.0.0", "linux", "read", "alias", "(",
    "\0", "{A ? 'b' : ''}", "'", "string", "number", "\u202e", "echo a: b",
])  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**12) | st.floats() | WORDS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)


def value_of(key: Key):
    """Return a strategy for values that are often right for a key."""
    if key.keys:
        inner = mapping_of(key.keys)
        right = {
            Kind.MAP: inner,
            Kind.LIST: st.lists(inner, max_size=3),
            Kind.NAMED: st.dictionaries(WORDS, inner, max_size=3),
        }[key.kind]
        return right | ANYTHING
    choices = [st.sampled_from(key.choices)] if key.choices else []
    return st.one_of(*choices, WORDS, st.lists(WORDS, max_size=3), st.booleans(), ANYTHING)


def mapping_of(keys):
    return st.fixed_dictionaries({}, optional={key.name: value_of(key) for key in keys.values()})


def outcome(data, name="t.yaml"):
    """Read a file; return the problems. Anything but ToolFileError fails the test."""
    try:
        tools, problems = read(data, origin(name))
    except ToolFileError as error:
        tools, problems = [], [*error.problems, *error.warnings]
    # A tool has a digest, and a file without a tool a reason.
    assert [tool.digest for tool in tools] or problems
    return problems


@settings(max_examples=120, deadline=None)
@given(mapping_of(TOOL))
def test_documents_made_of_the_keys_of_the_format(document):
    text = yaml.safe_dump(document, allow_unicode=True, sort_keys=False)
    for problem in outcome(text.encode("utf-8", "surrogatepass")):
        assert str(problem).isprintable()


@settings(max_examples=150, deadline=None)
@given(ANYTHING)
def test_any_document(document):
    outcome(yaml.safe_dump(document).encode())


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False))
def test_examples_with_damage(text, chance: random.Random):
    data = bytearray(text)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(data))
        piece = chance.choice(
            [b"", b"\n", b"  ", b": ", b"- ", b"'", b'"', b"{", b"[", b"\t", b"#"]
        )
        data[at : at + chance.randint(0, 6)] = piece
    outcome(bytes(data))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes(data):
    outcome(data)
    outcome(data, "t.json")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.sampled_from([
            "[custom_tools.a]", "[custom_tools]", '[custom_tools."x.y"]', "[profiles.p]",
            "command='x'",
            "command=['x', 'y']", "command=[1]", "timeout=5", "timeout=nan", "env={A='b', C=1}",
            "env=1", "parameters={type='object'}", "parameters={a=1979-05-27}", "cwd='../x'",
            "profile='p'", "parallel=1", "x=", "a.b.c=1", "[[custom_tools.b]]", "custom_tools=1",
        ]),
        max_size=8,
    )
)  # fmt: skip
def test_any_config_toml(lines):
    try:
        tools, _ = codex.read("\n".join(lines).encode(), origin("config.toml"))
    except ToolFileError as error:
        tools = []
        assert "not TOML" in str(error)  # noqa: PT017 - the other way is no error
    assert all(json.dumps(tool.wire, allow_nan=False) for tool in tools)


def bomb() -> str:
    levels = "".join(f"x-{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 12))
    return f"x-0: &l0 [a]\n{levels}"


BAD = {
    "a YAML bomb": (cycod(bomb()), "more than 100,000 values"),
    "10,000 lists in lists": (cycod("x-deep: " + "[" * 10_000 + "]" * 10_000), "deeper than 64"),
    "10,000 maps in maps": (
        cycod("x-deep:\n" + "".join(f"{' ' * (n + 1)}a:\n" for n in range(900))), "deeper than 64",
    ),
    "a tab": (cycod("security:\n\tisolation: none"), "a tab is used for indentation"),
    "Latin-1": (cycod("x-a: é").encode("latin-1"), "0xe9 is not UTF-8"),
    "UTF-16": (cycod().encode("utf-16"), "UTF-16"),
    "nothing": ("", "one file defines one tool"),
    "only a comment": ("# nothing\n", "one file defines one tool"),
    "NUL": (cycod("x-a: \0"), "control character"),
    "an object of Python": (cycod("x-a: !!python/object/apply:os.system [id]"), "is refused"),
    "two documents": (cycod() + "---\n" + cycod(), "a second document"),
    "10 MB": (b"#" * 10_000_000, "10,000,000 bytes"),
    "a megabyte of what is almost a command": ("bash: a: b\n" * 95_000, "not YAML"),
    "a long line of blanks": ("bash: a: b" + " " * 900_000 + "x", "not YAML"),
}  # fmt: skip


MANY = 20_000
MANY_MISTAKES = {
    "unknown keys": cycod("".join(f"key-{n}: 1\n" for n in range(MANY))),
    "keys that are there twice": "{" + ",".join(f'"k{n}":1,"k{n}":1' for n in range(MANY)) + "}",
    "parameters that are none": cycod(
        "parameters:\n" + "".join(f"  k{n}: 1\n" for n in range(MANY))
    ),
    "names that are required and not there": json.dumps({
        "name": "t", "description": "d", "command": "true",
        "parameters": {
            "type": "object", "properties": {}, "required": [f"k{n}" for n in range(MANY)],
        },
    }),
    "steps": "name: t\ndescription: d\nsteps:\n" + "".join(
        f"  - {{name: s{n}, bash: a, wait-for: [nothing{n}]}}\n" for n in range(MANY // 2)
    ),
    "steps like none": "name: t\ndescription: d\nsteps:\n" + "".join(
        f"  - {{name: step-{n}, bash: a}}\n" for n in range(900)
    ) + "  - name: last\n    bash: '" + "".join(f"{{k{n}.output}} " for n in range(MANY)) + "'\n",
    "broken tables": "".join(f"[custom_tools.t{n}]\ncommand = 1\n" for n in range(MANY)),
    "mistakes in a table": "[custom_tools.t]\ncommand = ['a']\n[custom_tools.t.parameters]\n"
    + f"required = {list(range(MANY))}",
    "blanks in a text": "[custom_tools.t]\ncommand = ['a']\ndescription = '''\n["
    + " " * 10**6 + "'''",
    "parts of a key": "[custom_tools.t]\ncommand = ['a']\n" + "a . " * 10**5 + "b = 1",
    "parts of a name": "[custom_tools." + "'x'." * 10**5 + "b]\ncommand = ['a']",
}  # fmt: skip


@pytest.mark.parametrize("name", MANY_MISTAKES)
def test_very_many_mistakes_are_told_in_few_lines_and_soon(name):
    text = MANY_MISTAKES[name]
    read_file = codex.read if text.startswith("[custom_tools") else read
    started = time.process_time()
    try:
        problems = read_file(text.encode(), origin("t.json" if text[0] == "{" else "t.yaml"))[1]
    except ToolFileError as error:
        problems = [*error.problems, *error.warnings]
    assert time.process_time() - started < 10
    assert len(problems) <= 3 * (MOST + 1)
    assert sum(len(str(problem)) for problem in problems) < 100_000
    if len(problems) > 1:
        assert any("there is more" in str(problem) for problem in problems)


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_line_and_soon(name):
    text, said = BAD[name]
    started = time.process_time()
    with pytest.raises(ToolFileError) as caught:
        read(text.encode() if isinstance(text, str) else text, origin())
    assert time.process_time() - started < 2
    (problem,) = caught.value.problems
    assert said in problem.message
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    "change",
    [lambda text: b"\xef\xbb\xbf" + text, lambda text: text.replace(b"\n", b"\r\n")],
    ids=["byte order mark", "CRLF"],
)
def test_marks_of_other_systems_change_nothing(change):
    for text in SEEDS:
        try:
            (plain,), _ = read(text, origin())
        except ToolFileError:
            continue
        (marked,), _ = read(change(text), origin())
        assert marked.digest == plain.digest
