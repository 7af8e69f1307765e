"""Inputs of every type and with every key arrive unchanged (cases 36, 40, 48; K3)."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
from typing import Any

import numpy
import pydantic
import pytest
from pyflink.common import Row, Types
from pyflink.datastream import KeySelector

from flink_agents_durable.api.errors import ConfigurationError
from tests.flink.jobs import Echo, Pass, collect, describe, environment, union


@dataclasses.dataclass(frozen=True)
class Review:
    user: str
    stars: int


class UserKey(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True)
    name: str


class ByUser(KeySelector):  # type: ignore[misc]
    def get_key(self, value: Review) -> UserKey:
        return UserKey(name=value.user)


TYPED: dict[str, tuple[Any, Any]] = {
    "long": (Types.LONG(), 2**40),
    "string": (Types.STRING(), "aé\u0000b"),
    "bool": (Types.BOOLEAN(), True),
    "double": (Types.DOUBLE(), 2.5),
    "decimal": (Types.BIG_DEC(), decimal.Decimal("1.50")),
    "big int": (Types.BIG_INT(), 2**80),
    "timestamp": (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 2, 3, 4, 5, 678000)),
    "strings": (Types.BASIC_ARRAY(Types.STRING()), ["a", "b"]),
    "map": (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}),
    "tuple": (Types.TUPLE([Types.STRING(), Types.LONG()]), ("a", 1)),
    "row": (Types.ROW_NAMED(["name", "stars"], [Types.STRING(), Types.LONG()]), Row(name="a", stars=1)),
}


def test_case_48_typed_inputs_arrive_as_their_python_values() -> None:
    env, agents = environment()
    streams = []
    for label, (kind, value) in TYPED.items():
        source = env.from_collection([value], kind)
        agent = agents.from_datastream(source, key_selector=lambda value: "k").apply(Echo(label), uid=label)
        streams.append(agent.to_datastream())
    seen = {label: text for label, _, text in collect(union(streams))}
    assert seen == {label: describe(value) for label, (_, value) in TYPED.items()}


def test_case_36_pickled_inputs_arrive_unchanged() -> None:
    values: list[Any] = [2**80, {1, 2}, numpy.float32(1.5), None, b"\x00", Review("a", 1), UserKey(name="x")]
    env, agents = environment()
    stream = agents.from_datastream(env.from_collection(values), key_selector=lambda value: 1).apply(Pass())
    assert collect(stream.to_datastream()) == values


def test_case_40_k3_keys_are_kept_apart_and_read_back() -> None:
    keys: list[Any] = [None, 1, "1", True, 1.0, b"1", (1, "a"), UserKey(name="x"), Review("a", 1), 2**70]
    env, agents = environment(parallelism=2)
    source = env.from_collection(keys)
    by_selector = agents.from_datastream(source, key_selector=lambda key: key).apply(
        Echo("selector"), uid="s"
    )
    pickled_key = agents.from_datastream(source.key_by(lambda key: key)).apply(Echo("keyed"), uid="k")
    results = collect(union([by_selector.to_datastream(), pickled_key.to_datastream()]))
    for label in ("selector", "keyed"):
        assert sorted(key for name, key, _ in results if name == label) == sorted(map(describe, keys))


def test_keyed_streams_and_key_selector_objects() -> None:
    env, agents = environment()
    source = env.from_collection([Review("a", 1), Review("b", 2)])
    typed_key = source.key_by(lambda review: review.stars, Types.LONG())
    by_object = agents.from_datastream(source, ByUser()).apply(Echo("object"), uid="object")
    by_type = agents.from_datastream(typed_key).apply(Echo("typed"), uid="typed")
    results = collect(union([by_object.to_datastream(), by_type.to_datastream()]))
    expected = [
        ("object", describe(UserKey(name=r.user)), describe(r)) for r in (Review("a", 1), Review("b", 2))
    ]
    expected += [("typed", describe(r.stars), describe(r)) for r in (Review("a", 1), Review("b", 2))]
    assert sorted(results) == sorted(expected)


def test_process_mode_set_by_the_user_gives_the_same() -> None:
    env, agents = environment({"python.execution-mode": "process"})
    source = env.from_collection([Row(name="a", stars=1)], TYPED["row"][0])
    stream = agents.from_datastream(source, key_selector=lambda row: row["name"]).apply(Echo())
    assert collect(stream.to_datastream()) == [("", "str 'a'", describe(Row(name="a", stars=1)))]


def broken_selector(review: Review) -> str:
    raise KeyError("user_id")


@pytest.mark.parametrize("selector", [broken_selector, lambda review: [object()]])
def test_a_key_selector_that_fails_names_itself_and_the_record(selector: Any) -> None:
    env, agents = environment()
    source = env.from_collection([Review("anna", 1)])
    stream = agents.from_datastream(source, key_selector=selector).apply(Pass()).to_datastream()
    with pytest.raises(Exception, match="key selector") as error:
        collect(stream)
    text = str(error.value)
    assert selector.__qualname__ in text
    assert "test_inputs.py" in text
    assert "Review(user='anna', stars=1)" in text


def test_an_unkeyed_stream_needs_a_key_selector() -> None:
    env, agents = environment()
    with pytest.raises(ConfigurationError, match="key_selector"):
        agents.from_datastream(env.from_collection([1])).apply(Pass())


@pytest.mark.parametrize("keyed", [False, True])
def test_l3_inputs_of_a_key_are_not_spread_before_the_agent(keyed: bool) -> None:
    """A source of another parallelism than the job: records of one key must not take several ways."""
    env, agents = environment(parallelism=3)
    source = env.from_collection([1, 2]).map(lambda value: value).set_parallelism(2)
    stream, selector = (source.key_by(int), None) if keyed else (source, int)
    agents.from_datastream(stream, key_selector=selector).apply(Pass(), uid="p").to_datastream().print()
    nodes = {node["type"]: node for node in json.loads(env.get_execution_plan())["nodes"]}
    assert nodes["p: key"]["parallelism"] == 2
    assert [way["ship_strategy"] for way in nodes["p: key"]["predecessors"]] == ["FORWARD"]
    assert nodes["p"]["parallelism"] == 3
