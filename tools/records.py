"""Dataclasses that cost little to define: `dataclass` in the place of the standard one.

The standard decorator compiles up to six functions for each class, 0.3 ms every time a program
starts: for the two hundred classes of opta that was a third of its start. Here only `__init__` is
compiled, in 0.05 ms; the other methods are the same few functions for all. Instances behave as
those of the standard decorator do, `dataclasses.replace`, `asdict` and `fields` take them, and a
class with anything that is not known here goes to the standard decorator itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import cache, partial
from inspect import get_annotations
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias

_Fields: TypeAlias = dict[str, dataclasses.Field[Any]]
_Members: TypeAlias = dict[str, Any]

_SPECIAL_ANNOTATIONS = ("ClassVar", "InitVar", "KW_ONLY")
_MADE_HERE = frozenset(
    ["__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__getstate__",
     "__setstate__", "__match_args__", "__slots__"]
)  # fmt: skip


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None, /, *, frozen: bool = False, slots: bool = False, eq: bool = True
    ) -> type | Callable[[type], type]:
        """Do what `dataclasses.dataclass` does with these options."""

        def decorate(cls: type) -> type:
            fields = _fields(cls)
            if fields is None:
                return dataclasses.dataclass(cls, frozen=frozen, slots=slots, eq=eq)
            members = _methods(cls, fields, frozen=frozen, eq=eq)
            if slots:
                return _with_slots(cls, fields, members | (_STATE if frozen else {}))
            return _with_defaults(cls, fields, members)

        return decorate if cls is None else decorate(cls)


def _fields(cls: type) -> _Fields | None:
    """Return the fields by name, or None where the class has something that is not known here."""
    if not _MADE_HERE.isdisjoint(cls.__dict__):
        return None
    if any(base not in (object, Generic) for base in cls.__bases__):
        return None
    fields: _Fields = {}
    optional = False
    for name, annotation in get_annotations(cls).items():
        if not isinstance(annotation, str) or any(s in annotation for s in _SPECIAL_ANNOTATIONS):
            return None
        field = cls.__dict__.get(name, dataclasses.MISSING)
        if not isinstance(field, dataclasses.Field):
            field = dataclasses.field(default=field)
        if not _is_plain(field) or (optional and _is_required(field)):
            return None
        optional = not _is_required(field)
        fields[name] = field
    return fields


def _is_plain(field: dataclasses.Field[Any]) -> bool:
    keyword_only = field.kw_only is not dataclasses.MISSING and field.kw_only
    mutable_default = field.default.__class__.__hash__ is None
    return field.init and field.hash is None and not keyword_only and not mutable_default


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


def _with_slots(cls: type, fields: _Fields, methods: _Members) -> type:
    """Return the class anew: one that exists can be given no slots."""
    left_out = {"__dict__", "__weakref__", *fields}
    own = {name: value for name, value in cls.__dict__.items() if name not in left_out}
    made = type(cls)(cls.__name__, cls.__bases__, own | methods | {"__slots__": tuple(fields)})
    made.__qualname__ = cls.__qualname__
    return made


def _with_defaults(cls: type, fields: _Fields, methods: _Members) -> type:
    for name, field in fields.items():
        if field.default is not dataclasses.MISSING:
            setattr(cls, name, field.default)
        elif name in cls.__dict__:
            delattr(cls, name)
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def _methods(cls: type, fields: _Fields, *, frozen: bool, eq: bool) -> _Members:
    typed = [(name, annotation, fields[name]) for name, annotation in get_annotations(cls).items()]
    standard = cache(partial(dataclasses.make_dataclass, cls.__name__, typed, frozen=frozen, eq=eq))
    methods: _Members = {
        "__init__": _init(cls, fields, frozen=frozen),
        "__repr__": _repr([name for name, field in fields.items() if field.repr]),
        "__match_args__": tuple(fields),
    }
    for attribute in ("__dataclass_fields__", "__dataclass_params__"):
        methods[attribute] = _OfStandard(attribute, standard)
    if eq:
        values = _values([name for name, field in fields.items() if field.compare])
        methods["__eq__"] = _eq(values)
        methods["__hash__"] = _hash(values) if frozen else None
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    return methods


def _init(cls: type, fields: _Fields, *, frozen: bool) -> Callable[..., None]:
    """Compile the one function whose parameters are the fields."""
    known: _Members = {"_set": object.__setattr__, "_missing": dataclasses.MISSING}
    parameters, lines = ["self"], []
    for name, field in fields.items():
        parameter, value = name, name
        if field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}"
        elif field.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
        parameters.append(parameter)
        lines.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    body = "\n  ".join(lines or ["pass"])
    text = (
        f"def make({', '.join(known)}):\n"
        f" def __init__({', '.join(parameters)}):\n  {body}\n"
        " return __init__"
    )
    scope: _Members = {}
    exec(text, scope)
    init: Callable[..., None] = scope["make"](**known)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _repr(names: Sequence[str]) -> Callable[[object], str]:
    @recursive_repr()
    def __repr__(self: object) -> str:
        shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{type(self).__qualname__}({shown})"

    return __repr__


def _values(names: Sequence[str]) -> Callable[[object], object]:
    """Return what reads the fields that are compared."""
    return attrgetter(*names) if names else lambda record: ()


def _eq(values: Callable[[object], object]) -> Callable[[object, object], bool]:
    def __eq__(self: object, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash(values: Callable[[object], object]) -> Callable[[object], int]:
    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, name) for name in self.__slots__]


def _restore(self: Any, state: list[object]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        object.__setattr__(self, name, value)


_STATE = {"__getstate__": _state, "__setstate__": _restore}
"""Without them a frozen instance with slots can be neither copied nor pickled."""


class _OfStandard:
    """What the standard decorator says of the class; found out when its functions ask for it."""

    def __init__(self, attribute: str, standard: Callable[[], type]) -> None:
        self._attribute = attribute
        self._standard = standard

    def __get__(self, record: object, cls: type | None = None) -> Any:
        return getattr(self._standard(), self._attribute)
