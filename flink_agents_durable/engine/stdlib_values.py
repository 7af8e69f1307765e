"""Values of the standard library as texts in a failure record, without pickle."""

from __future__ import annotations

import datetime
import decimal
import fractions
import pathlib
import uuid
from collections.abc import Callable
from typing import Any


def _from_timedelta(value: datetime.timedelta) -> str:
    return f"{value.days} {value.seconds} {value.microseconds}"


def _to_timedelta(text: str) -> datetime.timedelta:
    return datetime.timedelta(*map(int, text.split()))


def _from_range(value: range) -> str:
    return f"{value.start} {value.stop} {value.step}"


def _to_range(text: str) -> range:
    return range(*map(int, text.split()))


def _to_fraction(text: str) -> fractions.Fraction:
    # Not by the text: Fraction("1e999999999") is one that never ends.
    numerator, _, denominator = text.partition("/")
    return fractions.Fraction(int(numerator), int(denominator or 1))


def _to_text(value: str) -> str:
    """A text with lone surrogates. Not by UTF-16, where two of them come back as one character."""
    return value.encode("utf-8", "surrogatepass").hex()


def _from_hex(text: str) -> str:
    return bytes.fromhex(text).decode("utf-8", "surrogatepass")


# In this order: a datetime is a date too. Recorded data depends on the names.
_KINDS: list[tuple[str, type, Callable[[Any], str], Callable[[str], Any]]] = [
    ("datetime", datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat),
    ("date", datetime.date, datetime.date.isoformat, datetime.date.fromisoformat),
    ("time", datetime.time, datetime.time.isoformat, datetime.time.fromisoformat),
    ("timedelta", datetime.timedelta, _from_timedelta, _to_timedelta),
    ("decimal", decimal.Decimal, str, decimal.Decimal),
    ("uuid", uuid.UUID, str, uuid.UUID),
    ("complex", complex, repr, complex),
    ("fraction", fractions.Fraction, str, _to_fraction),
    ("path", pathlib.PurePath, str, pathlib.Path),
    ("range", range, _from_range, _to_range),
    ("integer", int, hex, lambda text: int(text, 16)),
    ("text", str, _to_text, _from_hex),
]
_READERS = {name: read for name, _, _, read in _KINDS}


def to_texts(value: object) -> tuple[str, str] | None:
    """The kind of a value and its text; None for a value of another type."""
    for name, cls, write, _ in _KINDS:
        if isinstance(value, cls):
            return name, write(value)
    return None


def from_texts(kind: str, text: str) -> object:
    return _READERS[kind](text)
