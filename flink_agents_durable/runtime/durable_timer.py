"""The one transient timer that serves the next durable one (P24)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from flink_agents_durable.runtime.loop_thread import LoopThread

MAX_SLEEP_SECONDS = 3_600.0
"""Bounds by how much a changed wall clock delays a timer of days: the time is looked at anew once an hour."""


def wall_clock() -> int:
    """Epoch milliseconds."""
    return time.time_ns() // 1_000_000


class DurableTimer:
    """Wakes the task thread at the time of the next durable timer, from the loop of the executor."""

    def __init__(self, thread: LoopThread, wake: Callable[[], None]) -> None:
        self._thread = thread
        self._wake = wake
        self._when: int | None = None
        self._handle: asyncio.TimerHandle | None = None  # of the loop thread

    def set(self, when: int | None) -> None:
        """On the task thread."""
        self._when = when
        self._thread.post(self._arm)

    def is_due(self, now: int) -> bool:
        """On the task thread."""
        return self._when is not None and self._when <= now

    def _arm(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        when = self._when
        if when is None:
            return
        delay = min((when - wall_clock()) / 1_000, MAX_SLEEP_SECONDS)
        if delay <= 0:
            self._wake()
        else:
            loop_time = self._thread.loop.time()
            self._handle = self._thread.call_at(loop_time + delay, self._arm)
