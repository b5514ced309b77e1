"""docs/reference.md and the JSON Schema say what the readers do."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from scripts.tool_reference import PAGE, page
from tests.support.tool_files import origin
from tools.formats import read
from tools.formats.cycod_keys import PARAMETER, STEP, TOOL
from tools.formats.fields import Keys
from tools.formats.opta_json import KEYS as OPTA


def test_the_page_is_what_the_tables_say():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make docs`"


def test_every_link_within_the_page_leads_somewhere():
    text = page()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = ["".join(c for c in h.lower().replace(" ", "-") if c.isalnum() or c in "-_")
               for h in headings]  # fmt: skip
    assert len(set(anchors)) == len(anchors)
    assert set(re.findall(r"\(#([^)]*)\)", text)) <= set(anchors)


def test_every_key_of_the_readers_is_on_the_page():
    rows = re.findall(r"^\| `([^`]+)`", page(), re.MULTILINE)

    def names(keys: Keys) -> set[str]:
        return set(keys).union(*(names(key.keys) for key in keys.values()))

    assert names(TOOL) <= set(rows)


TOOL_TEXT = "{description: d, %s: x%s}"
STEP_TEXT = "{description: d, steps: [{name: a, bash: x%s}]}"
RETRY = "{description: d, steps: [{name: a, bash: x, error-handling: {retry: {attempts: 1%s}}}]}"
OUTPUT = "{description: d, steps: [{name: a, bash: x, output: {masked-values: [a]%s}}]}"
PARAMETER_TEXT = "{description: d, bash: x, parameters: {P: {description: p, default: a%s}}}"
NESTED = "{description: d, bash: x, %s: {%%s}}"


def _defaults():
    for form, keys in [
        (TOOL_TEXT % ("bash", "%s"), TOOL),
        (STEP_TEXT, STEP),
        (PARAMETER_TEXT, PARAMETER),
        (OUTPUT, STEP["output"].keys),
        (RETRY, STEP["error-handling"].keys["retry"].keys),
        *((NESTED % name, TOOL[name].keys) for name in ("security", "environment", "file-paths")),
    ]:
        for key in keys.values():
            if key.default is not None and key.name not in ("shell", "attempts"):
                given = str(key.default).lower() if isinstance(key.default, bool) else key.default
                yield pytest.param(form, f"{key.name}: {given}", id=key.name)
    yield pytest.param(
        "{description: d, name: n, command: x, parameters: {type: object, properties: {}}%s}",
        f"timeout: {OPTA['timeout'].default}", id="opta-timeout",
    )  # fmt: skip


@pytest.mark.parametrize(("form", "given"), list(_defaults()))
def test_a_default_on_the_page_is_what_happens_without_the_key(form, given):
    comma = "" if "{%s}" in form else ", "
    ((with_key,), _) = read((form % (comma + given)).encode(), origin())
    ((without,), _) = read((form % "").encode(), origin())
    assert replace(with_key, origin=without.origin) == without
