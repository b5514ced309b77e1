"""Decides what each step of a plan waits for, from the file alone: nothing is run here (X39-X43).

A step waits for what its `wait-for` names and for every step that its texts refer to. Without
`wait-for`, and unless it is `parallel`, it also waits for all steps before it. The order is that
of the file; only a step that refers forward is postponed until what it needs has ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from heapq import heappop, heappush

from tools.actions import Argv, Command, PlatformCommands, Shell, Step, UseTool
from tools.formats.findings import listed
from tools.formats.references import STEP_PROPERTIES
from tools.record import record

# `${…}` belongs to the shell and `{{…}}` is literal text (X91).
_BRACES = re.compile(r"\{(?<![{$]\{)(?!\{)([^{}]*)")
_PROPERTY = "|".join(sorted(STEP_PROPERTIES))
_REFERENCE = re.compile(rf"(?<![\w.-])([A-Za-z_][\w-]*)\.({_PROPERTY})(?![\w-])")
_ALIKE = 0.75
_MOST_COMPARED = 100
"""So many names that are no step are compared with those that are."""


class PlanError(Exception):
    """The steps cannot be put in an order. The message says why and which steps are meant."""


@record
class PlannedStep:
    """A step and its place.

    `number` is its position in the file (from 1). `waits_for` names the steps that must have
    ended before it starts; those that they waited for themselves may be left out.
    `refers_to` maps each step it refers to to the properties asked for.
    """

    step: Step
    number: int
    waits_for: tuple[str, ...]
    refers_to: Mapping[str, frozenset[str]]


def order_steps(steps: Sequence[Step], shared_texts: Sequence[str] = ()) -> list[PlannedStep]:
    """Return the steps in the order in which they would start one at a time.

    `shared_texts` are templates that every step uses, such as the plan's input: the steps after
    those that they refer to wait for them. Raises PlanError for steps that
    share a name, for a name that is no step, and for a ring of steps.
    """
    names = _names(steps)
    refers_to = {step.name: references(_texts(step), names) for step in steps}
    needs = {step.name: _needs(step, names, refers_to[step.name]) for step in steps}
    _add_shared(needs, references(shared_texts, names))
    order = _stable_order(names, needs)
    return [
        PlannedStep(names[name], number, waits_for, refers_to[name])
        for number, name, waits_for in _with_implicit(order, names, needs)
    ]


def references(texts: Sequence[str], names: Mapping[str, object]) -> dict[str, frozenset[str]]:
    """Return which of the steps `names` the texts refer to, and the properties they ask for.

    Braces that name no step stay what they are (X91), but for what is clearly a slip.
    Raises PlanError for that.
    """
    found: dict[str, set[str]] = {}
    others: set[str] = set()
    for text in texts:
        for within in _BRACES.findall(text) if "{" in text else ():
            for name, wanted in _REFERENCE.findall(within) if "." in within else ():
                if name in names:
                    found.setdefault(name, set()).add(wanted)
                    continue
                if name in others or len(others) == _MOST_COMPARED:
                    continue
                others.add(name)
                if near := get_close_matches(name, names, 1, _ALIKE):
                    raise PlanError(
                        f"{{{name}.{wanted}}} refers to a step {name!r} that does not exist. "
                        f"Did you mean {near[0]!r}?"
                    )
    return {name: frozenset(wanted) for name, wanted in found.items()}


def _names(steps: Sequence[Step]) -> dict[str, Step]:
    names: dict[str, Step] = {}
    for step in steps:
        if step.name in names:
            raise PlanError(f"Two steps are called {step.name!r}. Rename one of them.")
        names[step.name] = step
    return names


def _texts(step: Step) -> list[str]:
    return [step.condition, step.fallback, *step.output.masked, *_command_texts(step.command)]


def _command_texts(command: Command) -> Iterator[str]:
    match command:
        case Shell(text=text, placeholders=True):
            yield text
        case Argv(words, placeholders=True):
            yield from words
        case UseTool(arguments=arguments):
            yield from _strings(arguments)
        case PlatformCommands(default, platforms):
            for shell in (default, *platforms.values()):
                if shell is not None:
                    yield from _command_texts(shell)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)


def _needs(
    step: Step, names: Mapping[str, Step], refers_to: Mapping[str, object]
) -> dict[str, None]:
    for name in step.wait_for or ():
        if name not in names:
            raise PlanError(
                f"The step {step.name!r} waits for {name!r}, which is no step. "
                + _known(name, names)
            )
    for braces in _BRACES.finditer(step.condition):
        for name, wanted in _REFERENCE.findall(braces[1]):
            if name not in names:
                raise PlanError(
                    f"The condition of the step {step.name!r} refers to {{{name}.{wanted}}}, but "
                    f"{name!r} is no step. " + _known(name, names)
                )
    return dict.fromkeys((*(step.wait_for or ()), *refers_to))


def _known(name: str, names: Mapping[str, object]) -> str:
    near = get_close_matches(name, names, 1, 0.5)
    return f"Did you mean {near[0]!r}?" if near else f"The steps are {listed(names)}."


def _add_shared(needs: dict[str, dict[str, None]], shared: Mapping[str, object]) -> None:
    if not shared:
        return
    names = list(needs)
    # Earlier steps cannot wait for what the order of the file puts after them.
    exempt = set(names[: max((names.index(name) + 1 for name in shared), default=0)])
    pending = list(shared)
    while pending:
        for name in needs[pending.pop()]:
            if name not in exempt:
                exempt.add(name)
                pending.append(name)
    for name in names:
        if name not in exempt:
            needs[name].update(dict.fromkeys(shared))


def _stable_order(names: Mapping[str, Step], needs: Mapping[str, Mapping[str, None]]) -> list[str]:
    """Keep the order of the file; what must be postponed comes as soon as it can, earlier first."""
    if not any(needs.values()):
        return list(names)
    numbers = {name: number for number, name in enumerate(names)}
    missing = {name: len(needs[name]) for name in names}
    needed_by: dict[str, list[str]] = {name: [] for name in names}
    for name in names:
        for need in needs[name]:
            needed_by[need].append(name)
    order: dict[str, None] = {}
    ready: list[tuple[int, str]] = []
    for number, name in enumerate(names):
        if not missing[name]:
            heappush(ready, (number, name))
        while ready:
            _, first = heappop(ready)
            order[first] = None
            for waiting in needed_by[first]:
                missing[waiting] -= 1
                if not missing[waiting] and numbers[waiting] <= number:
                    heappush(ready, (numbers[waiting], waiting))
    if len(order) < len(names):
        ring = _ring(next(name for name in names if name not in order), needs, order)
        raise PlanError(
            f"These steps wait for each other: {' -> '.join(ring)}. "
            "Remove one of the wait-for entries or references between them."
        )
    return list(order)


def _ring(
    name: str, needs: Mapping[str, Mapping[str, None]], ended: Mapping[str, None]
) -> list[str]:
    path: dict[str, None] = {}
    while name not in path:
        path[name] = None
        name = next(need for need in needs[name] if need not in ended)
    names = list(path)
    return [*names[names.index(name) :], name]


def _with_implicit(
    order: Sequence[str],
    names: Mapping[str, Step],
    needs: Mapping[str, Mapping[str, None]],
) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Add what follows from the order: a step that says nothing waits for all before it.

    What such a step waited for has ended when it ends, so only the steps since then are named.
    """
    numbers = {name: number for number, name in enumerate(names, 1)}
    since: list[str] = []
    for name in order:
        waits_for = dict(needs[name])
        if not names[name].parallel and names[name].wait_for is None:
            waits_for.update(dict.fromkeys(since))
            since = []
        since.append(name)
        yield numbers[name], name, tuple(waits_for)
