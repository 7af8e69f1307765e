"""The canonical form of a value: plain data that is equal for equal values, for the digest only.

It is lenient where two forms of a value mean the same call (a tuple and a list, an integer dict key and its
text, a numpy scalar and a number), and it is one way: nothing is ever read back from it. What is no plain
data becomes an extension item with a code of its own, which plain data cannot imitate.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import sys
import types
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from flink_agents_durable.engine.dataclass_fields import dataclass_fields

_encoder = msgspec.msgpack.Encoder(order="deterministic")
encode = _encoder.encode

_MICROSECOND = datetime.timedelta(microseconds=1)
_YEAR_ONE = datetime.datetime(1, 1, 1)


class NoCanonicalForm(Exception):
    """A value has no canonical form; the slot of its call is not checked."""


class _Code:
    """What an extension item stands for. Recorded digests depend on the numbers: only ever add."""

    INTEGER = 1
    TEXT = 2
    PAIRS = 3
    SET = 4
    OBJECT = 5
    ENUM = 6
    DATETIME = 7
    INSTANT = 8
    DATE = 9
    TIME = 10
    TIMEDELTA = 11
    DECIMAL = 12
    UUID = 13
    PATH = 14
    COMPLEX = 15
    FRACTION = 16
    ARRAY = 17
    NUMPY = 18
    NAMED = 19
    DURABLE_ID = 20
    RANGE = 21
    ROW = 22


def _tagged(code: int, content: object) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, encode(content))


def canonical(value: Any) -> Any:
    """The canonical form, or NoCanonicalForm. User code may run (properties), so anything may be raised."""
    form = _BY_TYPE.get(type(value))
    return form(value) if form is not None else _other(value)


def _same(value: Any) -> Any:
    return value


def _integer(value: int) -> Any:
    if -(1 << 63) <= value < 1 << 64:
        return int(value)
    return msgspec.msgpack.Ext(_Code.INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def _number(value: float) -> float:
    return float(value) if value == value else float("nan")  # one NaN, whatever its sign


def _text(value: str) -> Any:
    if value.isascii():
        return str.__str__(value)
    try:
        return value.encode("utf-8").decode("utf-8")
    except UnicodeEncodeError:
        # JSON joins a pair of surrogates to one character, so the pair must equal it.
        joined = value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        try:
            joined.encode("utf-8")
        except UnicodeEncodeError:
            return msgspec.msgpack.Ext(_Code.TEXT, joined.encode("utf-8", "surrogatepass"))
        return joined


def _array(value: Iterable[Any]) -> list[Any]:
    return [canonical(item) for item in value]


def _mapping(value: Mapping[Any, Any]) -> Any:
    pairs = [(_key(key), canonical(item)) for key, item in value.items()]
    plain = dict(pairs) if all(type(key) is str for key, _ in pairs) else {}
    if len(plain) == len(pairs):
        return plain
    return _tagged(_Code.PAIRS, sorted([encode(pair) for pair in pairs]))


def _key(key: Any) -> Any:
    """A dict key as JSON would write it, where JSON has a way to write it."""
    if isinstance(key, enum.Enum) and isinstance(key, (str, int)):
        key = key.value
    if isinstance(key, str):
        return _text(key)
    if key is None:
        return "null"
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int):
        return int.__repr__(key)
    if isinstance(key, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text := float.__repr__(key), text)
    form = canonical(key)
    return _key(form) if isinstance(form, (str, int, float)) else form


def _set(value: Iterable[Any]) -> Any:
    return _tagged(_Code.SET, sorted([encode(canonical(item)) for item in value]))


def _datetime(value: datetime.datetime) -> Any:
    offset = value.utcoffset()
    elapsed = value.replace(tzinfo=None) - _YEAR_ONE
    if offset is None:
        return _tagged(_Code.DATETIME, elapsed // _MICROSECOND)
    return _tagged(_Code.INSTANT, (elapsed - offset) // _MICROSECOND)


def _time(value: datetime.time) -> Any:
    return _tagged(_Code.TIME, value.isoformat())


def _decimal(value: decimal.Decimal) -> Any:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return _tagged(_Code.DECIMAL, str(value))
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    if not stripped:
        return _tagged(_Code.DECIMAL, "0")
    return _tagged(_Code.DECIMAL, f"{'-' if sign else ''}{stripped}e{exponent + len(text) - len(stripped)}")


def _complex(value: complex) -> Any:
    return _tagged(_Code.COMPLEX, [_number(value.real), _number(value.imag)])


def _fraction(value: fractions.Fraction) -> Any:
    return _tagged(_Code.FRACTION, [_integer(value.numerator), _integer(value.denominator)])


def _range(value: range) -> Any:
    return _tagged(_Code.RANGE, [_integer(value.start), _integer(value.stop), _integer(value.step)])


_BY_TYPE: dict[type, Callable[[Any], Any]] = {
    type(None): _same,
    bool: _same,
    bytes: _same,
    int: _integer,
    float: _number,
    str: _text,
    list: _array,
    tuple: _array,
    dict: _mapping,
    set: _set,
    frozenset: _set,
    deque: _array,
    bytearray: bytes,
    memoryview: bytes,
    types.MappingProxyType: _mapping,
    datetime.datetime: _datetime,
    datetime.date: lambda value: _tagged(_Code.DATE, value.isoformat()),
    datetime.time: _time,
    datetime.timedelta: lambda value: _tagged(_Code.TIMEDELTA, value // _MICROSECOND),
    decimal.Decimal: _decimal,
    uuid.UUID: lambda value: _tagged(_Code.UUID, value.hex),
    complex: _complex,
    fractions.Fraction: _fraction,
    range: _range,
}

# Subclasses of these mean what their base means. The order matters: a datetime is a date too.
_BASES: tuple[type, ...] = (
    str, int, float, bytes, dict, list, tuple, set, frozenset, deque, bytearray,
    datetime.datetime, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID, complex,
)  # fmt: skip


def _other(value: Any) -> Any:
    cls = type(value)
    if isinstance(value, enum.Enum):
        return _enum(value)
    if isinstance(value, pathlib.PurePath):
        return _tagged(_Code.PATH, _text(str(value)))
    if isinstance(value, type) or cls is types.FunctionType or cls is types.BuiltinFunctionType:
        return _named(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.generic):
            return _numpy_scalar(value)
        if isinstance(value, numpy.ndarray):
            return _numpy_array(value)
    state = object_state(value)
    if state is not None:
        return class_and_state(cls, state)
    if cls.__name__ == "Row" and "_values" in getattr(value, "__dict__", ()):
        return _row(value)
    for base in _BASES:
        if isinstance(value, base):
            return _BY_TYPE[base](value)
    identity = durable_id_of(value)
    if identity is not None:
        return _tagged(_Code.DURABLE_ID, _text(identity))
    raise NoCanonicalForm(f"{cls.__module__}.{cls.__qualname__}")


def class_and_state(cls: type, state: Mapping[str, Any]) -> Any:
    """A user's object: the name of its class tells apart what has the same fields.

    Without the module, which changes when a class moves, and for classes that are shipped by value.
    """
    return _tagged(_Code.OBJECT, [cls.__qualname__, _mapping(state)])


def durable_id_of(value: object) -> str | None:
    """The identity that an object gives itself, or None."""
    try:
        identity = getattr(value, "durable_id", None)
    except Exception:
        return None
    return str.__str__(identity) if isinstance(identity, str) and identity else None


def object_state(value: Any) -> dict[str, Any] | None:
    """What a dataclass, a pydantic model, a msgspec struct or an attrs object compares; else None."""
    cls = type(value)
    if dataclasses.is_dataclass(cls):
        return {field.name: getattr(value, field.name) for field in dataclass_fields(cls) if field.compare}
    if isinstance(getattr(cls, "__pydantic_fields__", None), dict):
        return {**vars(value), **(getattr(value, "__pydantic_extra__", None) or {})}
    if isinstance(value, msgspec.Struct):
        return {name: getattr(value, name) for name in cls.__struct_fields__}
    attributes = getattr(cls, "__attrs_attrs__", None)
    if isinstance(attributes, tuple):
        return {attribute.name: getattr(value, attribute.name) for attribute in attributes if attribute.eq}
    return None


def _row(value: Any) -> Any:
    """A row of a typed stream, known by its looks: the engine does not know PyFlink."""
    state = vars(value)
    kind = state.get("_row_kind")
    names = _array(state.get("_fields") or ())
    return _tagged(_Code.ROW, [names, _array(state["_values"]), getattr(kind, "value", None)])


def _enum(value: enum.Enum) -> Any:
    if isinstance(value, (str, int)):  # JSON writes these as their value
        return canonical(value.value)
    content = canonical(value.value) if isinstance(value, enum.Flag) else value.name
    return _tagged(_Code.ENUM, [type(value).__qualname__, content])


def _named(value: Any) -> Any:
    """A class or function that its name stands for, as in pickle."""
    owner = getattr(value, "__self__", None)
    if "<" in value.__qualname__ or (owner is not None and not isinstance(owner, types.ModuleType)):
        raise NoCanonicalForm(value.__qualname__)
    return _tagged(_Code.NAMED, [value.__module__, value.__qualname__])


def _numpy_scalar(value: Any) -> Any:
    item = value.item()
    if isinstance(item, (bool, int, float, complex, str, bytes)) and value.dtype.kind not in "mM":
        return canonical(item)
    if value.dtype.names is not None or value.dtype.hasobject:
        raise NoCanonicalForm("numpy.void")
    return _tagged(_Code.NUMPY, [value.dtype.newbyteorder("<").str, str(value)])


def _numpy_array(value: Any) -> Any:
    if value.dtype.names is not None:
        raise NoCanonicalForm("numpy structured array")  # has padding of undefined content
    if value.dtype.hasobject:
        return _tagged(_Code.ARRAY, ["O", list(value.shape), _array(value.ravel().tolist())])
    if value.dtype.char in "gG":  # extended floats have padding as well
        texts = [str(item) for item in value.ravel()]
        return _tagged(_Code.ARRAY, [value.dtype.char, list(value.shape), texts])
    little = value.astype(value.dtype.newbyteorder("<"), copy=False)
    return _tagged(_Code.ARRAY, [little.dtype.str, list(value.shape), little.tobytes()])
