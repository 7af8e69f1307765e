"""Starts of calls gather for a millisecond while inputs come in fast; none is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from flink_agents_durable.engine.ports import CallStart
from flink_agents_durable.runtime.deferred_starts import MAX_DEFERRED, DeferredStarts
from flink_agents_durable.runtime.executor import CallExecutor

DEADLINE = 10.0


async def nothing() -> None:
    return None


def call(number: int) -> CallStart:
    return CallStart(number, nothing, (), {}, None, "nothing")


@pytest.fixture
def executor() -> Iterator[CallExecutor]:
    executor = CallExecutor(on_complete=lambda: None, is_interruption=lambda error: False)
    yield executor
    executor.close(1)


def test_after_a_quiet_moment_a_call_starts_at_once(executor: CallExecutor) -> None:
    starts = DeferredStarts(executor, lambda: None)
    starts.add([call(1)])
    assert not starts._calls


def test_what_waits_is_announced_by_a_wake_up_on_the_loop_thread(executor: CallExecutor) -> None:
    woken = threading.Event()
    starts = DeferredStarts(executor, woken.set)
    starts.add([call(1)])
    starts._quiet_from = float("inf")
    starts.add([call(2)])
    starts.add([call(3)])
    assert len(starts._calls) == 2
    assert woken.wait(DEADLINE)
    starts.flush()
    assert not starts._calls
    starts.add([call(4)])
    woken.clear()
    starts._quiet_from = float("inf")
    starts.add([call(5)])
    assert woken.wait(DEADLINE), "each time anew"


def test_many_do_not_wait(executor: CallExecutor) -> None:
    starts = DeferredStarts(executor, lambda: None)
    starts._quiet_from = float("inf")
    starts.add([call(number) for number in range(MAX_DEFERRED)])
    assert not starts._calls
