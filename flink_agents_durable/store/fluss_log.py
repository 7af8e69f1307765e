"""One attempt's side of the log in a Fluss table: claim it, read its tail, append, cut.

An append is acknowledged when this attempt has read it back at a place where it still owns the bucket (see
`fluss_rows`). That is the fence: an older attempt reads the claim of the newer one before its own row, is never
acknowledged, and learns what happened. It is also the cheapest way to wait: one read tells about all buckets, where
the library's handles have to be waited for one by one. And since a row that is sent twice counts once, a connection
in doubt is replaced and its rows are sent again.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from flink_agents_durable.api.errors import ConfigurationError, UnreadableRecordError
from flink_agents_durable.store.fluss_client import SLICE_SECONDS, FlussSettings, Loop, bounded
from flink_agents_durable.store.fluss_errors import (
    fenced,
    is_gone,
    is_hopeless,
    lost,
    reason_of,
    unanswered,
    unavailable,
    waitable,
)
from flink_agents_durable.store.fluss_rows import CLAIM, CUT, RECORDS, Attempt, Bucket, Stamp, read_stamp
from flink_agents_durable.store.fluss_session import Reader, Row, Session
from flink_agents_durable.store.protocol import NOTHING_TO_READ, Record
from flink_agents_durable.store.values import by_group, claim_value, digest, records_of, values_of

_logger = logging.getLogger(__name__)

MAX_VALUE_BYTES = 1_000_000
"""Records of one commit are split into such rows, unless one alone is larger."""

WINDOW_BYTES = 16 * 1024 * 1024
"""On their way at a time: a quarter of the buffer of the library, which blocks when that is full."""

PATIENCE_SECONDS, LONGEST_PATIENCE = 3.0, 12.0
"""Without a sign of a row that was sent, its connection counts as broken: the library's may hang for good after
its server was restarted. Doubled each time, as a server that is only slow would be loaded more."""

RECONNECT_SECONDS = 0.5
"""Between tries to connect again. A server that starts takes seconds."""

ERROR_PAUSE = 0.05
"""Seconds after a poll that failed at once."""

HANDLE_SECONDS = 0.5
"""For the handle of a row to tell why it was refused."""

Wait = Callable[[float], None]


@dataclass(frozen=True)
class _Sent:
    group: int
    number: int
    stamp: bytes
    value: bytes


class FlussLog:
    """Used by one thread at a time: the task thread opens and reads, then only the writer thread uses it."""

    def __init__(self, settings: FlussSettings, log_id: str, positions: Mapping[int, int | None]) -> None:
        self.give_up_at = self.upkeep_at = float("inf")
        self.missing: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.info: Any = None
        self._settings = settings
        self._log_id = log_id
        self._digest = digest(log_id)
        self._positions = positions
        self._groups = sorted(positions)
        self._attempt: Attempt | None = None
        self._loop = Loop()
        self._session: Session | None = None
        self._reader: Reader | None = None
        self._handles: dict[int, Any] = {}  # of the last row that was sent to each bucket
        # By key group:
        self._buckets = {group: Bucket() for group in self._groups}
        self._tail: dict[int, deque[tuple[int, bytes]]] = {group: deque() for group in self._groups}
        self._last: dict[int, tuple[int, bytes]] = {}  # offset and stamp of the last row that was read
        self._from: dict[int, int] = {}  # records below are not read
        self._headless: set[int] = (
            set()
        )  # the table has lost rows after the position; how far is not known yet

    # -- opening ---------------------------------------------------------------------------------------------

    def open(self, wait: Wait) -> None:
        """Fence older attempts, find the end, read up to it. Keeps P21, K13, S3.

        Raises FlussError, TimeoutError of asyncio or NotReadyError for what may pass, and StoreFencedError when
        another attempt was opened meanwhile.
        """
        if self._groups and self._groups[-1] >= self._settings.buckets:
            raise ConfigurationError(
                f"key group {self._groups[-1]} needs more than the {self._settings.buckets} buckets of the "
                f"{self._settings}"
            )
        self._loop.run(self._open(), wait)

    async def _open(self) -> None:
        self._session = session = await Session.connect(self._settings)
        self.info = session.info
        heads, ends = await session.heads(self._groups), await session.ends(self._groups)
        self._reader = await session.reader(self._starts(heads, ends), values=True)
        await self._read_to(ends)
        self._attempt = self._next_attempt()
        offsets = await self._append([self._row(group, CLAIM) for group in self._groups])
        self.end = {group: offset + 1 for group, offset in offsets.items()}
        self._reader = await session.reader(self._reader.reached, values=False)

    def _starts(self, heads: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
        """Where to read from: at the row before the position, which is known to count, and tells who owned."""
        starts = {}
        for group, position in self._positions.items():
            head, end = heads[group], ends[group]
            if position == NOTHING_TO_READ:
                self._from[group], starts[group] = end, head
                continue
            known = position or 0
            if known > end:  # the table is not the one that the position is from, or has lost its end
                self.missing[group] = known - head
                known = head
            elif head > known:
                self._headless.add(group)
            self._from[group], starts[group] = known, max(head, known - 1)
        return starts

    async def _read_to(self, ends: Mapping[int, int]) -> None:
        assert self._reader is not None
        heard = time.monotonic()
        reached = self._reader.reached
        while any(reached[group] < end for group, end in ends.items()):
            rows = await self._reader.poll()
            for row in rows:
                self._take(row)
            if rows:
                heard = time.monotonic()
            elif time.monotonic() > heard + self._settings.append_timeout:
                raise asyncio.TimeoutError

    def _next_attempt(self) -> Attempt:
        """Higher than all that are known. By the clock as well, for buckets whose rows are all too old to be left."""
        known = max((bucket.owner[0] for bucket in self._buckets.values()), default=0)
        return max(known + 1, int(time.time() * 1000)), random.SystemRandom().getrandbits(63)

    def _take(self, row: Row) -> Stamp | None:
        """The stamp of a row of this log that counts. Raises StoreFencedError behind the claim of a later attempt."""
        group, offset, data, value = row
        last = self._last.get(group)
        if last is not None and offset <= last[0]:
            if data != last[1]:
                raise lost(self._settings, [group])
            return None
        self._last[group] = offset, data
        stamp = read_stamp(data)
        if stamp is None or stamp.log != self._digest:
            return None
        bucket = self._buckets[group]
        if group in self._headless:
            self._headless.discard(group)
            self._lost(group, stamp.after)
        counts = bucket.counts(offset, stamp)
        if self._attempt is not None and bucket.owner > self._attempt:
            raise fenced(self._settings, [group])
        if not counts:
            return None
        if value is not None:
            self._keep(group, offset, stamp, value)
        return stamp

    def _keep(self, group: int, offset: int, stamp: Stamp, value: bytes) -> None:
        tail = self._tail[group]
        if stamp.kind == RECORDS and offset >= self._from[group]:
            tail.append((offset, value))
        while tail and tail[0][0] < stamp.cut:
            self._lost(group, tail.popleft()[0] + 1)

    def _lost(self, group: int, to: int) -> None:
        """Records before this offset are not there any more, or not needed by any later snapshot."""
        if to > self._from[group]:
            known = self._positions[group] or 0
            self.missing[group] = max(self.missing.get(group, 0), to - known)

    def tail(self) -> Iterator[Record]:
        """The records after the positions, in the order of each key group."""
        for group in self._groups:
            rows = self._tail[group]
            while rows:
                offset, value = rows.popleft()
                try:
                    records = records_of(value)
                except msgspec.MsgspecError as error:
                    where = f"offset {offset} of bucket {group} of the {self._settings}"
                    raise UnreadableRecordError(f"{where}: {error}") from error
                for record in records:
                    yield group, record

    # -- writing ---------------------------------------------------------------------------------------------

    def commit(self, records: Sequence[Record]) -> dict[int, int]:
        """One row per key group, read back. Keeps P20, P22: a fenced attempt's is neither counted nor acked."""
        values = [
            (group, value)
            for group, data in by_group(records, self.end).items()
            for value in values_of(data, MAX_VALUE_BYTES)
        ]
        offsets: dict[int, int] = {}
        for window in _windows(values):
            sent: dict[int, int] = {}
            rows = []
            for group, value in window:
                sent[group] = sent.get(group, 0) + 1
                rows.append(self._row(group, RECORDS, value, ahead=sent[group]))
            offsets.update(self._loop.run(self._append(rows)))
        return {group: offset + 1 for group, offset in offsets.items()}

    def _row(self, group: int, kind: int, value: bytes = b"", *, ahead: int = 1, cut: int = 0) -> _Sent:
        """`ahead` numbers the rows of one append."""
        assert self._attempt is not None
        bucket = self._buckets[group]
        if kind == CLAIM:
            number, value = 0, claim_value(self._log_id)
        else:
            number = bucket.number + ahead
        stamp = Stamp(self._digest, kind, *self._attempt, number, bucket.after, cut)
        return _Sent(group, number, stamp.to_bytes(), value)

    async def _append(self, rows: Sequence[_Sent]) -> dict[int, int]:
        """Offsets of the last row of each key group, once all are read back. Raises what ends the attempt."""
        left: dict[int, deque[_Sent]] = {}
        for row in rows:
            left.setdefault(row.group, deque()).append(row)
        offsets: dict[int, int] = {}
        error: BaseException | None = None
        deadline = time.monotonic() + self._settings.append_timeout
        patience, patient_to = PATIENCE_SECONDS, time.monotonic() + PATIENCE_SECONDS
        try:
            self._send(rows)
        except waitable() as exception:
            error, patient_to = exception, 0.0  # of no use any more, this connection
        while left:
            try:
                if self._read_back(await self._poll(), left, offsets):
                    patient_to = time.monotonic() + patience
                elif time.monotonic() >= patient_to:
                    patient_to = time.monotonic() + RECONNECT_SECONDS
                    await self._limited(self._send_again(left), deadline)
                    patience = min(2 * patience, LONGEST_PATIENCE)
                    patient_to = time.monotonic() + patience
            except waitable() as exception:
                if is_hopeless(exception):
                    raise unavailable(self._settings, "takes no records", exception) from None
                error = exception
                await asyncio.sleep(ERROR_PAUSE)
            if left and time.monotonic() >= min(deadline, self.give_up_at):
                raise unanswered(self._settings, sorted(left), error)
        return offsets

    async def _limited(self, coroutine: Coroutine[Any, Any, None], deadline: float) -> None:
        """Until the deadline, or until the store is closed meanwhile. Then it raises TimeoutError of asyncio."""
        task = asyncio.ensure_future(coroutine)
        while not task.done():
            await asyncio.wait({task}, timeout=SLICE_SECONDS)
            if time.monotonic() >= min(deadline, self.give_up_at):
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise asyncio.TimeoutError
        task.result()

    async def _poll(self) -> list[Row]:
        assert self._reader is not None
        return await self._reader.poll()

    def _read_back(self, rows: Iterable[Row], left: dict[int, deque[_Sent]], offsets: dict[int, int]) -> bool:
        """Whether some of the rows that are left came back. Keeps P22."""
        some = False
        for row in rows:
            stamp = self._take(row)
            if stamp is not None and stamp.attempt == self._attempt:
                group = row[0]
                sent = left[group]
                sent.popleft()
                if not sent:
                    del left[group]
                offsets[group] = row[1]
                some = True
        return some

    def _send(self, rows: Iterable[_Sent]) -> None:
        assert self._session is not None
        for row in rows:
            self._handles[row.group] = self._session.append(row.group, row.stamp, row.value)

    async def _send_again(self, left: Mapping[int, deque[_Sent]]) -> None:
        """On a new connection. What the old one may still deliver is void once it is there twice. Keeps S7."""
        await self._ask_why(next(iter(left)))
        old, session = self._session, await Session.connect(self._settings)
        assert self._reader is not None
        try:
            if session.info.table_id != self.info.table_id:
                raise lost(self._settings, self._groups)
            reached = self._reader.reached
            ends = await session.ends(self._groups)
            if gone := [group for group in self._groups if ends[group] < reached[group]]:
                raise lost(self._settings, gone)
            # From the last row on, to see whether it is still there.
            starts = {**reached, **{group: offset for group, (offset, _) in self._last.items()}}
            self._reader = await session.reader(starts, values=self._opening)
        except BaseException:
            await session.close()
            raise
        self._session = session
        if old is not None:
            await old.close()
        self._send(row for rows in left.values() for row in rows)

    @property
    def _opening(self) -> bool:
        return not self.end

    async def _ask_why(self, group: int) -> None:
        """Raises StoreUnavailableError if the row was refused for a reason that does not pass."""
        handle = self._handles.pop(group, None)
        if handle is None:
            return
        try:
            await bounded(handle.wait(), HANDLE_SECONDS)
        except waitable() as error:
            if is_hopeless(error) or is_gone(error):
                raise unavailable(self._settings, "takes no records", error) from None
            reason = self._settings.redact(reason_of(error))
            _logger.debug("A row for the %s is late: %s", self._settings, reason)

    def upkeep(self) -> None:
        """Nothing is ever due."""

    # -- truncation and end ----------------------------------------------------------------------------------

    def cut(self, positions: Mapping[int, int]) -> None:
        """Tell readers what is not needed any more. A fenced attempt's word does not count. Keeps P23.

        The rows themselves go when they are older than the table keeps rows: no client can truncate a table.
        """
        rows = []
        for group, position in positions.items():
            bucket = self._buckets.get(group)
            if bucket is not None and bucket.after > bucket.cut and position > bucket.cut:
                rows.append(self._row(group, CUT, cut=position))
        if rows:
            self._loop.run(self._append(rows))

    def drop_some(self) -> bool:
        """The servers do that."""
        return False

    def close(self) -> None:
        """Everything acknowledged is on the servers already."""
        session, self._session = self._session, None
        if session is not None:
            self._loop.run(session.close())
        self._loop.close()


def _windows(values: Sequence[tuple[int, bytes]]) -> Iterator[Sequence[tuple[int, bytes]]]:
    start = size = 0
    for index, (_, value) in enumerate(values):
        if size and size + len(value) > WINDOW_BYTES:
            yield values[start:index]
            start, size = index, 0
        size += len(value)
    if values:
        yield values[start:]
