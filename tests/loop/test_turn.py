"""One turn of the loop: what it emits, what it leaves in the history, how it ends."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from agent.conversation import Conversation
from agent.events import (
    AssistantFinished,
    ContextCompacted,
    RequestStarted,
    RetryScheduled,
    TurnEnd,
    TurnFinished,
    TurnStarted,
)
from agent.loop import Limits, run_turn
from agent.messages import AssistantMessage, ToolMessage, UserMessage
from agent.model.base import FailureKind, ModelError, TextDelta
from agent.model.scripted import ScriptedCall, ScriptedModel, ScriptedTurn, call, say
from tests.support.custom_tools import Project
from tests.support.history import answered
from tests.support.soon import SOON_S
from tools.builtin import all_builtins
from tools.definition import Outcome
from tools.events import CallDecided, CallFinished, CallOutput, CallProposed, CallStarted
from tools.permissions.question import Answer, Choice


class Talk:
    """A conversation with a scripted model in a project of its own."""

    def __init__(self, root: Path, *turns: ScriptedTurn, answer=Choice.ONCE, **limits):
        self.project = Project(root, answer)
        self.project.add(
            "shout", 'printf "%s!" "$OPTA_TOOL_ARG_WORD"', {"word": {"type": "string"}}, ["word"]
        )
        self.project.add("wait", "sleep 30")
        self.model = ScriptedModel(turns)
        self.conversation = Conversation("You are a test.")
        self.limits = Limits(**limits)
        self.events = []

    async def say(self, text="go"):
        return await run_turn(
            UserMessage(text), model=self.model, executor=self.project.executor,
            conversation=self.conversation, limits=self.limits, emit=self.events.append,
        )  # fmt: skip

    def kinds(self):
        return [type(event) for event in self.events if not isinstance(event, TextDelta)]

    def results(self):
        return [m.result for m in self.conversation.messages if isinstance(m, ToolMessage)]


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


async def test_an_answer_without_calls_ends_the_turn(tmp_path):
    talk = Talk(tmp_path, say("Hello there."))
    outcome = await talk.say("hi")
    assert (outcome.end, outcome.text) == (TurnEnd.DONE, "Hello there.")
    assert [type(m) for m in talk.conversation.messages] == [UserMessage, AssistantMessage]
    assert "".join(e.text for e in of(talk.events, TextDelta)) == "Hello there."
    assert talk.kinds()[0] is TurnStarted
    assert talk.kinds()[-1] is TurnFinished


async def test_a_call_runs_and_its_result_goes_back(tmp_path):
    talk = Talk(tmp_path, call("shout", word="hey"), say("Done.", expect=("hey!",)))
    assert (await talk.say()).end is TurnEnd.DONE
    order = [CallProposed, CallDecided, CallStarted, CallFinished]
    assert [k for k in talk.kinds() if k in order] == order
    assert "hey!" in talk.results()[0].text
    assert [len(request.messages) for request in talk.model.requests] == [1, 3]


@pytest.mark.parametrize(
    ("turn", "told"),
    [
        (call("shoot", word="x"), ("no tool 'shoot'", "shout")),
        (call("shout"), ("$.word",)),
        (call("shout", word=["x"]), ("$.word", "string")),
        (ScriptedTurn(calls=(ScriptedCall("shout", '{"word": '),)), ("cut",)),
        (ScriptedTurn(calls=(ScriptedCall("shout", "word=x"),)), ("JSON",)),
        (ScriptedTurn(calls=(ScriptedCall("", "{}"),)), ("no name",)),
    ],
)
async def test_a_wrong_call_is_answered_with_what_is_wrong(tmp_path, turn, told):
    talk = Talk(tmp_path, turn, say("I see."))
    assert (await talk.say()).end is TurnEnd.DONE
    (result,) = talk.results()
    assert result.outcome is Outcome.ERROR
    assert all(part in result.text for part in told), result.text
    assert not of(talk.events, CallStarted)
    assert not talk.project.person.asked


async def test_three_answers_without_a_valid_call_end_the_turn(tmp_path):
    talk = Talk(tmp_path, *[call("nothing_like_it")] * 5)
    outcome = await talk.say()
    assert outcome.end is TurnEnd.FAILED
    assert len(talk.model.requests) == 3
    assert answered(talk.conversation.messages)


async def test_a_refusal_with_words_goes_on_and_one_without_ends_the_turn(tmp_path):
    talk = Talk(tmp_path, call("shout", word="a"), say("Then not."))
    talk.project.person.answer = Answer(Choice.NO, "be quiet")
    assert (await talk.say()).end is TurnEnd.DONE
    assert "be quiet" in talk.results()[0].text

    talk = Talk(tmp_path / "b", call("shout", word="a"), say("never asked"), answer=Choice.NO)
    assert (await talk.say()).end is TurnEnd.REFUSED
    assert len(talk.model.requests) == 1
    assert talk.results()[0].outcome is Outcome.DENIED
    assert answered(talk.conversation.messages)


async def test_after_a_bare_refusal_later_calls_of_the_message_do_not_run(tmp_path):
    both = say("", call("shout", word="a"), call("shout", word="b"))
    talk = Talk(tmp_path, both, answer=Choice.NO)
    await talk.say()
    assert len(talk.project.person.asked) == 1
    assert [r.outcome for r in talk.results()] == [Outcome.DENIED, Outcome.DENIED]
    assert not of(talk.events, CallStarted)


async def test_calls_of_one_message_are_asked_before_any_runs_and_answered_in_order(tmp_path):
    both = say("", call("shout", word="a"), call("shout", word="b"))
    talk = Talk(tmp_path, both, say("ok"))
    await talk.say()
    kinds = [k for k in talk.kinds() if k in (CallDecided, CallStarted)]
    assert kinds == [CallDecided, CallDecided, CallStarted, CallStarted]
    assert [r.text for r in talk.results()] == ["a!", "b!"]


async def cancelled(talk, ready):
    """Cancel the turn as soon as `ready` holds; return how long it took to come back."""
    task = asyncio.ensure_future(talk.say())
    deadline = time.monotonic() + 10
    while not ready():
        assert time.monotonic() < deadline, talk.events
        await asyncio.sleep(0.005)
    start = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return time.monotonic() - start


async def test_cancelling_while_the_answer_streams_keeps_what_came(tmp_path):
    talk = Talk(tmp_path, say("one two three four", delay_ms=50), say("next"))
    took = await cancelled(talk, lambda: len(of(talk.events, TextDelta)) >= 2)
    assert took < SOON_S
    last = talk.conversation.messages[-1]
    assert isinstance(last, AssistantMessage)
    assert last.interrupted
    assert last.text.startswith("one")
    assert talk.events[-1].end is TurnEnd.CANCELLED
    assert (await talk.say("again")).end is TurnEnd.DONE


async def test_cancelling_before_anything_came_answers_the_message(tmp_path):
    talk = Talk(tmp_path, say("late", delay_ms=5000))
    assert await cancelled(talk, lambda: of(talk.events, RequestStarted)) < SOON_S
    assert [type(m) for m in talk.conversation.messages] == [UserMessage, AssistantMessage]
    assert "interrupted" in talk.conversation.messages[-1].model_text


async def test_cancelling_a_running_call_gives_it_a_result_and_ends_its_process(tmp_path):
    talk = Talk(tmp_path, say("", call("wait"), call("shout", word="b")))
    assert await cancelled(talk, lambda: of(talk.events, CallStarted)) < SOON_S
    first, second = talk.results()
    assert "outcome is unknown" in first.text
    assert second.outcome is Outcome.CANCELLED
    assert answered(talk.conversation.messages)
    assert len(of(talk.events, CallFinished)) == 2


async def test_a_cancelled_call_keeps_what_it_printed(tmp_path):
    talk = Talk(tmp_path, call("count"))
    numbers = "i=0; while [ $i -lt 9000 ]; do echo $i; i=$((i+1)); done"
    talk.project.add("count", f"echo first; {numbers}; echo last; sleep 30")
    shown = lambda: "last" in "".join(e.text for e in of(talk.events, CallOutput))  # noqa: E731
    await cancelled(talk, shown)
    (result,) = talk.results()
    assert result.outcome is Outcome.CANCELLED
    told, _, output = result.text.partition(" Its output until then:\n")
    assert told.startswith("Interrupted by the user")
    assert output.startswith("first\n0\n1\n")
    assert output.endswith("8999\nlast")
    assert "characters left out" in output
    assert len(output) < 20_000


async def test_cancelling_while_a_person_is_asked_means_no(tmp_path):
    talk = Talk(tmp_path, call("shout", word="a"))
    waiting = asyncio.Event()

    async def ask(request):
        waiting.set()
        await asyncio.sleep(60)

    talk.project.person.ask = ask
    assert await cancelled(talk, waiting.is_set) < SOON_S
    assert talk.results()[0].outcome is Outcome.CANCELLED
    assert not of(talk.events, CallStarted)


def failing(kind, text="", **details):
    return ScriptedTurn(text=text, error=ModelError(kind, "it broke", **details))


async def test_a_passing_fault_is_retried_after_the_time_the_server_names(tmp_path):
    talk = Talk(
        tmp_path,
        failing(FailureKind.RATE_LIMITED, transient=True, retry_after_s=0.05),
        say("here"),
    )
    assert (await talk.say()).text == "here"
    (retry,) = of(talk.events, RetryScheduled)
    assert (retry.delay_s, retry.attempt) == (0.05, 1)
    assert len(talk.conversation.messages) == 2


async def test_cancelling_while_a_retry_waits_comes_back_at_once(tmp_path):
    talk = Talk(tmp_path, failing(FailureKind.SERVER, transient=True, retry_after_s=30))
    assert await cancelled(talk, lambda: of(talk.events, RetryScheduled)) < SOON_S
    assert answered(talk.conversation.messages)
    assert isinstance(talk.conversation.messages[-1], AssistantMessage)


async def test_a_cut_stream_is_retried_once_then_the_turn_ends_valid(tmp_path):
    cut = failing(FailureKind.CUT, "half an ans", transient=True, retry_after_s=0)
    talk = Talk(tmp_path, cut, say("whole answer"))
    assert (await talk.say()).text == "whole answer"
    assert [m.text for m in talk.conversation.messages[1:]] == ["whole answer"]

    talk = Talk(tmp_path / "b", cut, cut, say("never asked"))
    outcome = await talk.say()
    assert outcome.end is TurnEnd.FAILED
    assert len(talk.model.requests) == 2
    assert talk.conversation.messages[-1].text == "half an ans"


async def test_a_lasting_fault_ends_the_turn_with_its_next_step(tmp_path):
    talk = Talk(tmp_path, failing(FailureKind.UNAUTHORISED, next_step="check the key"))
    outcome = await talk.say()
    assert (outcome.end, outcome.detail, outcome.next_step) == (
        TurnEnd.FAILED, "it broke", "check the key",
    )  # fmt: skip
    assert answered(talk.conversation.messages)
    assert isinstance(talk.conversation.messages[-1], AssistantMessage)


async def test_max_turns_stops_before_the_next_request(tmp_path):
    talk = Talk(tmp_path, *[call("shout", word="x")] * 5, max_turns=2)
    outcome = await talk.say()
    assert outcome.end is TurnEnd.LIMIT
    assert "--max-turns" in outcome.next_step
    assert len(talk.model.requests) == 2
    assert answered(talk.conversation.messages)


async def test_max_tokens_total_counts_the_whole_session(tmp_path):
    talk = Talk(tmp_path, say("one"), say("two"), max_tokens_total=1)
    assert (await talk.say()).end is TurnEnd.DONE
    assert (await talk.say()).end is TurnEnd.LIMIT
    assert isinstance(talk.conversation.messages[-1], AssistantMessage)


async def test_a_conversation_too_long_for_the_server_is_summarised_once_and_sent_again(tmp_path):
    talk = Talk(
        tmp_path, say("first answer"), say("second answer"),
        failing(FailureKind.CONTEXT_TOO_LONG), say("SUMMARY"), say("third answer"),
    )  # fmt: skip
    await talk.say("one")
    await talk.say("two")
    outcome = await talk.say("three")
    assert outcome.text == "third answer"
    (compacted,) = of(talk.events, ContextCompacted)
    assert "SUMMARY" in compacted.summary
    assert "SUMMARY" in talk.conversation.messages[0].model_text
    assert "three" in talk.conversation.messages[0].model_text


async def test_the_history_is_summarised_before_it_fills_the_window(tmp_path):
    talk = Talk(
        tmp_path, say("a " * 3000), say("SUMMARY"), say("after"), context_window=2000,
    )  # fmt: skip
    await talk.say("one")
    assert (await talk.say("two")).text == "after"
    assert of(talk.events, ContextCompacted)
    assert talk.conversation.context_tokens < 2000
    assert len(of(talk.events, AssistantFinished)) == 2


async def test_an_empty_summary_leaves_the_history_as_it_was(tmp_path):
    talk = Talk(
        tmp_path, say("first answer"), say("second answer"),
        failing(FailureKind.CONTEXT_TOO_LONG), say("  "),
    )  # fmt: skip
    await talk.say("one")
    await talk.say("two")
    outcome = await talk.say("three")
    assert outcome.end is TurnEnd.FAILED
    assert "no summary" in outcome.detail
    assert talk.conversation.messages[0].text == "one"
    assert not of(talk.events, ContextCompacted)


async def test_a_long_message_that_is_to_be_answered_is_never_summarised(tmp_path):
    talk = Talk(tmp_path, say("a"), say("SUMMARY"), say("after"), context_window=2000)
    await talk.say("one")
    question = "q" * 9000
    assert (await talk.say(question)).text == "after"
    assert question in talk.model.requests[-1].messages[0].model_text


async def test_a_summary_that_fails_for_the_moment_is_asked_for_again(tmp_path):
    talk = Talk(
        tmp_path, say("a " * 3000),
        failing(FailureKind.SERVER, transient=True, retry_after_s=0), say("SUMMARY"), say("after"),
        context_window=2000,
    )  # fmt: skip
    await talk.say("one")
    assert (await talk.say("two")).text == "after"
    assert len(of(talk.events, RetryScheduled)) == 1


async def test_what_the_person_asked_last_survives_a_summary_made_in_the_middle_of_a_turn(tmp_path):
    talk = Talk(
        tmp_path, call("shout", word="x" * 12_000), say("SUMMARY"), say("done"),
        context_window=2000,
    )  # fmt: skip
    assert (await talk.say("paint it green")).text == "done"
    assert of(talk.events, ContextCompacted)
    first = talk.model.requests[-1].messages[0].model_text
    assert "SUMMARY" in first
    assert "word for word:\npaint it green" in first


async def test_what_the_summariser_is_sent_fits_the_window(tmp_path):
    turns = [call("shout", word="y" * 3000) for _ in range(20)]
    talk = Talk(tmp_path, *turns, *[say("S")] * 20, context_window=4000)
    await talk.say("go")
    sent = [r for r in talk.model.requests if not r.tools]
    assert sent
    assert all(len(r.messages[0].text) < 4000 * 4 for r in sent)


async def test_a_defect_in_the_middle_of_a_turn_leaves_a_valid_history(tmp_path):
    talk = Talk(tmp_path, say("never"))

    def broken(request):
        raise RuntimeError("a defect")

    talk.model.stream = broken
    with pytest.raises(RuntimeError):
        await talk.say()
    assert answered(talk.conversation.messages)
    assert talk.events[-1].end is TurnEnd.FAILED


@pytest.mark.row("E132")
@pytest.mark.parametrize("feedback", ["", "not now"])
async def test_a_refused_command_says_permission_denied_and_runs_nothing(tmp_path, feedback):
    builtins = {builtin.definition.name: builtin for builtin in all_builtins()}
    project = Project(tmp_path, builtins=builtins)
    project.registry.switch("bash_execution", True)
    project.person.answer = Answer(Choice.NO, feedback)
    result = await project.call("bash_execution", command=f"touch {tmp_path}/made")
    assert not result.success
    assert result.text.startswith("Permission denied")
    assert feedback in result.text
    assert not (tmp_path / "made").exists()
