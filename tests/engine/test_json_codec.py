"""Values with `agents.payload=json`."""

from __future__ import annotations

import asyncio
import base64
import collections
import contextlib
import dataclasses
import datetime
import enum
import fractions
import json
import os
import pathlib
import pickle
import random
import threading
import uuid
import zoneinfo
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec
import numpy
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_agents_durable import ChatMessage, Event, RecordedCallError
from flink_agents_durable.api.errors import DurableSerializationError, UnreadableRecordError
from flink_agents_durable.engine.failures import MARKER, decode_failure, encode_failure
from flink_agents_durable.engine.json_codec import JsonCodec
from flink_agents_durable.engine.payload import PayloadCodec

CODEC = JsonCodec()
UTC = datetime.timezone.utc


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    HIGH = 3


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: int
    y: Any = None


@dataclasses.dataclass(frozen=True)
class Order:
    name: str
    items: tuple[Any, ...] = ()
    made: datetime.datetime | None = None
    total: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", len(self.items))


@dataclasses.dataclass
class Slotted:
    __slots__ = ("left", "right")
    left: int
    right: list[Any]


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    name: str
    color: Color = Color.RED
    born: datetime.date | None = None
    _seen: int = pydantic.PrivateAttr(default=0)


class Names(pydantic.RootModel[list[str]]):
    pass


class Happened(Event):
    def __init__(self, what: str) -> None:
        super().__init__(None, {"what": what})
        self.note = "x"


VALUES: list[Any] = [
    None, False, True, 0, -1, 1 << 100, -(1 << 63), 1 << 64, 1.5, -0.0, float("inf"), 1e300, "", "text",
    "\ud800\0", "\ud83d\ude00", "ü😀\n\u2028", b"", b"\xff\0", bytearray(b"x"),
    [], [1, [None]], {}, {"a": {"b": [1]}}, (), (1, (2,)),
    {1, 2}, set(), frozenset({"a", (1, 2)}), {1: "int", "1": "str", (1,): None, None: 2}, {"$": "dict", "v": 1},
    {"\ud800": 1}, {"line\nbreak": 1}, Decimal("1.10"), Decimal("-Infinity"),
    uuid.UUID(int=7), fractions.Fraction(-1, 3),
    1 + 2j, range(1, 9, 2), pathlib.Path("a/b"), datetime.date(2026, 1, 2), datetime.timedelta(-1, 2, 3),
    datetime.datetime(2026, 1, 2, 3, 4, 5, 6), datetime.datetime(2026, 1, 2, tzinfo=UTC),
    datetime.datetime(2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=1),
    datetime.datetime(2026, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=-3, minutes=30), "X")),
    datetime.time(1, 2, fold=1), datetime.time(1, 2, tzinfo=UTC),
    Color.RED, Level.HIGH, Rights.READ | Rights.WRITE, Rights(0), Point(1, (2,)),
    Order("a", (1, Color.RED), datetime.datetime(2026, 1, 1)),
    Slotted(1, [(2,)]), Names(["a"]), {Color.RED: [Order("x")], 
    "models": [Person(name="p", born=datetime.date(2000, 1, 1))]},
    [ChatMessage.user("hi", extra_args={"n": 1})],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_values_come_back_with_their_type(value: Any) -> None:
    """Cases 31 and 36."""
    data = CODEC.dumps(value)
    assert data[:1] != b"\x80"
    json.loads(data)
    again = CODEC.loads(data)
    assert again == value
    assert type(again) is type(value)
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    "value",
    [numpy.int32(7), numpy.float64(1.5), numpy.bool_(True), numpy.str_("a"),
     numpy.datetime64("2026-01-01"), numpy.complex64(1j)],
    ids=repr,
)  # fmt: skip
def test_case_36_numpy_scalars(value: Any) -> None:
    again: Any = CODEC.loads(CODEC.dumps(value))
    assert type(again) is type(value)
    assert again == value


def test_case_36_numpy_arrays() -> None:
    for value in (numpy.arange(6, dtype=">i4").reshape(2, 3), numpy.zeros((0, 2)), numpy.array(["a", "bc"])):
        again: Any = CODEC.loads(CODEC.dumps({"a": [value]}))
        assert again["a"][0].dtype == value.dtype
        assert again["a"][0].shape == value.shape
        assert (again["a"][0] == value).all()
        again["a"][0].resize(1)  # not a view of read-only bytes


def test_models_keep_extras_private_attributes_and_what_was_set() -> None:
    value = Person(name="p", nick="q")  # type: ignore[call-arg]
    value._seen = 3
    again: Any = CODEC.loads(CODEC.dumps(value))
    assert again == value
    assert (again._seen, again.nick, again.model_fields_set) == (3, "q", value.model_fields_set)


def test_events_keep_id_type_and_attributes() -> None:
    event = Happened("it")
    again: Any = CODEC.loads(CODEC.dumps(event))
    assert type(again) is Happened
    assert (again.id, again.type, again.attributes, again.note) == (
        event.id,
        event.type,
        event.attributes,
        "x",
    )


def test_errors_come_back_as_what_failures_replay_as() -> None:
    again: Any = CODEC.loads(CODEC.dumps({"error": OSError(5, "input")}))["error"]  # type: ignore[index]
    assert isinstance(again, OSError)
    assert isinstance(again, RecordedCallError)
    assert again.errno == 5
    assert CODEC.loads(CODEC.dumps(again)).errno == 5  # type: ignore[attr-defined]


def test_constructors_and_validators_do_not_run_on_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    data = CODEC.dumps([Order("a", (1,)), Person(name="p"), Point(1), Happened("it")])

    def forbidden(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("user code runs")

    for cls in (Order, Person, Point, Happened):
        monkeypatch.setattr(cls, "__init__", forbidden)
    monkeypatch.setattr(Order, "__post_init__", forbidden)
    assert len(CODEC.loads(data)) == 4  # type: ignore[arg-type]


def test_fields_that_a_class_has_got_since_have_their_default() -> None:
    data = CODEC.dumps([Order("a", (1,)), Person(name="p")])
    old = (
        data.replace(b'"made":null,', b"")
        .replace(b'"born":null,', b"")
        .replace(b'"born":null', b"")
        .replace(b",}", b"}")
    )
    assert b"born" not in old
    assert CODEC.loads(old) == [Order("a", (1,)), Person(name="p")]


def local_class() -> Any:
    @dataclasses.dataclass
    class Local:
        x: int

    return Local


def test_classes_of_the_plan_go_by_name() -> None:
    cls = local_class()
    codec = JsonCodec({"Local": cls}, "p")
    assert codec.loads(codec.dumps(cls(3))) == cls(3)
    with pytest.raises(DurableSerializationError, match="not found by its name"):
        CODEC.dumps(cls(3))


class Plain:
    def __init__(self) -> None:
        self.x = 1


class Text(str):
    pass


@dataclasses.dataclass
class Dictionary(dict[str, int]):
    x: int = 1


class OwnZone(datetime.tzinfo):
    def utcoffset(self, _: Any) -> datetime.timedelta:
        return datetime.timedelta()


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Plain(), "test_json_codec.Plain"),
        ({"a": [1, threading.Lock()]}, "_thread.lock at value['a'][1]"),
        (Order("a", (Plain(),)), "Plain at value.items[0]"),
        (Person(name="p", other=Plain()), "Plain at value"),  # type: ignore[call-arg]
        (Text("x"), "Text"),
        (collections.OrderedDict(a=1), "OrderedDict"),
        (collections.deque([1]), "deque"),
        (Dictionary(), "Dictionary"),
        (lambda: None, "function"),
        (Color, "EnumType" if hasattr(enum, "EnumType") else "EnumMeta"),
        (numpy.array([object()]), "numpy"),
        (datetime.datetime(2026, 1, 1, tzinfo=OwnZone()), "OwnZone"),
        (cyclic(), "RecursionError"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)  # fmt: skip
def test_case_1_other_values_are_refused_by_type_and_place(value: Any, named: str) -> None:
    with pytest.raises(DurableSerializationError) as refused:
        CODEC.dumps(value)
    assert named in str(refused.value)
    assert "agents.payload=json" in str(refused.value)


def test_x3_failures_replay_as_substitutes_and_hold_no_pickle() -> None:
    for error in (ValueError("a", 1), OSError(2, "gone"), asyncio.TimeoutError(), KeyError("k")):
        record = encode_failure(error, CODEC)
        assert b"pickled" not in record
        again = decode_failure(record, CODEC)
        assert isinstance(again, type(error))
        assert isinstance(again, RecordedCallError)
        assert again.args == error.args or not error.args


def test_x5_no_pickle_is_read() -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return os.abort, ()

    bomb = pickle.dumps(Bomb())
    with pytest.raises(UnreadableRecordError, match="is a pickle"):
        CODEC.loads(bomb)
    with pytest.raises(UnreadableRecordError, match="bare pickle"):
        decode_failure(bomb, CODEC)
    head = len(MARKER) + 1
    record = encode_failure(ValueError("x"), PayloadCodec())
    fields = msgspec.msgpack.decode(record[head:])
    assert fields["pickled"]
    again = decode_failure(record[:head] + msgspec.msgpack.encode({**fields, "pickled": bomb}), CODEC)
    assert isinstance(again, ValueError)
    assert isinstance(again, RecordedCallError)


HOSTILE: list[Any] = [
    {"$": "object", "class": "os:system", "v": ["x"]},
    {"$": "object", "class": "subprocess:Popen", "v": {"args": ["x"]}},
    {"$": "object", "class": "antigravity:x", "v": {}},
    {"$": "object", "class": "builtins:dict", "v": {}},
    {"$": "object", "class": "threading:Thread", "v": {}},
    {"$": "object", "class": "", "v": {}},
    {"$": "object", "class": 3, "v": {}},
    {"$": "object", "class": f"{__name__}:Point", "v": [1]},
    {"$": "object", "class": f"{__name__}:Color", "v": "BLUE"},
    {"$": "object", "class": f"{__name__}:Color", "v": 1},
    {"$": "object", "class": f"{__name__}:Order", "v": 7},
    {"$": "object", "class": f"{__name__}:Person", "v": []},
    {"$": "object", "v": {}},
    {"$": "unknown", "v": 1},
    {"$": ["list"], "v": 1},
    {"$": "set", "v": [[1]]},
    {"$": "dict", "v": [[[1], 2]]},
    {"$": "int", "v": "zz"},
    {"$": "text", "v": "0"},
    {"$": "bytes", "v": 3},
    {"$": "datetime", "v": ["x", None, 0]},
    {"$": "datetime", "v": ["2026-01-01T00:00:00", "../../etc/passwd", 0]},
    {"$": "numpy", "v": ["O", [1], "AAAAAAAAAAA="]},
    {"$": "numpy", "v": ["<i4", [1 << 60], "AAAA"]},
    {"$": "error", "v": base64.b64encode(pickle.dumps(ValueError("x"))).decode()},
    {"$": "error", "v": "!"},
    {"$": "fraction", "v": "1e999999999"},
]  # fmt: skip


@pytest.mark.parametrize("value", HOSTILE, ids=str)
def test_x6_what_no_value_gives_is_refused(value: Any) -> None:
    with pytest.raises(UnreadableRecordError):
        CODEC.loads(json.dumps([value]).encode())


def test_x6_nothing_is_imported_that_a_record_names() -> None:
    import sys

    assert "antigravity" not in sys.modules
    assert "this" not in sys.modules
    for record in (
        b'[{"$":"object","class":"this:d","v":{}}]',
        b'[{"$":"object","class":"antigravity:x","v":{}}]',
    ):
        with pytest.raises(UnreadableRecordError):
            CODEC.loads(record)
    assert "this" not in sys.modules


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"{", b"[" * 200_000, b'{"a":' * 100_000, b"NaN", b"1" * 100_000, b"\x80\x05N."]
)  # fmt: skip
def test_x6_broken_bytes_are_an_error_of_their_own(data: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        CODEC.loads(data)


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary(max_size=9)
    | st.text(st.characters(exclude_categories=()), max_size=6) | st.dates()
    | st.datetimes(timezones=st.timezones() | st.none())
    | st.decimals(allow_nan=False) | st.uuids() | st.fractions() | st.timedeltas() | st.sampled_from([*Color, *Level])
)  # fmt: skip
ANY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3)
    | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text(max_size=3) | st.just("$") | st.integers(), inner, max_size=3)
    | st.builds(Order, st.text(max_size=3), st.lists(inner, max_size=2).map(tuple))
    | st.builds(Point, st.integers(), inner),
    max_leaves=10,
)  # fmt: skip


@settings(deadline=None)
@given(ANY)
def test_any_value_comes_back(value: Any) -> None:
    again = CODEC.loads(CODEC.dumps(value))
    assert again == value
    assert repr(again) == repr(value)


SAMPLE = CODEC.dumps(VALUES)


@settings(deadline=None)  # a loaded machine takes its time
@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_x6_damaged_values_are_read_or_refused_but_nothing_else(chance: random.Random, edits: int) -> None:
    data = bytearray(SAMPLE)
    for _ in range(edits):
        place = chance.randrange(len(data))
        data[place : place + chance.randrange(3)] = chance.choice(
            [b"", b'"', b"{", b"]", b"7", b"null", bytes([chance.randrange(256)])]
        )
    with contextlib.suppress(UnreadableRecordError):
        CODEC.loads(bytes(data))
