"""One connection to a Fluss cluster: a table, its writer, its offsets, and a reader that goes on where it stopped."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flink_agents_durable.store.fluss_client import CLOSE_SECONDS, FlussSettings, bounded, library
from flink_agents_durable.store.fluss_hash import bucket_values
from flink_agents_durable.store.fluss_table import ensure_table

POLL_MILLIS = 10
"""Of one poll. It asks the servers once: after an answer without rows it waits in vain."""

POLL_SECONDS = 2.0
"""Bounds a poll that has to ask a server that stands still where the buckets are."""

ROWS_PER_POLL = 5_000
"""Bounds the memory of one poll, beside the library's own bounds in bytes."""


class Session:
    """Made by `connect`. When it is in doubt, it is closed and another one is made."""

    def __init__(self, settings: FlussSettings, connection: Any, info: Any, table: Any) -> None:
        self.info = info
        self._settings = settings
        self._connection = connection
        self._table = table
        self._admin = connection.get_admin()
        self.writer = table.new_append().create_writer()
        self._values = bucket_values(settings.buckets)

    @classmethod
    async def connect(cls, settings: FlussSettings) -> Session:
        """Raises what `ensure_table` raises."""
        config = settings.config()
        config.scanner_log_max_poll_records = ROWS_PER_POLL
        connection = await bounded(library().FlussConnection.create(config))
        try:
            info = await ensure_table(connection.get_admin(), settings)
            return cls(settings, connection, info, await bounded(connection.get_table(info.table_path)))
        except BaseException:
            await _end(connection)
            raise

    def append(self, group: int, stamp: bytes, value: bytes) -> Any:
        """Send a row, and return the handle that tells about its fate."""
        return self.writer.append([self._values[group], stamp, value])

    async def ends(self, groups: Iterable[int]) -> dict[int, int]:
        return await self._offsets(groups, library().OffsetSpec.latest())

    async def heads(self, groups: Iterable[int]) -> dict[int, int]:
        return await self._offsets(groups, library().OffsetSpec.earliest())

    async def _offsets(self, groups: Iterable[int], which: Any) -> dict[int, int]:
        asked = list(groups)
        if not asked:
            return {}
        found: dict[int, int] = await bounded(self._admin.list_offsets(self.info.table_path, asked, which))
        return found

    async def reader(self, starts: Mapping[int, int], *, values: bool) -> Reader:
        """From these offsets on; without values the servers leave them out of what they send."""
        scan = self._table.new_scan()
        if not values:
            scan = scan.project_by_name(["stamp"])
        scanner = await bounded(scan.create_record_batch_log_scanner())
        if starts:
            scanner.subscribe_buckets(dict(starts))
        return Reader(scanner, starts)

    async def close(self) -> None:
        await _end(self._connection)


async def _end(connection: Any) -> None:
    with contextlib.suppress(library().FlussError, asyncio.TimeoutError):
        await bounded(connection.close(), CLOSE_SECONDS)


Row = tuple[int, int, bytes, "bytes | None"]
"""Key group, offset, stamp and value."""


class Reader:
    def __init__(self, scanner: Any, starts: Mapping[int, int]) -> None:
        self.reached = dict(starts)
        """By key group: the offset of the next row to come."""
        self._scanner = scanner

    async def poll(self) -> list[Row]:
        """What comes within some milliseconds, in the order of each bucket; maybe nothing."""
        batches = await bounded(self._scanner.poll_record_batch(POLL_MILLIS), POLL_SECONDS)
        return [row for batch in batches for row in self._rows(batch)]

    def _rows(self, batch: Any) -> Iterator[Row]:
        group, offset, table = batch.bucket.bucket_id, batch.base_offset, batch.batch
        stamps = table.column("stamp").to_pylist()
        values = table.column("records").to_pylist() if table.num_columns > 1 else [None] * len(stamps)
        for stamp, value in zip(stamps, values, strict=True):
            yield group, offset, stamp, value
            offset += 1
        self.reached[group] = offset
