"""The writer thread: one commit takes all batches that were handed over while the one before was written.

The thread shares the GIL with a busy task thread, and every time it has given the GIL away it may wait a
whole switch interval (5 ms) to get it back. So nothing here is done per record in Python, a hand-over wakes
the thread only when it sleeps, and a log is expected to commit with one call that gives the GIL away once.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Generic, Protocol, TypeVar

from flink_agents_durable.api.errors import DurableExecutionError
from flink_agents_durable.store.protocol import Record, UnknownFateError

_logger = logging.getLogger(__name__)

MAX_RECORDS_PER_COMMIT = 20_000
"""Bounds the memory and the time of one commit after the disk has stalled and a backlog has built up."""

SHORT_WAIT = 0.001
"""Seconds for which the task thread waits on a Python lock before it takes the dearer, interruptible way."""

LONG_WAIT = 1.0
"""Seconds of one interruptible wait. Bounds how long a lost wake-up can hold the task thread."""

KEPT_COMMITS = 1_024
"""Commits whose positions are kept apart. Bounds the memory of a job that never takes a snapshot."""

P = TypeVar("P")
"""What a log calls the place up to which it is written."""
P_co = TypeVar("P_co", covariant=True)


class CommitLog(Protocol[P_co]):
    """What the thread drives. Everything is called on that thread only, `give_up_at` excepted."""

    give_up_at: float
    """On time.monotonic: no retry is begun after it. Set when the store closes."""

    upkeep_at: float
    """On time.monotonic: when `upkeep` has to be called next, also if nothing is appended."""

    def commit(self, records: Sequence[Record]) -> P_co:
        """Make the records durable and return their position; raise what ends the attempt."""

    def upkeep(self) -> None:
        """What is due at `upkeep_at`; sets that anew."""

    def cut(self, positions: Mapping[int, int]) -> None:
        """Note that nothing at or below these positions is needed."""

    def drop_some(self) -> bool:
        """Remove a bounded part of what is not needed. False: nothing is left to remove."""

    def close(self) -> None:
        """Give back what is open."""


class GroupCommitWriter(Generic[P]):
    """Hands batches from the task thread to a log, and acknowledgements back.

    `merge` says what position follows from an earlier one and that of a later commit.
    """

    def __init__(
        self, log: CommitLog[P], end: P, on_ack: Callable[[], None], name: str, merge: Callable[[P, P], P]
    ) -> None:
        self._log = log
        self._merge = merge
        self._on_ack = on_ack
        self._inbox: queue.SimpleQueue[Sequence[Record] | _Cut | None] = queue.SimpleQueue()
        self._handed_over = 0
        self._acknowledged = 0
        self._commits: deque[tuple[int, P]] = deque()  # batches so far and position of each commit
        self._commits_lock = threading.Lock()
        self._applied_position = end
        self._failure: DurableExecutionError | None = None
        self._waiting = False
        self._progress: queue.SimpleQueue[None] = queue.SimpleQueue()  # a late wake-up cannot fail
        self._closed = False
        self._dropping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    # -- task thread -----------------------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> None:
        self._check()
        self._handed_over += 1
        self._inbox.put(records)

    def truncate(self, positions: Mapping[int, int]) -> None:
        self._inbox.put(_Cut(positions))

    def acknowledged(self) -> int:
        self._check()
        return self._acknowledged

    def wait_acknowledged(self, batches: int, wait: Callable[[float], None]) -> None:
        if batches > self._handed_over:
            raise ValueError(f"waiting for batch {batches}, only {self._handed_over} were handed over")
        self._waiting = True  # before the look, so that the writer cannot miss it
        try:
            if self.acknowledged() < batches:
                self._wait_shortly()
            while self.acknowledged() < batches:
                wait(LONG_WAIT)
        finally:
            self._waiting = False

    def position(self, batches: int) -> P:
        """The position of the last commit whose batches are all among the first `batches`. Keeps P4."""
        commits = self._commits
        with self._commits_lock:
            while commits and commits[0][0] <= batches:
                self._applied_position = self._merge(self._applied_position, commits.popleft()[1])
        return self._applied_position

    def close(self, timeout: float) -> bool:
        self._closed = True
        self._log.give_up_at = time.monotonic() + timeout / 2  # leaves time to end
        self._inbox.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _check(self) -> None:
        failure = self._failure
        if failure is not None:
            raise type(failure)(*failure.args) from failure  # raised again, one object grows its traceback
        if self._closed:
            raise RuntimeError("the action state store is closed")

    def _wait_shortly(self) -> None:
        with contextlib.suppress(queue.Empty):
            self._progress.get(timeout=SHORT_WAIT)

    # -- writer thread ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except DurableExecutionError as failure:
            self._fail(failure)
        except BaseException as failure:
            error = UnknownFateError(f"the writer of the action state store failed: {failure!r}")
            error.__cause__ = failure
            self._fail(error)
        finally:
            self._log.close()

    def _step(self) -> bool:
        """One commit and one piece of truncation, the last one also at the close. False: closed."""
        batches, cuts, more = self._take()
        if time.monotonic() >= self._log.upkeep_at:
            self._log.upkeep()
        if batches:
            self._commit(batches)
        for cut in cuts:
            self._log.cut(cut.positions)
            self._dropping = True
        if self._dropping:
            self._dropping = self._log.drop_some()
        return more

    def _take(self) -> tuple[list[Sequence[Record]], list[_Cut], bool]:
        batches: list[Sequence[Record]] = []
        cuts: list[_Cut] = []
        inbox, records = self._inbox, 0
        block = not self._dropping
        while records < MAX_RECORDS_PER_COMMIT:
            if not block and not inbox.qsize():  # nobody else takes from it
                break
            try:
                item = inbox.get(timeout=self._until_upkeep())
            except queue.Empty:
                break
            block = False
            if item is None:
                return batches, cuts, False
            if isinstance(item, _Cut):
                cuts.append(item)
            else:
                batches.append(item)
                records += len(item)
        return batches, cuts, True

    def _commit(self, batches: list[Sequence[Record]]) -> None:
        records = batches[0] if len(batches) == 1 else list(chain.from_iterable(batches))
        total = self._acknowledged + len(batches)
        if records:
            self._note(total, self._log.commit(records))
        self._acknowledged = total
        self._wake()

    def _note(self, batches: int, position: P) -> None:
        """Beyond some commits the older half becomes one: its position counts once all of it is applied."""
        commits = self._commits
        with self._commits_lock:
            commits.append((batches, position))
            if len(commits) > KEPT_COMMITS:
                merged, position = commits.popleft()
                for _ in range(KEPT_COMMITS // 2):
                    merged, later = commits.popleft()
                    position = self._merge(position, later)
                commits.appendleft((merged, position))

    def _until_upkeep(self) -> float | None:
        due = self._log.upkeep_at
        return None if due == float("inf") else max(0.0, due - time.monotonic())

    def _fail(self, failure: DurableExecutionError) -> None:
        _logger.log(logging.DEBUG if self._closed else logging.ERROR, "Action state store: %s", failure)
        self._failure = failure
        try:
            self._wake()
        except Exception:
            _logger.exception("Cannot report the failure of the action state store")

    def _wake(self) -> None:
        if self._waiting:
            self._progress.put(None)
        self._on_ack()


class _Cut:
    """A request to truncate, in line with the batches."""

    __slots__ = ("positions",)

    def __init__(self, positions: Mapping[int, int]) -> None:
        self.positions = positions
