"""What an action state store is: an append-only log of opaque records per key group, kept outside Flink.

The task thread is the only caller. A store may have a writer thread of its own, which tells about progress by
`on_ack`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from flink_agents_durable.api.errors import AttemptEndedError

Record = tuple[int, bytes]
"""Key group and the bytes of one record."""

NOTHING_TO_READ = -1
"""In place of a restored position: the group goes on at the end of the log, none of its records is read."""


class StoreFencedError(AttemptEndedError):
    """Another attempt has opened the log for some of these key groups; this one may not add to it (P22)."""


class UnknownFateError(AttemptEndedError):
    """An append failed, and it may have been written all the same; the next attempt reads what was (P20)."""


class ActionStateStore(Protocol):
    """One subtask's side of the log. Pickled as configuration before `open`, used by one thread after it."""

    @property
    def name(self) -> str:
        """The word under which users configure it."""

    @property
    def max_record_bytes(self) -> int | None:
        """The largest record it takes; the engine refuses larger ones before they get here (P20)."""

    @property
    def durable(self) -> bool:
        """False when records count as acknowledged without being kept anywhere."""

    @property
    def missing(self) -> Mapping[int, int]:
        """By key group: how many positions, at most, after the restored one are gone. Known after `open`."""

    def open(
        self,
        log_id: str,
        positions: Mapping[int, int | None],
        on_ack: Callable[[], None],
        wait: Callable[[float], None] = time.sleep,
    ) -> Iterator[Record]:
        """Take over the given key groups and read what lies after their positions.

        A position is the one that the restored snapshot has; None when nothing was restored (read from the
        beginning) or `NOTHING_TO_READ`. When this returns, older attempts are fenced and the end is known
        (P21, K13); the iterator then reads up to that end, in log order, and has to be read to its end before
        the first append. A backend that is down is tried again for a bounded time, `wait(seconds)` being the
        interruptible way to pause; then StoreUnavailableError (S7).

        `on_ack` is called on the writer thread after each commit and when the writer fails. Keep it cheap.
        """

    def append(self, records: Sequence[Record]) -> None:
        """Hand over one batch without blocking. Batches become durable in the order in which they came."""

    def acknowledged(self) -> int:
        """The number of batches that are durable so far. Raises the writer's failure when there is one."""

    def wait_acknowledged(self, batches: int, wait: Callable[[float], None]) -> None:
        """Block until that many batches are durable. Raises like `acknowledged`, and what `wait` raises.

        `wait(seconds)` blocks interruptibly and returns early when `on_ack` was called, also if that was
        before it began to wait.
        """

    def positions(self, batches: int) -> Mapping[int, int]:
        """By owned key group: the position up to which all belongs to the first `batches` batches (P4).

        For a snapshot, with the number of batches that were applied on the task thread; it never decreases.
        """

    def truncate(self, positions: Mapping[int, int]) -> None:
        """Drop what lies at or below these positions: asynchronously, at best effort, repeatable (P23)."""

    def close(self, timeout: float) -> bool:
        """Write what was handed over and stop, within the time. False: the writer is still inside a call."""
