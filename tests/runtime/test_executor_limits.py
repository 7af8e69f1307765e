"""Named limits in the executor: on a clock of the test, and on that of the loop."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

from flink_agents_durable.engine.ports import FAILED, SUCCEEDED
from flink_agents_durable.runtime.admission import CallLimit
from flink_agents_durable.runtime.executor import MAX_PAUSE_SECONDS, CallExecutor
from tests.runtime.harness import TaskThread, eventually, task_thread


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Busy(Exception):
    """As HTTP clients raise it."""

    def __init__(self, seconds: float) -> None:
        self.response: Any = SimpleNamespace(status_code=429, headers={"retry-after": str(seconds)})


async def answer(value: int) -> int:
    return value


def plain(value: int) -> int:
    return value


async def refuse(seconds: float) -> None:
    raise Busy(seconds)


def refuse_plainly(seconds: float) -> None:
    raise Busy(seconds)


def move(task: TaskThread, clock: Clock, now: float) -> None:
    clock.now = now
    task.executor.start_held(20.0)


def test_a_rate_on_a_clock_of_the_test() -> None:
    clock = Clock()
    with task_thread(limits={"api": CallLimit(per_second=2)}, clock=clock) as task:
        ids = [task.start(answer, number, limit="api") for number in range(5)]
        assert [task.result(id) for id in ids[:2]] == [(SUCCEEDED, 0), (SUCCEEDED, 1)]
        assert task.executor.opens_at() == 101.0
        move(task, clock, 100.99)
        assert task.executor.waiting == 3
        move(task, clock, 101.0)
        assert task.result(ids[3]) == (SUCCEEDED, 3)
        assert task.executor.opens_at() == 102.0
        task.executor.cancel([ids[4]])
        assert task.executor.opens_at() is None


def test_a_busy_server_stops_its_limit_for_as_long_as_it_says() -> None:
    clock = Clock()
    for function in (refuse, refuse_plainly):
        with task_thread(limits={"api": CallLimit(), "other": CallLimit()}, clock=clock) as task:
            clock.now = 100.0
            assert task.run(function, 7, limit="api")[0] == FAILED
            held = task.start(answer, 1, limit="api")
            also = task.start(plain, 2, limit="api")
            assert task.run(answer, 3, limit="other") == (SUCCEEDED, 3)
            assert task.run(answer, 4) == (SUCCEEDED, 4)
            assert task.executor.opens_at() == 107.0
            move(task, clock, 107.0)
            assert task.result(held) == (SUCCEEDED, 1)
            assert task.result(also) == (SUCCEEDED, 2)


def test_a_server_cannot_stop_a_limit_for_ever() -> None:
    clock = Clock()
    with task_thread(limits={"api": CallLimit()}, clock=clock) as task:
        task.run(refuse, 1e9, limit="api")
        task.start(answer, 1, limit="api")
        task.executor.start_held(20.0)
        assert task.executor.opens_at() == 100.0 + MAX_PAUSE_SECONDS


def test_a_call_without_a_limit_stops_nothing() -> None:
    with task_thread() as task:
        assert task.run(refuse, 1e9)[0] == FAILED
        assert task.run(answer, 1) == (SUCCEEDED, 1)


def test_on_the_clock_of_the_loop_a_timer_starts_what_waits() -> None:
    """Nobody else does; a call that waits has no task and no thread."""
    with task_thread(limits={"api": CallLimit(per_second=4)}) as task:
        begin = time.monotonic()
        ids = [task.start(plain, number, limit="api") for number in range(6)]
        assert [task.result(id)[1] for id in ids] == list(range(6))
        assert time.monotonic() - begin >= 0.99


def test_a_limit_that_opens_soon_does_not_wait_for_one_that_opens_late() -> None:
    """The timer is that of the limit which opens first, whichever began to wait first."""
    limits = {"slow": CallLimit(per_second=0.001), "fast": CallLimit(per_second=10)}
    with task_thread(limits=limits) as task:
        task.run(answer, 0, limit="slow")
        held = task.start(answer, 1, limit="slow")
        eventually(lambda: task.executor._rate_timer is not None, "the timer of the slow limit")
        ids = [task.start(answer, number, limit="fast") for number in range(25)]
        assert [task.result(id)[1] for id in ids] == list(range(25))
        assert held not in task.done
        assert task.executor.waiting == 1


def test_k7_a_paused_executor_does_not_spin_for_a_limit(monkeypatch: Any) -> None:
    """The rate opens while it is paused: no timer after another; `resume` starts what waits."""
    opened = threading.Semaphore(0)
    original = CallExecutor._rate_opens

    def counted(self: CallExecutor) -> None:
        original(self)
        opened.release()

    monkeypatch.setattr(CallExecutor, "_rate_opens", counted)
    with task_thread(limits={"api": CallLimit(per_second=10)}) as task:
        for number in range(10):
            task.run(answer, number, limit="api")
        waiting = task.start(answer, 11, limit="api")
        eventually(lambda: task.executor._rate_timer is not None, "the timer of the rate")
        task.executor.pause()
        assert opened.acquire(timeout=20)
        assert not opened.acquire(timeout=0.2)
        task.executor.resume()
        assert task.result(waiting) == (SUCCEEDED, 11)


def test_a_blocking_call_waits_for_its_limit() -> None:
    with task_thread(limits={"api": CallLimit(max_concurrency=1, per_second=5)}) as task:
        begin = time.monotonic()
        for number in range(7):
            assert task.block(plain, number, limit="api") == (SUCCEEDED, number)
        assert time.monotonic() - begin >= 0.99
