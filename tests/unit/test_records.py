"""`tools.records.dataclass` does what the standard one does; the standard one is the oracle."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools import records

T = TypeVar("T")
OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq}
    for frozen in (False, True) for slots in (False, True) for eq in (False, True)
]  # fmt: skip

each_option = pytest.mark.parametrize(
    "options", OPTIONS, ids=lambda o: " ".join(name for name in o if o[name]) or "none"
)


class Point:
    """A place."""

    x: int
    y: str = "why"
    seen: list[int] = field(default_factory=list)
    secret: str = field(default="", repr=False)
    note: str = field(default="", compare=False)

    def moved(self) -> Point:
        return dataclasses.replace(self, x=self.x + 1)  # type: ignore[type-var]


def copy_of(cls: type) -> type:
    """Return the class once more, to be decorated."""
    members = {k: v for k, v in cls.__dict__.items() if k not in ("__dict__", "__weakref__")}
    return type(cls.__name__, (), members)


def both(cls: type, **options: bool) -> tuple[Any, Any]:
    """Return the class as made here and as made by the standard decorator."""
    return (
        records.dataclass(copy_of(cls), **options),  # type: ignore[call-overload]
        dataclasses.dataclass(copy_of(cls), **options),  # type: ignore[call-overload]
    )


def outcome(do: Callable[[], Any]) -> Any:
    """Return what comes of it, or the error and its text."""
    try:
        return do()
    except Exception as error:
        return type(error), str(error)


@each_option
@given(st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2), st.text(max_size=2))
def test_instances_behave_as_those_of_the_standard_decorator(options, x, y, seen, note):
    texts = []
    for cls in both(Point, **options):
        one, other = cls(x, y, seen, "s", note), cls(x, y=y, seen=list(seen), note=note)
        same = cls(x, y, seen, "s", note + "!")
        texts.append(
            [
                repr(one).replace("test_records.", ""),
                one == other, one == same, one == (x, y, seen), one != cls(x + 1),
                outcome(lambda one=one, same=same: hash(one) == hash(same)) if not seen else "",
                dataclasses.asdict(one), [f.name for f in dataclasses.fields(one)],
                one.moved().x, cls.__match_args__, cls.__doc__, hasattr(one, "__dict__"),
                [(f.name, f.type, f.repr, f.compare) for f in dataclasses.fields(cls)],
            ]
        )  # fmt: skip
    assert texts[0] == texts[1]


@each_option
@pytest.mark.parametrize(
    "do",
    [
        lambda cls: cls(),
        lambda cls: cls(1, 2, 3, 4, 5, 6),
        lambda cls: cls(1, colour=2),
        lambda cls: setattr(cls(1), "x", 2),
        lambda cls: delattr(cls(1), "x"),
        lambda cls: dataclasses.replace(cls(1), unknown=2),
        lambda cls: copy.deepcopy(cls(1, seen=[1])).seen,
        lambda cls: copy.copy(cls(1, "z")).y,
        lambda cls: list(inspect.signature(cls).parameters),
        lambda cls: cls.y if "y" not in getattr(cls, "__slots__", ()) else "slot",
        lambda cls: hasattr(cls, "seen"),
        lambda cls: cls.__dataclass_params__.frozen,
    ],
    ids=range(12),
)
def test_errors_and_rare_uses_are_the_same(options, do):
    here, standard = (outcome(lambda cls=cls: do(cls)) for cls in both(Point, **options))
    assert here == standard


def test_a_default_made_by_a_factory_is_new_each_time():
    cls, _ = both(Point)
    cls(1).seen.append(1)
    assert cls(1).seen == []


def test_what_repeats_itself_is_shown_once():
    class Node:
        next: object = None

    shown = []
    for cls in both(Node):
        node = cls()
        node.next = node
        shown.append(repr(node))
    assert shown[0] == shown[1]


@records.dataclass(frozen=True, slots=True)
class Kept:
    number: int
    words: tuple[str, ...] = ()


def test_a_frozen_instance_with_slots_can_be_pickled():
    assert pickle.loads(pickle.dumps(Kept(1, ("a",)))) == Kept(1, ("a",))


def test_it_is_known_by_its_place_in_the_patterns():
    match Kept(1, ("a",)):
        case Kept(number, words):
            assert (number, words) == (1, ("a",))


def test_a_cached_property_works_on_a_frozen_instance_without_slots():
    @records.dataclass(frozen=True)
    class Circle:
        radius: int

        @cached_property
        def area(self) -> int:
            return 3 * self.radius**2

    assert Circle(2).area == 12


def test_a_generic_class_stays_one():
    @records.dataclass(frozen=True, slots=True)
    class Box(Generic[T]):
        value: T

    assert Box[int](1) == Box(1)


class Checked:
    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise ValueError(f"{self.value} is negative")


class WithClassVar:
    known: ClassVar[dict[str, int]] = {}
    value: int = 1


class WithOwnRepr:
    value: int

    def __repr__(self) -> str:
        return "mine"


class WithOwnEquality:
    value: int

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


class KeywordOnly:
    value: int = field(kw_only=True)


class NotInitialised:
    value: int = field(default=3, init=False)


class Empty:
    pass


class MutableDefault:
    value: list[int] = []  # noqa: RUF012


class WrongOrder:
    first: int = 1
    second: int


@each_option
@pytest.mark.parametrize(
    "plain",
    [Checked, WithClassVar, WithOwnRepr, WithOwnEquality, KeywordOnly, NotInitialised, Empty,
     MutableDefault, WrongOrder],
)  # fmt: skip
@pytest.mark.parametrize("arguments", [(), (1,), (-1,)], ids=repr)
def test_classes_out_of_the_ordinary_are_as_the_standard_decorator_makes_them(
    options, plain, arguments
):
    results = []
    for decorate in (records.dataclass, dataclasses.dataclass):

        def use(decorate=decorate):
            cls: Any = decorate(copy_of(plain), **options)
            made = cls(*arguments)
            return repr(made), made == cls(*arguments), outcome(lambda: hash(made) == hash(made))

        results.append(outcome(use))
    assert results[0] == results[1]


def test_a_subclass_goes_to_the_standard_decorator():
    @dataclasses.dataclass(frozen=True)
    class More(Kept):
        colour: str = "red"

    @records.dataclass(frozen=True)
    class Most(Kept):
        colour: str = "red"

    for cls in (More, Most):
        assert dataclasses.asdict(cls(1)) == {"number": 1, "words": (), "colour": "red"}


def test_defining_classes_compiles_one_function_each():
    """What made the standard decorator slow is the compiler; nobody else is timed here."""
    code = (
        "from __future__ import annotations\nimport builtins, tools.records as r\n"
        "real, seen = exec, []\n"
        "builtins.exec = lambda *a: (seen.append(a), real(*a))[1]\n"
        "@r.dataclass(frozen=True, slots=True)\nclass A:\n    x: int\n    y: int = 2\n"
        "print(len(seen))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
