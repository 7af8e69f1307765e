"""A failure that a checkpoint without a store holds is tried again after the restore (P14, case 44)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from flink_agents_durable import ActionFailedError, Agent, InputEvent, OutputEvent
from flink_agents_durable.testing import LocalRunner

CALLS: Counter[str] = Counter()
GATE: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    CALLS.clear()


async def flaky(label: str) -> str:
    CALLS[label] += 1
    if label == "flaky" and CALLS[label] == 1:
        raise ConnectionError("not this time")
    return f"{label}{CALLS[label]}"


async def raised_later(event: Any, ctx: Any) -> None:
    before = await ctx.durable_execute_async(flaky, "before")
    (outcome,) = await ctx.gather(ctx.durable_execute_async(flaky, "flaky"))
    ctx.send_event(OutputEvent("sent"))
    await asyncio.sleep(60)
    after = await ctx.durable_execute_async(flaky, "after")
    ctx.send_event(OutputEvent([before, outcome.value, after]))


def raised_later_synchronously(event: Any, ctx: Any) -> Any:
    failure: Exception | None = None
    try:
        ctx.durable_execute(flaky, "flaky")
    except ConnectionError as error:
        failure = error
    ctx.send_event(OutputEvent("sent"))
    yield asyncio.sleep(60)
    if failure is not None:
        raise failure
    ctx.send_event(OutputEvent(["before1", "flaky2", "after1"]))


@pytest.mark.parametrize("act", [raised_later, raised_later_synchronously])
def test_p14_a_failure_in_a_checkpoint_is_tried_again_without_a_store(act: Any) -> None:
    agent = Agent().add_action("act", [InputEvent], act)
    with LocalRunner(agent) as runner:
        runner.process("key", 1)
        runner.run_until_idle()
        checkpoint = runner.checkpoint()
        assert runner.outputs == [("key", "sent")]
        with pytest.raises(ActionFailedError, match="not this time"):
            runner.run_until_idle(advance_timers=True)
    with LocalRunner.restore(agent, checkpoint) as runner:
        runner.run_until_idle(advance_timers=True)
        assert runner.outputs[-1][1][1] == "flaky2"
        assert runner.idle
    assert CALLS["before"] <= 1, "what succeeded is not called again"
    assert CALLS["flaky"] == 2


def test_p14_with_uncaught_failure_replay_it_fails_again() -> None:
    agent = Agent().add_action("act", [InputEvent], raised_later)
    options = {"agents.uncaught-failure": "replay"}
    with LocalRunner(agent, options=options) as runner:
        runner.process("key", 1)
        runner.run_until_idle()
        checkpoint = runner.checkpoint()
    with (
        LocalRunner.restore(agent, checkpoint, options=options) as runner,
        pytest.raises(ActionFailedError, match="not this time"),
    ):
        runner.run_until_idle(advance_timers=True)
    assert CALLS["flaky"] == 1
