"""Frameworks that need a running asyncio loop and nothing else run in an action as they are."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flink_agents_durable import Agent, InputEvent, RunnerContext, current_context
from flink_agents_durable.testing import LocalRunner, check_replay
from tests.contracts.functions import ask
from tests.contracts.kit import Attempts, agent_of, out, values


async def look_up(city: str) -> str:
    return f"{city}: sunny"


def test_a_pydantic_ai_agent_runs_unmodified() -> None:
    """Its model's requests and its tools' work are durable calls, the rest of it knows nothing of us.

    The request is made in a function without arguments: Pydantic AI puts the wall clock's time and random ids
    into its messages, which are others on replay; as arguments they would be a mismatch.
    """
    pydantic_ai = pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.models.wrapper import WrapperModel

    def answer(messages: list[Any], info: Any) -> Any:
        returned = [part.content for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        if returned:
            return ModelResponse(parts=[TextPart(" and ".join(returned))])
        return ModelResponse(parts=[ToolCallPart("weather", {"city": city}) for city in ("Rome", "Oslo")])

    class DurableModel(WrapperModel):  # type: ignore[misc]
        async def request(self, messages: Any, model_settings: Any, parameters: Any) -> Any:
            async def ask_model() -> Any:
                return await self.wrapped.request(messages, model_settings, parameters)

            return await current_context().durable_execute_async(ask_model)

    weather_agent = pydantic_ai.Agent(DurableModel(FunctionModel(answer)))

    @weather_agent.tool_plain
    async def weather(city: str) -> str:
        return await current_context().durable_execute_async(look_up, city)

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, (await weather_agent.run(event.input)).output)

    agent = Agent().add_action("act", [InputEvent], act)
    with LocalRunner(agent) as runner:
        runner.process("k", "How is the weather?")
        runner.run_until_idle()
        assert values(runner) == ["Rome: sunny and Oslo: sunny"]
        assert [call.name.rpartition(".")[2] for call in runner.calls] == [
            "ask_model",
            "look_up",
            "look_up",
            "ask_model",
        ]
    report = check_replay(agent, [("a", "x"), ("b", "y")])
    assert report.calls == 8
    assert report.outputs == 2


def test_anyio_task_groups_limits_and_scopes() -> None:
    """Tasks that start each other, limiters, shields, cancelled groups, and `current_context` within."""
    import anyio

    async def act(event: Any, ctx: RunnerContext) -> None:
        limit, answers = anyio.CapacityLimiter(2), list[Any]()

        async def worker(number: int) -> None:
            async with limit:
                answers.append(await current_context().durable_execute_async(ask, number))

        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(worker, number)
        out(ctx, sorted(answers))
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 100)
            await ctx.durable_execute_async(ask, "cancels")
            group.cancel_scope.cancel()

        async def starting(*, task_status: Any) -> None:
            task_status.started(await ctx.durable_execute_async(ask, "starts"))
            out(ctx, await current_context().durable_execute_async(ask, "ends"))

        async with anyio.create_task_group() as group:
            out(ctx, await group.start(starting))
        with anyio.CancelScope(shield=True):
            out(ctx, await ctx.durable_execute_async(ask, "shielded"))
        with anyio.move_on_after(3) as scope:
            await anyio.sleep(5)
        out(ctx, [scope.cancelled_caught, current_context() is ctx])

    agent = Agent().add_action("act", [InputEvent], act)
    expected = [["0!", "1!", "2!", "3!", "4!"], "starts!", "ends!", "shielded!", [True, True]]
    with LocalRunner(agent) as runner:
        runner.process("k", 1)
        runner.run_until_idle(advance_timers=True)
        assert values(runner) == expected
    check_replay(agent, [("a", 1), ("b", 2)])


def test_current_context_in_what_frameworks_call(attempts: Attempts) -> None:
    """In tasks, callbacks and `finally` blocks of the action; in no durable function and in no thread."""
    seen: list[bool] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        def look(*args: Any) -> None:
            seen.append(current_context() is ctx)

        loop = asyncio.get_running_loop()
        loop.call_soon(look)
        loop.call_later(1, look)
        task = asyncio.create_task(ctx.durable_execute_async(ask, "a"))
        task.add_done_callback(look)
        try:
            await task
        finally:
            look()
        await asyncio.sleep(2)
        await asyncio.gather(*(asyncio.sleep(1) for _ in range(2)))
        look()

    runner = attempts.start(agent_of(act))
    for key in ("k", "l"):
        runner.process(key, 1)
    runner.run_until_idle(advance_timers=True)
    assert seen == [True] * 10


@pytest.mark.parametrize("outside", [False, True], ids=["policy", "running loop"])
def test_uvloop_around_actions(attempts: Attempts, outside: bool) -> None:
    """The loop of calls may be uvloop's, and the runner may be driven inside one; actions have their own."""
    uvloop = pytest.importorskip("uvloop")

    async def act(event: Any, ctx: RunnerContext) -> None:
        async def answers() -> Any:
            for name in "ab":
                yield await ctx.durable_execute_async(ask, name)

        out(ctx, [answer async for answer in answers()])
        await asyncio.sleep(1)

    def drive() -> list[Any]:
        runner = attempts.start(agent_of(act))
        runner.process("k", 1)
        runner.run_until_idle(advance_timers=True)
        return values(runner)

    async def main() -> list[Any]:
        await asyncio.sleep(0)
        outputs = drive()
        await asyncio.sleep(0)
        return outputs

    if outside:
        loop = uvloop.new_event_loop()
        try:
            assert loop.run_until_complete(main()) == [["a!", "b!"]]
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        return
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    try:
        assert drive() == [["a!", "b!"]]
    finally:
        asyncio.set_event_loop_policy(None)
