"""The wake-up flags under stress: coalesced, and none is ever lost."""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Iterator

import pytest

from flink_agents_durable.engine.ports import FAILED, SUCCEEDED
from flink_agents_durable.runtime.loop_thread import LoopThread, Notifier
from tests.runtime.harness import DEADLINE, task_thread


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    """Threads switch a hundred times as often as usual, so that races show."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(interval)


async def at_once(x: int) -> int:
    return x


async def in_turns(x: int) -> int:
    for _ in range(x % 4):
        await asyncio.sleep(0)
    return x


async def in_time(x: int) -> int:
    await asyncio.sleep(0.0001 * (x % 5))
    return x


def plain(x: int) -> int:
    return x


def plain_then_async(x: int) -> object:
    return in_turns(x)


def failing(x: int) -> int:
    raise ValueError(x)


FUNCTIONS = (at_once, in_turns, in_time, plain, plain_then_async, failing)


@pytest.mark.parametrize("seed", range(4))
def test_every_completion_is_announced(seed: int) -> None:
    """Waits for wake-ups only: the test hangs into its deadline when one is lost."""
    rng = random.Random(seed)
    with task_thread(workers=8, max_concurrency=rng.choice([5, 50, 10_000])) as task:
        expected = {}
        for _ in range(150):
            calls = [
                task.call(rng.choice(FUNCTIONS), rng.randrange(1_000)) for _ in range(rng.randrange(1, 12))
            ]
            task.executor.start(calls)
            expected.update({call.id: call for call in calls})
            if rng.random() < 0.3:
                call = rng.choice(calls)
                task.result(call.id)
            if rng.random() < 0.2:
                assert task.block(rng.choice((plain, in_turns)), 7) == (SUCCEEDED, 7)
        for id, call in expected.items():
            status, value = task.result(id)
            if call.function is failing:
                assert status == FAILED
            else:
                assert (status, value) == (SUCCEEDED, call.args[0])
        assert task.executor.running == 0
        assert task.executor.waiting == 0


@pytest.mark.parametrize("seed", range(2))
def test_cancels_and_timeouts_between_completions_lose_nothing(seed: int) -> None:
    rng = random.Random(seed)
    with task_thread(workers=4, max_concurrency=20) as task:
        wanted = []
        for _ in range(100):
            calls = [
                task.call(rng.choice(FUNCTIONS), rng.randrange(1_000), timeout=rng.choice([None, 0.0005, 60]))
                for _ in range(10)
            ]
            task.executor.start(calls)
            dropped = {call.id for call in calls if rng.random() < 0.3}
            task.executor.cancel(sorted(dropped))
            wanted += [call.id for call in calls if call.id not in dropped]
        for id in wanted:
            task.result(id)


def test_wake_ups_are_coalesced() -> None:
    with task_thread() as task:
        calls = [task.call(at_once, number) for number in range(1_000)]
        task.executor.start(calls)
        task.result(calls[-1].id)
        assert task.wakes <= 3


def test_notifier_never_misses_a_change() -> None:
    """Many writers, one reader that looks only when it is notified."""
    thread = LoopThread()
    written = [0] * 4
    seen = [0] * 4
    all_seen = threading.Event()

    def look() -> None:
        seen[:] = written
        if sum(seen) == 4 * 2_000:
            all_seen.set()

    notifier = Notifier(thread, look)

    def write(index: int) -> None:
        for _ in range(2_000):
            written[index] += 1
            notifier.notify()

    writers = [threading.Thread(target=write, args=(index,)) for index in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(DEADLINE)
    assert all_seen.wait(DEADLINE)
    assert thread.close(5.0)
