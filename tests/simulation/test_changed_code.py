"""What a replay by changed code does is part of the next snapshot, though it needs no new record."""

from __future__ import annotations

import asyncio
from typing import Any

from flink_agents_durable import Agent, InputEvent, OutputEvent
from flink_agents_durable.testing import LocalRunner


def double(number: int) -> int:
    return 2 * number


def agent(*, says_more: bool) -> Agent:
    async def act(event: Any, ctx: Any) -> None:
        result = await ctx.durable_execute_async(double, event.input)
        if says_more:
            ctx.send_event(OutputEvent(result))
        await asyncio.sleep(100)

    return Agent().add_action("act", [InputEvent], act)


def test_p5_an_output_of_changed_code_appears_once() -> None:
    with LocalRunner(agent(says_more=False)) as runner:
        runner.process("a", 1)
        runner.run_until_idle()
        first = runner.checkpoint()
    with LocalRunner.restore(agent(says_more=True), first) as runner:
        runner.run_until_idle()
        assert runner.outputs == [("a", 2)]
        second = runner.checkpoint()
    with LocalRunner.restore(agent(says_more=True), second) as runner:
        runner.run_until_idle()
        assert runner.outputs == []
