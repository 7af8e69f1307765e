"""Closing: bounded, nothing reported any more, and nothing kept alive by what is stuck."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref

import pytest

from flink_agents_durable.runtime.executor import CallExecutor
from tests.runtime.harness import DEADLINE, TaskThread, eventually


def test_i4_calls_in_flight_are_cancelled_and_never_reported() -> None:
    task = TaskThread()
    ended = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    for _ in range(3):
        task.start(wait)
    eventually(lambda: task.executor.running == 3)
    assert task.executor.close(5.0)
    assert ended.is_set()
    assert task.executor.drain(10) == []
    assert task.wakes == 0


def test_close_twice_and_starts_afterwards_are_harmless() -> None:
    task = TaskThread()
    assert task.executor.close(5.0)
    assert task.executor.close(5.0)
    task.start(asyncio.sleep, 0)
    task.start(time.sleep, 0)
    task.executor.cancel([1, 2])
    assert task.executor.drain(10) == []


@pytest.mark.parametrize("stuck", ["worker", "loop", "to_thread"])
def test_s10_case_39_close_is_bounded_and_tells_what_is_still_inside(stuck: str) -> None:
    task = TaskThread()
    inside, release = threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        release.wait(DEADLINE)

    async def block_loop() -> None:
        block()

    async def block_thread() -> None:
        await asyncio.to_thread(block)

    task.start({"worker": block, "loop": block_loop, "to_thread": block_thread}[stuck])
    assert inside.wait(DEADLINE)
    started = time.monotonic()
    assert not task.executor.close(0.3)
    assert time.monotonic() - started < 2.0
    release.set()
    eventually(lambda: task.executor.close(1.0), "everything ended after the release")
    assert task.executor.drain(10) == []


def test_s10_a_coroutine_that_swallows_its_cancel_does_not_hold_the_close() -> None:
    task = TaskThread()

    async def stubborn() -> None:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                continue

    task.start(stubborn)
    eventually(lambda: task.executor.running == 1)
    started = time.monotonic()
    task.executor.close(0.4)
    assert time.monotonic() - started < 2.0


def test_k11_a_stuck_worker_keeps_nothing_of_the_host_alive() -> None:
    class Host:
        def wake(self) -> None: ...

        def is_interruption(self, error: BaseException) -> bool:
            return False

    host = Host()
    gone = weakref.ref(host)
    executor = CallExecutor(on_complete=host.wake, is_interruption=host.is_interruption, signal=host.wake)
    task = TaskThread()
    inside, release = threading.Event(), threading.Event()
    executor.start([task.call(lambda: (inside.set(), release.wait(DEADLINE)))])
    assert inside.wait(DEADLINE)
    assert not executor.close(0.1)
    del host
    gc.collect()
    try:
        assert gone() is None
    finally:
        release.set()
        task.executor.close(5.0)


def test_l6_nothing_of_an_ended_call_stays_in_memory() -> None:
    class Big:
        pass

    async def later(value: object) -> None:
        await asyncio.sleep(0)

    def plain(value: object) -> None: ...

    async def at_once(value: object) -> None: ...

    task = TaskThread()
    refs = []
    for function in (later, plain, at_once):
        for timeout in (None, 3_600.0):
            value = Big()
            refs.append(weakref.ref(value))
            task.run(function, value, timeout=timeout)
    task.done.clear()
    del value

    def all_gone() -> bool:
        gc.collect()
        return all(ref() is None for ref in refs)

    eventually(all_gone, "arguments of ended calls are freed")
    task.executor.close(5.0)
