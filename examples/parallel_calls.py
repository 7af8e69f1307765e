"""Durable calls side by side: gather with a time limit, and asyncio's own tools."""

import asyncio
import time
from typing import Any

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_durable import (
    Agent,
    AgentsExecutionEnvironment,
    InputEvent,
    OutputEvent,
    RunnerContext,
    action,
)


def score(text: str) -> int:
    time.sleep(0.2)
    return len(text)


async def translate(text: str, language: str) -> str:
    await asyncio.sleep(0.2)
    return f"{text} ({language})"


def slow_check(text: str) -> bool:
    time.sleep(2)
    return True


async def gathered(text: str, ctx: RunnerContext) -> str:
    """One batch: planned in one append, run in parallel, outcomes in the order of the arguments."""
    points, french, checked = await ctx.gather(
        ctx.durable_execute_async(score, text),
        ctx.durable_execute_async(translate, text, "fr"),
        ctx.durable_execute_async(slow_check, text),
        timeout=0.5,
    )
    # What did not finish in time is a failure of its own; the others keep their results.
    return f"{points.value} points, {french.value}, checked: {checked.is_success()}"


async def grouped(text: str, ctx: RunnerContext) -> str:
    """asyncio's tools work as they always do, and replay in the same order."""
    languages = ("de", "es")
    if not hasattr(asyncio, "TaskGroup"):  # Python 3.10
        texts = await asyncio.gather(
            *(ctx.durable_execute_async(translate, text, language) for language in languages)
        )
        return ", ".join(texts)
    async with asyncio.TaskGroup() as group:
        tasks: list[Any] = [
            group.create_task(ctx.durable_execute_async(translate, text, language)) for language in languages
        ]
    return ", ".join(task.result() for task in tasks)


async def limited(text: str, ctx: RunnerContext) -> str:
    """A time limit for one call is a durable timer: a replay takes the same branch."""
    try:
        await asyncio.wait_for(ctx.durable_execute_async(slow_check, text), timeout=0.3)
    except asyncio.TimeoutError:
        return "not checked in time"
    return "checked"


class ParallelAgent(Agent):
    @action(InputEvent)
    async def work(self, event: InputEvent, ctx: RunnerContext) -> None:
        text = event.input
        lines = [
            await gathered(text, ctx),
            await grouped(text, ctx),
            await limited(text, ctx),
        ]
        ctx.send_event(OutputEvent(output="; ".join(lines)))


TEXTS = ["good morning", "good night"]

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    texts = agents.from_datastream(env.from_collection(TEXTS), key_selector=lambda text: text)
    texts.apply(ParallelAgent()).to_datastream(Types.STRING()).print()
    agents.execute("parallel calls")
