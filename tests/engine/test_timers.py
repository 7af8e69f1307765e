"""The heap of deadlines (P24): what was cancelled does not stay until its time would have come."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from flink_agents_durable import Agent, CallOptions, InputEvent
from flink_agents_durable.engine.run import Slot
from flink_agents_durable.engine.timers import _FEW
from flink_agents_durable.testing import LocalRunner

OPTIONS = CallOptions(total_timeout=3_600)


async def nothing(number: int) -> int:
    return number


async def act(event: Any, ctx: Any) -> None:
    if event.input < 0:
        await asyncio.sleep(60)  # before all others, which therefore never come up
    else:
        await ctx.durable_execute_async(nothing, event.input, options=OPTIONS)


def test_l6_calls_that_have_ended_do_not_stay_until_their_total_timeout() -> None:
    """A bounded number of them does, however many there were."""
    gc.collect()
    before = sum(type(found) is Slot for found in gc.get_objects())  # of other tests in this process
    with LocalRunner(Agent().add_action("act", [InputEvent], act)) as runner:
        runner.process("sleeper", -1)
        for number in range(10 * _FEW):
            runner.process("key", number)
            runner.run_until_idle()
        gc.collect()
        left = sum(type(found) is Slot for found in gc.get_objects())
        assert left - before <= _FEW + 1
        runner.run_until_idle(advance_timers=True)
        assert runner._engine.timers.next() is None
