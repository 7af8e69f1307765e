"""At the end of the input: runs that wait for awakeables which nothing can resolve any more."""

from __future__ import annotations

import time
from collections.abc import Callable

from flink_agents_durable.api.errors import UnresolvedAwakeablesError
from flink_agents_durable.engine.engine import Engine
from flink_agents_durable.runtime.loop_thread import LoopThread

CHECK_SECONDS = 1.0
"""Bounds what looking at all live runs costs, while deadlines of thousands of them pass one by one."""

SHOWN = 10
"""Bounds the text of the error; the number of all is in it."""


class UnresolvedAwakeables:
    """Fails the drain instead of letting it hang. On the task thread."""

    def __init__(self, engine: Engine, thread: LoopThread, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._thread = thread
        self._wake = wake
        self._next_check = 0.0
        self._comes_back = False

    def check(self) -> None:
        """Raise UnresolvedAwakeablesError for runs that wait for awakeables alone, once no call is in flight.

        A run that also waits for a timer goes on: that may be the deadline of its awakeable.
        """
        engine = self._engine
        if engine.live_runs == 0 or engine.in_flight:
            return
        now = time.monotonic()
        if now < self._next_check:
            self._come_back(self._next_check - now)
            return
        self._next_check = now + CHECK_SECONDS
        self._comes_back = False
        waiting = engine.unresolvable()
        if waiting:
            shown = ", ".join(f"{id} of key {key!r:.200}" for key, id in waiting[:SHOWN])
            more = f", and {len(waiting) - SHOWN} more" if len(waiting) > SHOWN else ""
            raise UnresolvedAwakeablesError(
                f"the input has ended, and nothing can resolve {len(waiting)} awakeables any more: {shown}{more}."
                " Keep the stream awakeables= open until they are resolved, or give each a deadline:"
                " asyncio.wait_for(result, seconds)"
            )

    def _come_back(self, seconds: float) -> None:
        """There may be no other drain after this one."""
        if not self._comes_back:
            self._comes_back = True
            self._thread.post(self._wake_later, seconds)

    def _wake_later(self, seconds: float) -> None:
        self._thread.call_at(self._thread.loop.time() + seconds, self._wake)
