"""The call executor: outcomes, order, limits, timeouts, cancels."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
import time

import pytest

from flink_agents_durable.api.errors import CallTimeoutError, DurableExecutionError
from flink_agents_durable.engine.ports import FAILED, INTERRUPTED, SUCCEEDED
from tests.runtime.harness import DEADLINE, eventually, task_thread


async def double(x: int) -> int:
    return 2 * x


async def double_later(x: int) -> int:
    await asyncio.sleep(0)
    return 2 * x


def plain_double(x: int) -> int:
    return 2 * x


class Client:
    async def ask(self, x: int) -> int:
        await asyncio.sleep(0)
        return 2 * x

    async def __call__(self, x: int) -> int:
        return 2 * x


@pytest.mark.parametrize(
    "function",
    [
        double,
        double_later,
        plain_double,
        lambda x: double_later(x),
        functools.partial(double),
        functools.partial(plain_double),
        Client().ask,
        Client(),
        lambda x: Client()(x),
    ],
)
def test_every_kind_of_function_gives_its_result(function: object) -> None:
    with task_thread() as task:
        assert task.run(function, 21) == (SUCCEEDED, 42)
        assert task.block(function, 21) == (SUCCEEDED, 42)
        assert task.executor.running == 0


def test_keyword_arguments_arrive() -> None:
    with task_thread() as task:
        assert task.run(double, kwargs={"x": 4}) == (SUCCEEDED, 8)
        assert task.run(plain_double, kwargs={"x": 4}) == (SUCCEEDED, 8)


def test_async_functions_run_on_the_loop_thread_and_plain_ones_on_workers() -> None:
    async def where() -> str:
        return threading.current_thread().name

    def plain_where() -> str:
        return threading.current_thread().name

    with task_thread() as task:
        assert task.run(where)[1] == "durable-calls"
        assert task.run(plain_where)[1].startswith("durable-worker")
        assert task.wake_threads == {"durable-calls"}


def test_asyncio_works_inside_an_eager_first_step() -> None:
    """`asyncio.timeout`, `current_task` and child tasks need a real task from the first step on."""

    async def probe() -> str:
        task = asyncio.current_task()
        assert task is not None
        child = asyncio.ensure_future(double(3))
        value = await asyncio.wait_for(child, 5)
        async with asyncio.Semaphore(1):
            assert asyncio.current_task() is task
        return f"{value}"

    with task_thread() as task:
        assert task.run(probe) == (SUCCEEDED, "6")


@pytest.mark.parametrize("function", [lambda: (x for x in ()), lambda: _agen()])
def test_a_generator_is_an_error_that_says_what_to_do(function: object) -> None:
    async def from_async() -> object:
        return function()  # type: ignore[operator]

    with task_thread() as task:
        for kind in (function, from_async):
            status, error = task.run(kind)
            assert status == FAILED
            assert isinstance(error, TypeError)
            assert "collect" in str(error)


async def _agen():  # type: ignore[no-untyped-def]
    yield 1


def test_wrong_arguments_are_a_failure_of_the_call() -> None:
    with task_thread() as task:
        for function in (double, plain_double):
            status, error = task.run(function, 1, 2, 3)
            assert status == FAILED
            assert isinstance(error, TypeError)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("late", [False, True])
def test_i5_never_recorded_exceptions_are_interruptions_and_the_executor_lives(
    kind: type[BaseException], late: bool
) -> None:
    async def raises() -> None:
        if late:
            await asyncio.sleep(0)
        raise kind("stop")

    def plain_raises() -> None:
        raise kind("stop")

    with task_thread() as task:
        for function in (raises, plain_raises):
            status, error = task.run(function)
            assert status == INTERRUPTED
            assert isinstance(error, kind)
            assert task.block(function)[0] == INTERRUPTED
        assert task.run(double_later, 1) == (SUCCEEDED, 2)
        assert task.executor.close(5.0)


def test_i2_an_interruption_is_told_from_a_failure_on_the_task_thread() -> None:
    judges: set[str] = set()

    def is_interruption(error: BaseException) -> bool:
        judges.add(threading.current_thread().name)
        return "interrupted" in str(error)

    def fail(text: str) -> None:
        raise RuntimeError(text)

    with task_thread(is_interruption=is_interruption) as task:
        assert task.run(fail, "interrupted")[0] == INTERRUPTED
        assert task.run(fail, "broken")[0] == FAILED
        assert task.block(fail, "interrupted")[0] == INTERRUPTED
    assert judges == {threading.current_thread().name}


def test_i6_a_cancel_that_nobody_asked_for_is_a_failure() -> None:
    async def raises() -> None:
        raise asyncio.CancelledError("server gone")

    async def awaits_cancelled() -> None:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.cancel)
        await future

    def plain_raises() -> None:
        raise asyncio.CancelledError

    with task_thread() as task:
        for function in (raises, awaits_cancelled, plain_raises):
            status, error = task.run(function)
            assert status == FAILED
            assert type(error) is DurableExecutionError
            assert "asyncio.CancelledError" in str(error)
            assert function.__name__ in str(error)
        assert "server gone" in str(task.run(raises)[1])
        assert task.run(double_later, 2) == (SUCCEEDED, 4)


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.mark.parametrize("as_async", [True, False])
def test_context_variables_of_the_action_are_seen_and_its_context_may_be_shared(as_async: bool) -> None:
    barrier = threading.Barrier(3, timeout=DEADLINE)

    async def read() -> str:
        await asyncio.sleep(0)
        return VARIABLE.get()

    def plain_read() -> str:
        barrier.wait()
        return VARIABLE.get()

    function = read if as_async else plain_read
    context = contextvars.Context()
    context.run(VARIABLE.set, "of the action")
    with task_thread() as task:
        ids = context.run(lambda: [task.start(function, context=context) for _ in range(3)])
        assert {task.result(id) for id in ids} == {(SUCCEEDED, "of the action")}
        token = VARIABLE.set("of the poster")
        try:
            assert task.run(read) == (SUCCEEDED, "unset"), "a call without a context gets nobody else's"
        finally:
            VARIABLE.reset(token)


def test_f11_at_most_max_concurrency_run_and_first_comes_first() -> None:
    running, peak, order = 0, 0, []

    async def step(number: int) -> None:
        nonlocal running, peak
        order.append(number)
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1

    with task_thread(max_concurrency=3) as task:
        calls = [task.call(step, number) for number in range(20)]
        task.executor.start(calls)
        task.result(calls[-1].id)
    assert peak == 3
    assert order == list(range(20))


def test_f11_async_and_plain_calls_share_max_concurrency_and_a_blocking_one_waits_too() -> None:
    release = threading.Event()

    def hold() -> None:
        assert release.wait(DEADLINE)

    with task_thread(max_concurrency=1) as task:
        first = task.start(hold)
        second = task.start(double, 1)
        eventually(lambda: task.executor.running == 1)
        assert task.executor.waiting == 1
        threading.Timer(0.02, release.set).start()
        assert task.block(plain_double, 2) == (SUCCEEDED, 4)
        assert task.result(first)[0] == task.result(second)[0] == SUCCEEDED
        assert task.order == [first, second], "the blocking call came last"


def test_calls_for_the_loop_do_not_wait_for_workers() -> None:
    release = threading.Event()
    with task_thread(workers=1) as task:
        held = [task.start(release.wait, DEADLINE) for _ in range(3)]
        assert task.run(double_later, 1) == (SUCCEEDED, 2)
        release.set()
        assert [task.result(id) for id in held] == [(SUCCEEDED, True)] * 3


def test_an_awaitable_from_a_plain_function_frees_its_worker() -> None:
    with task_thread(workers=1) as task:
        release = asyncio.Event()

        async def wait() -> str:
            await release.wait()
            return "released"

        waiting = task.start(lambda: wait())
        assert task.run(plain_double, 3) == (SUCCEEDED, 6)
        task.executor.thread.post(release.set)
        assert task.result(waiting) == (SUCCEEDED, "released")


def test_case_49_100_plain_calls_of_half_a_second_run_side_by_side() -> None:
    with task_thread() as task:
        started = time.monotonic()
        ids = [task.start(time.sleep, 0.5) for _ in range(100)]
        for id in ids:
            assert task.result(id)[0] == SUCCEEDED
        assert time.monotonic() - started < 1.5


# ---- timeouts and cancels


async def _forever() -> None:
    await asyncio.get_running_loop().create_future()


def test_a_timeout_names_call_and_seconds_and_cancels_the_coroutine() -> None:
    cancelled = threading.Event()

    async def slow() -> None:
        try:
            await _forever()
        finally:
            cancelled.set()

    with task_thread() as task:
        for run in (task.run, task.block):
            status, error = run(slow, timeout=0.01)
            assert status == FAILED
            assert isinstance(error, CallTimeoutError)
            assert "slow" in str(error)
            assert "0.01 s" in str(error)
            assert cancelled.wait(DEADLINE)
            cancelled.clear()
        eventually(lambda: task.executor.running == 0)


def test_case_34_a_late_answer_is_ignored_and_the_worker_counted_until_it_ends() -> None:
    release = threading.Event()
    with task_thread() as task:
        for outcome in (
            task.run(release.wait, DEADLINE, timeout=0.01),
            task.block(release.wait, DEADLINE, timeout=0.01),
        ):
            assert isinstance(outcome[1], CallTimeoutError)
        assert task.executor.abandoned_workers == 2
        assert task.executor.running == 2
        release.set()
        eventually(lambda: task.executor.running == 0)
        assert task.executor.abandoned_workers == 0
        assert task.run(double, 1) == (SUCCEEDED, 2)
        assert len(task.done) == 2


def test_a_coroutine_that_swallows_its_cancel_is_reported_all_the_same() -> None:
    release = asyncio.Event()

    async def stubborn() -> str:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    with task_thread() as task:
        assert isinstance(task.run(stubborn, timeout=0.01)[1], CallTimeoutError)
        assert task.executor.running == 1
        task.executor.thread.post(release.set)
        eventually(lambda: task.executor.running == 0)
        task.drain()
        assert len(task.done) == 1


@pytest.mark.parametrize("plain", [True, False])
def test_a_timeout_counts_from_the_real_start(plain: bool) -> None:
    release = threading.Event()

    async def wait() -> None:
        while not release.is_set():
            await asyncio.sleep(0.001)

    with task_thread(max_concurrency=1) as task:
        task.start(wait)
        queued = task.start(plain_double if plain else double_later, 1, timeout=0.05)
        eventually(lambda: task.executor.waiting == 1)
        threading.Event().wait(0.1)  # longer than the timeout, which has not begun
        release.set()
        assert task.result(queued) == (SUCCEEDED, 2)


def test_a_call_that_ends_in_time_leaves_no_timer_behind() -> None:
    with task_thread() as task:
        for function in (double_later, plain_double, lambda x: double_later(x)):
            assert task.run(function, 1, timeout=3_600) == (SUCCEEDED, 2)
            assert task.block(function, 1, timeout=3_600) == (SUCCEEDED, 2)
        loop = task.executor.loop
        eventually(lambda: all(handle.cancelled() for handle in loop._scheduled))  # type: ignore[attr-defined]


def test_cancelled_calls_report_nothing_and_free_their_place() -> None:
    ran = []

    async def never() -> None:
        ran.append(True)

    with task_thread(max_concurrency=1) as task:
        running = task.start(_forever)
        waiting = task.start(never)
        eventually(lambda: task.executor.waiting == 1)
        task.executor.cancel([waiting, running, 999])
        assert task.run(double_later, 4) == (SUCCEEDED, 8)
        assert list(task.done) == [3]
        assert not ran


def test_a_cancel_right_after_the_start_is_not_lost() -> None:
    with task_thread() as task:
        for _ in range(200):
            task.executor.cancel([task.start(_forever)])
        eventually(lambda: task.executor.running == 0 and task.executor.waiting == 0)
        assert not task.executor.drain(1_000)


def test_k5_an_interruption_of_the_waiting_task_thread_abandons_the_call() -> None:
    release = threading.Event()
    interruption = RuntimeError("java.lang.InterruptedException")

    def interrupted() -> None:
        raise interruption

    with task_thread() as task:
        call = task.call(release.wait, DEADLINE)
        assert task.executor.run_blocking(call, interrupted) == (call.id, INTERRUPTED, interruption)
        eventually(lambda: task.executor.abandoned_workers == 1)
        release.set()
        eventually(lambda: task.executor.running == 0)


def test_a_blocking_call_that_never_started_ends_with_its_time() -> None:
    """It leaves the queue; a worker that is inside goes on with its result ignored."""
    release = threading.Event()
    late = CallTimeoutError("late")

    def over() -> None:
        raise late

    with task_thread(workers=1) as task:
        for place in range(2):
            call = task.call(release.wait, DEADLINE)
            assert task.executor.run_blocking(call, over) == (call.id, FAILED, late), place
            eventually(lambda: task.executor.abandoned_workers == 1)
            assert task.executor.waiting == 0
        release.set()
        eventually(lambda: task.executor.running == 0)
        assert task.executor.abandoned_workers == 0


def test_k5_a_long_blocking_call_ends_by_the_signal_of_the_loop_thread() -> None:
    async def wait() -> str:
        await asyncio.sleep(0.02)
        return "done"

    def plain_wait() -> str:
        time.sleep(0.02)
        return "done"

    with task_thread() as task:
        for function in (wait, plain_wait):
            waits = 0

            def wait_signal() -> None:
                nonlocal waits
                waits += 1
                assert task.signalled.wait(DEADLINE), "no signal"
                task.signalled.clear()

            call = task.call(function)
            assert task.executor.run_blocking(call, wait_signal)[1:] == (SUCCEEDED, "done")
            assert waits <= 2


def test_blocking_calls_reuse_one_worker() -> None:
    with task_thread() as task:
        for number in range(200):
            task.block(plain_double, number)
        workers = [t for t in threading.enumerate() if t.name.startswith("durable-worker")]
        assert len(workers) <= 2
