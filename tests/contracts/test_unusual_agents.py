"""Agents as people write them who know asyncio well: crashed before and after every record, the same comes out."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flink_agents_durable import Agent, Event, InputEvent, RunnerContext, SqliteActionStateStore
from flink_agents_durable.testing import LocalRunner, check_replay
from tests.contracts.functions import ask, compute
from tests.contracts.kit import Attempts, agent_of, called, out, values

needs_311 = pytest.mark.skipif(sys.version_info < (3, 11), reason="came with Python 3.11")

Act = Callable[[Any, RunnerContext], Any]
AGENTS: list[Any] = []


def agent(*expected: Any, marks: Any = ()) -> Callable[[Act], Act]:
    """Add an action to the table, with the outputs of one input."""

    def add(act: Act) -> Act:
        AGENTS.append(pytest.param(act, list(expected), id=act.__name__, marks=marks))
        return act

    return add


async def fail(what: Any) -> Any:
    raise ValueError(f"no {what}")


VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("VARIABLE", default=0)


def read_variable() -> int:
    return VARIABLE.get()


@agent("b!", ["in finally", "no a"])
async def an_exception_in_finally(event: Any, ctx: RunnerContext) -> None:
    try:
        try:
            await ctx.durable_execute_async(fail, "a")
        finally:
            out(ctx, await ctx.durable_execute_async(ask, "b"))
            raise RuntimeError("in finally")
    except RuntimeError as error:
        out(ctx, [str(error), str(error.__context__)])


@agent(["0!", "clean 1!", "2!", "clean 3!"])
async def cancelled_tasks_that_clean_up_with_a_call(event: Any, ctx: RunnerContext) -> None:
    async def child(number: int) -> Any:
        try:
            return await ctx.durable_execute_async(ask, number)
        except asyncio.CancelledError:
            return await ctx.durable_execute_async(ask, f"clean {number}")

    tasks = [asyncio.create_task(child(number)) for number in range(4)]
    await asyncio.sleep(0)
    tasks[1].cancel()
    tasks[3].cancel()
    out(ctx, await asyncio.gather(*tasks))


@agent("failed", "0!", "1!", "3!")
async def a_gather_that_fails_while_its_others_go_on(event: Any, ctx: RunnerContext) -> None:
    async def child(number: int) -> None:
        answer = await ctx.durable_execute_async(ask, number)
        if number == 2:
            raise RuntimeError("failed")
        await asyncio.sleep(1)
        out(ctx, answer)

    try:
        await asyncio.gather(*map(child, range(4)))
    except RuntimeError as error:
        out(ctx, str(error))


@agent("cancelled", "after!")
async def a_gather_that_is_cancelled_from_outside(event: Any, ctx: RunnerContext) -> None:
    both = asyncio.gather(*(ctx.durable_execute_async(ask, number) for number in range(3)))
    await asyncio.sleep(0)
    both.cancel()
    try:
        await both
    except asyncio.CancelledError:
        out(ctx, "cancelled")
    out(ctx, await ctx.durable_execute_async(ask, "after"))


@agent("cancelled", "z!", "CancelledError")
async def a_durable_gather_that_is_cancelled(event: Any, ctx: RunnerContext) -> None:
    futures = [ctx.durable_execute_async(ask, number) for number in range(3)]
    task = asyncio.create_task(ctx.gather(*futures, timeout=5))
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        out(ctx, "cancelled")
    out(ctx, await ctx.durable_execute_async(ask, "z"))
    try:
        await futures[0]
    except asyncio.CancelledError as error:
        out(ctx, type(error).__name__)


@agent("a! no b")
def a_generator_with_a_return_value(event: Any, ctx: RunnerContext) -> Any:
    def inner() -> Any:
        text = yield ctx.durable_execute_async(ask, "a")
        try:
            yield ctx.durable_execute_async(fail, "b")
        except ValueError as error:
            text += f" {error}"
        return text

    out(ctx, (yield from inner()))
    return "nobody sees it"


@agent("finally", ["b!", "no c"])
def a_generator_that_goes_on_after_finally(event: Any, ctx: RunnerContext) -> Any:
    try:
        yield ctx.durable_execute_async(ask, "a")
    finally:
        out(ctx, "finally")
    yield asyncio.sleep(1)
    batch = yield ctx.gather(
        ctx.durable_execute_async(ask, "b"), ctx.durable_execute_async(fail, "c"), timeout=5
    )
    out(ctx, [batch[0].value, str(batch[1].error)])


@agent(["ll!", "lr!", "l!", "rl!", "rr!", "r!", "!"])
async def recursion_over_gathers(event: Any, ctx: RunnerContext) -> None:
    async def node(depth: int, path: str) -> list[Any]:
        if depth == 0:
            return [await ctx.durable_execute_async(ask, path)]
        left, right = await asyncio.gather(node(depth - 1, path + "l"), node(depth - 1, path + "r"))
        return [*left, *right, await ctx.durable_execute_async(compute, path)]

    out(ctx, await node(2, ""))


@agent([[3, 3], 1], 1, 7)
async def context_variables(event: Any, ctx: RunnerContext) -> None:
    """Each task has its own; a durable function sees those of its call."""
    VARIABLE.set(1)

    async def child() -> int:
        VARIABLE.set(VARIABLE.get() + 1)
        await ctx.durable_execute_async(ask, VARIABLE.get())
        VARIABLE.set(VARIABLE.get() + 1)
        return VARIABLE.get()

    out(ctx, [await asyncio.gather(child(), child()), VARIABLE.get()])
    out(ctx, await ctx.durable_execute_async(read_variable))
    VARIABLE.set(7)
    out(ctx, ctx.durable_execute(read_variable))


@agent("returned", "1!", "2!", "3!")
async def tasks_that_outlive_the_action_and_make_tasks(event: Any, ctx: RunnerContext) -> None:
    async def child(number: int) -> None:
        await asyncio.sleep(number)
        out(ctx, await ctx.durable_execute_async(ask, number))
        if number < 3:
            asyncio.create_task(child(number + 1))  # noqa: RUF006

    asyncio.create_task(child(1))  # noqa: RUF006
    out(ctx, "returned")


@agent("cancelled", "b!")
async def a_shield_that_is_cancelled(event: Any, ctx: RunnerContext) -> None:
    shield = asyncio.shield(ctx.durable_execute_async(ask, "a"))
    shield.cancel()
    try:
        await shield
    except asyncio.CancelledError:
        out(ctx, "cancelled")
    out(ctx, await ctx.durable_execute_async(ask, "b"))


@agent([[1], 2], ["CancelledError", "CancelledError"])
async def wait_with_a_timeout(event: Any, ctx: RunnerContext) -> None:
    tasks = [asyncio.create_task(asyncio.sleep(number, number)) for number in (1, 2, 3)]
    done, pending = await asyncio.wait(tasks, timeout=1.5)
    out(ctx, [[task.result() for task in done], len(pending)])
    for task in pending:
        task.cancel()
    rest = await asyncio.gather(*pending, return_exceptions=True)
    out(ctx, [type(result).__name__ for result in rest])


@agent(*[[f"{number}!"] for number in range(5)])
async def wait_for_the_first_again_and_again(event: Any, ctx: RunnerContext) -> None:
    tasks = {asyncio.create_task(ctx.durable_execute_async(ask, number)) for number in range(5)}
    while tasks:
        done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        out(ctx, sorted(task.result() for task in done))


@agent("0!", "1!", "2!")
async def an_action_that_cancels_itself(event: Any, ctx: RunnerContext) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in range(3):
        task.cancel()
        try:
            await ctx.durable_execute_async(ask, "never answered")
        except asyncio.CancelledError:
            out(ctx, await ctx.durable_execute_async(ask, number))


@agent(["a!", "a!", "CancelledError"], "a!")
async def one_future_awaited_by_many(event: Any, ctx: RunnerContext) -> None:
    future = ctx.durable_execute_async(ask, "a")

    async def wait() -> Any:
        return await future

    tasks = [asyncio.create_task(wait()) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[2].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    out(ctx, [result if isinstance(result, str) else type(result).__name__ for result in results])
    out(ctx, await future)


@agent("1!", ["0!", "1!", "2!"])
async def a_call_of_a_batch_awaited_by_itself(event: Any, ctx: RunnerContext) -> None:
    futures = [ctx.durable_execute_async(ask, number) for number in range(3)]
    batch = asyncio.create_task(ctx.gather(*futures))
    await asyncio.sleep(0)
    out(ctx, await futures[1])
    out(ctx, [outcome.value for outcome in await batch])


@agent([["a0!", "a1!"], ["b0!", "b1!"]])
async def batches_in_tasks(event: Any, ctx: RunnerContext) -> None:
    async def batch(name: str) -> list[Any]:
        calls = (ctx.durable_execute_async(ask, f"{name}{number}") for number in range(2))
        return [outcome.value for outcome in await ctx.gather(*calls)]

    out(ctx, await asyncio.gather(batch("a"), batch("b")))


@agent(["1!1!", "2!2!"])
async def synchronous_calls_in_tasks(event: Any, ctx: RunnerContext) -> None:
    async def child(number: int) -> Any:
        return ctx.durable_execute(compute, number) + await ctx.durable_execute_async(ask, number)

    out(ctx, await asyncio.gather(child(1), child(2)))


@agent([1, 3], marks=needs_311)
async def a_task_group_in_which_many_fail(event: Any, ctx: RunnerContext) -> None:
    together = asyncio.Event()

    async def child(number: int) -> None:
        await ctx.durable_execute_async(ask, number)
        asyncio.get_running_loop().call_later(1, together.set)
        await together.wait()
        if number % 2:
            raise ValueError(number)
        await asyncio.sleep(9)

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(child(number))
    except ExceptionGroup as group_error:  # noqa: F821
        out(ctx, [error.args[0] for error in group_error.exceptions])


@agent("inner", "outer", marks=needs_311)
async def timeouts_in_timeouts(event: Any, ctx: RunnerContext) -> None:
    try:
        async with asyncio.timeout(5):
            try:
                async with asyncio.timeout(1):
                    await asyncio.sleep(2)
            except TimeoutError:
                out(ctx, "inner")
                await ctx.durable_execute_async(ask, "in the handler")
                await asyncio.sleep(10)
    except TimeoutError:
        out(ctx, "outer")


@agent("0!", "1!", "after!", "closed!")
async def an_async_generator_that_is_left(event: Any, ctx: RunnerContext) -> None:
    """Its `finally` awaits: asyncio closes it in a task, so do we."""

    async def answers() -> Any:
        try:
            for number in range(5):
                yield await ctx.durable_execute_async(ask, number)
        finally:
            out(ctx, await ctx.durable_execute_async(ask, "closed"))

    async for answer in answers():
        out(ctx, answer)
        if answer == "1!":
            break
    out(ctx, await ctx.durable_execute_async(ask, "after"))


@agent("x2!", "x1!", "x0!")
async def an_exit_stack_whose_exits_make_calls(event: Any, ctx: RunnerContext) -> None:
    @contextlib.asynccontextmanager
    async def manager(number: int) -> Any:
        yield await ctx.durable_execute_async(ask, number)
        out(ctx, await ctx.durable_execute_async(ask, f"x{number}"))

    async with contextlib.AsyncExitStack() as stack:
        for number in range(3):
            await stack.enter_async_context(manager(number))


@agent(["wrapped", "no a"], "no a", "no a")
async def a_failure_raised_again_and_again(event: Any, ctx: RunnerContext) -> None:
    future = ctx.durable_execute_async(fail, "a")
    try:
        try:
            await future
        except ValueError as error:
            raise RuntimeError("wrapped") from error
    except RuntimeError as error:
        out(ctx, [str(error), str(error.__cause__)])
    for _ in range(2):
        try:
            await future
        except ValueError as error:
            out(ctx, str(error))


@agent("stopped")
async def a_base_exception_of_its_own(event: Any, ctx: RunnerContext) -> None:
    class Stop(BaseException):
        pass

    async def child() -> None:
        await ctx.durable_execute_async(ask, "a")
        raise Stop

    try:
        await child()
    except Stop:
        out(ctx, "stopped")


@agent("a!", "a!")
async def awaitables_of_its_own(event: Any, ctx: RunnerContext) -> None:
    class Question:
        def __await__(self) -> Any:
            return ctx.durable_execute_async(ask, "a").__await__()

    out(ctx, await Question())
    out(ctx, await asyncio.ensure_future(Question()))


@agent()
def a_plain_function_that_returns_a_durable_future(event: Any, ctx: RunnerContext) -> Any:
    return ctx.durable_execute_async(ask, "awaited, though nobody sees the answer")


@agent([3, "CancelledError", "CancelledError"])
async def all_tasks_cancelled(event: Any, ctx: RunnerContext) -> None:
    tasks = [asyncio.create_task(ctx.durable_execute_async(ask, number)) for number in range(2)]
    everybody = asyncio.all_tasks()
    for task in everybody - {asyncio.current_task()}:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    out(ctx, [len(everybody), *(type(result).__name__ for result in results)])


@agent([1, 1, 1, 2, 2, 2, 3, 3])
async def sleeps_that_end_together(event: Any, ctx: RunnerContext) -> None:
    order: list[int] = []

    async def sleeper(seconds: int) -> None:
        await asyncio.sleep(seconds)
        order.append(seconds)

    await asyncio.gather(*(sleeper(number % 3 + 1) for number in range(8)))
    out(ctx, order)


@agent(["three"])
async def callbacks_that_cancel_timers(event: Any, ctx: RunnerContext) -> None:
    loop, done = asyncio.get_running_loop(), list[str]()
    later = loop.call_later(2, done.append, "two")
    loop.call_later(1, later.cancel)
    loop.call_at(loop.time() + 3, done.append, "three")
    await asyncio.sleep(5)
    out(ctx, done)


@agent(["child", 0, "0!"], ["child", 1, "1!"])
async def events_between_calls(event: Any, ctx: RunnerContext) -> None:
    for number in range(2):
        ctx.send_event(Event("child", {"number": number}))
        await ctx.durable_execute_async(ask, number)


@agent(6)
async def memory_shared_by_tasks(event: Any, ctx: RunnerContext) -> None:
    memory = ctx.short_term_memory
    memory.set("count", 0)

    async def child(number: int) -> None:
        for _ in range(2):
            await ctx.durable_execute_async(ask, number)
            memory.set("count", memory.get("count") + 1)
            await asyncio.sleep(number)

    await asyncio.gather(*map(child, range(3)))
    out(ctx, memory.get("count"))


async def on_child(event: Any, ctx: RunnerContext) -> None:
    number = event.get_attr("number")
    out(ctx, ["child", number, await ctx.durable_execute_async(compute, number)])


@pytest.mark.parametrize(("act", "expected"), AGENTS)
def test_unusual_agents_survive_a_crash_at_every_record(act: Act, expected: list[Any]) -> None:
    """L1, L2, D5, P1: outputs and calls are those of the run without a crash, wherever it comes."""
    unusual = Agent().add_action("act", [InputEvent], act).add_action("on_child", ["child"], on_child)
    with LocalRunner(unusual) as runner:
        runner.process("k", 1)
        runner.run_until_idle(advance_timers=True)
        assert sorted(map(repr, values(runner))) == sorted(map(repr, expected))
        assert runner.idle
    report = check_replay(unusual, [("a", 1), ("b", 2), ("a", 3)])
    assert report.crash_points >= 2


# --- large ones, crashed in the middle ---


async def a_gather_of_5000(event: Any, ctx: RunnerContext) -> None:
    batch = await ctx.gather(*(ctx.durable_execute_async(halting, number) for number in range(5000)))
    out(ctx, sum(outcome.value for outcome in batch))


async def a_batch_of_5000_with_a_timeout(event: Any, ctx: RunnerContext) -> None:
    calls = (ctx.durable_execute_async(halting, number) for number in range(5000))
    out(ctx, sum(outcome.value for outcome in await ctx.gather(*calls, timeout=60)))


async def tasks_1000(event: Any, ctx: RunnerContext) -> None:
    async def child(number: int) -> int:
        first = await ctx.durable_execute_async(halting, number)
        await asyncio.sleep(number % 5)
        return first + await ctx.durable_execute_async(halting, number + 1000)

    out(ctx, sum(await asyncio.gather(*map(child, range(1000)))))


async def tasks_in_tasks_1000_deep(event: Any, ctx: RunnerContext) -> None:
    async def down(depth: int) -> int:
        if depth == 0:
            return 0
        return await ctx.durable_execute_async(halting, depth) + await asyncio.create_task(down(depth - 1))

    out(ctx, await down(1000))


async def halting(number: int) -> int:
    """A fake stands for it."""
    raise NotImplementedError


class Halting:
    """Answers so many calls; later ones stay in flight."""

    def __init__(self, answers: int) -> None:
        self.answers = answers
        self.made: list[int] = []
        self.held = 0

    async def __call__(self, number: int) -> int:
        if len(self.made) >= self.answers:
            self.held += 1
            await asyncio.get_running_loop().create_future()
        self.made.append(number)
        return number


@pytest.mark.parametrize(
    ("act", "calls", "result"),
    [
        (a_gather_of_5000, 5000, sum(range(5000))),
        (a_batch_of_5000_with_a_timeout, 5000, sum(range(5000))),
        (tasks_1000, 2000, sum(range(2000))),
        (tasks_in_tasks_1000_deep, 1000, sum(range(1001))),
    ],
)
def test_large_agents_go_on_after_a_crash_in_the_middle(
    attempts: Attempts, act: Act, calls: int, result: int
) -> None:
    """L2, F9: with a checkpoint that was taken in the middle, what was made is not made again."""
    first_half = Halting(calls // 2)
    first = attempts.start(agent_of(act), fakes={halting: first_half})
    first.process("k", 1)
    with contextlib.suppress(TimeoutError):  # as calls stay in flight
        while first.stats.calls_executed < calls // 2:
            first.run_until_idle(advance_timers=True, timeout=1)
    checkpoint = first.checkpoint()
    second_half = Halting(calls)
    second = attempts.start(
        agent_of(act), checkpoint=checkpoint, fakes={halting: second_half}, time=first.time
    )
    second.run_until_idle(advance_timers=True)
    assert values(second) == [result]
    assert len(first_half.made) + len(second_half.made) == calls
    assert not set(first_half.made) & set(second_half.made)
    assert len(called(second)) == len(second_half.made)


@pytest.fixture
def _collector_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("_collector_off")
def test_a_generator_of_an_abandoned_action_is_no_business_of_another(attempts: Attempts) -> None:
    """The collector may find it in the middle of another action's step, in whose loop it must not be closed."""
    left: list[Any] = []

    async def answers(ctx: RunnerContext) -> Any:
        try:
            while True:
                yield await ctx.durable_execute_async(ask, "a")
        finally:
            left.append("closed")
            await ctx.durable_execute_async(ask, "not asked any more")

    async def suspended(event: Any, ctx: RunnerContext) -> None:
        generator = answers(ctx)
        ring = [generator]
        ring.append(ring)
        await generator.__anext__()
        await asyncio.sleep(3600)

    async def collecting(event: Any, ctx: RunnerContext) -> None:
        gc.collect()
        await asyncio.sleep(0)
        gc.collect()
        out(ctx, await ctx.durable_execute_async(compute, "b"))

    first = attempts.start(agent_of(suspended))
    first.process("k", 1)
    first.run_until_idle()
    first.close()
    del first
    attempts._runners.clear()
    attempts.store = SqliteActionStateStore(attempts.folder / "another", synchronous="OFF")
    second = attempts.start(agent_of(collecting))
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["b!"]
    assert called(second) == ["b"]
