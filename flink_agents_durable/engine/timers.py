"""Durable timers of all runs: a heap; the next one is served by one transient timer (P24)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from flink_agents_durable.engine.run import RUNNING, Slot


class Timers:
    """Armed slots by deadline (epoch milliseconds). Cancelled ones are dropped when they come up."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Slot]] = []
        self._count = 0
        self._announced: int | None = None

    def arm(self, slot: Slot) -> None:
        """Wait for the slot's deadline."""
        self._count += 1
        heapq.heappush(self._heap, (slot.deadline, self._count, slot))

    def due(self, now: int) -> Iterator[Slot]:
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
