"""The order of steps: what waits for what, read from the file alone."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tools.actions import Argv, PlatformCommands, Shell, Step, UseTool
from tools.engine.plan import PlanError, order_steps


def step(name, text="true", **more):
    return Step(name, Shell("bash", text, placeholders=True), **more)


def waits(*steps, shared=()):
    return {p.step.name: set(p.waits_for) for p in order_steps(steps, shared)}


def order(*steps):
    return [p.step.name for p in order_steps(steps)]


@pytest.mark.row("C23", "C131")
def test_steps_that_say_nothing_run_one_after_the_other():
    assert waits(step("a"), step("b"), step("c")) == {"a": set(), "b": {"a"}, "c": {"b"}}


@pytest.mark.row("C29")
def test_a_parallel_step_waits_for_nothing_and_the_next_one_for_it():
    assert waits(step("a"), step("b", parallel=True), step("c")) == {
        "a": set(), "b": set(), "c": {"a", "b"},
    }  # fmt: skip


@pytest.mark.row("C30", "C133")
def test_wait_for_names_all_that_a_step_waits_for():
    assert waits(step("a"), step("b"), step("c", wait_for=("a",)))["c"] == {"a"}
    assert waits(step("a"), step("b"), step("c", wait_for=()))["c"] == set()


@pytest.mark.row("C369")
def test_the_published_clone_example_checks_while_it_clones_and_reports_last():
    both = "{try-https.exit-code} == 0 || {try-ssh.exit-code} == 0"
    found = waits(
        step("try-https"),
        step("try-ssh", condition="{try-https.exit-code} != 0"),
        step("check-deps", parallel=True),
        step("install-deps", wait_for=("try-https", "try-ssh", "check-deps"), condition=both),
        step("report-status"),
    )
    assert found["check-deps"] == set()
    assert found["install-deps"] == {"try-https", "try-ssh", "check-deps"}
    assert found["report-status"] == {"try-ssh", "check-deps", "install-deps"}


def test_a_step_that_refers_forward_is_postponed_and_nothing_else_moves():
    assert order(step("a", "{c.output}"), step("b"), step("c"), step("d")) == ["b", "c", "a", "d"]
    found = waits(step("a", condition="{b.exit-code} == 0", wait_for=("b",)), step("b"))
    assert found == {"b": set(), "a": {"b"}}


@pytest.mark.parametrize(
    "later",
    [
        step("b", "echo {a.output}", parallel=True),
        step("b", "echo '{a.error:trim}'", parallel=True),
        step("b", "{a.exit-code == 0 ? 'x' : 'y'}", parallel=True),
        step("b", parallel=True, condition="{a.duration} > 5"),
        step("b", parallel=True, fallback="echo {a.start-time}"),
        Step("b", Argv(("echo", "{a.end-time}")), parallel=True),
        Step("b", UseTool("t", {"X": [{"y": "{a.output}"}]}), parallel=True),
        Step("b", PlatformCommands(None, {"linux": Shell("bash", "{a.output}", True)}), None, "",
             None, True),
    ],
)  # fmt: skip
def test_a_reference_anywhere_in_a_step_is_a_dependency(later):
    assert waits(step("a", parallel=True), later)["b"] == {"a"}


@pytest.mark.parametrize("text", ["${a.output}", "{{a.output}}", "{a.output_x}", "a.output", "{x}"])
def test_what_is_no_reference_is_left_alone(text):
    assert waits(step("a", parallel=True), step("b", text, parallel=True))["b"] == set()


def test_text_run_as_written_refers_to_nothing():
    plain = Step("b", Shell("sh", "{a.output}"), parallel=True)
    assert waits(step("a", parallel=True), plain)["b"] == set()


def test_steps_that_the_shared_input_needs_do_not_wait_for_themselves():
    found = waits(
        step("a"), step("b"), step("c", parallel=True), shared=("got {b.output}",)
    )  # fmt: skip
    assert found == {"a": set(), "b": {"a"}, "c": {"b"}}


@pytest.mark.row("C390")
def test_a_ring_is_an_error_that_shows_it():
    with pytest.raises(PlanError, match="a -> c -> b -> a"):
        order_steps([
            step("z"), step("a", wait_for=("c",)), step("b", "{a.output}"),
            step("c", condition="{b.exit-code} == 0"),
        ])  # fmt: skip
    with pytest.raises(PlanError, match="a -> a"):
        order_steps([step("a", "{a.output}")])


@pytest.mark.row("C31")
def test_an_unknown_step_is_an_error_with_the_nearest_name():
    with pytest.raises(PlanError, match=r"waits for 'buidl'.*Did you mean 'build'"):
        order_steps([step("build"), step("b", wait_for=("buidl",))])
    with pytest.raises(PlanError, match=r"'x'.*The steps are build, b"):
        order_steps([step("build"), step("b", condition="{x.exit-code} == 0")])
    with pytest.raises(PlanError, match=r"'biuld'.*Did you mean 'build'"):
        order_steps([step("build"), step("b", "echo {biuld.output}")])


@pytest.mark.row("C24")
def test_two_steps_of_one_name_are_an_error():
    with pytest.raises(PlanError, match=r"'a'"):
        order_steps([step("a"), step("a")])


@st.composite
def plans(draw):
    names = [f"s{n}" for n in range(draw(st.integers(1, 12)))]
    some = st.lists(st.sampled_from(names), max_size=3, unique=True)
    return [
        step(
            name,
            " ".join(f"{{{other}.output}}" for other in draw(st.just([]) | some)),
            parallel=draw(st.booleans()),
            wait_for=draw(st.none() | some.map(tuple)),
        )
        for name in names
    ]


@settings(max_examples=300)
@given(plans())
def test_every_order_is_complete_and_keeps_all_that_was_asked_for(steps):
    try:
        planned = order_steps(steps)
    except PlanError as error:
        ring = str(error).partition(": ")[2].partition(".")[0].split(" -> ")
        assert ring[0] == ring[-1]
        by_name = {s.name: s for s in steps}
        for waiting, needed in pairwise(ring):
            assert needed in explicit(by_name[waiting])
        return
    place = {p.step.name: position for position, p in enumerate(planned)}
    assert sorted(place) == sorted(s.name for s in steps)
    before: dict[str, set[str]] = {}
    for p in planned:
        before[p.step.name] = set(p.waits_for).union(*(before[name] for name in p.waits_for))
        assert explicit(p.step) <= set(p.waits_for)
        assert all(place[name] < place[p.step.name] for name in p.waits_for)
        if not p.step.parallel and p.step.wait_for is None:
            assert before[p.step.name] == {n for n in place if place[n] < place[p.step.name]}
    if all(place[need] < place[s.name] for s in steps for need in explicit(s)) and not any(
        steps.index(s) < next(i for i, o in enumerate(steps) if o.name == need)
        for s in steps for need in explicit(s)
    ):  # fmt: skip
        assert list(place) == [s.name for s in steps]


def explicit(s):
    return {*(s.wait_for or ()), *(word[1:-8] for word in s.command.text.split())}


def test_thousands_of_steps_are_ordered_at_once():
    chain = [step(f"s{n}", wait_for=(f"s{n + 1}",) if n < 4999 else None) for n in range(5000)]
    assert order(*chain)[:2] == ["s4999", "s4998"]
