from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import os
import pathlib
import struct
import subprocess
import sys
import time
import uuid
from collections import OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_agents_durable.engine.canonical import canonical, encode
from flink_agents_durable.engine.digest import digest, digest_call, encode_canonical

UTC = datetime.timezone.utc


class Role(str, enum.Enum):
    USER = "user"


class Level(enum.IntEnum):
    LOW = 1


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Size(enum.Enum):
    RED = 1


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Cat:
    name: str
    seen: float = dataclasses.field(default=0.0, compare=False)


@dataclasses.dataclass
class Dog:
    name: str


class Message(pydantic.BaseModel):
    role: Role
    content: str
    sent: datetime.datetime | None = None
    tags: list[str] = []


class Open(pydantic.BaseModel, extra="allow"):
    name: str


class Point(NamedTuple):
    x: int
    y: int


class Item(msgspec.Struct):
    name: str


class Slotted:
    __slots__ = ("name",)


EQUAL: list[tuple[Any, Any]] = [
    ((1, 2), [1, 2]),
    ({1: "a"}, {"1": "a"}),
    ({True: 1, None: 2, 1.5: 3}, {"true": 1, "null": 2, "1.5": 3}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({1: 0, 2: 0}, {2: 0, 1: 0}),
    ({"x", "y", "z"}, frozenset({"z", "y", "x"})),
    ({(1, 2): 3}, {(1, 2): 3}),
    (OrderedDict(a=1), {"a": 1}),
    (defaultdict(int, a=1), {"a": 1}),
    (MappingProxyType({"a": 1}), {"a": 1}),
    (deque([1, 2]), [1, 2]),
    (bytearray(b"a"), b"a"),
    (memoryview(b"a"), b"a"),
    (Point(1, 2), (1, 2)),
    (Role.USER, "user"),
    ({Role.USER: 1}, {"user": 1}),
    (Level.LOW, 1),
    (Colour.RED, Colour(1)),
    (Right.READ | Right.WRITE, Right.WRITE | Right.READ),
    (Cat("a", 1.0), Cat("a", 2.0)),
    (Message(role=Role.USER, content="x"), Message(role=Role.USER, content="x", sent=None)),
    (Decimal("1.0"), Decimal("1.00")),
    (Decimal("0"), Decimal("-0.0")),
    (
        datetime.datetime(2026, 1, 1, 12, tzinfo=UTC),
        datetime.datetime(2026, 1, 1, 13, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    ),
    (float("nan"), float("inf") - float("inf")),
    ([float("nan")], [-float("nan")]),
    (numpy.int64(5), 5),
    (numpy.float64(0.5), 0.5),
    (numpy.bool_(True), True),
    (numpy.str_("a"), "a"),
    (numpy.arange(6).reshape(2, 3), numpy.asfortranarray(numpy.arange(6).reshape(2, 3))),
    (numpy.arange(10)[::2], numpy.array([0, 2, 4, 6, 8])),
    (numpy.array([1, 2], dtype=">i8"), numpy.array([1, 2], dtype="<i8")),
    (numpy.array([{"a": (1,)}], dtype=object), numpy.array([{"a": [1]}], dtype=object)),
    ("\ud83d\ude00", "😀"),
    (pathlib.PurePosixPath("/a/b"), pathlib.PurePosixPath("/a//b")),
    (1 << 70, int(str(1 << 70))),
]


@pytest.mark.parametrize(("one", "other"), EQUAL, ids=lambda value: type(value).__name__)
def test_d1_equal_arguments_give_equal_digests(one: object, other: object) -> None:
    """Cases 13, 14, 36."""
    assert digest(one) is not None
    assert digest(one) == digest(other)
    assert digest(["x", {"k": one}]) == digest(["x", {"k": other}])
    assert digest_call((one,), {"k": one}) == digest_call((other,), {"k": other})


DIFFERENT: list[Any] = [
    None, True, False, 0, 1, 2, -1, 1.0, "1", b"1", "", b"", [], {}, set(), [[]], [None], {"a": None},
    "null", 1 << 64,
    (1 << 64) - 1, -(1 << 63), -(1 << 63) - 1, 1 << 70, -(1 << 70), str(1 << 70), {1}, [1], {"1"}, {"1": 1},
    {(1,): 1},
    Colour.RED, Colour.BLUE, Size.RED, Right.READ, Cat("a"), Cat("b"), Dog("a"), {"name": "a"}, Item("a"),
    Open(name="a"), Open.model_validate({"name": "a", "age": 1}), Message(role=Role.USER, content="x"),
    Message(role=Role.USER, content="x", tags=["t"]), Decimal("1"), Decimal("1.1"), Decimal("10"),
    Decimal("NaN"),
    uuid.UUID(int=1), str(uuid.UUID(int=1)), pathlib.PurePosixPath("a"), "a", datetime.date(2026, 1, 1),
    datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 1, tzinfo=UTC), datetime.time(1),
    datetime.timedelta(1), 1j, Fraction(1, 3), range(3), range(4), numpy.array([1, 2]), numpy.array([[1, 2]]),
    numpy.array([1.0, 2.0]), numpy.array([1, 2], dtype="i4"), numpy.datetime64("2026-01-01"), "\ud800",
    "\udfff",
    float("nan"), float("inf"), Cat, Dog, int, test_d1_equal_arguments_give_equal_digests, len,
]  # fmt: skip


def test_d1_different_arguments_give_different_digests() -> None:
    digests = [digest(value) for value in DIFFERENT]
    assert [value for value, found in zip(DIFFERENT, digests, strict=True) if found is None] == []
    pairs = [(i, j) for i in range(len(digests)) for j in range(i) if digests[i] == digests[j]]
    assert [(DIFFERENT[i], DIFFERENT[j]) for i, j in pairs] == []


def test_d1_a_list_of_chat_messages_survives_json() -> None:
    """Case 13."""
    literal = [
        {"role": Role.USER, "content": "hi", "meta": {1: (1, 2.0), "big": 1 << 80}},
        {"content": "\ud83d\ude00 ü", "role": "assistant", "calls": ({"id": "1", "args": {}},)},
    ]
    assert digest(literal) == digest(json.loads(json.dumps(literal)))
    sent = datetime.datetime(2026, 1, 1, tzinfo=UTC)
    models = [Message(role=Role.USER, content="x", sent=sent, tags=["a"])]
    assert digest(models) == digest([Message.model_validate_json(m.model_dump_json()) for m in models])


TEXT = st.text(st.characters(exclude_categories=()), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(TEXT | st.integers() | st.booleans() | st.none() | st.floats(), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "bits", [0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF]
)
def test_d1_every_nan_is_one(bits: int) -> None:
    odd = struct.unpack("d", struct.pack("Q", bits))[0]
    for wrap in (lambda value: value, lambda value: [value], lambda value: {"a": (value,)}):
        assert digest(wrap(odd)) == digest(wrap(float("nan")))
    assert digest_call((odd,), {}) == digest_call((float("nan"),), {})


@given(JSON)
def test_d1_json_round_trip(value: object) -> None:
    text = json.dumps(value)
    again = json.loads(text)
    if json.dumps(again) == text:  # not where two keys have one text, so that JSON loses an item
        assert digest(value) == digest(again)
        assert digest_call((value,), {"k": value}) == digest_call((again,), {"k": again})


@given(JSON)
def test_d1_the_fast_path_gives_the_bytes_of_the_full_path(value: object) -> None:
    assert encode_canonical(value) == encode(canonical(value))
    assert digest_call((value,), {}) == digest(((value,), {}))
    assert digest_call((), {"value": value}) == digest(((), {"value": value}))


@given(st.dictionaries(TEXT, st.integers(), max_size=6), st.randoms())
def test_d1_dict_order_is_irrelevant(value: dict[str, int], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert digest(value) == digest(dict(items))
    assert digest_call((), value) == digest_call((), dict(items))


def test_d1_sharing_of_objects_is_irrelevant() -> None:
    shared = {"role": "user"}
    assert digest([shared, shared]) == digest([{"role": "user"}, {"role": "user"}])


def test_d2_a_callee_that_mutates_its_argument_changes_nothing() -> None:
    """Case 15."""
    messages = ["a"]
    before = digest_call((messages,), {})
    messages.append("b")
    assert before == digest_call((["a"],), {})


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    def __hash__(self) -> int:
        return 1

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("getattr")


class HostileList(list):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        raise RuntimeError("iter")


def ring() -> list[object]:
    value: list[object] = []
    value.append({"a": value})
    return value


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(), Hostile(), HostileList([1]), ring(), lambda: 0, iter([1]), (x for x in [1]),
        Slotted(), sys, numpy.zeros(1, dtype=[("a", "i4")]), "a".upper, nested(100_000),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_d1_what_has_no_canonical_form_makes_the_slot_unchecked(value: object) -> None:
    assert digest(value) is None
    assert digest_call((1, value), {}) is None
    assert digest_call((), {"a": [value]}) is None


def test_d1_sets_and_keys_with_hostile_equality_are_not_compared() -> None:
    assert digest({Hostile()}) is None


def test_d1_an_iterator_is_not_consumed() -> None:
    numbers = iter([1, 2])
    digest(numbers)
    assert list(numbers) == [1, 2]


def test_d1_rows_of_typed_streams_are_digested_by_fields_values_and_kind() -> None:
    class Row:
        def __init__(self, *values: object, fields: Any = (), kind: Colour = Colour.RED) -> None:
            self._values = list(values)
            self._row_kind = kind
            if fields:
                self._fields = list(fields)

    rows = [Row(1, "a"), Row("a", 1), Row(1, "a", fields=("x", "y")), Row(1, "a", kind=Colour.BLUE)]
    rows.append(Row(Row(1)))
    assert digest(rows[0]) == digest(Row(1, "a"))
    assert None not in [digest(row) for row in rows]
    assert len({digest(row) for row in rows}) == len(rows)


def test_d3_an_argument_with_a_durable_id_is_known_by_it() -> None:
    class Model:
        def __init__(self, durable_id: str) -> None:
            self.durable_id = durable_id

    assert digest(Model("a")) is not None
    assert digest(Model("a")) == digest(Model("a"))
    assert digest(Model("a")) != digest(Model("b"))


PROGRAM = """
import dataclasses, datetime, decimal, enum, numpy, pathlib, uuid
from flink_agents_durable.engine.digest import digest, digest_call

@dataclasses.dataclass
class Job:
    name: str
    tags: set

class Colour(enum.Enum):
    RED = 1

values = [{"b": 1, "a": [1, 2.5, None]}, {"x", "y", "z", "w"}, frozenset({("a", 1), ("b", 2)}), Job("a",
    {"p", "q"}),
    Colour.RED, decimal.Decimal("1.5"), uuid.UUID(int=3), pathlib.Path("/a"), numpy.eye(2), {("a", 1): {"s",
    "t"}},
    1 << 99, datetime.datetime(2026, 1, 2)]
print(digest(values).hex(), digest_call((1, "a"), {"k": values}).hex())
"""


def test_d1_digests_are_the_same_in_processes_with_other_hash_seeds() -> None:
    """Case 14."""
    results = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(results) == 1


RECORDED = [
    ((1, "a"), "eb1b2ca30f41da3d"),
    ({"b": [1.5, None], "a": True}, "b4a7f5590c30112f"),
    ({1, 2}, "5f24440ae5680255"),
    (1 << 70, "300e75ad9c7f6fcc"),
    (datetime.date(2026, 1, 2), "65211e170ec7f00b"),
    (Decimal("1.50"), "4d947c37fa5154fc"),
]


@pytest.mark.parametrize(("value", "recorded"), RECORDED)
def test_d1_digests_in_old_journals_stay_valid(value: object, recorded: str) -> None:
    found = digest(value)
    assert found is not None
    assert found.hex() == recorded


def test_d1_large_arguments_take_linear_time() -> None:
    def seconds(messages: int) -> float:
        value = [{"role": "user", "content": "x" * 50, "n": i, "tags": ("a", "b")} for i in range(messages)]
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            digest(value)
            best = min(best, time.process_time() - start)
        return best

    assert seconds(10_000) < 40 * max(seconds(1_000), 1e-4)
