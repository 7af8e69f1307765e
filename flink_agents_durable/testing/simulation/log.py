"""The action state store of the simulator: a list, fenced by key group, that appends one batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flink_agents_durable.store.protocol import StoreFencedError


class SimulatedLog:
    """The log of all attempts under one log id. Positions count the records of all key groups from 1."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.records: list[tuple[int, bytes]] = []
        self.heads: dict[int, int] = {}  # by key group: records at or below are truncated
        self.owners: dict[int, int] = {}  # by key group: the attempt that may append
        self.holes: dict[tuple[int, int], int] = {}  # key group and position of a lost record: see `lacks`

    @property
    def end(self) -> int:
        """Position of the last record."""
        return len(self.records)

    def take_over(self, attempt: int, groups: Iterable[int]) -> None:
        """Fence older attempts; only then may the end be looked up (P21)."""
        self.owners.update(dict.fromkeys(groups, attempt))

    def append(self, attempt: int, batch: list[tuple[int, bytes]]) -> int:
        """Append a batch; gives the new end. A zombie's batch is refused as a whole (P22)."""
        if any(self.owners.get(group, 0) != attempt for group, _ in batch):
            raise StoreFencedError(f"attempt {attempt} is fenced")
        self.records.extend(batch)
        return self.end

    def tail(self, positions: Mapping[int, int]) -> list[tuple[int, bytes]]:
        """Records of these key groups after their positions that are still there."""
        heads = self.heads
        return [
            entry
            for at, entry in enumerate(self.records, 1)
            if entry[0] in positions and at > positions[entry[0]] and at > heads.get(entry[0], 0)
        ]

    def misses(self, positions: Mapping[int, int]) -> bool:
        """Whether records after these positions are truncated."""
        return any(position < self.heads.get(group, 0) for group, position in positions.items())

    def truncate(self, positions: Mapping[int, int]) -> None:
        """Drop the heads."""
        for group, position in positions.items():
            self.heads[group] = max(self.heads.get(group, 0), position)

    def lose_end(self, end: int) -> None:
        """What lies after this position is gone; positions are never given again."""
        for at, (group, _) in enumerate(self.records[end:], end + 1):
            if group != NOBODY:
                self.holes[group, at] = at
        self.records[end:] = [(NOBODY, b"")] * (self.end - end)

    def lacks(self, positions: Mapping[int, int]) -> bool:
        """Whether a restore from these positions is the first from so far back that misses a lost record.

        What lies behind the record counts for a state that holds it, and not for an older one (P8).
        """
        behind = [hole for hole, known in self.holes.items() if positions.get(hole[0], known) < known]
        self.holes.update((hole, positions[hole[0]]) for hole in behind)
        return bool(behind)


NOBODY = -1
"""No key group: what was there is lost."""
