"""No external store: results are as durable as the last checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from flink_agents_durable.store.protocol import Record


class NoActionStateStore:
    """Acknowledges every batch at once and keeps nothing."""

    name = "none"
    durable = False
    max_record_bytes: int | None = None

    def __init__(self) -> None:
        self._groups: tuple[int, ...] = ()
        self._batches = 0
        self._on_ack: Callable[[], None] = _ignore

    @property
    def missing(self) -> Mapping[int, int]:
        return {}

    def open(
        self,
        log_id: str,
        positions: Mapping[int, int | None],
        on_ack: Callable[[], None],
        wait: Callable[[float], None] = time.sleep,
    ) -> Iterator[Record]:
        self._groups = tuple(positions)
        self._batches = 0
        self._on_ack = on_ack
        return iter(())

    def append(self, records: Sequence[Record]) -> None:
        self._batches += 1
        self._on_ack()

    def acknowledged(self) -> int:
        return self._batches

    def wait_acknowledged(self, batches: int, wait: Callable[[float], None]) -> None:
        if batches > self._batches:
            raise ValueError(f"waiting for batch {batches}, only {self._batches} were handed over")

    def positions(self, batches: int) -> Mapping[int, int]:
        return dict.fromkeys(self._groups, 0)

    def truncate(self, positions: Mapping[int, int]) -> None:
        pass

    def close(self, timeout: float) -> bool:
        self._on_ack = _ignore
        return True

    def __reduce__(self) -> tuple[type[NoActionStateStore], tuple[()]]:
        return (NoActionStateStore, ())


def _ignore() -> None:
    pass
