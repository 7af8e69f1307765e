"""Values of the standard library as texts or short lists of JSON, by their exact type."""

from __future__ import annotations

import datetime
import decimal
import fractions
import pathlib
import uuid
import zoneinfo
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flink_agents_durable.engine.stdlib_values import from_texts, to_texts


@dataclass(frozen=True)
class Scalar:
    """How values of one type are written."""

    name: str
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def _by_text(name: str) -> Scalar:
    def write(value: Any) -> str:
        texts = to_texts(value)
        assert texts is not None
        return texts[1]

    return Scalar(name, write, lambda text: from_texts(name, text))


def _write_zone(zone: datetime.tzinfo | None) -> Any:
    if zone is None:
        return None
    if type(zone) is zoneinfo.ZoneInfo and zone.key is not None:
        return zone.key
    if type(zone) is datetime.timezone:
        offset = zone.utcoffset(None)
        return [offset.days, offset.seconds, offset.microseconds, zone.tzname(None)]
    raise TypeError(
        f"a time zone of type {type(zone).__module__}.{type(zone).__qualname__} has no form in JSON"
    )


def _read_zone(zone: Any) -> datetime.tzinfo | None:
    if zone is None:
        return None
    if isinstance(zone, str):
        return zoneinfo.ZoneInfo(zone)
    *offset, name = zone
    delta = datetime.timedelta(*offset)
    plain = datetime.timezone.utc if not delta else datetime.timezone(delta)
    return plain if plain.tzname(None) == name else datetime.timezone(delta, name)


def _write_time(value: datetime.datetime | datetime.time) -> list[Any]:
    return [value.replace(tzinfo=None).isoformat(), _write_zone(value.tzinfo), value.fold]


def _read_datetime(content: Any) -> datetime.datetime:
    text, zone, fold = content
    return datetime.datetime.fromisoformat(text).replace(tzinfo=_read_zone(zone), fold=fold)


def _read_time(content: Any) -> datetime.time:
    text, zone, fold = content
    return datetime.time.fromisoformat(text).replace(tzinfo=_read_zone(zone), fold=fold)


SCALARS: dict[type, Scalar] = {
    datetime.datetime: Scalar("datetime", _write_time, _read_datetime),
    datetime.time: Scalar("time", _write_time, _read_time),
    datetime.date: _by_text("date"),
    datetime.timedelta: _by_text("timedelta"),
    decimal.Decimal: _by_text("decimal"),
    uuid.UUID: _by_text("uuid"),
    complex: _by_text("complex"),
    fractions.Fraction: _by_text("fraction"),
    type(pathlib.Path()): _by_text("path"),
    range: _by_text("range"),
}
_BY_NAME = {scalar.name: scalar for scalar in SCALARS.values()}


def read_scalar(name: str, content: Any) -> Any:
    """Raises KeyError for a name that there is not, and whatever a broken content raises."""
    return _BY_NAME[name].read(content)
