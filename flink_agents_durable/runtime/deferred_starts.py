"""Starts of calls that inputs ask for, handed to the executor a few at a time.

Each hand-over wakes the loop thread, which then contends for the interpreter lock with the task thread: with
one for every input, 5,000 inputs that make a call each took twice as long to admit, measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from flink_agents_durable.engine.ports import CallStart
from flink_agents_durable.runtime.executor import CallExecutor

LINGER_SECONDS = 0.001
"""How long a start may wait for others while inputs come in fast; also what it adds to a call's latency then."""
MAX_DEFERRED = 128
"""Enough to make a hand-over cheap for each, and little for the executor to catch up with."""


class DeferredStarts:
    """Between the engine and the executor, on the task thread."""

    def __init__(self, executor: CallExecutor, wake: Callable[[], None]) -> None:
        self._executor = executor
        self._wake = wake
        self._calls: list[CallStart] = []
        self._quiet_from = 0.0  # monotonic time from which a start need not wait
        self._armed = False

    def add(self, calls: list[CallStart]) -> None:
        """Start calls: at once after a quiet moment, else with those of the next millisecond."""
        self._calls += calls
        if len(self._calls) >= MAX_DEFERRED or time.monotonic() >= self._quiet_from:
            self.flush()
        elif not self._armed:
            self._armed = True
            self._executor.thread.post(self._come_back)

    def flush(self) -> None:
        """Hand over what has gathered; every drain does."""
        self._armed = False
        if self._calls:
            calls, self._calls = self._calls, []
            self._quiet_from = time.monotonic() + LINGER_SECONDS
            self._executor.start(calls)

    def _come_back(self) -> None:
        """On the loop thread: a drain comes after the linger, should no further input do it."""
        self._executor.thread.call_at(self._executor.loop.time() + LINGER_SECONDS, self._wake)
