"""The digest of a call's arguments: the same for equal arguments, in every process.

A value is brought into a canonical form of plain data (`canonical.py`), encoded by msgpack and hashed. Plain
JSON-like values are in that form already and take a fast path that gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from flink_agents_durable.engine.canonical import NoCanonicalForm, canonical, encode

_FLOAT = b"\xcb"
_HUGE_FLOATS = (b"\xcb\x7f", b"\xcb\xff")
"""How huge floats begin in msgpack, and among them every NaN: there are many, of which one is canonical."""
_SCALARS = frozenset({type(None), bool, int, float, str, bytes})
_EXACT = frozenset(_SCALARS - {float}).issuperset  # a float may be a NaN, which has many forms
_CONTAINERS = frozenset({list, tuple, dict})
_PLAIN = _SCALARS | _CONTAINERS
_TEXT = frozenset({str})
_TEXT_OR_INT = frozenset({str, int})


def digest(value: object) -> bytes | None:
    """8 bytes that are equal for equal values; None when a part of the value has no canonical form.

    Keeps D1. Never raises, whatever the value does.
    """
    try:
        if type(value) in _TEXT_OR_INT:
            return blake2b(encode(value), digest_size=8).digest()
    except Exception:  # an integer over 64 bits or a lone surrogate: the full path has a form for it
        pass
    try:
        return blake2b(encode_canonical(value), digest_size=8).digest()
    except Exception:
        return None


def digest_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bytes | None:
    """The digest of a call's arguments, taken before the call runs. Keeps D1 and D2."""
    try:
        if _EXACT(map(type, args)) and (not kwargs or _EXACT(map(type, kwargs.values()))):
            return blake2b(encode((args, kwargs)), digest_size=8).digest()
    except Exception:  # an integer over 64 bits or a lone surrogate: the full path has a form for it
        pass
    return digest((args, kwargs))


def encode_canonical(value: object) -> bytes:
    """The bytes that are hashed. Raises for a value without a canonical form."""
    if is_plain(value):
        try:
            data: bytes = encode(value)
        except (OverflowError, UnicodeEncodeError):
            return encode(canonical(value))
        if _FLOAT not in data or _has_no_nan(data):
            return data
    return encode(canonical(value))


def _has_no_nan(data: bytes) -> bool:
    """True is certain; False may be wrong, and only costs time."""
    return not any(beginning in data for beginning in _HUGE_FLOATS)


def is_plain(value: Any) -> bool:
    """Whether the encoder's own form of this value is its canonical form. Types only: no user code runs."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            return False
        value = value.values()
    elif kind is not list and kind is not tuple:
        return False
    if _SCALARS.issuperset(map(type, value)):
        return True
    kinds = set(map(type, value))
    return kinds <= _PLAIN and all(is_plain(part) for part in value if type(part) in _CONTAINERS)


__all__ = ["NoCanonicalForm", "digest", "digest_call", "encode_canonical"]
