"""Outputs as typed streams and tables; tables as inputs."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from decimal import Decimal
from typing import Any, Literal

import pydantic
import pytest
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import ProcessFunction
from pyflink.table import DataTypes, Schema, StreamTableEnvironment

from flink_agents_durable import AgentsExecutionEnvironment
from flink_agents_durable.api.errors import ConfigurationError, DurableExecutionError
from flink_agents_durable.flink.types import type_info
from flink_agents_durable.flink.values import writer
from tests.flink.jobs import Pass, collect, environment, union


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Part:
    name: str
    weight: float | None = None


class Answer(pydantic.BaseModel):
    id: int
    text: str
    colour: Colour = Colour.RED
    part: Part = Part("p", 1.5)
    tags: list[str] = ["x"]
    kind: Literal["a", "b"] = "a"


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (Part, Types.ROW_NAMED(["name", "weight"], [Types.STRING(), Types.DOUBLE()])),
        (int, Types.LONG()),
        (list[int], Types.LIST(Types.LONG())),
        (dict[str, Decimal], Types.MAP(Types.STRING(), Types.BIG_DEC())),
        (tuple[str, bytes], Types.TUPLE([Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())])),
        (datetime.date, Types.SQL_DATE()),
        (Colour, Types.STRING()),
        (Types.LONG(), Types.LONG()),
        (DataTypes.ROW([DataTypes.FIELD("a", DataTypes.INT())]), Types.ROW_NAMED(["a"], [Types.INT()])),
    ],
)
def test_output_types_of_python_classes(declared: Any, expected: Any) -> None:
    assert type_info(declared) == expected


@pytest.mark.parametrize("declared", [object, int | str, "Part", 3, Literal["a", 1]])
def test_what_has_no_flink_type_is_an_error(declared: Any) -> None:
    with pytest.raises(ConfigurationError, match="output_type"):
        type_info(declared)


def test_a_field_without_a_flink_type_is_named() -> None:
    @dataclasses.dataclass
    class Odd:
        thing: object

    with pytest.raises(ConfigurationError, match=r"Odd\.thing"):
        type_info(Odd)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"name": "a"}, r"no field 'weight'; it has name"),
        ({"name": 3, "weight": 1.0}, r"output\.name is 3, a int, and the declared type is STRING"),
        ("plain", "emit a dict, a dataclass"),
        (("a",), "1 fields, the declared type 2"),
        (object(), "emit a dict, a dataclass"),
    ],
)
def test_an_output_that_does_not_fit_is_named(value: Any, problem: str) -> None:
    with pytest.raises(DurableExecutionError, match=problem):
        writer(type_info(Part))(value)


def test_numbers_that_do_not_fit_are_refused_and_integers_become_floats() -> None:
    with pytest.raises(DurableExecutionError, match="does not fit into INT"):
        writer(Types.INT())(2**31)
    assert writer(Types.DOUBLE())(3) == 3.0
    assert writer(Types.LONG())(None) is None


def test_dicts_dataclasses_models_and_rows_become_rows_by_field_name() -> None:
    env, agents = environment()
    values: list[Any] = [{"weight": 1, "name": "dict"}, Part("dataclass", 2.0), Row(weight=3.0, name="row")]
    parts = agents.from_datastream(env.from_collection(values), key_selector=lambda v: 1).apply(
        Pass(), uid="p"
    )
    answers = agents.from_datastream(
        env.from_collection([Answer(id=1, text="t")]), key_selector=lambda v: 1
    ).apply(Pass(), uid="a")
    numbers = agents.from_datastream(env.from_collection([7]), key_selector=lambda v: 1).apply(
        Pass(), uid="n"
    )
    stream = union(
        [
            parts.to_datastream(output_type=Part).map(lambda r: ("part", r["name"], r["weight"])),
            answers.to_datastream(output_type=Answer).map(
                lambda r: ("answer", r["id"], r["colour"], r["part"]["weight"], list(r["tags"]), r["kind"])
            ),
            numbers.to_datastream(output_type=Types.LONG()).map(lambda n: ("number", n)),
        ]
    )
    assert sorted(collect(stream), key=repr) == [
        ("answer", 1, "red", 1.5, ["x"], "a"),
        ("number", 7),
        ("part", "dataclass", 2.0),
        ("part", "dict", 1.0),
        ("part", "row", 3.0),
    ]


class SecondField(TimestampAssigner):  # type: ignore[misc]
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1])


class ShowTimestamp(ProcessFunction):  # type: ignore[misc]
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value[0], ctx.timestamp()


def test_s8_source_timestamps_are_kept_on_outputs() -> None:
    env, agents = environment()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    source = env.from_collection([("a", 5), ("b", 1000)]).assign_timestamps_and_watermarks(strategy)
    stream = agents.from_datastream(source, key_selector=lambda v: v[0]).apply(Pass()).to_datastream()
    assert sorted(collect(stream.process(ShowTimestamp()))) == [("a", 5), ("b", 1000)]


def test_tables_in_and_out() -> None:
    env, _ = environment()
    t_env = StreamTableEnvironment.create(env)
    agents = AgentsExecutionEnvironment.get_execution_environment(env, t_env)
    table = t_env.from_elements([("anna", 2), ("bob", 3)], ["name", "stars"])
    agent = agents.from_table(table, key_selector=lambda row: row["name"]).apply(Pass())
    schema = Schema.new_builder().column("name", "STRING").column("stars", DataTypes.BIGINT()).build()
    result = agent.to_table(schema)
    assert result.get_schema().get_field_names() == ["name", "stars"]
    with result.execute().collect() as rows:
        assert sorted((row[0], row[1]) for row in rows) == [("anna", 2), ("bob", 3)]


def test_a_table_from_an_output_type_alone() -> None:
    env, agents = environment()
    source = env.from_collection([{"name": "a", "weight": 1.5}])
    table = agents.from_datastream(source, key_selector=lambda v: 1).apply(Pass()).to_table(output_type=Part)
    with table.execute().collect() as rows:
        assert [(row[0], row[1]) for row in rows] == [("a", 1.5)]


def test_an_updating_table_is_refused_with_the_cause() -> None:
    env, agents = environment()
    t_env = StreamTableEnvironment.create(env)
    table = t_env.from_elements([("anna", 2)], ["name", "stars"])
    counts = table.group_by(table.name).select(table.name, table.stars.sum.alias("total"))
    agents = AgentsExecutionEnvironment.get_execution_environment(env, t_env)
    with pytest.raises(ConfigurationError, match="only appends"):
        agents.from_table(counts, key_selector=lambda row: row["name"])


def test_to_table_needs_a_schema_or_a_type() -> None:
    env, agents = environment()
    builder = agents.from_datastream(env.from_collection([1]), key_selector=lambda v: 1).apply(Pass())
    with pytest.raises(ConfigurationError, match="schema or an output_type"):
        builder.to_table()
