"""The transient timer behind durable ones."""

from __future__ import annotations

import threading

from flink_agents_durable.runtime.durable_timer import DurableTimer, wall_clock
from flink_agents_durable.runtime.loop_thread import LoopThread
from tests.runtime.harness import DEADLINE, eventually


def test_p24_it_wakes_when_the_time_has_come_and_not_before() -> None:
    thread, woken = LoopThread(), threading.Event()
    timer = DurableTimer(thread, woken.set)
    when = wall_clock() + 30
    timer.set(when)
    assert not timer.is_due(when - 1)
    assert woken.wait(DEADLINE)
    assert wall_clock() >= when
    assert timer.is_due(wall_clock())
    assert thread.close(5.0)


def test_an_earlier_time_replaces_a_later_one_and_none_cancels() -> None:
    thread, woken = LoopThread(), threading.Event()
    timer = DurableTimer(thread, woken.set)
    timer.set(wall_clock() + 3_600_000)
    timer.set(wall_clock() - 1)
    assert woken.wait(DEADLINE)
    timer.set(wall_clock() + 3_600_000)
    timer.set(None)
    assert not timer.is_due(2**62)
    eventually(lambda: all(handle.cancelled() for handle in thread.loop._scheduled))  # type: ignore[attr-defined]
    assert thread.close(5.0)


def test_far_timers_are_slept_in_bounded_parts() -> None:
    thread = LoopThread()
    timer = DurableTimer(thread, lambda: None)
    timer.set(wall_clock() + 10**12)
    eventually(lambda: bool(thread.loop._scheduled))  # type: ignore[attr-defined]
    assert thread.loop._scheduled[0].when() - thread.loop.time() <= 3_600  # type: ignore[attr-defined]
    assert thread.close(5.0)
