"""The action state store of the simulator: a list, fenced by attempts, that appends one batch at a time."""

from __future__ import annotations

from flink_agents_durable.store.protocol import StoreFencedError


class SimulatedLog:
    """The log of all attempts under one log id. Positions count records from 1."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.records: list[tuple[int, bytes]] = []
        self.head = 0  # records at or below are truncated
        self.owner = 0

    @property
    def end(self) -> int:
        """Position of the last record."""
        return len(self.records)

    def take_over(self, attempt: int) -> None:
        """Fence older attempts; only then may the end be looked up (P21)."""
        self.owner = attempt

    def append(self, attempt: int, batch: list[tuple[int, bytes]]) -> int:
        """Append a batch; gives the new end. A zombie's batch is refused (P22)."""
        if attempt != self.owner:
            raise StoreFencedError(f"attempt {attempt} is fenced")
        self.records.extend(batch)
        return self.end

    def tail(self, position: int) -> list[tuple[int, bytes]]:
        """Records after a position that are still there."""
        return self.records[max(position, self.head) :]

    def truncate(self, position: int) -> None:
        """Drop the head."""
        self.head = max(self.head, position)
