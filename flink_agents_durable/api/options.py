"""One configuration option: its key, its type, and how a value of it is read."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from difflib import get_close_matches
from functools import cache
from typing import Any, Generic, TypeVar

from flink_agents_durable.api.errors import ConfigurationError

T = TypeVar("T")

_UNITS = {
    "d": 86_400.0,
    "h": 3_600.0,
    "min": 60.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
}
_UNITS.update({"day": _UNITS["d"], "hour": _UNITS["h"], "minute": _UNITS["min"], "sec": 1.0, "second": 1.0})
_UNITS.update({"milli": 1e-3, "millisecond": 1e-3, "micro": 1e-6, "microsecond": 1e-6})
_UNITS.update({"nano": 1e-9, "nanosecond": 1e-9})
_UNITS.update({unit + "s": value for unit, value in _UNITS.items() if len(unit) > 2 and unit != "min"})

_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"<[a-z]+>|\*")


@dataclass(frozen=True)
class ConfigOption(Generic[T]):
    """A key with a type and a default. `<name>` and `*` in the key stand for a part that users choose."""

    key: str
    config_type: type
    default: T
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    """The smallest value of a number, or of the seconds of a duration."""
    secret: bool = False
    """Its values are shown nowhere."""
    _reader: Callable[[object], object] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_reader", _READERS[self.config_type])

    def get_key(self) -> str:
        return self.key

    def get_type(self) -> type:
        return self.config_type

    def get_default_value(self) -> T:
        return self.default

    @property
    def is_pattern(self) -> bool:
        return _PLACEHOLDER.search(self.key) is not None

    def of(self, name: str) -> ConfigOption[T]:
        """The option of one name: `AgentOptions.LIMIT_PER_SECOND.of("search")`."""
        if not self.is_pattern or not name:
            raise ConfigurationError(f"{self.key!r} takes no name, or the name is empty: {name!r}")
        key = _PLACEHOLDER.sub(lambda _: name, self.key, count=1)
        return ConfigOption(key, self.config_type, self.default, self.choices, self.minimum, self.secret)

    def matches(self, key: str) -> bool:
        return key == self.key if not self.is_pattern else _pattern(self.key).fullmatch(key) is not None

    def read(self, value: object, key: str | None = None) -> Any:
        """The typed value of what a user wrote; a ConfigurationError says what is wrong with it."""
        key = key or self.key
        try:
            result = self._reader(value)
        except ValueError as problem:
            shown = "***" if self.secret else repr(value)
            raise ConfigurationError(f"{key} = {shown}: {problem}") from None
        self._check(key, value, result)
        return result

    def _check(self, key: str, value: object, result: Any) -> None:
        if self.choices and result not in self.choices:
            known = ", ".join(self.choices)
            raise ConfigurationError(
                f"{key} = {value!r}: must be one of {known}{did_you_mean(result, self.choices)}"
            )
        if self.minimum is not None:
            number = result.total_seconds() if isinstance(result, timedelta) else result
            if number < self.minimum:
                unit = " seconds" if isinstance(result, timedelta) else ""
                raise ConfigurationError(f"{key} = {value!r}: must be at least {self.minimum:g}{unit}")
        if self.config_type is str and not result:
            raise ConfigurationError(f"{key} is empty: leave it out for its default, {self.default!r}")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known word, as the end of an error message."""
    nearest = get_close_matches(str(word), list(known), n=1, cutoff=0.5)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


@cache
def _pattern(key: str) -> re.Pattern[str]:
    parts = _PLACEHOLDER.split(key)
    return re.compile(".+".join(re.escape(part) for part in parts))


def read_duration(value: object) -> timedelta:
    """A timedelta, a number of seconds, or a string with a unit as Flink writes durations."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _seconds(float(value))
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    unit = _UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        # A bare number in a string is milliseconds to Flink and seconds to Python: refused, not guessed.
        raise ValueError("must be a duration: a timedelta, a number of seconds, or a string like '200 ms'")
    return _seconds(float(match[1]) * unit)


def _seconds(number: float) -> timedelta:
    try:
        return timedelta(seconds=number)
    except (OverflowError, ValueError):
        raise ValueError("is no length of time") from None


def _read_int(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"\s*[+-]?\d+\s*", value):
        return int(value)
    raise ValueError("must be a whole number")


def _read_float(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
    elif isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            raise ValueError("must be a number") from None
    else:
        raise ValueError("must be a number")
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError("must be a finite number")
    return number


def _read_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise ValueError("must be true or false")


def _read_str(value: object) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        return value.strip()
    raise ValueError("must be a string")


_READERS: dict[type, Callable[[object], object]] = {
    int: _read_int,
    float: _read_float,
    bool: _read_bool,
    str: _read_str,
    timedelta: read_duration,
}
