"""The examples of docs/tools.md are valid tools and do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.cli import opta

PAGE = (Path(__file__).parents[2] / "docs" / "tools.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_is_valid_and_runs():
    tools = Path(".opta/tools")
    tools.mkdir(parents=True)
    for example in EXAMPLES:
        named = re.search(r"^name: (\S+)", example, re.MULTILINE)
        (tools / f"{named[1] if named else 'disk'}.yaml").write_text(example)
    Path("src").mkdir()
    Path("src/a.txt").write_text("TODO: x\n")
    Path("Makefile").write_text("lint:\n\ttrue\ntest:\n\ttrue\n")
    Path("CHANGELOG.md").write_text("1.2.3\n")
    assert len(EXAMPLES) == 3
    valid = opta("tool", "validate", "--all", "--trust")
    assert valid.returncode == 0, valid.stdout
    found = opta("tool", "run", "find-text", "--param", "TEXT=TODO", "--trust")
    assert found.stdout == "src/a.txt:1:TODO: x\n"
    tested = opta("tool", "test", "release-check", "--trust", "--yes")
    assert tested.returncode == 0, tested.stdout
    assert "1 passed, 0 failed" in tested.stdout
    assert opta("tool", "run", "disk", "--trust").returncode == 0
