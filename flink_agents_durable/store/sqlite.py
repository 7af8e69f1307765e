"""The action state store of one machine: an SQLite file per log id, shared by subtasks and processes."""

from __future__ import annotations

import hashlib
import logging
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path

from flink_agents_durable.api.errors import ConfigurationError, StoreUnavailableError
from flink_agents_durable.store.frame import LogStore
from flink_agents_durable.store.protocol import Record
from flink_agents_durable.store.sqlite_errors import is_certainly_unwritten, unavailable
from flink_agents_durable.store.sqlite_log import SqliteLog
from flink_agents_durable.store.writer import GroupCommitWriter

_logger = logging.getLogger(__name__)

MAX_RECORD_BYTES = 256 * 1024 * 1024
"""A quarter of what SQLite takes as one value: a record, its row and its encoding are in memory at once."""

FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.1
"""Seconds between tries to open. Short at first: a zombie that writes without a break leaves small gaps."""


class SqliteActionStateStore(LogStore[SqliteLog, int]):
    """Write-ahead logging with group commit; every acknowledged record survives a crash of the machine.

    With `synchronous="NORMAL"` it survives a crash of the process only. The folder has to be on a local disk.
    """

    name = "sqlite"
    durable = True
    max_record_bytes: int | None = MAX_RECORD_BYTES

    def __init__(
        self, path: str | PathLike[str], *, synchronous: str = "FULL", append_timeout: float = 30.0
    ) -> None:
        super().__init__()
        if synchronous.upper() not in ("OFF", "NORMAL", "FULL", "EXTRA"):
            raise ConfigurationError(f"synchronous is OFF, NORMAL, FULL or EXTRA, not {synchronous!r}")
        self.folder = Path(path)
        self._synchronous = synchronous.upper()
        self._append_timeout = append_timeout
        self._groups: tuple[int, ...] = ()

    def open(
        self,
        log_id: str,
        positions: Mapping[int, int | None],
        on_ack: Callable[[], None],
        wait: Callable[[float], None] = time.sleep,
    ) -> Iterator[Record]:
        self._check_unopened()
        self._groups = tuple(positions)
        self._log = log = self._open_log(log_id, positions, wait)
        self._report_missing(str(log.path), "the file is not the one it was written with")
        return self._then_write(
            _tail(log, positions),
            lambda: GroupCommitWriter(log, log.end, on_ack, f"action-state-store-{log.epoch}", max),
        )

    def positions(self, batches: int) -> Mapping[int, int]:
        """One position for all groups: below it every record of each of them has been applied. Keeps P4."""
        return dict.fromkeys(self._groups, self._started().position(batches))

    def __reduce__(self) -> tuple[Callable[..., SqliteActionStateStore], tuple[str, str, float]]:
        return (_rebuild, (str(self.folder), self._synchronous, self._append_timeout))

    def _open_log(
        self, log_id: str, positions: Mapping[int, int | None], wait: Callable[[float], None]
    ) -> SqliteLog:
        """Try until it works, the time is over, or the reason is one that does not pass. Keeps S7."""
        path = self.folder / file_name(log_id)
        deadline = time.monotonic() + self._append_timeout
        pause = FIRST_PAUSE
        while True:
            try:
                return self._try_open(path, log_id, positions)
            except OSError as error:
                raise unavailable(path, error) from error
            except sqlite3.Error as error:
                if not is_certainly_unwritten(error) or time.monotonic() >= deadline:
                    raise unavailable(path, error) from error
                _logger.debug("Cannot open the action state store %s yet: %s", path, error)
            wait(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def _try_open(self, path: Path, log_id: str, positions: Mapping[int, int | None]) -> SqliteLog:
        self.folder.mkdir(parents=True, exist_ok=True)
        log = SqliteLog(path, log_id, positions, self._synchronous, self._append_timeout)
        try:
            log.claim(positions)
        except BaseException:
            log.close()
            raise
        return log


def _tail(log: SqliteLog, positions: Mapping[int, int | None]) -> Iterator[Record]:
    try:
        yield from log.read(positions)
    except sqlite3.Error as error:
        raise StoreUnavailableError(f"the action state store {log.path} cannot be read: {error}") from error


def file_name(log_id: str) -> str:
    """Readable where possible, and different for different ids also where file names ignore case."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", log_id)[:60]
    digest = hashlib.blake2b(log_id.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    return f"{readable}-{digest}.db"


def _rebuild(path: str, synchronous: str, append_timeout: float) -> SqliteActionStateStore:
    return SqliteActionStateStore(path, synchronous=synchronous, append_timeout=append_timeout)
