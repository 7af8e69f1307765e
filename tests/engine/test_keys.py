from __future__ import annotations

import dataclasses
import datetime
import enum
import os
import subprocess
import sys
import uuid
from decimal import Decimal
from typing import NamedTuple

import numpy
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_agents_durable.engine.keys import encode_key


class Colour(enum.Enum):
    RED = 1
    CRIMSON = 1  # noqa: PIE796
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class User:
    name: str
    number: int = 0


@dataclasses.dataclass(frozen=True)
class Robot:
    name: str
    number: int = 0


class Order(pydantic.BaseModel):
    shop: str
    lines: tuple[int, ...] = ()


class Point(NamedTuple):
    x: int
    y: int


class UserId(str):
    __slots__ = ()


DIFFERENT = [
    None, True, False, 0, 1, -1, 1.0, "1", b"1", "", b"", (), ("",), (None,), (1, 2), (1, (2,)), ((1, 2),),
    ("1", 2),
    frozenset(), frozenset({1}), frozenset({(1,)}), 255, 256, -128, -129, 1 << 64, -(1 << 64), 1 << 200, 0.5,
    float("nan"), float("inf"), "a/b", "a_b", "a\nb", "a\0b", "\0", "x" * 10_000, "ä", "a\u0308", "\ud800",
    "\udfff",
    "\ud83d\ude00", "😀", datetime.date(2026, 1, 1), datetime.datetime(2026, 1, 1),
    datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc), datetime.time(1), datetime.timedelta(1),
    Decimal("1"), Decimal("NaN"), Decimal("-Infinity"), uuid.UUID(int=1), Colour.RED, Colour.BLUE, Level.LOW,
    Right.READ, Right.READ | Right.WRITE, User("a"), User("a", 1), Robot("a"), Order(shop="a"),
    Order(shop="a", lines=(1,)), Point(1, 2), UserId("1"), numpy.int64(1), numpy.int32(1), numpy.float64(1.0),
    numpy.bool_(True), numpy.str_("1"), 1j, [1, 2], ("ab", "c"), ("a", "bc"),
]  # fmt: skip


def test_d4_keys_of_any_type_and_character_are_kept_apart() -> None:
    """Cases 21, 36, 40."""
    encoded = [encode_key(key) for key in DIFFERENT]
    assert all(type(key) is bytes for key in encoded)
    pairs = [(i, j) for i in range(len(encoded)) for j in range(i) if encoded[i] == encoded[j]]
    assert [(DIFFERENT[i], DIFFERENT[j]) for i, j in pairs] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (float("nan"), -float("nan")),
        (Decimal("1.0"), Decimal("1.00")),
        (Decimal("100"), Decimal("1e2")),
        (Decimal("0"), Decimal("-0.00")),
        (Colour.RED, Colour.CRIMSON),
        (frozenset({"a", "b", "c"}), frozenset({"c", "b", "a"})),
        (
            datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc),
            datetime.datetime(2026, 1, 1, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
        ),
        (User("a"), User("a", 0)),
    ],
)
def test_k3_equal_keys_of_one_type_are_one_key(one: object, other: object) -> None:
    assert encode_key(one) == encode_key(other)


def test_k3_extreme_times_have_an_encoding() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=14))
    first = datetime.datetime.min.replace(tzinfo=zone)
    last = datetime.datetime.max.replace(tzinfo=datetime.timezone(-datetime.timedelta(hours=14)))
    assert encode_key(first) != encode_key(last)


def test_k3_the_encoding_does_not_depend_on_object_sharing() -> None:
    text = "".join(["sha", "red"])
    assert encode_key((text, text)) == encode_key(("shared", "".join(["shar", "ed"])))


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary(max_size=8)
    | st.text(st.characters(exclude_categories=()), max_size=8),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def typed(key: object) -> object:
    """A value that is equal exactly for equal keys of the same types."""
    if isinstance(key, tuple):
        return ("tuple", tuple(typed(part) for part in key))
    if isinstance(key, frozenset):
        return ("frozenset", frozenset(typed(part) for part in key))
    return (type(key).__name__, key)


@given(JSON_LIKE, JSON_LIKE)
def test_k3_injective(one: object, other: object) -> None:
    assert (encode_key(one) == encode_key(other)) == (typed(one) == typed(other))


@given(JSON_LIKE, JSON_LIKE)
def test_k3_injective_for_neighbours_in_a_tuple(one: object, other: object) -> None:
    assert encode_key((one, other)) != encode_key(((one, other),))
    assert encode_key((one, other)) != encode_key((one, (other,)))


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ({"a": 1}, "tuple(sorted(d.items()))"),
        ({1}, "frozenset(s)"),
        (bytearray(b"a"), "bytes(b)"),
        (object(), "builtins.object"),
        (lambda: 0, "builtins.function"),
        ((1, object()), "a str, a number"),
    ],
)
def test_k3_a_key_without_an_encoding_is_an_error_with_a_remedy(key: object, remedy: str) -> None:
    with pytest.raises(TypeError) as error:
        encode_key(key)
    assert remedy in str(error.value)


def test_k3_a_key_that_contains_itself_is_an_error() -> None:
    ring: list[object] = []
    ring.append(ring)
    with pytest.raises(TypeError, match="contains itself"):
        encode_key(ring)


def test_k3_rows_of_typed_streams_are_keys_by_their_fields() -> None:
    class Row:
        def __init__(self, *values: object, fields: list[str] | None = None) -> None:
            self._values = list(values)
            if fields:
                self._fields = fields

    assert encode_key(Row(1, "a")) == encode_key(Row(1, "a"))
    assert encode_key(Row(1, "a")) != encode_key(Row("a", 1))
    assert encode_key(Row(1, fields=["a"])) != encode_key(Row(1, fields=["b"]))


PROGRAM = """
import datetime, decimal, uuid
from flink_agents_durable.engine.keys import encode_key
keys = [None, 1, "ä", ("a", b"b", 1.5), frozenset({"a", "b", "c", "d"}), decimal.Decimal("1.10"),
        uuid.UUID(int=7), datetime.datetime(2026, 1, 2, 3), ("x", frozenset({("p", 1), ("q", 2), ("r", 3)}))]
print(b"".join(map(encode_key, keys)).hex())
"""


def test_k3_the_encoding_is_the_same_in_processes_with_other_hash_seeds() -> None:
    results = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(results) == 1
