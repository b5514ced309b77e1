"""What an answer of the person covers, and for how long."""

from __future__ import annotations

import pytest

from tests.support.bench import BUILTINS
from tests.support.custom_tools import Project
from tools.permissions.gate import Choice, PermissionGate
from tools.permissions.rules import RuleSet
from tools.storage import StorageError


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path, answer=Choice.SESSION, builtins=BUILTINS)


@pytest.mark.parametrize("choice", [Choice.SESSION, Choice.ALWAYS])
async def test_an_answer_covers_a_tool_until_its_file_changes(tmp_path, choice):
    project = Project(tmp_path, answer=choice)
    project.add("deploy", "echo one")
    assert (await project.call("deploy")).text == "one"
    assert (await project.call("custom.deploy")).text == "one"
    assert len(project.person.asked) == 1

    project.add("deploy", "echo changed")
    assert (await project.call("deploy")).text == "changed"
    assert len(project.person.asked) == 2, "what runs now was never allowed"
    await project.call("deploy")
    assert len(project.person.asked) == 2, "the new answer covers the new tool"

    project.add("deploy", "echo one")
    await project.call("deploy")
    assert len(project.person.asked) == 2, "what was allowed before is the same tool again"


async def test_an_answer_survives_a_change_of_the_file_that_is_none_of_the_tool(project):
    project.add("deploy", "echo one")
    await project.call("deploy")
    file = project.tools / "deploy.json"
    file.write_text(f"\n\n{file.read_text()}\n")
    project.registry.refresh()
    await project.call("deploy")
    assert len(project.person.asked) == 1


async def test_a_rule_that_the_person_wrote_covers_a_tool_by_name(project):
    from tools.permissions.rules import Verdict

    project.rule(Verdict.ALLOW, "deploy")
    project.add("deploy", "echo one")
    await project.call("deploy")
    project.add("deploy", "echo two")
    assert (await project.call("deploy")).text == "two"
    assert not project.person.asked


@pytest.mark.parametrize("error", [StorageError("disk full"), PermissionError(13, "denied")])
async def test_an_answer_that_cannot_be_saved_runs_the_call_and_tells_the_person(tmp_path, error):
    def remember(rule):
        raise error

    project = Project(tmp_path, answer=Choice.ALWAYS, builtins=BUILTINS)
    told = []
    rules = RuleSet((), tmp_path)
    project.gate = PermissionGate(rules, project.person, remember=remember)
    project.gate.tell = told.append
    project.executor.gate = project.gate
    project.add("deploy", "echo one")
    for _ in range(2):
        assert (await project.call("deploy")).text == "one"
    assert len(project.person.asked) == 1, "it holds for the session"
    assert told == [f"Your answer holds for this session only; it could not be saved: {error}"]
    (first, *_) = [event.by for event in project.events if hasattr(event, "by")]
    assert first == "you (always, for this session only: it could not be saved)"
