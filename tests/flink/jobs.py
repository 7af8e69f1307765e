"""Jobs of the tests: a small environment, and agents that tasks import from here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyflink.common import Configuration
from pyflink.datastream import DataStream, StreamExecutionEnvironment

from flink_agents_durable import (
    Agent,
    AgentOptions,
    AgentsExecutionEnvironment,
    Event,
    InputEvent,
    OutputEvent,
    RunnerContext,
    action,
)


def environment(
    options: dict[str, str] | None = None, *, parallelism: int = 1
) -> tuple[StreamExecutionEnvironment, AgentsExecutionEnvironment]:
    """A local environment without an action state store, unless the options say otherwise."""
    config = Configuration()
    for key, value in {"agents.store.type": "none", **(options or {})}.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(parallelism)
    return env, AgentsExecutionEnvironment.get_execution_environment(env)


def collect(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as results:
        return list(results)


def union(streams: Iterable[DataStream]) -> DataStream:
    first, *others = streams
    return first.union(*others) if others else first


def describe(value: Any) -> str:
    """What a task sees of a value: its type too, which a way back through Python would not show."""
    return f"{type(value).__name__} {value!r}"


class Echo(Agent):
    """One durable call for each input, and an output that shows key and input."""

    def __init__(self, label: str = "") -> None:
        self.label = label

    @action(InputEvent)
    async def echo(self, event: Event, ctx: RunnerContext) -> None:
        text = await ctx.durable_execute_async(describe, InputEvent.from_event(event).input)
        ctx.send_event(OutputEvent(output=(self.label, describe(ctx.key), text)))


class Pass(Agent):
    """Outputs are the inputs."""

    @action(InputEvent)
    def forward(self, event: Event, ctx: RunnerContext) -> None:
        ctx.send_event(OutputEvent(output=InputEvent.from_event(event).input))


__all__ = ["AgentOptions", "Echo", "Pass", "collect", "describe", "environment", "union"]
