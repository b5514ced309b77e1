"""The calls of one message: asked in order, run at once, and one after another where they must."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support.bench import BUILTINS
from tests.support.custom_tools import Project
from tools.definition import Outcome, ToolCall
from tools.events import CallDecided, CallFinished, CallProposed, CallStarted
from tools.permissions.question import Answer, Choice

YES, NO = Answer(Choice.ONCE), Answer(Choice.NO)


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path, builtins=BUILTINS)
    (tmp_path / "a.py").write_text("one\ntwo\n")
    (tmp_path / "b.py").write_text("one\n")
    return project


class Script:
    """Answers questions in turn, and notes what was asked and how a file was at that moment."""

    def __init__(self, *answers, watch=None):
        self.answers = list(answers)
        self.asked = []
        self.seen = []
        self.watch = watch

    async def ask(self, request):
        self.asked.append(request.invocation.title)
        if self.watch is not None:
            self.seen.append(self.watch.read_text())
        await asyncio.sleep(0)
        return self.answers.pop(0)


def edit(old, new, path="a.py"):
    return ("edit_file", {"path": path, "old_string": old, "new_string": new})


async def test_a_second_edit_is_made_from_what_the_first_left(project):
    project.gate.skip_permissions = True
    results = await project.calls(
        edit("one", "1"), edit("two", "2"), edit("1\n2", "done"), edit("one", "uno", "b.py")
    )
    assert [result.success for result in results] == [True] * 4
    assert (project.root / "a.py").read_text() == "done\n"


async def test_a_file_can_be_made_changed_read_and_deleted_in_one_message(project):
    project.gate.skip_permissions = True
    results = await project.calls(
        ("write_file", {"path": "new.py", "content": "x = 1\n"}),
        edit("x = 1", "x = 2", "new.py"),
        ("read_file", {"path": "new.py"}),
        ("write_file", {"path": "new.py", "content": "x = 3\n"}),
        ("read_file", {"path": "new.py"}),
    )
    assert [result.success for result in results] == [True] * 5, [r.text for r in results]
    assert "x = 2" in results[2].text
    assert "x = 3" in results[4].text


async def test_questions_come_in_order_and_each_shows_the_file_as_it_then_is(project):
    project.gate.approver = person = Script(*[YES] * 4, watch=project.root / "a.py")
    await project.calls(
        edit("one", "1"), edit("1", "I"), ("run_command", {"command": "touch x"}),
        edit("one", "uno", "b.py"),
    )  # fmt: skip
    assert person.asked == ["Edit a.py", "touch x", "Edit b.py", "Edit a.py"]
    assert person.seen == ["one\ntwo\n"] * 3 + ["1\ntwo\n"]
    shown = [event.preview for event in project.events if isinstance(event, CallDecided)]
    assert "-1\n+I" in shown[-1].diff
    assert "-one\n+1" in shown[0].diff


async def test_a_bare_no_to_a_later_edit_leaves_the_earlier_one_and_stops_the_rest(project):
    project.gate.approver = Script(YES, NO)
    results = await project.calls(edit("one", "1"), edit("two", "2"), edit("1", "I"))
    assert [r.outcome for r in results] == [Outcome.OK, Outcome.DENIED, Outcome.DENIED]
    assert [r.stop_turn for r in results] == [False, True, False]
    assert (project.root / "a.py").read_text() == "1\ntwo\n"


async def test_a_bare_no_to_the_first_edit_stops_all(project):
    project.gate.approver = person = Script(NO)
    results = await project.calls(edit("one", "1"), edit("1", "I"), edit("one", "x", "b.py"))
    assert [r.outcome for r in results] == [Outcome.DENIED] * 3
    assert len(person.asked) == 1


async def test_an_edit_after_one_that_was_refused_with_words_is_made_on_the_old_file(project):
    project.gate.approver = Script(Answer(Choice.NO, "not that"), YES)
    results = await project.calls(edit("one", "1"), edit("two", "2"))
    assert [r.outcome for r in results] == [Outcome.DENIED, Outcome.OK]
    assert (project.root / "a.py").read_text() == "one\n2\n"


async def test_a_second_edit_whose_place_the_first_took_says_so(project):
    project.gate.skip_permissions = True
    first, second = await project.calls(edit("one", "1"), edit("one", "2"))
    assert first.success
    assert "does not stand in a.py" in second.text
    assert (project.root / "a.py").read_text() == "1\ntwo\n"


async def test_cancelling_between_rounds_gives_every_call_a_result(project):
    class Stuck(Script):
        async def ask(self, request):
            if len(self.asked) == 1:
                reached.set()
                await asyncio.Event().wait()
            return await super().ask(request)

    reached = asyncio.Event()
    project.gate.approver = Stuck(YES)
    calls = [
        ToolCall(f"c{n}", name, json.dumps(arguments))
        for n, (name, arguments) in enumerate([edit("one", "1"), edit("1", "2"), edit("2", "3")])
    ]
    batch = project.executor.batch(calls, project.events.append)
    task = asyncio.create_task(batch.run())
    await asyncio.wait_for(reached.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [r.outcome for r in batch.results()] == [
        Outcome.OK, Outcome.CANCELLED, Outcome.CANCELLED,
    ]  # fmt: skip
    finished = [event.call.id for event in project.events if isinstance(event, CallFinished)]
    assert sorted(finished) == ["c0", "c1", "c2"]


async def test_each_call_is_proposed_decided_started_and_finished_once(project):
    project.gate.skip_permissions = True
    await project.calls(*[edit("one" if n == 0 else str(n - 1), str(n)) for n in range(5)])
    for kind in (CallProposed, CallDecided, CallStarted, CallFinished):
        ids = [event.call.id for event in project.events if isinstance(event, kind)]
        assert ids == [f"call_{n}" for n in range(1, 6)]


async def test_calls_that_share_nothing_run_at_the_same_time_in_one_round(project):
    project.gate.skip_permissions = True
    everyone = "until [ $(ls here-* | wc -l) = 6 ]; do sleep 0.02; done"
    results = await project.calls(
        *[("run_command", {"command": f"touch here-{n}; {everyone}"}) for n in range(6)],
        ("read_file", {"path": "a.py"}),
    )  # fmt: skip
    assert all(result.success for result in results)


async def test_a_refused_edit_does_not_count_as_having_read_the_file(project):
    project.gate.approver = Script(Answer(Choice.NO, "no"), YES)
    await project.calls(edit("one", "1"))
    (result,) = await project.calls(("write_file", {"path": "a.py", "content": "new\n"}))
    assert "was not read" in result.text
    assert (project.root / "a.py").read_text() == "one\ntwo\n"
