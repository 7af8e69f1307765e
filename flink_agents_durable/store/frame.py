"""What stores have in common whose log is written by a thread: one log, read once, then its writer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from flink_agents_durable.store.protocol import Record
from flink_agents_durable.store.writer import CommitLog, GroupCommitWriter, P

_logger = logging.getLogger(__name__)


class OpenLog(CommitLog[P], Protocol):
    """A log that is claimed and whose end is known."""

    missing: dict[int, int]
    end: P


L = TypeVar("L", bound="OpenLog[Any]")


class LogStore(Generic[L, P]):
    """The part of an action state store that does not depend on what is behind it."""

    name: str

    def __init__(self) -> None:
        self._log: L | None = None
        self._writer: GroupCommitWriter[P] | None = None

    @property
    def missing(self) -> Mapping[int, int]:
        return self._log.missing if self._log is not None else {}

    def append(self, records: Sequence[Record]) -> None:
        self._started().append(records)

    def acknowledged(self) -> int:
        return self._started().acknowledged()

    def wait_acknowledged(self, batches: int, wait: Callable[[float], None]) -> None:
        self._started().wait_acknowledged(batches, wait)

    def truncate(self, positions: Mapping[int, int]) -> None:
        self._started().truncate(positions)

    def close(self, timeout: float) -> bool:
        if self._writer is not None:
            return self._writer.close(timeout)
        if self._log is not None:
            self._log.close()
        return True

    def _started(self) -> GroupCommitWriter[P]:
        if self._writer is None:
            raise RuntimeError("the action state store is not open, or its tail has not been read to the end")
        return self._writer

    def _check_unopened(self) -> None:
        if self._log is not None:
            raise RuntimeError("the action state store is open already")

    def _then_write(
        self, tail: Iterator[Record], start: Callable[[], GroupCommitWriter[P]]
    ) -> Iterator[Record]:
        """The tail, and after its end the writer."""
        yield from tail
        self._writer = start()

    def _report_missing(self, place: str, otherwise: str) -> None:
        """`otherwise` is what it means if the restored state is not older than what was kept."""
        missing = self.missing
        if missing:
            _logger.warning(
                "The action state store %s, %s, has lost up to %d positions after the restored ones, in key "
                "groups %s: durable calls whose records are gone run again. The restored state is older than "
                "what was kept, or %s.",
                self.name,
                place,
                max(missing.values()),
                sorted(missing),
                otherwise,
            )


def later(earlier: dict[int, int], newer: dict[int, int]) -> dict[int, int]:
    """The positions by key group after a commit, for a log that has one for each."""
    return {**earlier, **newer}
