"""Records behave as frozen dataclasses do, but for the assignment that mypy refuses."""

from __future__ import annotations

import copy
from dataclasses import asdict, field, replace
from functools import cached_property

import pytest

from tools.record import open_record, record


@record
class Point:
    x: int
    y: int = 0
    seen: list[int] = field(default_factory=list, compare=False)
    secret: str = field(default="s3cret", repr=False)


@record
class Other:
    x: int
    y: int = 0


@record
class Nothing:
    pass


@record
class Odd:
    x: int

    def __eq__(self, other):
        return isinstance(other, Odd) and self.x % 2 == other.x % 2

    def __hash__(self):
        return self.x % 2

    def __repr__(self):
        return "odd"


@open_record
class Counted:
    text: str

    @cached_property
    def words(self):
        return self.text.split()


def test_records_are_equal_by_their_fields_and_class():
    assert Point(1, 2) == Point(1, 2, [3])
    assert Point(1, 2) != Point(1, 3)
    assert Point(1, 2) != (1, 2)
    assert Other(1, 2) != Point(1, 2)
    assert Nothing() == Nothing()
    assert Nothing() != Other(1)


def test_equal_records_are_one_key():
    assert {Point(1, 2), Point(1, 2, [3]), Point(2, 2)} == {Point(2, 2), Point(1, 2)}
    assert len({Nothing(), Nothing(), Other(1)}) == 2


def test_a_record_with_a_field_that_has_no_hash_has_none():
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(Other([]))


def test_what_is_shown_leaves_out_what_may_not_be():
    assert repr(Point(1)) == "Point(x=1, y=0, seen=[])"
    assert repr(Nothing()) == "Nothing()"


def test_methods_of_its_own_stay():
    assert Odd(1) == Odd(3)
    assert len({Odd(1), Odd(3)}) == 1
    assert repr(Odd(1)) == "odd"


def test_what_dataclasses_offer_works():
    assert replace(Point(1, 2), y=5) == Point(1, 5)
    assert asdict(Other(1)) == {"x": 1, "y": 0}
    assert copy.deepcopy(Point(1, 2, [3])).seen == [3]
    match Other(7, 8):
        case Other(x, y):
            assert (x, y) == (7, 8)


def test_a_record_has_no_room_for_anything_else():
    with pytest.raises(AttributeError):
        Point(1).z = 3


def test_an_open_record_keeps_what_it_computed_and_is_equal_without_it():
    counted = Counted("a b")
    assert counted.words is counted.words
    assert counted == Counted("a b")
    assert repr(counted) == "Counted(text='a b')"
