"""Objects of users' classes as their state, and objects from a state without a constructor.

Constructors, validators and `__post_init__` do not run on reading: they have run when the value was made, and
data must not choose code to run.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pydantic

from flink_agents_durable.api.events import Event
from flink_agents_durable.engine.dataclass_fields import dataclass_fields

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
_new = object.__new__
_set = object.__setattr__


@dataclass(frozen=True)
class Shape:
    """How objects of one kind of class become plain data and objects again."""

    state: Callable[[Any], Any]
    make: Callable[[Any, Any], Any]


def shape_of(cls: type) -> Shape | None:
    """The shape of a class's objects; None when they are no data."""
    if issubclass(cls, enum.Enum):
        return _ENUM
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _NAMED_TUPLE
    if not _has_only_python_bases(cls):
        return None  # it keeps state elsewhere than in attributes
    if issubclass(cls, pydantic.BaseModel):
        return _MODEL
    if issubclass(cls, Event):
        return _EVENT
    if dataclasses.is_dataclass(cls):
        return _DATACLASS
    return _ROW if cls.__name__ == "Row" and cls.__module__.startswith("pyflink.") else None


def _has_only_python_bases(cls: type) -> bool:
    return all(base is object or base.__flags__ & _HEAP_TYPE for base in cls.__mro__)


# --- enums


def _member_state(member: enum.Enum) -> Any:
    if member.name in type(member).__members__:
        return member.name
    return int(member.value)  # flags that are combined


def _member(cls: Any, state: Any) -> Any:
    if isinstance(state, str):
        return cls.__members__[state]
    if not issubclass(cls, enum.Flag) or not isinstance(state, int):
        raise ValueError(f"{state!r} is no member of {cls.__qualname__}")
    return cls(state)


# --- named tuples


def _make_tuple(cls: Any, items: Any) -> Any:
    if len(items) != len(cls._fields):
        raise ValueError(f"{len(items)} items for a {cls.__qualname__} of {len(cls._fields)}")
    return tuple.__new__(cls, items)


# --- dataclasses


def _dataclass_state(value: Any) -> dict[str, Any]:
    names = [field.name for field in dataclass_fields(type(value))]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def _make_dataclass(cls: Any, state: Any) -> Any:
    """Fields that the class has got since have their default; those that it has no longer are dropped."""
    value = _new(cls)
    for field in dataclass_fields(cls):
        if field.name in state:
            _set(value, field.name, state[field.name])
        elif field.default is not dataclasses.MISSING:
            _set(value, field.name, field.default)
        elif field.default_factory is not dataclasses.MISSING:
            _set(value, field.name, field.default_factory())
    return value


# --- pydantic models

_MODEL_PARTS = ("__dict__", "__pydantic_extra__", "__pydantic_private__")


def _model_state(value: pydantic.BaseModel) -> list[Any]:
    state = pydantic.BaseModel.__getstate__(value)
    return [*(state[part] for part in _MODEL_PARTS), sorted(state["__pydantic_fields_set__"])]


def _make_model(cls: Any, state: Any) -> Any:
    value = _new(cls)
    fields, extra, private, fields_set = state
    known = cls.__pydantic_fields__
    for name, field in known.items():
        if name not in fields and not field.is_required():
            fields[name] = field.get_default(call_default_factory=True)
    content = dict(zip(_MODEL_PARTS, (fields, extra, private), strict=True))
    pydantic.BaseModel.__setstate__(value, {**content, "__pydantic_fields_set__": set(fields_set)})
    return value


# --- events and rows: all of their attributes


def _make_with_attributes(cls: Any, state: Any) -> Any:
    value = _new(cls)
    for name, item in state.items():
        _set(value, name, item)
    return value


_ENUM = Shape(_member_state, _member)
_NAMED_TUPLE = Shape(list, _make_tuple)
_DATACLASS = Shape(_dataclass_state, _make_dataclass)
_MODEL = Shape(_model_state, _make_model)
_EVENT = Shape(Event.__getstate__, _make_with_attributes)
_ROW = Shape(lambda row: dict(vars(row)), _make_with_attributes)
