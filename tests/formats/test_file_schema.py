"""The JSON Schema of a tool file agrees with the reader."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

from tests.formats.test_cycod_mistakes import REFUSED
from tests.support.tool_files import EXAMPLES, origin
from tools.formats.file_schema import file_schema
from tools.yamltext import parse

VALID = jsonschema_rs.validator_for(file_schema())

GOOD = [
    *(path for path in sorted((EXAMPLES / "002" / "tools").glob("*.yaml"))
      if "UNPARSEABLE" not in path.name and path.name != "schema-reference.yaml"),
    EXAMPLES / "004" / "run_tests.yml",
    EXAMPLES / "000" / "deploy.json",
]  # fmt: skip

BEYOND_A_SCHEMA = (
    "step", "closing quotation", "names no program", "no shell",
    "needs use-tool", "is more than", "cannot be", "would both be", "at most", "holds no command",
    "regex",
)  # fmt: skip
"""What only the reader can tell: relations between keys, and what is inside texts."""


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_the_examples_are_valid(path):
    assert list(VALID.iter_errors(parse(path.read_bytes(), path).data)) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [(text, said) for text, _, said in REFUSED if not any(w in said for w in BEYOND_A_SCHEMA)],
)
def test_what_the_reader_refuses_is_not_valid(text, said):
    assert not VALID.is_valid(parse(text, origin().path).data)


@pytest.mark.parametrize("page", ["README.md", "docs/json-tools.md"])
def test_the_json_tools_of_the_documents_are_valid(page):
    text = (Path(__file__).parents[2] / page).read_text()
    tools = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL)]
    assert tools
    for tool in tools:
        assert list(VALID.iter_errors(tool)) == []


def test_it_is_a_json_schema_that_editors_read():
    jsonschema_rs.meta.validate(file_schema())


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{description: d, bash: x, tiemout: 5}", ()),
        ("{description: d, bash: x, parameters: {P: {descripton: p, description: p}}}",
         ("parameters", "P")),
        ("{description: d, steps: [{name: a, bash: x, paralel: true}]}", ("steps", 0)),
    ],
)  # fmt: skip
def test_a_misspelt_key_is_marked_where_it_stands(text, place):
    (error,) = VALID.iter_errors(parse(text, origin().path).data)
    assert tuple(error.instance_path) == place
