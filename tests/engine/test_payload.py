from __future__ import annotations

import dataclasses
import datetime
import enum
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy
import pydantic
import pytest

from flink_agents_durable.api.errors import DurableSerializationError, UnreadableRecordError
from flink_agents_durable.engine.payload import PayloadCodec
from flink_agents_durable.engine.plan_classes import (
    collect_plan_classes,
    register_plan_classes,
    resolve_plan_class,
    unregister_plan_classes,
)


@dataclasses.dataclass
class Job:
    name: str
    part: Any = None


def local_classes() -> dict[str, type]:
    class Base(Exception): ...

    class Failed(Base):
        def __init__(self, code: int) -> None:
            super().__init__(code)
            self.code = code

    @dataclasses.dataclass
    class Answer:
        text: str
        kind: Any = None

    class Kind(enum.Enum):
        GOOD = 1

    class Model(pydantic.BaseModel):
        name: str

    return {cls.__name__: cls for cls in (Base, Failed, Answer, Kind, Model)}


def plan_codec(classes: dict[str, type], plan_id: str = "p1") -> PayloadCodec:
    return PayloadCodec({cls.__qualname__: cls for cls in classes.values()}, plan_id)


@pytest.mark.parametrize("codec", [PayloadCodec(), plan_codec(local_classes())], ids=["plain", "plan"])
@pytest.mark.parametrize(
    "value",
    [None, False, True, 0, "", b"", [], {}, (), set(), 1 << 100, -(1 << 100), {1, 2}, frozenset({"a"}),
    "\ud800\0",
     Decimal("1.10"), datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc), Job("a", (1, {2: b"x"})),
     {1: "int", "1": "str", (1,): None}, float("inf"), 1j, range(3)],
    ids=repr,
)  # fmt: skip
def test_values_arrive_unchanged(codec: PayloadCodec, value: object) -> None:
    """Cases 31, 36."""
    again = codec.loads(codec.dumps(value))
    assert again == value
    assert type(again) is type(value)


def test_case_36_numpy_values_arrive_unchanged() -> None:
    codec = PayloadCodec()
    scalar = codec.loads(codec.dumps(numpy.int32(7)))
    assert type(scalar) is numpy.int32
    array = codec.loads(codec.dumps(numpy.arange(4, dtype="f4")))
    assert isinstance(array, numpy.ndarray)
    assert array.dtype == numpy.float32
    assert array.tolist() == [0, 1, 2, 3]


def test_plan_classes_are_written_by_name_and_keep_their_identity() -> None:
    classes = local_classes()
    codec = plan_codec(classes)
    value = {
        "answer": classes["Answer"]("x", classes["Kind"].GOOD),  # type: ignore[attr-defined]
        "model": classes["Model"](name="m"),
        "class": classes["Failed"],
        "error": classes["Failed"](3),
    }
    data = codec.dumps(value)
    assert len(data) < 2_000
    again: Any = codec.loads(data)
    assert again["answer"] == value["answer"]
    assert again["answer"].kind is classes["Kind"].GOOD  # type: ignore[attr-defined]
    assert again["model"] == value["model"]
    assert again["class"] is classes["Failed"]
    assert type(again["error"]) is classes["Failed"]
    assert again["error"].code == 3


def test_a_record_of_an_older_plan_means_the_class_that_replaced_it() -> None:
    old, new = local_classes(), local_classes()
    data = plan_codec(old, "old").dumps(old["Answer"]("x"))
    assert type(plan_codec(new, "new").loads(data)) is new["Answer"]


def test_a_class_that_the_plan_has_no_longer_is_named() -> None:
    classes = local_classes()
    data = plan_codec(classes).dumps(classes["Answer"]("x"))
    with pytest.raises(UnreadableRecordError, match="Answer"):
        PayloadCodec({}, "p1").loads(data)


def test_k11_registered_plans_are_readable_by_plain_pickle_until_unregistered() -> None:
    classes = {cls.__qualname__: cls for cls in local_classes().values()}
    codec = PayloadCodec(classes, "p-2")
    name = next(name for name in classes if name.endswith("Answer"))
    data = codec.dumps(classes[name]("x"))
    module = register_plan_classes("p-2", classes)
    register_plan_classes("p-2", classes)
    assert sys.modules[module.__name__] is module
    assert module.__name__.startswith("flink_agents_durable._plan_")
    unregister_plan_classes("p-2")
    assert type(pickle.loads(data)) is classes[name]
    assert resolve_plan_class("p-2", name) is classes[name]
    unregister_plan_classes("p-2")
    assert module.__name__ not in sys.modules
    with pytest.raises(LookupError):
        pickle.loads(data)


def test_lambdas_and_local_functions_inside_a_value_go_by_value() -> None:
    step = 2

    def add(x: int) -> int:
        return x + step

    again: Any = PayloadCodec().loads(PayloadCodec().dumps(Job("a", [add, lambda x: x * step])))
    assert [func(5) for func in again.part] == [7, 10]


class Stubborn:
    def __reduce__(self) -> Any:
        raise ValueError("not me")


def endless() -> list[object]:
    value: list[object] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (threading.Lock(), "_thread.lock"),
        (Job("a", {"client": [1, threading.Lock()]}), "_thread.lock at value.part['client'][1]"),
        ({"a": (x for x in [1])}, "generator at value['a']"),
        ([1, Stubborn()], "Stubborn at value[1]"),
        (Job("a", sys._getframe()), "frame at value.part"),
    ],
)
def test_case_1_what_cannot_be_serialised_is_named(value: object, named: str) -> None:
    with pytest.raises(DurableSerializationError) as error:
        PayloadCodec().dumps(value)
    assert named in str(error.value)
    assert error.value.__cause__ is not None


def test_case_1_a_value_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(DurableSerializationError):
        PayloadCodec().dumps(endless())


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"garbage", b"\x80\x05cno.such\nThing\n.", pickle.dumps(1)[:-1]]
)
def test_unreadable_bytes_are_an_error_of_their_own(data: bytes) -> None:
    with pytest.raises(UnreadableRecordError):
        PayloadCodec().loads(data)


# --- what a plan ships by value


def test_collect_finds_the_classes_that_cloudpickle_ships_by_value() -> None:
    classes = local_classes()
    failed, answer = classes["Failed"], classes["Answer"]

    class Agent:
        output = answer

        def act(self) -> None:
            raise failed(1)

    found = collect_plan_classes({"agent": Agent(), "job": Job("a")})
    names = {name.rpartition(".")[2] for name in found}
    assert names == {"Agent", "Answer", "Failed", "Base"}
    assert failed in found.values()


def test_collect_tells_classes_of_one_name_apart() -> None:
    one, other = local_classes()["Answer"], local_classes()["Answer"]
    found = collect_plan_classes([one, other])
    assert list(found.values()) == [one, other]
    assert list(found) == [one.__qualname__, f"{one.__qualname__}#2"]


def test_collect_finds_nothing_in_a_plan_of_importable_classes() -> None:
    assert collect_plan_classes([Job("a"), datetime.datetime(2026, 1, 1), None, int, PayloadCodec]) == {}


def test_collect_in_the_subtask_finds_the_same_names_as_at_submission() -> None:
    classes = local_classes()
    plan = [classes["Answer"]("x"), classes["Failed"]]
    shipped: Any = cloudpickle.loads(cloudpickle.dumps(plan))
    assert list(collect_plan_classes(shipped)) == list(collect_plan_classes(plan))


WRITER = """
    import cloudpickle, dataclasses, enum, sys
    from flink_agents_durable.engine.failures import encode_failure
    from flink_agents_durable.engine.payload import PayloadCodec
    from flink_agents_durable.engine.plan_classes import collect_plan_classes

    class Refused(Exception):
        def __init__(self, code, why):
            super().__init__(f"{code}: {why}")
            self.code = code

    class Simple(Exception):
        pass

    class Kind(enum.Enum):
        GOOD = 1

    @dataclasses.dataclass
    class Answer:
        text: str
        kind: Kind

    class Agent:
        def check(self, value, error, simple):
            assert isinstance(value, Answer) and value.kind is Kind.GOOD, value
            try:
                raise error
            except Refused as caught:
                assert caught.code == 7
            try:
                raise simple
            except Simple as caught:
                assert type(caught) is Simple
            return "held"

    agent = Agent()
    classes = collect_plan_classes(agent)
    codec = PayloadCodec(classes, "plan")
    plan = cloudpickle.dumps((agent, classes))
    parts = [plan, codec.dumps(Answer("x", Kind.GOOD)), encode_failure(Refused(7, "no"), codec),
             encode_failure(Simple("s"), codec)]
    open(sys.argv[1], "wb").write(cloudpickle.dumps(parts))
"""

READER = """
    import cloudpickle, sys
    from flink_agents_durable.engine.failures import decode_failure
    from flink_agents_durable.engine.payload import PayloadCodec

    plan, value, refused, simple = cloudpickle.loads(open(sys.argv[1], "rb").read())
    agent, classes = cloudpickle.loads(plan)
    codec = PayloadCodec(classes, "plan")
    print(agent.check(codec.loads(value), decode_failure(refused, codec), decode_failure(simple, codec)))
"""


def test_case_38_isinstance_and_except_hold_in_another_process(tmp_path: Path) -> None:
    exchange = tmp_path / "records"
    for name, program in (("writer.py", WRITER), ("reader.py", READER)):
        script = tmp_path / name
        script.write_text(textwrap.dedent(program))
        done = subprocess.run(
            [sys.executable, str(script), str(exchange)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "held"
