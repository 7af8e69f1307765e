"""What an action must not wait for: threads, sockets, processes. Each is named at once, none is a hang.

Beside `test_action_loop.py`, which has asyncio's own ways to do I/O; here are those of libraries and threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from flink_agents_durable import ActionFailedError, RealIOError, RunnerContext, StalledActionError
from flink_agents_durable.testing import LocalRunner
from tests.contracts.functions import ask
from tests.contracts.kit import Attempts, Gate, agent_of, out, until, values

NAMED = (RealIOError, StalledActionError)
SECONDS = 10.0
"""A hang is longer than this, also on a loaded machine."""


def in_thread(work: Callable[[], object]) -> None:
    """Do it in another thread, whose own errors are its own, and wait for it."""

    def run() -> None:
        try:
            work()
        except RealIOError:
            return

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


async def a_callback_of_a_thread(ctx: RunnerContext) -> None:
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    in_thread(lambda: loop.call_soon_threadsafe(future.set_result, 1))
    await future


async def a_callback_of_a_thread_beside_a_call(ctx: RunnerContext) -> None:
    """A call is in flight, so that the action as such may wait."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    in_thread(lambda: loop.call_soon_threadsafe(future.set_result, 1))
    await asyncio.gather(future, ctx.durable_execute_async(ask, "a"))


async def an_event_set_by_a_thread(ctx: RunnerContext) -> None:
    """Against asyncio's own rules, which it does not check."""
    event = asyncio.Event()
    waiting = asyncio.create_task(event.wait())
    await asyncio.sleep(0)
    in_thread(event.set)
    await waiting


async def a_result_set_by_a_thread_during_a_call(ctx: RunnerContext) -> None:
    future = asyncio.get_running_loop().create_future()

    async def other() -> None:
        await ctx.durable_execute_async(ask, "a")
        in_thread(lambda: future.set_result(1))
        await ctx.durable_execute_async(ask, "b")

    await asyncio.gather(future, other())


async def a_pool_of_its_own(ctx: RunnerContext) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        await asyncio.wrap_future(pool.submit(time.monotonic))


async def a_coroutine_handed_over_by_a_thread(ctx: RunnerContext) -> None:
    loop = asyncio.get_running_loop()
    coroutine = asyncio.sleep(0)
    try:
        in_thread(lambda: asyncio.run_coroutine_threadsafe(coroutine, loop))
    finally:
        coroutine.close()
    await loop.create_future()


async def anyio_thread(ctx: RunnerContext) -> None:
    """anyio starts threads by itself; the work may even be done, the action must not hear of it."""
    await anyio.to_thread.run_sync(lambda: None)


async def anyio_file(ctx: RunnerContext) -> None:
    async with await anyio.open_file(__file__) as file:
        await file.read()


async def anyio_process(ctx: RunnerContext) -> None:
    await anyio.run_process(["true"])


async def anyio_connection(ctx: RunnerContext) -> None:
    await anyio.connect_tcp("127.0.0.1", 9)


async def anyio_server(ctx: RunnerContext) -> None:
    await anyio.create_tcp_listener(local_host="127.0.0.1")


async def a_socket(ctx: RunnerContext) -> None:
    with socket.socket() as connection:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", 9))


async def a_watched_file(ctx: RunnerContext) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        asyncio.get_running_loop().add_reader(ours, lambda: None)


async def a_signal_handler(ctx: RunnerContext) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, lambda: None)


async def aiohttp_request(ctx: RunnerContext) -> None:
    aiohttp = pytest.importorskip("aiohttp")
    async with aiohttp.ClientSession() as session:
        await session.get("http://127.0.0.1:9/")


async def httpx_request_by_name_and_tls(ctx: RunnerContext) -> None:
    import httpx

    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        await client.get("https://localhost:9/")


async def openai_request_with_retries(ctx: RunnerContext) -> None:
    """The client retries what it takes for a lost connection; the first error counts."""
    import openai

    async with openai.AsyncOpenAI(api_key="x", base_url="http://127.0.0.1:9/v1", max_retries=2) as client:
        await client.models.list()


async def a_swallowed_request(ctx: RunnerContext) -> None:
    import httpx

    try:
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.get("http://127.0.0.1:9/")
    except BaseException:
        out(ctx, "swallowed")


async def a_request_in_a_task_that_nobody_awaits(ctx: RunnerContext) -> None:
    asyncio.create_task(asyncio.to_thread(time.monotonic))  # noqa: RUF006
    await ctx.durable_execute_async(ask, "a")


async def a_request_whose_error_is_a_result(ctx: RunnerContext) -> None:
    await asyncio.gather(asyncio.to_thread(time.monotonic), return_exceptions=True)


async def the_loop_run_by_the_action(ctx: RunnerContext) -> None:
    coroutine = asyncio.sleep(0)
    try:
        asyncio.get_running_loop().run_until_complete(coroutine)
    finally:
        coroutine.close()


async def the_loop_stopped_by_the_action(ctx: RunnerContext) -> None:
    asyncio.get_running_loop().stop()


@pytest.mark.parametrize(
    "body",
    [
        a_callback_of_a_thread,
        a_callback_of_a_thread_beside_a_call,
        an_event_set_by_a_thread,
        a_result_set_by_a_thread_during_a_call,
        a_pool_of_its_own,
        a_coroutine_handed_over_by_a_thread,
        anyio_thread,
        anyio_file,
        anyio_process,
        anyio_connection,
        anyio_server,
        a_socket,
        a_watched_file,
        a_signal_handler,
        aiohttp_request,
        httpx_request_by_name_and_tls,
        openai_request_with_retries,
        a_swallowed_request,
        a_request_in_a_task_that_nobody_awaits,
        a_request_whose_error_is_a_result,
        the_loop_run_by_the_action,
        the_loop_stopped_by_the_action,
    ],
    ids=lambda body: body.__name__,
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of anyio's own thread
def test_what_an_action_must_not_wait_for_is_named_at_once(
    attempts: Attempts, body: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """With the way to do it, and without the collector's word on tasks that nobody looked at any more."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        await body(ctx)

    runner = attempts.start(agent_of(act))
    begin = time.monotonic()
    with pytest.raises(ActionFailedError, match="durable_execute_async") as caught:
        _run(runner)
    assert time.monotonic() - begin < SECONDS
    assert isinstance(caught.value.__cause__, NAMED)
    del caught
    runner.close()
    gc.collect()
    assert not [record for record in caplog.records if "never retrieved" in record.getMessage()]


def _run(runner: LocalRunner) -> None:
    runner.process("k", 1)
    runner.run_until_idle(timeout=SECONDS)


def test_a_thread_cannot_move_a_loop_between_its_steps(attempts: Attempts) -> None:
    """The action waits for a call; a thread wakes it meanwhile. It is refused, and the action is told."""
    refused: list[BaseException] = []
    futures: list[asyncio.Future[int]] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        futures.append(asyncio.get_running_loop().create_future())
        await asyncio.gather(futures[0], ctx.durable_execute_async(ask, "a"))
        out(ctx, "went on")

    gate = Gate()
    runner = attempts.start(agent_of(act), fakes={ask: gate})
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting("a"))

    def wake() -> None:
        try:
            futures[0].set_result(1)
        except RealIOError as error:
            refused.append(error)

    thread = threading.Thread(target=wake)
    thread.start()
    thread.join()
    assert len(refused) == 1
    gate.answer("a")
    with pytest.raises(ActionFailedError, match="another thread"):
        runner.run_until_idle(timeout=SECONDS)
    assert values(runner) == []


@pytest.mark.filterwarnings("ignore:coroutine 'BaseEventLoop:RuntimeWarning")  # of uvloop.run itself
@pytest.mark.parametrize("how", ["run", "new loop", "runner", "uvloop"])
def test_a_loop_inside_an_action_is_refused_by_asyncio(attempts: Attempts, how: str) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        coroutine = asyncio.sleep(0)
        try:
            if how == "run":
                asyncio.run(coroutine)
            elif how == "uvloop":
                pytest.importorskip("uvloop").run(coroutine)
            elif how == "runner":
                with asyncio.Runner() as inner:
                    inner.run(coroutine)
            else:
                loop = asyncio.new_event_loop()
                try:
                    loop.run_until_complete(coroutine)
                finally:
                    loop.close()
        finally:
            coroutine.close()

    if how == "runner" and not hasattr(asyncio, "Runner"):
        pytest.skip("came with Python 3.11")
    runner = attempts.start(agent_of(act))
    with pytest.raises(ActionFailedError, match="event loop"):
        runner.process("k", 1)
    assert values(runner) == []


def test_time_sleep_is_allowed_and_blocks(attempts: Attempts) -> None:
    """It holds the subtask, as any computation does: the README says so. `asyncio.sleep` is the way."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        time.sleep(0.01)
        out(ctx, await ctx.durable_execute_async(ask, "a"))

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == ["a!"]


def test_what_would_change_the_loop_says_why_not(attempts: Attempts) -> None:
    told: list[str] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        loop.slow_callback_duration = 1.0
        loop.set_task_factory(None)
        loop.set_exception_handler(None)
        await loop.shutdown_default_executor()
        for change in (loop.set_task_factory, loop.set_exception_handler):
            try:
                change(lambda *args: None)  # type: ignore[arg-type]
            except NotImplementedError as error:
                told.append(str(error))
        out(ctx, await ctx.durable_execute_async(ask, "a"))

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == ["a!"]
    assert len(told) == 2
    assert all("loop of an action" in text for text in told)


def test_a_context_used_by_a_thread_of_the_action_is_refused(attempts: Attempts) -> None:
    errors: list[str] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        future = ctx.durable_execute_async(ask, "a")

        async def wait() -> None:
            await future

        for use in (lambda: asyncio.run(wait()), lambda: out(ctx, 1), lambda: ctx.short_term_memory.get("a")):

            def attempt(use: Any = use) -> None:
                try:
                    use()
                except Exception as error:
                    errors.append(str(error))

            in_thread(attempt)
        out(ctx, await future)

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == ["a!"]
    assert len(errors) == 3
    assert all("task thread" in error for error in errors)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
