"""Durable timers of all runs: a heap; the next one is served by one transient timer (P24)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flink_agents_durable.engine.run import RUNNING, Slot

if TYPE_CHECKING:
    from flink_agents_durable.engine.attempts import Deadline


_FEW = 64  # cancelled timers that may stay: bounds how often a heap of a few is looked through


class Timers:
    """Armed slots by deadline (epoch milliseconds). Cancelled ones are dropped when they come up, or when half of
    the heap may be such: a deadline of an hour must not keep a call that took a second."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Slot | Deadline]] = []
        self._count = 0
        self._look_at = _FEW
        self._announced: int | None = None

    def arm(self, slot: Slot | Deadline) -> None:
        """Wait for the slot's deadline."""
        self._count += 1
        if len(self._heap) >= self._look_at:
            self._heap = [entry for entry in self._heap if entry[2].state == RUNNING]
            heapq.heapify(self._heap)
            self._look_at = max(_FEW, 2 * len(self._heap))
        heapq.heappush(self._heap, (slot.deadline, self._count, slot))

    def due(self, now: int) -> Iterator[Slot | Deadline]:
        """Remove and give the slots whose deadline has come."""
        while self._heap and self._heap[0][0] <= now:
            slot = heapq.heappop(self._heap)[2]
            if slot.state == RUNNING:
                yield slot

    def next(self) -> int | None:
        """The earliest deadline, or None."""
        while self._heap and self._heap[0][2].state != RUNNING:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def changed(self) -> bool:
        """Whether the earliest deadline is another one than at the last call."""
        announced, self._announced = self._announced, self.next()
        return announced != self._announced
