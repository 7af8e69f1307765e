"""Memory with a time to live in a job: the walk over all keys takes what nobody uses out of the state (P25)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pyflink.common import Types

from flink_agents_durable import Agent, Event, InputEvent, OutputEvent, RunnerContext, action
from tests.flink.jobs import collect, environment

OTHERS = 50


def delayed(key: str) -> str:
    """Lets checkpoints, and more than two walks, pass before the last input."""
    if key == "c":
        time.sleep(0.1)
    return key


class Visits(Agent):
    @action(InputEvent)
    async def visit(self, event: Event, ctx: RunnerContext) -> None:
        count = ctx.short_term_memory.get("count", 0)
        ctx.short_term_memory.set("count", count + 1)
        engine: Any = ctx._driver.port._engine  # type: ignore[attr-defined]
        ctx.send_event(OutputEvent(output=(ctx.key, count, engine.stats.keys_expired)))


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_p25_expired_keys_leave_the_state_of_a_job(backend: str) -> None:
    options = {
        "agents.short-term-memory.ttl": "1 s",
        "python.execution-mode": "thread",
        "state.backend.type": backend,
        "execution.checkpointing.interval": "200 ms",
    }
    env, agents = environment(options)
    stream = env.from_collection(["a", "b", "a", *["c"] * OTHERS, "a"]).map(delayed, Types.STRING())
    builder = agents.from_datastream(stream, key_selector=lambda text: text)
    found = collect(builder.apply(Visits()).to_datastream())
    assert len(found) == OTHERS + 4
    key, count, expired = found[-1]
    assert (key, count) == ("a", 0)
    assert expired >= 2  # on a machine that stands still for a second, more
