"""The key encoding: one key, one byte string, in every process and every execution mode.

Flink hashes and compares the encoded key, so two keys are one key exactly when their encodings are equal.
The rule: keys of one type are one key when Python says that they are equal (`0.0` and `-0.0`, decimals with
other trailing zeros, the same instant in two time zones); keys of two types are two keys (`1`, `True`,
`1.0`, `"1"`, `b"1"`). Pickle cannot serve: its bytes depend on object sharing and on the worker's mode.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import struct
import sys
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from flink_agents_durable.engine.dataclass_fields import dataclass_fields

_EPOCH = datetime.datetime(1, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)


def encode_key(key: object) -> bytes:
    """Encode a key, type-tagged and injective. Keeps K3 and D4.

    Raises TypeError for a value that has no stable encoding; its text says what to do.
    """
    try:
        return _encode(key)
    except RecursionError:
        raise TypeError("a key is nested too deeply, or contains itself; use a flat tuple instead") from None


def _encode(key: object) -> bytes:
    encoder = _BY_TYPE.get(type(key))
    return encoder(key) if encoder is not None else _encode_other(key)


def _item(tag: bytes, body: bytes) -> bytes:
    """Length first, so that items can stand behind each other without an ambiguity."""
    return tag + len(body).to_bytes(4, "big") + body


def _items(tag: bytes, parts: Iterable[object]) -> bytes:
    return _item(tag, b"".join([_encode(part) for part in parts]))


def _none(_: object) -> bytes:
    return _item(b"N", b"")


def _bool(key: Any) -> bytes:
    return _item(b"B", b"\x01" if key else b"\x00")


def _int(key: Any) -> bytes:
    return _item(b"i", _int_bytes(key))


def _int_bytes(number: int) -> bytes:
    return number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)


def _float(key: Any) -> bytes:
    if key != key:
        return _item(b"f", b"nan")  # every NaN is one key, else such inputs would never meet their state
    return _item(b"f", struct.pack(">d", key + 0.0))  # + 0.0 makes -0.0 positive


def _str(key: Any) -> bytes:
    return _item(b"s", key.encode("utf-8", "surrogatepass"))


def _bytes(key: Any) -> bytes:
    return _item(b"b", key)


def _tuple(key: Any) -> bytes:
    return _items(b"t", key)


def _list(key: Any) -> bytes:
    return _items(b"l", key)


def _frozenset(key: Any) -> bytes:
    return _item(b"z", b"".join(sorted([_encode(element) for element in key])))


def _complex(key: Any) -> bytes:
    return _item(b"c", _float(key.real) + _float(key.imag))


def _datetime(key: datetime.datetime) -> bytes:
    offset = key.utcoffset()
    elapsed = key.replace(tzinfo=None) - _EPOCH
    if offset is None:
        return _item(b"d", _int_bytes(elapsed // _MICROSECOND))
    return _item(b"D", _int_bytes((elapsed - offset) // _MICROSECOND))


def _date(key: Any) -> bytes:
    return _item(b"y", key.isoformat().encode())


def _time(key: datetime.time) -> bytes:
    offset = key.utcoffset()
    seconds = (key.hour * 60 + key.minute) * 60 + key.second
    since_midnight = datetime.timedelta(seconds=seconds, microseconds=key.microsecond)
    if offset is None:
        return _item(b"h", _int_bytes(since_midnight // _MICROSECOND))
    return _item(b"H", _int_bytes((since_midnight - offset) // _MICROSECOND))


def _timedelta(key: Any) -> bytes:
    return _item(b"g", _int_bytes(key // _MICROSECOND))


def _decimal(key: decimal.Decimal) -> bytes:
    sign, digits, exponent = key.as_tuple()
    if not isinstance(exponent, int):
        return _item(b"x", str(key).encode())  # an infinity or a NaN
    number = int("".join(map(str, digits)) or "0")
    if number == 0:
        return _item(b"x", b"0")
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    return _item(b"x", f"{'-' if sign else ''}{number}e{exponent}".encode())


def _uuid(key: Any) -> bytes:
    return _item(b"u", key.bytes)


_BY_TYPE: dict[type, Callable[[Any], bytes]] = {
    type(None): _none,
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    bytes: _bytes,
    tuple: _tuple,
    list: _list,
    frozenset: _frozenset,
    complex: _complex,
    datetime.datetime: _datetime,
    datetime.date: _date,
    datetime.time: _time,
    datetime.timedelta: _timedelta,
    decimal.Decimal: _decimal,
    uuid.UUID: _uuid,
}

# Subclasses of these (a `NewType`-like `class UserId(str)`) are encoded as their class and their base value.
# The order matters: a datetime is a date too.
_BASES: tuple[type, ...] = (
    str, bytes, int, float, complex, tuple, frozenset,
    datetime.datetime, datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, uuid.UUID,
)  # fmt: skip


def _class_path(cls: type) -> bytes:
    return _str(f"{cls.__module__}.{cls.__qualname__}")


def _encode_other(key: object) -> bytes:
    """Everything that is an instance of a user's class, or of numpy's."""
    cls = type(key)
    if isinstance(key, enum.Flag):
        return _item(b"E", _class_path(cls) + _encode(key.value))
    if isinstance(key, enum.Enum):
        return _item(b"e", _class_path(cls) + _str(key.name))
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(key, numpy.generic):
        return _numpy_scalar(key)
    fields = _fields(key)
    if fields is not None:
        names_and_values = [part for name, value in fields for part in (name, value)]
        return _item(b"o", _class_path(cls) + _items(b"t", names_and_values))
    if cls.__name__ == "Row" and "_values" in getattr(key, "__dict__", ()):
        return _row(key)
    for base in _BASES:
        if isinstance(key, base):
            return _item(b"S", _class_path(cls) + _BY_TYPE[base](key))
    raise TypeError(_refusal(key))


def _fields(key: object) -> list[tuple[str, object]] | None:
    """Names and values of a dataclass, a named tuple or a pydantic model; None for other objects."""
    if dataclasses.is_dataclass(key):
        return [(field.name, getattr(key, field.name)) for field in dataclass_fields(key) if field.compare]
    if isinstance(key, tuple):
        names = getattr(key, "_fields", None)
        return list(zip(names, key, strict=True)) if isinstance(names, tuple) else None
    if isinstance(getattr(type(key), "__pydantic_fields__", None), dict):
        values = dict(vars(key))
        values.update(getattr(key, "__pydantic_extra__", None) or {})
        return sorted(values.items())
    return None


def _row(key: Any) -> bytes:
    """A row of a typed stream, known by its looks: the engine does not know PyFlink."""
    state = vars(key)
    return _item(b"r", _items(b"t", state.get("_fields") or ()) + _items(b"t", state["_values"]))


def _numpy_scalar(key: Any) -> bytes:
    if key.dtype.hasobject or key.dtype.names is not None:
        raise TypeError(_refusal(key))
    value = key.item()
    # An extended float is its own item, and its memory has undefined padding.
    if type(value) is type(key) or isinstance(value, (datetime.date, datetime.timedelta)):
        value = str(key)
    return _item(b"n", _str(key.dtype.newbyteorder("<").str) + _encode(value))


def _refusal(key: object) -> str:
    name = f"{type(key).__module__}.{type(key).__qualname__}"
    if isinstance(key, (dict, set, bytearray)):
        hint = {dict: "tuple(sorted(d.items()))", set: "frozenset(s)", bytearray: "bytes(b)"}
        better = next(text for kind, text in hint.items() if isinstance(key, kind))
        return f"a {name} cannot be a key, because it can change; use {better} instead"
    return (
        f"a {name} cannot be a key, because it has no encoding that is the same in every process; let "
        "the key selector return a str, a number, bytes, a tuple of these, an enum, a dataclass or a"
        " pydantic model"
    )
