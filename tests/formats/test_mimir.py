"""What a Mimir tool file becomes before its code can be run."""

from __future__ import annotations

import json

import pytest

from tests.support.tool_files import EXAMPLES, load, refused
from tools.definition import Risk

RUN_TESTS = EXAMPLES / "004" / "run_tests.yml"
TOOL = {
    "name": "t", "description": "d", "code": "export default 1",
    "schema": {"type": "object", "properties": {}},
}  # fmt: skip


def text(**changes):
    data = {**TOOL, **changes}
    return json.dumps({key: value for key, value in data.items() if value is not ...})


def tool(**changes):
    return load(text(**changes), "t.json")[0]


@pytest.mark.row("E26", "E27", "E28", "E29", "E30", "E31", "E32")
def test_the_example_is_read_with_nothing_to_say_about_it():
    definition, warnings = load(RUN_TESTS.read_bytes(), "run_tests.yml")
    assert warnings == []
    assert definition.name == "run_tests"
    assert definition.description.startswith("Run project tests and analyze failures.")
    assert definition.enabled
    assert definition.declared_token_cost == 450
    assert list(definition.parameters["properties"]) == ["pattern", "coverage", "watch"]
    assert definition.parameters["required"] == ["pattern"]
    assert definition.action.allowlist == ("yarn test*", "npm test*", "vitest*")
    assert (definition.action.runtime, definition.action.first_line) == ("typescript", 29)
    assert RUN_TESTS.read_text().splitlines()[28].strip() == definition.action.code.split("\n")[0]


def test_the_example_as_printed_is_one_line():
    printed = EXAMPLES / "004" / "run_tests.as-printed.yml.txt"
    assert len(refused(printed.read_bytes(), "run_tests.yml")) == 1


@pytest.mark.row("E28", "E38")
def test_a_tool_may_be_off():
    assert not tool(enabled=False).enabled
    assert tool().enabled


@pytest.mark.row("E33")
def test_code_is_typescript_unless_the_file_says_otherwise():
    assert tool().action.runtime == "typescript"
    assert tool(runtime="node").action.runtime == "node"


@pytest.mark.row("E37")
def test_a_file_cannot_lower_its_own_risk():
    risks = {level: tool(permissions={"riskLevel": level}).risk
             for level in ("low", "medium", "high", "critical")}  # fmt: skip
    assert risks == {
        "low": Risk.HIGH, "medium": Risk.HIGH, "high": Risk.HIGH, "critical": Risk.CRITICAL,
    }  # fmt: skip


@pytest.mark.row("E26", "E27", "E28", "E29", "E30", "E31", "E32", "E33", "E34", "E37")
@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"name": ...}, "$.name"),
        ({"name": 5}, "$.name"),
        ({"description": ...}, "$.description"),
        ({"description": 5}, "$.description"),
        ({"enabled": "no"}, "$.enabled"),
        ({"tokenCost": "many"}, "$.tokenCost"),
        ({"tokenCost": -1}, "$.tokenCost"),
        ({"schema": ...}, "$.schema"),
        ({"schema": {"type": "array", "properties": {}}}, "$.schema.type"),
        ({"schema": {"type": "object"}}, "$.schema.properties"),
        ({"schema": {"type": "object", "properties": {}, "required": "a"}}, "$.schema.required"),
        ({"runtime": "ruby"}, "$.runtime"),
        ({"code": ...}, "$.code"),
        ({"code": ""}, "$.code"),
        ({"permissions": {"allowlist": [1]}}, "$.permissions.allowlist"),
        ({"permissions": {"autoAccept": "yes"}}, "$.permissions.autoAccept"),
        ({"permissions": {"riskLevel": "none"}}, "$.permissions.riskLevel"),
    ],
)
def test_a_wrong_key_is_refused_with_its_place(changes, key):
    assert list(refused(text(**changes), "t.json")) == [key]
