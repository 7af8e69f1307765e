"""The log of one log id in an SQLite file: tables, claims, commits and truncation.

    log        one row per commit: position, lowest and highest key group in it, and its records
    claim      the epochs that may write; opening removes those whose key groups it takes over
    key_group  by group: epoch of its owner, position up to which it is cut, and last cut position with data

An epoch is claimed for all groups of a subtask at once, so that the fence of an append is the look-up of one
row, however many groups there are, in the statement of the append itself.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path

import msgspec

from flink_agents_durable.api.errors import (
    DurableExecutionError,
    StoreUnavailableError,
    UnreadableRecordError,
)
from flink_agents_durable.store.protocol import (
    NOTHING_TO_READ,
    Record,
    StoreFencedError,
    UnknownFateError,
)
from flink_agents_durable.store.sqlite_errors import is_certainly_unwritten, is_full, unavailable

FORMAT = 1
"""Version of tables and record encoding, in the file's user_version."""

BUSY_MILLIS = 10
"""How long SQLite itself waits for the lock of another writer before it asks us. Short, as its pauses grow:
of four siblings that commit without a break the slowest commit took 250 ms with 100, and 60 ms with 10."""

BUSY_PAUSE = 0.002
"""Seconds between tries while another writer has the lock."""

FULL_PAUSE = 0.1
"""Seconds between tries while the disk is full, which takes longer to change."""

MAX_ROW_BYTES = 64 * 1024 * 1024
"""Larger commits are split into rows. Bounds the memory of one row when it is read; SQLite takes 1 GB."""

DROPPED_ROWS = 32
"""Rows removed by one statement. Bounds the time for which an append waits behind a truncation."""

ROWS_PER_VALUES = 2_000
"""Groups written by one statement."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS log (position INTEGER PRIMARY KEY AUTOINCREMENT, "
    "first_group INTEGER NOT NULL, last_group INTEGER NOT NULL, records BLOB NOT NULL)",
    "CREATE TABLE IF NOT EXISTS claim (epoch INTEGER PRIMARY KEY AUTOINCREMENT)",
    "CREATE TABLE IF NOT EXISTS key_group (id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, "
    "cut INTEGER NOT NULL, lost INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS log_id (id BLOB NOT NULL)",
)

_APPEND = (
    "INSERT INTO log (first_group, last_group, records) "
    "SELECT ?, ?, ? WHERE EXISTS (SELECT 1 FROM claim WHERE epoch = ?)"
)

_CUT = (
    "INSERT INTO key_group (id, epoch, cut, lost) "
    "SELECT column1, {epoch}, column2, column3 FROM (VALUES {rows}) "
    "WHERE EXISTS (SELECT 1 FROM claim WHERE epoch = {epoch}) "
    "ON CONFLICT (id) DO UPDATE SET cut = max(cut, excluded.cut), lost = max(lost, excluded.lost)"
)

_DROP_OWN = (
    "DELETE FROM log WHERE position IN (SELECT position FROM log WHERE position <= ? "
    "AND first_group >= ? AND last_group <= ? ORDER BY position LIMIT ?)"
)

_STRADDLES = (
    "first_group <= :last AND last_group >= :first "
    "AND (:sparse OR first_group < :first OR last_group > :last)"
)

_DROP_STRADDLING = (
    f"DELETE FROM log WHERE position IN (SELECT position FROM log WHERE {_STRADDLES} AND position <= :cut "
    "AND NOT EXISTS (SELECT 1 FROM key_group WHERE id BETWEEN log.first_group AND log.last_group "
    "AND cut < log.position) ORDER BY position LIMIT :rows)"
)

_READ = (
    "SELECT position, records FROM log WHERE position > ? AND position <= ? "
    "AND last_group >= ? AND first_group <= ? ORDER BY position"
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[tuple[int, bytes]]).decode
_group_of = itemgetter(0)


class SqliteLog:
    """One attempt's claim on some key groups of a log. Used by one thread at a time."""

    def __init__(
        self, path: Path, log_id: str, groups: Iterable[int], synchronous: str, append_timeout: float
    ) -> None:
        self.path = path
        self.give_up_at = self.upkeep_at = float("inf")
        self.epoch = 0
        self.end = 0
        self.missing: dict[int, int] = {}
        self._log_id = log_id
        self._groups = sorted(groups)
        self._first, self._last = (self._groups[0], self._groups[-1]) if self._groups else (0, -1)
        self._sparse = len(self._groups) != self._last - self._first + 1
        self._append_timeout = append_timeout
        self._last_seen: dict[int, int] = {}  # by group: no record of it lies between here and the end
        self._cuts: dict[int, int] = {}
        self._straddling = False
        self._connection = _connect(path, synchronous)
        self._identity = os.stat(path)

    # -- opening ---------------------------------------------------------------------------------------------

    def claim(self, positions: Mapping[int, int | None]) -> None:
        """Fence older attempts, then find the end, in one transaction. Keeps P21, K13, S3."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        try:
            self._prepare_tables()
            self.epoch = execute("INSERT INTO claim DEFAULT VALUES").lastrowid or 0
            for first, last in _ranges(self._groups):
                execute(
                    "DELETE FROM claim WHERE epoch IN (SELECT epoch FROM key_group WHERE id BETWEEN ? AND ?)",
                    (first, last),
                )
            for rows in _values((group, self.epoch, 0, 0) for group in self._groups):
                execute(
                    f"INSERT INTO key_group (id, epoch, cut, lost) VALUES {rows} "
                    "ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch"
                )
            self._find_end(positions)
            execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            raise

    def _prepare_tables(self) -> None:
        execute = self._connection.execute
        expected = self._log_id.encode("utf-8", "surrogatepass")
        (version,) = execute("PRAGMA user_version").fetchone()
        if version not in (0, FORMAT):
            raise StoreUnavailableError(
                f"the action state store {self.path} has format {version}, this version of the package reads "
                f"{FORMAT}: use the version that wrote it, or another folder"
            )
        if version == 0:
            for statement in _TABLES:
                execute(statement)
            execute("INSERT INTO log_id (id) VALUES (?)", (expected,))
            execute(f"PRAGMA user_version = {FORMAT}")
        (found,) = execute("SELECT id FROM log_id").fetchone()
        if found != expected:
            raise StoreUnavailableError(
                f"the action state store {self.path} holds the log {found!r}, not {expected!r}: "
                "was the file renamed or copied?"
            )

    def _find_end(self, positions: Mapping[int, int | None]) -> None:
        execute = self._connection.execute
        row = execute("SELECT seq FROM sqlite_sequence WHERE name = 'log'").fetchone()
        self.end = end = row[0] if row else 0
        restored = {
            group: position or 0 for group, position in positions.items() if position != NOTHING_TO_READ
        }
        ahead = max(restored.values(), default=0)
        if ahead > end:
            self._continue_after(ahead, row is None)
        lost = {}
        for first, last in _ranges(self._groups):
            for group, cut, group_lost in execute(
                "SELECT id, cut, lost FROM key_group WHERE id BETWEEN ? AND ?", (first, last)
            ):
                self._cuts[group] = cut
                lost[group] = group_lost
        for group, position in restored.items():
            gone = max(lost[group] - position, position - end)
            if gone > 0:
                self.missing[group] = gone
        self._last_seen = {group: restored.get(group, self.end) for group in self._groups}
        self._straddling = bool(
            execute(f"SELECT EXISTS (SELECT 1 FROM log WHERE {_STRADDLES})", self._borders()).fetchone()[0]
        )

    def _continue_after(self, position: int, is_new: bool) -> None:
        """The snapshot knows a position that this file never reached: it is not the file of before.

        New records must lie above that position, or the next restore from the snapshot would skip them.
        """
        if is_new:
            self._connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('log', ?)", (position,))
        else:
            self._connection.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'log'", (position,))
        self.end = position

    def read(self, positions: Mapping[int, int | None]) -> Iterator[Record]:
        """The records of the claimed groups after their positions, up to the end that `claim` found."""
        after = {group: position or 0 for group, position in positions.items() if position != NOTHING_TO_READ}
        if not after:
            return
        last_seen = self._last_seen
        rows = self._connection.execute(_READ, (min(after.values()), self.end, self._first, self._last))
        for position, body in rows:
            for record in self._decode(position, body):
                group = record[0]
                if after.get(group, position) < position:
                    last_seen[group] = position
                    yield record

    def _decode(self, position: int, body: bytes) -> list[Record]:
        try:
            return _decode(body)
        except msgspec.MsgspecError as error:
            where = f"row {position} of the action state store {self.path}"
            raise UnreadableRecordError(f"{where}: {error}") from error

    # -- writing ---------------------------------------------------------------------------------------------

    def commit(self, records: Sequence[Record]) -> int:
        """One row, one statement, one fsync. Keeps P22: a fenced attempt's is neither written nor acked."""
        body = _encode(records)
        if len(body) > MAX_ROW_BYTES and len(records) > 1:
            half = len(records) // 2
            self.commit(records[:half])
            return self.commit(records[half:])
        groups = dict.fromkeys(map(_group_of, records))
        if not groups.keys() <= self._last_seen.keys():
            raise ValueError(
                f"records of key groups {sorted(groups.keys() - self._last_seen.keys())} are not ours"
            )
        cursor = self._retry(_APPEND, (min(groups), max(groups), body, self.epoch))
        if cursor.rowcount != 1:
            raise self._fenced()
        position = cursor.lastrowid or 0
        self._last_seen.update(dict.fromkeys(groups, position))
        return position

    def cut(self, positions: Mapping[int, int]) -> None:
        """Note what is not needed any more. A fenced attempt notes nothing. Keeps P23."""
        self._check_file()
        news = {
            group: position
            for group, position in positions.items()
            if position > self._cuts.get(group, position)  # a group that is not ours is not ours to cut
        }
        rows = ((group, position, min(position, self._last_seen[group])) for group, position in news.items())
        for values in _values(rows):
            if self._retry(_CUT.format(epoch=self.epoch, rows=values), ()).rowcount == 0:
                raise self._fenced()
        self._cuts.update(news)

    def drop_some(self) -> bool:
        """Remove some rows that no key group in them needs. Keeps P23 for rows that straddle owners."""
        if not self._groups:
            return False
        if not self._sparse:
            head = min(self._cuts.values())
            own = self._retry(_DROP_OWN, (head, self._first, self._last, DROPPED_ROWS))
            if own.rowcount == DROPPED_ROWS:
                return True
        if not self._straddling and not self._sparse:
            return False
        borders = self._borders() | {"cut": max(self._cuts.values()), "rows": DROPPED_ROWS}
        return self._retry(_DROP_STRADDLING, borders).rowcount == DROPPED_ROWS

    def upkeep(self) -> None:
        """Nothing is ever due."""

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):  # everything acknowledged is in the file already
            self._connection.close()

    def _check_file(self) -> None:
        """Writing to a removed file goes on without an error, but nobody would ever read it."""
        try:
            same = os.path.samestat(os.stat(self.path), self._identity)
        except OSError as error:
            raise UnknownFateError(f"the action state store {self.path} is gone: {error}") from error
        if not same:
            raise UnknownFateError(f"the action state store {self.path} was replaced by another file")

    def _borders(self) -> dict[str, int]:
        return {"first": self._first, "last": self._last, "sparse": self._sparse}

    def _retry(self, statement: str, parameters: Sequence[object] | Mapping[str, object]) -> sqlite3.Cursor:
        """Execute, again while it certainly was not written, for a bounded time. Keeps S7, P20."""
        deadline: float | None = None
        while True:
            try:
                return self._connection.execute(statement, parameters)
            except sqlite3.Error as error:
                now = time.monotonic()
                deadline = deadline or now + self._append_timeout
                if not is_certainly_unwritten(error):
                    raise self._unknown(error) from error
                if now >= min(deadline, self.give_up_at):
                    raise unavailable(self.path, error) from error
                time.sleep(FULL_PAUSE if is_full(error) else BUSY_PAUSE)

    def _fenced(self) -> DurableExecutionError:
        return StoreFencedError(
            f"another attempt has taken over key groups {self._first} to {self._last} of the log "
            f"{self._log_id!r} in the action state store {self.path} (epoch {self.epoch} is over)"
        )

    def _unknown(self, error: sqlite3.Error) -> DurableExecutionError:
        return UnknownFateError(
            f"an append to the action state store {self.path} failed ({error}); whether it was written "
            "is seen when the next attempt reads the log"
        )


def _connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """Autocommit. Handed over once: the task thread opens and reads, then only the writer thread uses it."""
    connection = sqlite3.connect(
        path, timeout=BUSY_MILLIS / 1000, isolation_level=None, check_same_thread=False
    )
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise StoreUnavailableError(
                f"the action state store sqlite at {path} cannot use write-ahead logging "
                f"(its journal is {mode}). Remedy: set agents.store.sqlite.path to a folder on a local disk"
            )
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("PRAGMA secure_delete = OFF")  # some builds overwrite what they delete
    except BaseException:
        connection.close()
        raise
    return connection


def _ranges(groups: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Contiguous ranges of sorted numbers: one for a subtask of Flink."""
    start = 0
    for index in range(1, len(groups) + 1):
        if index == len(groups) or groups[index] != groups[index - 1] + 1:
            yield groups[start], groups[index - 1]
            start = index


def _values(rows: Iterable[tuple[int, ...]]) -> Iterator[str]:
    """Integers as SQL text: one statement for many rows, as `executemany` gives the GIL away at each."""
    texts = ["(" + ",".join(map(str, map(int, row))) + ")" for row in rows]
    for start in range(0, len(texts), ROWS_PER_VALUES):
        yield ",".join(texts[start : start + ROWS_PER_VALUES])
