"""What an execution leaves behind is freed at once (L6): the collector has nothing to find after each input."""

from __future__ import annotations

import gc
from typing import Any

from flink_agents_durable import Agent, InputEvent, OutputEvent
from flink_agents_durable.testing import LocalRunner


async def nothing(number: int) -> int:
    return number


async def act(event: Any, ctx: Any) -> None:
    for number in range(3):
        await ctx.durable_execute_async(nothing, number)
    await ctx.gather(*(ctx.durable_execute_async(nothing, number) for number in range(2)), timeout=5)
    ctx.send_event(OutputEvent(event.input))


def test_l6_executions_leave_no_cycles_behind() -> None:
    with LocalRunner(Agent().add_action("act", [InputEvent], act)) as runner:
        for number in range(50):
            runner.process("key", number)
        runner.run_until_idle()
        gc.collect()
        gc.disable()
        try:
            for number in range(50):
                runner.process("key", number)
            runner.run_until_idle()
            names = {
                "Execution",
                "Run",
                "PythonDriver",
                "ActionLoop",
                "ActionContext",
                "Slot",
                "DurableFuture",
            }
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = [type(found).__name__ for found in gc.garbage if type(found).__name__ in names]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    assert not left
