"""Asyncio inside actions: what works, that it replays the same, and what is refused with the way to do it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from flink_agents_durable import (
    ActionFailedError,
    Agent,
    Event,
    InputEvent,
    RealIOError,
    RunnerContext,
    StalledActionError,
    action,
    current_context,
)
from tests.contracts.functions import ask, check, never
from tests.contracts.kit import Attempts, Gate, agent_of, called, out, until, values

needs_311 = pytest.mark.skipif(sys.version_info < (3, 11), reason="came with Python 3.11")


def twice(attempts: Attempts, act: Any, expected: list[Any]) -> None:
    """Run, then run again in another attempt from the log alone: the same, and no call is made."""
    for fakes in ({}, {ask: never, check: never}):
        runner = attempts.start(agent_of(act), fakes=fakes)
        runner.process("k", 1)
        runner.run_until_idle(advance_timers=True)
        assert values(runner) == expected
        assert runner.idle
        assert runner.stats.mismatches == 0


def failure(attempts: Attempts, act: Any, kind: type[BaseException], text: str) -> BaseException:
    """Run an action that fails; gives the cause."""
    runner = attempts.start(agent_of(act))
    with pytest.raises(ActionFailedError, match=text) as caught:
        _run(runner)
    cause = caught.value.__cause__
    assert isinstance(cause, kind)
    return cause


def _run(runner: Any) -> None:
    runner.process("k", 1)
    runner.run_until_idle(advance_timers=True)


# --- what works ---


def test_gather(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await asyncio.gather(*(ctx.durable_execute_async(ask, name) for name in "abc")))

    twice(attempts, act, [["a!", "b!", "c!"]])


@needs_311
def test_task_group(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ctx.durable_execute_async(ask, name)) for name in "abc"]
        out(ctx, [task.result() for task in tasks])

    twice(attempts, act, [["a!", "b!", "c!"]])


@needs_311
def test_a_task_group_cancels_the_others_in_the_same_order(attempts: Attempts) -> None:
    """Cancellation order is that of creation, not of addresses."""
    ended: list[str] = []

    async def step(ctx: RunnerContext, name: str) -> None:
        try:
            await ctx.durable_execute_async(ask, name)
            raise ValueError(name)
        except asyncio.CancelledError:
            ended.append(name)
            raise

    async def act(event: Any, ctx: RunnerContext) -> None:
        names = [f"n{number}" for number in range(20)]
        try:
            async with asyncio.TaskGroup() as group:
                for name in names:
                    group.create_task(step(ctx, name))
        except ExceptionGroup as error:  # noqa: F821
            out(ctx, [str(one) for one in error.exceptions])
        out(ctx, list(ended))
        ended.clear()

    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: len(gate.waiting) == 20)
    gate.answer("n7")
    first.run_until_idle()
    second = attempts.start(agent_of(act), fakes={ask: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(first) == values(second)
    assert values(first)[0] == ["n7"]
    assert sorted(values(first)[1]) == sorted(f"n{number}" for number in range(20) if number != 7)


def test_wait_for_and_timeout(attempts: Attempts) -> None:
    """A limit that is not reached, and one that is: durable timers, the same branch on replay."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await asyncio.wait_for(ctx.durable_execute_async(ask, "a"), 5))
        try:
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        except (asyncio.TimeoutError, TimeoutError):
            out(ctx, "timeout")
        out(ctx, await asyncio.wait_for(ctx.durable_execute_async(ask, "b"), None))

    twice(attempts, act, ["a!", "timeout", "b!"])


@needs_311
def test_timeout_block(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        begin = ctx.now()
        try:
            async with asyncio.timeout(30):
                await ctx.durable_execute_async(ask, "a")
                await asyncio.sleep(100)
        except TimeoutError:
            out(ctx, (ctx.now() - begin).total_seconds())
        async with asyncio.timeout(30) as limit:
            out(ctx, await ctx.durable_execute_async(ask, "b"))
            limit.reschedule(asyncio.get_running_loop().time() + 1)
        out(ctx, limit.expired())

    twice(attempts, act, [30.0, "b!", False])


def test_sleep_is_a_durable_timer(attempts: Attempts) -> None:
    """Virtual time moves it; a restore goes on with the rest of it, not with all of it."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        begin = asyncio.get_running_loop().time()
        await asyncio.sleep(60)
        out(ctx, round(asyncio.get_running_loop().time() - begin))

    first = attempts.start(agent_of(act))
    first.process("k", 1)
    first.run_until_idle()
    first.advance(40)
    assert values(first) == []
    second = attempts.start(agent_of(act), checkpoint=first.checkpoint(), time=first.time)
    second.advance(19)
    assert values(second) == []
    second.advance(1)
    assert values(second) == [60]


def test_sleep_0_lets_others_run(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        order: list[str] = []

        async def worker(name: str) -> None:
            for _ in range(3):
                order.append(name)
                await asyncio.sleep(0)

        await asyncio.gather(worker("a"), worker("b"))
        out(ctx, order)

    twice(attempts, act, [["a", "b", "a", "b", "a", "b"]])


def test_queue_between_tasks(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)

        async def produce() -> None:
            for name in "abc":
                await queue.put(await ctx.durable_execute_async(ask, name))
            await queue.put(None)

        producer = asyncio.create_task(produce())
        while (item := await queue.get()) is not None:
            out(ctx, await ctx.durable_execute_async(check, item))
        await producer

    twice(attempts, act, ["a!?", "b!?", "c!?"])


def test_event_lock_semaphore_and_condition(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        ready, lock, slots = asyncio.Event(), asyncio.Lock(), asyncio.Semaphore(2)
        condition = asyncio.Condition()
        inside: list[int] = []
        count = 0

        async def worker(number: int) -> None:
            nonlocal count
            await ready.wait()
            async with slots:
                inside.append(number)
                async with lock:
                    await ctx.durable_execute_async(ask, number)
            async with condition:
                count += 1
                condition.notify_all()

        tasks = [asyncio.create_task(worker(number)) for number in range(4)]
        ready.set()
        async with condition:
            await condition.wait_for(lambda: count == 4)
        await asyncio.gather(*tasks)
        out(ctx, inside)

    twice(attempts, act, [[0, 1, 2, 3]])


def test_create_task_and_callbacks(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        done: list[Any] = []
        task = asyncio.create_task(ctx.durable_execute_async(ask, "a"), name="mine")
        task.add_done_callback(lambda task: done.append(task.get_name()))
        loop = asyncio.get_running_loop()
        loop.call_soon(done.append, "soon")
        loop.call_later(3, done.append, "later")
        handle = loop.call_later(2, done.append, "never")
        handle.cancel()
        await task
        await asyncio.sleep(5)
        out(ctx, done)

    twice(attempts, act, [["soon", "mine", "later"]])


def test_as_completed(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        results = []
        for following in asyncio.as_completed([ctx.durable_execute_async(ask, n) for n in range(5)]):
            results.append(await following)
        out(ctx, sorted(results))

    twice(attempts, act, [[f"{n}!" for n in range(5)]])


def test_cancelling_a_task_cancels_its_call_once(attempts: Attempts) -> None:
    """I6: a cancel by the action itself is delivered once, and replays."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        task = asyncio.create_task(ctx.durable_execute_async(ask, "a"))
        await ctx.durable_execute_async(check, "b")
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            out(ctx, "cancelled")
        out(ctx, await ctx.durable_execute_async(check, "c"))

    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    first.run_until_idle()
    until(first, lambda: gate.cancelled == ["a"])
    assert values(first) == ["cancelled", "c?"]
    second = attempts.start(agent_of(act), fakes={ask: never, check: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == values(first)


def test_async_generators_and_context_managers(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        async def answers() -> Any:
            for name in "ab":
                yield await ctx.durable_execute_async(ask, name)

        async for answer in answers():
            out(ctx, answer)
        out(ctx, [answer async for answer in answers()])

    twice(attempts, act, ["a!", "b!", ["a!", "b!"]])


def test_generator_actions(attempts: Attempts) -> None:
    """`yield` in place of `await`: results and failures come back into the generator."""

    async def down(what: Any) -> Any:
        raise ValueError(f"no {what}")

    def act(event: Any, ctx: RunnerContext) -> Any:
        first = yield ctx.durable_execute_async(ask, "a")
        out(ctx, first)
        outcomes = yield ctx.gather(*(ctx.durable_execute_async(ask, name) for name in "bc"))
        out(ctx, [outcome.value for outcome in outcomes])
        try:
            yield ctx.durable_execute_async(check, "d")
        except ValueError as error:
            out(ctx, str(error))
        out(ctx, (yield ctx.durable_execute_async(ask, "e")))

    expected = ["a!", ["b!", "c!"], "no d", "e!"]
    for fakes in ({check: down}, {ask: never, check: never}):
        runner = attempts.start(agent_of(act), fakes=fakes)
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == expected


def test_plain_actions(attempts: Attempts) -> None:
    """No coroutine at all: synchronous durable calls, events and memory."""

    def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, ctx.durable_execute(ask, "a"))
        ctx.short_term_memory.set("n", 1)
        out(ctx, ctx.durable_execute(check, "b"))

    twice(attempts, act, ["a!", "b?"])


def test_actions_as_methods_of_every_kind(attempts: Attempts) -> None:
    """Methods, static and class methods in either order of decorators, an override without a mark."""

    class Base(Agent):
        @action(InputEvent)
        async def method(self, event: Any, ctx: RunnerContext) -> None:
            out(ctx, "base")

        @action(InputEvent)
        @staticmethod
        def static_inside(event: Any, ctx: RunnerContext) -> None:
            out(ctx, "static inside")

        @staticmethod
        @action(InputEvent)
        def static_outside(event: Any, ctx: RunnerContext) -> None:
            out(ctx, "static outside")

        @classmethod
        @action(InputEvent)
        def class_outside(cls, event: Any, ctx: RunnerContext) -> None:
            out(ctx, cls.__name__)

    class Derived(Base):
        async def method(self, event: Any, ctx: RunnerContext) -> None:
            out(ctx, await ctx.durable_execute_async(ask, "derived"))

    runner = attempts.start(Derived())
    runner.process("k", 1)
    runner.run_until_idle()
    assert sorted(values(runner)) == ["Derived", "derived!", "static inside", "static outside"]


def test_time_comes_from_the_records(attempts: Attempts) -> None:
    """P12: `now()` and the loop's time replay; time goes on with deliveries."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        first, loop_time = ctx.now(), asyncio.get_running_loop().time()
        assert first.timestamp() == loop_time
        await asyncio.sleep(10)
        second = ctx.now()
        await ctx.durable_execute_async(ask, "a")
        out(ctx, [first, second, (second - first).total_seconds(), ctx.now()])

    first = attempts.start(agent_of(act))
    first.process("k", 1)
    first.run_until_idle(advance_timers=True)
    second = attempts.start(agent_of(act), time=first.time + 5000)
    second.process("k", 1)
    second.run_until_idle()
    assert values(first) == values(second)
    assert values(first)[0][2] == 10.0


def test_current_context_inside_an_action_only(attempts: Attempts) -> None:
    """For code that a framework calls; a durable function has none."""
    inside: list[str] = []

    async def look(what: Any) -> None:
        try:
            current_context()
        except RuntimeError as error:
            inside.append(str(error))

    def helper() -> RunnerContext:
        return current_context()

    async def act(event: Any, ctx: RunnerContext) -> None:
        assert helper() is ctx
        await ctx.durable_execute_async(ask, "a")
        assert await asyncio.create_task(later()) is ctx
        out(ctx, helper() is ctx)

    async def later() -> RunnerContext:
        await asyncio.sleep(0)
        return helper()

    runner = attempts.start(agent_of(act), fakes={ask: look})
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == [True]
    assert len(inside) == 1
    with pytest.raises(RuntimeError, match="no running action"):
        current_context()


def test_inside_a_running_asyncio_loop(attempts: Attempts) -> None:
    """The runner is usable from an async test; the outer loop is as before."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        assert asyncio.get_running_loop() is not outer[0]
        out(ctx, await ctx.durable_execute_async(ask, "a"))

    outer: list[Any] = []

    async def test() -> None:
        outer.append(asyncio.get_running_loop())
        runner = attempts.start(agent_of(act))
        runner.process("k", 1)
        runner.run_until_idle()
        assert asyncio.get_running_loop() is outer[0]
        await asyncio.sleep(0)
        assert values(runner) == ["a!"]

    asyncio.run(test())


def test_anyio_task_group(attempts: Attempts) -> None:
    """A framework that only needs a running asyncio loop works unmodified."""
    anyio = pytest.importorskip("anyio")

    async def act(event: Any, ctx: RunnerContext) -> None:
        results: list[Any] = []

        async def worker(name: str) -> None:
            results.append(await ctx.durable_execute_async(ask, name))

        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(worker, name)
        out(ctx, sorted(results))
        with anyio.move_on_after(5) as scope:
            await anyio.sleep(100)
        out(ctx, scope.cancelled_caught)
        with pytest.raises(TimeoutError), anyio.fail_after(5):
            await anyio.Event().wait()
        send, receive = anyio.create_memory_object_stream(1)
        async with send, receive:
            await send.send(await ctx.durable_execute_async(ask, "d"))
            out(ctx, await receive.receive())

    twice(attempts, act, [["a!", "b!", "c!"], True, "d!"])


def test_many_actions_and_tasks_at_a_time(attempts: Attempts) -> None:
    """Order of inputs per key, and results in place, with 100 keys of 3 inputs and 5 tasks each."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        results = await asyncio.gather(
            *(ctx.durable_execute_async(ask, f"{event.input}-{n}") for n in range(5))
        )
        out(ctx, results)

    runner = attempts.start(agent_of(act))
    for value in range(3):
        for key in range(100):
            runner.process(key, f"{key}-{value}")
    runner.run_until_idle()
    by_key: dict[int, list[Any]] = {}
    for key, value in runner.outputs:
        by_key.setdefault(key, []).append(value)
    expected = {key: [[f"{key}-{value}-{n}!" for n in range(5)] for value in range(3)] for key in range(100)}
    assert by_key == expected


# --- what an action leaves behind ---


def test_case_27_a_child_task_is_awaited(attempts: Attempts) -> None:
    """Case 27: the action returns while a task that it made still waits: the task is not lost."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        async def child() -> None:
            out(ctx, await ctx.durable_execute_async(ask, "child"))

        asyncio.create_task(child())  # noqa: RUF006
        out(ctx, "returns")

    twice(attempts, act, ["returns", "child!"])


def test_case_27_a_child_task_that_fails_fails_the_action(attempts: Attempts) -> None:
    """Case 27: its exception is not lost in silence."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        async def child() -> None:
            await ctx.durable_execute_async(ask, "child")
            raise ValueError("the child failed")

        asyncio.create_task(child())  # noqa: RUF006
        out(ctx, "returns")

    failure(attempts, act, ValueError, "the child failed")


def test_case_27_a_child_task_that_waits_for_nothing_is_named(attempts: Attempts) -> None:
    """Case 27: it can never end, and the error says where it waits."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        async def child() -> None:
            await asyncio.Event().wait()

        asyncio.create_task(child())  # noqa: RUF006

    failure(attempts, act, StalledActionError, "test_action_loop")


def test_case_26_an_abandoned_action_with_tasks_is_closed_once(attempts: Attempts) -> None:
    """Case 26: every `finally` runs on the task thread, what it asks for is ignored."""
    closed: list[Any] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        async def child(name: str) -> None:
            try:
                await ctx.durable_execute_async(ask, name)
            finally:
                closed.append((name, threading.get_ident()))
                out(ctx, name)
                ctx.durable_execute(check, "refused")

        await asyncio.gather(child("a"), child("b"))

    gate = Gate()
    runner = attempts.start(agent_of(act), fakes={ask: gate})
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting("a", "b"))
    runner.close()
    gc.collect()
    assert sorted(closed) == [("a", threading.get_ident()), ("b", threading.get_ident())]
    assert values(runner) == []
    assert called(runner) == ["a", "b"]


def test_case_26_a_skipped_actions_children_are_closed_on_the_task_thread(attempts: Attempts) -> None:
    """Case 26: also when the action failed and `action-failure=skip` lets the job go on."""
    closed: list[Any] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        async def child() -> None:
            try:
                await ctx.durable_execute_async(ask, "child")
            finally:
                closed.append(threading.get_ident())
                out(ctx, "ignored")
                ctx.durable_execute(check, "refused")

        task = asyncio.create_task(child())
        await ctx.durable_execute_async(check, "fail")
        raise ValueError("on purpose", task)

    gate = Gate()
    runner = attempts.start(agent_of(act), fakes={ask: gate}, options={"agents.action-failure": "skip"})
    runner.process("k", 1)
    runner.run_until_idle()
    assert closed == [threading.get_ident()]
    assert runner.idle
    assert values(runner) == []
    assert sorted(called(runner)) == ["child", "fail"]
    until(runner, lambda: gate.cancelled == ["child"])


# --- what is refused ---


async def to_thread(ctx: RunnerContext) -> None:
    await asyncio.to_thread(time.monotonic)


async def in_executor(ctx: RunnerContext) -> None:
    await asyncio.get_running_loop().run_in_executor(None, time.monotonic)


async def open_socket(ctx: RunnerContext) -> None:
    await asyncio.open_connection("127.0.0.1", 9)


async def start_server(ctx: RunnerContext) -> None:
    await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)


async def start_process(ctx: RunnerContext) -> None:
    await asyncio.create_subprocess_exec(sys.executable, "-c", "", stdout=subprocess.DEVNULL)


async def start_shell(ctx: RunnerContext) -> None:
    await asyncio.create_subprocess_shell("true")


async def look_up(ctx: RunnerContext) -> None:
    await asyncio.get_running_loop().getaddrinfo("localhost", 80)


async def swallowed(ctx: RunnerContext) -> None:
    try:
        await asyncio.to_thread(time.monotonic)
    except Exception:
        out(ctx, "swallowed")


async def wrapped_by_a_library(ctx: RunnerContext) -> None:
    try:
        await asyncio.open_connection("127.0.0.1", 9)
    except Exception as error:
        raise ConnectionError("a library's own error") from error


@pytest.mark.parametrize(
    "body",
    [
        to_thread,
        in_executor,
        open_socket,
        start_server,
        start_process,
        start_shell,
        look_up,
        swallowed,
        wrapped_by_a_library,
    ],
    ids=lambda body: body.__name__,
)
def test_real_io_in_an_action_is_refused(attempts: Attempts, body: Any) -> None:
    """`RealIOError` names what to use instead, and fails the action even if it is swallowed or wrapped."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        await body(ctx)
        out(ctx, "went on")

    failure(attempts, act, RealIOError, "durable_execute_async")


def test_httpx_in_an_action_is_refused(attempts: Attempts) -> None:
    """A real client, which works on asyncio's sockets by way of anyio."""
    import httpx

    async def act(event: Any, ctx: RunnerContext) -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get("http://127.0.0.1:9/")

    failure(attempts, act, RealIOError, "durable_execute_async")


def test_a_bare_future_stalls_at_once(attempts: Attempts) -> None:
    """Nothing the engine knows can bring it: an error with the line that waits, not a hang."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, "a")
        await asyncio.get_running_loop().create_future()  # the line

    error = failure(attempts, act, StalledActionError, "the line")
    assert "test_action_loop.py" in str(error)


def test_a_future_of_a_foreign_thread_stalls_at_once(attempts: Attempts) -> None:
    """`wrap_future` waits for another thread's callback, which would not be the same on replay."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        foreign: concurrent.futures.Future[int] = concurrent.futures.Future()
        await asyncio.wrap_future(foreign)

    runner = attempts.start(agent_of(act))
    with pytest.raises(ActionFailedError) as caught:
        _run(runner)
    assert isinstance(caught.value.__cause__, (StalledActionError, RealIOError))


def test_a_deadlock_of_tasks_stalls_at_once(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        lock = asyncio.Lock()
        async with lock, lock:
            pass

    failure(attempts, act, StalledActionError, "act")


def test_the_context_belongs_to_the_task_thread(attempts: Attempts) -> None:
    """Memory, events and calls from inside a durable function or after the end of the action are errors."""
    contexts: list[RunnerContext] = []
    errors: list[str] = []

    def misuse(what: Any) -> None:
        ctx = contexts[0]
        for use in (
            lambda: ctx.send_event(Event("x")),
            lambda: ctx.short_term_memory.get("a"),
            lambda: ctx.sensory_memory,
            lambda: ctx.durable_execute(never),
            lambda: ctx.durable_execute_async(never),
            lambda: ctx.gather(),
        ):
            try:
                use()
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")

    async def act(event: Any, ctx: RunnerContext) -> None:
        contexts.append(ctx)
        await ctx.durable_execute_async(ask, "a")
        out(ctx, "done")

    runner = attempts.start(agent_of(act), fakes={ask: misuse})
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == ["done"]
    misuse("after the end")
    assert len(errors) == 12
    assert all(error.startswith("DurableExecutionError") and "act" in error for error in errors)


def test_except_exception_does_not_swallow_the_end_of_an_attempt(attempts: Attempts) -> None:
    """Closing a suspended action goes through `except Exception` in user code."""
    swallowed: list[Any] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "a")
        except Exception as error:
            swallowed.append(error)

    gate = Gate()
    runner = attempts.start(agent_of(act), fakes={ask: gate})
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting("a"))
    runner.close()
    assert swallowed == []


def test_an_action_that_spins_for_ever_fails(attempts: Attempts, monkeypatch: pytest.MonkeyPatch) -> None:
    """A coroutine that never waits for anything would hold the task thread for good."""
    monkeypatch.setattr("flink_agents_durable.engine.loop.SPIN_LIMIT", 10_000)

    async def act(event: Any, ctx: RunnerContext) -> None:
        while True:
            await asyncio.sleep(0)

    failure(attempts, act, StalledActionError, "without waiting")
