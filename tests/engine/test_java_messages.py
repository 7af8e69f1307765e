"""Values of Python that Java has no form for are refused where they come from, each by itself."""

from __future__ import annotations

from typing import Any

import pytest

from flink_agents_durable import Agent, InputEvent, JavaFunction, OutputEvent
from flink_agents_durable.api.errors import DurableSerializationError
from flink_agents_durable.engine.java_driver import JavaDriver
from flink_agents_durable.engine.java_messages import ASK, FAILURE, decode_flat, encode, pack
from flink_agents_durable.testing import LocalRunner


def _ring() -> list[Any]:
    ring: list[Any] = []
    ring.append(ring)
    return ring


VALUES = [
    pytest.param(lambda: 2**70, id="number"),
    pytest.param(lambda: {"ids": [1, -(2**64)]}, id="number inside"),
    pytest.param(lambda: "\ud800", id="surrogate"),
    pytest.param(lambda: {"\udfff": 1}, id="surrogate as a name"),
    pytest.param(_ring, id="ring"),
    pytest.param(object, id="object"),
]


@pytest.mark.parametrize("make", VALUES)
def test_f10_what_has_no_form_is_a_serialization_error(make: Any) -> None:
    with pytest.raises(DurableSerializationError):
        pack(make())


@pytest.mark.parametrize("make", VALUES)
@pytest.mark.parametrize("way", ["sync", "async"])
def test_f10_a_call_of_java_refuses_its_arguments_where_it_is_made(make: Any, way: str) -> None:
    """Not when it starts: then the whole task would fail, and again after each restart."""
    seen = []

    async def act(event: Any, ctx: Any) -> None:
        try:
            if way == "sync":
                ctx.durable_execute(JavaFunction("a.Tools", "norm"), make())
            else:
                ctx.durable_execute_async(JavaFunction("a.Tools", "norm"), make())
        except DurableSerializationError as error:
            seen.append(str(error))
        ctx.send_event(OutputEvent("on"))

    with LocalRunner(Agent().add_action("act", InputEvent, act)) as runner:
        runner.process("k", 1)
        runner.run_until_idle()
    assert len(seen) == 1


class _Surroundings:
    """As much of port and services as a question for the configuration needs."""

    def __init__(self, value: object) -> None:
        self.config = {"value": value}

    def is_replaying(self) -> bool:
        return False

    def carry_out(self, commands: list[Any]) -> None:
        assert commands == []


@pytest.mark.parametrize("make", VALUES)
def test_an_answer_without_a_form_fails_its_question_alone(make: Any) -> None:
    surroundings: Any = _Surroundings(make())
    driver = JavaDriver(surroundings, surroundings, surroundings)
    answer = decode_flat(driver.serve(encode([[ASK, "config", ["value"]]])))
    assert answer[:2] == [False, FAILURE]
    assert answer[2]["python"] == "DurableSerializationError"
