"""The gate: who is asked what, what an answer opens, and what nothing opens."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.calls import connects, make_call, make_invocation, reads, runs, writes
from tools.confinement import Backend, Confinement, Level, Walls
from tools.definition import Source
from tools.permissions.gate import Denial, PermissionGate
from tools.permissions.grant import Grant, GrantError
from tools.permissions.mode import Mode
from tools.permissions.question import Answer, Choice
from tools.permissions.rules import RuleSet, Verdict, parse_rule

ROOT = Path("/work/project")
INSIDE = "/work/project/a.py"


class Person:
    """Answers as told and remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked = []

    async def ask(self, request):
        self.asked.append(request)
        await asyncio.sleep(0)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


YES, SESSION, ALWAYS = (Answer(c) for c in (Choice.ONCE, Choice.SESSION, Choice.ALWAYS))
NO = Answer(Choice.NO)


def make_gate(*rules: str, person: Person | None = None, **more) -> PermissionGate:
    """Make a gate with rules written as `deny:run_command`."""
    parsed = [
        parse_rule(Verdict(rule.split(":", 1)[0]), rule.split(":", 1)[1], "t:1") for rule in rules
    ]
    return PermissionGate(RuleSet(parsed, ROOT), person, **more)


async def decide(gate, *effects, call=None):
    return await gate.authorise(call or make_call(), make_invocation(*effects))


async def test_reading_in_the_workspace_needs_no_question() -> None:
    decision = await decide(make_gate(), reads(INSIDE))
    assert decision.grant is not None
    assert decision.by == "reads in the workspace are allowed"


@pytest.mark.parametrize(
    ("effect", "reason"),
    [
        (runs("ls"), "no rule allows it"),
        (writes(INSIDE), "no rule allows it"),
        (reads("/etc/x", inside=False), "/etc/x is outside the workspace"),
        (reads(INSIDE, sensitive="it holds secrets"), "it holds secrets"),
        (writes(INSIDE, protected="git runs it"), "git runs it"),
    ],
)
async def test_everything_else_asks_and_says_why(effect, reason) -> None:
    person = Person(YES)
    decision = await decide(make_gate(person=person), effect)
    assert decision.grant is not None
    assert [request.reason for request in person.asked] == [reason]


async def test_accept_edits_allows_writes_in_the_workspace_only() -> None:
    gate = make_gate(mode=Mode.ACCEPT_EDITS)
    assert (await decide(gate, reads(INSIDE), writes(INSIDE))).grant
    for effect in (runs("ls"), writes("/etc/x", inside=False), writes(INSIDE, protected="p")):
        assert not (await decide(gate, effect)).grant


def walled(*effects, network=False, level=Level.SANDBOX):
    """Return an invocation whose processes run behind walls."""
    walls = Confinement(level, Backend.BUBBLEWRAP, lambda write, read: Walls(), network=network)
    return replace(make_invocation(*effects), confinement=walls)


async def test_auto_sandbox_allows_what_its_walls_keep_harmless_and_nothing_else() -> None:
    gate = make_gate(mode=Mode.AUTO_SANDBOX)
    allowed = await gate.authorise(make_call(), walled(runs("make"), reads(INSIDE)))
    assert allowed.by == "auto-sandbox mode"
    assert allowed.grant is not None
    assert allowed.grant.confinement == walled().confinement
    assert (await decide(gate, reads(INSIDE), writes(INSIDE))).grant
    for invocation in (
        make_invocation(runs("make")),
        walled(runs("make"), network=True),
        walled(runs("make"), level=Level.PROCESS),
        walled(runs("make"), connects("example.com")),
        walled(runs("make"), reads("/etc/x", inside=False)),
        walled(runs("make"), writes("/etc/x", inside=False)),
        walled(runs("make"), reads(INSIDE, sensitive="it holds secrets")),
        walled(runs("rm -r /", protected="it removes everything")),
    ):
        assert (await gate.authorise(make_call(), invocation)).denial is Denial.NOBODY


async def test_rules_count_in_auto_sandbox_too() -> None:
    gate = make_gate(
        "deny:run_command(rm:*)", "ask:run_command(git push:*)", mode=Mode.AUTO_SANDBOX
    )  # fmt: skip
    denials = [
        (await gate.authorise(make_call(), walled(runs(command)))).denial
        for command in ("rm x", "$x", "git push")
    ]
    assert denials == [Denial.RULE, Denial.NOBODY, Denial.NOBODY]


async def test_auto_sandbox_says_why_it_asks() -> None:
    person = Person(YES)
    gate = make_gate(mode=Mode.AUTO_SANDBOX, person=person)
    await gate.authorise(make_call(), make_invocation(runs("make")))
    await gate.authorise(make_call(), walled(runs("make"), network=True))
    assert [request.reason for request in person.asked] == [
        "it runs outside the sandbox", "its sandbox has the network",
    ]  # fmt: skip


async def test_plan_mode_only_reads_whatever_the_rules_and_flags() -> None:
    gate = make_gate("allow:run_command", mode=Mode.PLAN, skip_permissions=True, person=Person(YES))
    decision = await decide(gate, runs("ls"))
    assert decision.denial is Denial.MODE
    assert (await decide(gate, reads(INSIDE))).grant


@pytest.mark.row("A42")
async def test_skip_permissions_answers_yes_but_keeps_deny_rules_and_protection() -> None:
    gate = make_gate("deny:run_command(rm:*)", "ask:run_command(ls:*)", skip_permissions=True)
    assert (await decide(gate, runs("ls"))).grant
    assert (await decide(gate, runs("make"))).grant
    assert (await decide(gate, runs("rm x"))).denial is Denial.RULE
    assert (await decide(gate, runs("$x"))).denial is Denial.NOBODY, "it may be rm"
    assert (await decide(gate, writes(INSIDE, protected="p"))).denial is Denial.NOBODY


async def test_without_a_person_an_ask_is_a_counted_denial() -> None:
    gate = make_gate()
    for _ in range(2):
        decision = await decide(gate, runs("ls"))
        assert decision.denial is Denial.NOBODY
        assert "nobody" in decision.message
    assert gate.unanswered == 2
    await decide(gate, reads(INSIDE))
    assert gate.unanswered == 2


async def test_a_denial_names_the_rule_and_where_it_is() -> None:
    decision = await decide(make_gate("deny:run_command"), runs("ls"))
    assert (decision.denial, decision.by) == (Denial.RULE, "rule run_command (t:1)")
    assert "run_command (t:1)" in decision.message


async def test_a_bare_no_ends_the_turn_and_a_reasoned_no_goes_to_the_model() -> None:
    bare = await decide(make_gate(person=Person(NO)), runs("ls"))
    told = await decide(make_gate(person=Person(Answer(Choice.NO, "use make"))), runs("ls"))
    assert (bare.denial, bare.stop_turn) == (Denial.PERSON, True)
    assert (told.denial, told.stop_turn) == (Denial.PERSON, False)
    assert "use make" in told.message


@pytest.mark.parametrize("answer", [SESSION, ALWAYS])
async def test_an_answer_for_the_session_covers_the_same_call_and_no_other_program(answer) -> None:
    person, remembered = Person(answer, NO), []
    gate = make_gate(person=person, remember=remembered.append)
    assert (await decide(gate, runs("npm test"))).grant
    assert (await decide(gate, runs("npm test -- --watch"))).grant
    assert len(person.asked) == 1
    for other in ("npm install", "npm testing", "npm test; id", "id", "sudo npm test"):
        assert (await decide(gate, runs(other))).denial is Denial.PERSON
    assert [rule.text for rule in remembered] == (
        ["run_command(npm test:*)"] if answer is ALWAYS else []
    )


async def test_an_answer_for_once_covers_once() -> None:
    person = Person(YES)
    gate = make_gate(person=person)
    await decide(gate, runs("ls"))
    await decide(gate, runs("ls"))
    assert len(person.asked) == 2


async def test_what_must_be_asked_every_time_offers_no_rule() -> None:
    person = Person(SESSION)
    gate = make_gate("ask:run_command(ls:*)", person=person)
    for _ in range(2):
        await decide(gate, writes(INSIDE, protected="p"))
        await decide(gate, runs("ls"))
    assert [request.suggested for request in person.asked] == [()] * 4


async def test_questions_are_asked_one_at_a_time_and_an_answer_settles_those_that_wait() -> None:
    person = Person(SESSION)
    gate = make_gate(person=person)
    decisions = await asyncio.gather(*[decide(gate, runs("npm test")) for _ in range(5)])
    assert all(decision.grant for decision in decisions)
    assert len(person.asked) == 1


async def test_cancelling_a_question_allows_nothing_and_frees_the_gate() -> None:
    class Silent:
        async def ask(self, request):
            started.set()
            await asyncio.Event().wait()

    started = asyncio.Event()
    gate = make_gate(person=Silent())
    task = asyncio.create_task(decide(gate, runs("ls")))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gate.approver = Person(YES)
    assert (await decide(gate, runs("ls"))).grant


async def test_a_grant_fits_exactly_the_call_it_was_given_for() -> None:
    call = make_call(arguments={"command": "ls"})
    decision = await decide(make_gate(person=Person(YES)), runs("ls"), call=call)
    assert decision.grant is not None
    decision.grant.check(call)
    others = [
        replace(call, id="call_2"),
        replace(call, arguments={"command": "rm x"}),
        replace(call, tool=replace(call.tool, description="changed")),
        make_call("other", arguments={"command": "ls"}),
    ]
    for other in others:
        with pytest.raises(GrantError):
            decision.grant.check(other)


def test_a_grant_cannot_be_forged() -> None:
    with pytest.raises(GrantError):
        Grant(make_call(), "me", object())


def test_what_the_person_runs_by_hand_is_allowed_for_that_call() -> None:
    call = make_call()
    gate = make_gate("deny:run_command")
    decision = gate.authorise_person(call, make_invocation(runs("ls")), "you (!ls)")
    assert decision.grant is not None
    decision.grant.check(call)


COMMANDS = [
    "npm test",
    "npm test x",
    "rm -rf x",
    "git push",
    "git status",
    "ls; rm x",
    "$x y",
    "ls",
]
RULES = [
    "run_command", "run_command(npm test:*)", "run_command(rm:*)", "run_command(git push:*)",
    "run_command(ls)", "write_file(src/**)", "write_file", "read_file", "tool:read", "deploy",
]  # fmt: skip
effects = st.one_of(
    st.sampled_from(COMMANDS).map(runs),
    st.builds(
        lambda make, path, inside, protected, sensitive: make(
            path, inside, protected=protected, sensitive=sensitive
        ),
        st.sampled_from([reads, writes]),
        st.sampled_from([INSIDE, "/work/project/src/a", "/etc/x"]),
        st.booleans(),
        st.sampled_from(["", "", "protected"]),
        st.sampled_from(["", "", "sensitive"]),
    ),
)
calls = st.builds(
    make_call,
    st.sampled_from(["run_command", "deploy", "write_file"]),
    tags=st.sampled_from([None, ["read"], ["run"]]),
    source=st.sampled_from([Source.BUILTIN, Source.CUSTOM]),
)
situations = st.tuples(
    calls,
    st.lists(effects, min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from(list(Verdict)), st.sampled_from(RULES)), max_size=5),
    st.sampled_from(list(Mode)),
    st.booleans(),
)


@given(situations, st.sampled_from([YES, SESSION, ALWAYS, NO]))
@settings(max_examples=400)
def test_no_mode_flag_rule_or_answer_gets_past_the_order_of_decision(situation, answer) -> None:
    call, found, rules, mode, skip = situation
    parsed = [parse_rule(verdict, text, "t:1") for verdict, text in rules]
    person, invocation = Person(answer), make_invocation(*found)

    def gate(approver):
        return PermissionGate(RuleSet(parsed, ROOT), approver, mode=mode, skip_permissions=skip)

    denying = RuleSet([rule for rule in parsed if rule.verdict is Verdict.DENY], ROOT)
    denied = denying.judge(call, invocation)
    attended, alone = gate(person), gate(None)
    with_person = asyncio.run(attended.authorise(call, invocation))
    unattended = asyncio.run(alone.authorise(call, invocation))

    if denied is not None and denied.verdict is Verdict.DENY:
        assert with_person.denial is Denial.RULE
        assert not person.asked
    if denied is not None or any(effect.protected for effect in found):
        assert unattended.grant is None
        assert with_person.grant is None or person.asked
    assert alone.unanswered == len(person.asked), "who is asked decides, else nobody does"
    if person.asked:
        assert unattended.denial is Denial.NOBODY
        assert (with_person.grant is not None) == (answer is not NO)
    for decision in (with_person, unattended):
        assert (decision.grant is None) == (decision.denial is not None)
        if decision.grant is not None:
            decision.grant.check(call)
        else:
            assert decision.message
    if answer in (SESSION, ALWAYS) and person.asked and person.asked[0].suggested:
        asyncio.run(attended.authorise(call, invocation))
        assert len(person.asked) == 1, "the answer covers the same call"
