"""The action state store of a cluster that has Apache Fluss: a log table with one bucket per key group."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping

from flink_agents_durable.store.fluss_client import FlussSettings, library
from flink_agents_durable.store.fluss_errors import is_hopeless, reason_of, unavailable, waitable
from flink_agents_durable.store.fluss_log import FlussLog
from flink_agents_durable.store.fluss_table import replicas
from flink_agents_durable.store.frame import LogStore, later
from flink_agents_durable.store.protocol import Record, StoreFencedError, UnknownFateError
from flink_agents_durable.store.writer import GroupCommitWriter

_logger = logging.getLogger(__name__)

MAX_RECORD_BYTES = 8_000_000
"""Below the 10 MiB of a request of the library, with what a row has beside its record."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between tries to open. A server that starts takes seconds, a table's buckets up to a few."""


class FlussActionStateStore(LogStore[FlussLog, dict[int, int]]):
    """Every acknowledged record is on the in-sync replicas of its bucket.

    The table has as many buckets as the job has key groups (its max parallelism); database and table are made when
    they are absent. Several logs may share it: they are told apart by their ids. `properties` are those of pyfluss.
    """

    name = "fluss"
    durable = True
    max_record_bytes: int | None = MAX_RECORD_BYTES

    def __init__(
        self,
        bootstrap_servers: str,
        database: str,
        table: str,
        *,
        buckets: int = 128,
        replication_factor: int | None = None,
        properties: Mapping[str, str] | None = None,
        append_timeout: float = 30.0,
    ) -> None:
        super().__init__()
        library()
        self.settings = FlussSettings(
            bootstrap_servers,
            database,
            table,
            buckets,
            replication_factor,
            dict(properties or {}),
            append_timeout,
        )

    def open(
        self,
        log_id: str,
        positions: Mapping[int, int | None],
        on_ack: Callable[[], None],
        wait: Callable[[float], None] = time.sleep,
    ) -> Iterator[Record]:
        self._check_unopened()
        self._log = log = self._open_log(log_id, positions, wait)
        self._report_missing(str(self.settings), "the table is not the one it was written with")
        if 0 in positions and replicas(log.info) == 1:
            _logger.warning(
                "The action state store fluss, %s, keeps one replica. When its server is killed, rows of the last "
                "seconds that were acknowledged may be gone (it forgets what lies behind the high watermark that "
                "it has saved, every 5 s by default), and their calls run again. With three replicas none was lost. "
                "Remedy: agents.store.fluss.replication-factor = 3, for a table that is made.",
                self.settings,
            )
        return self._then_write(
            log.tail(),
            lambda: GroupCommitWriter(log, log.end, on_ack, "action-state-store-fluss", later),
        )

    def positions(self, batches: int) -> Mapping[int, int]:
        """One more than the offset of a row of this attempt that counts, for each key group. Keeps P4."""
        return self._started().position(batches)

    def __reduce__(self) -> tuple[Callable[..., FlussActionStateStore], tuple[FlussSettings]]:
        return (_rebuild, (self.settings,))

    def __repr__(self) -> str:
        return f"FlussActionStateStore({self.settings})"

    def _open_log(
        self, log_id: str, positions: Mapping[int, int | None], wait: Callable[[float], None]
    ) -> FlussLog:
        """Try until it works, the time is over, or the reason is one that does not pass. Keeps S7.

        An attempt that is fenced while it opens tries again: of several the last to finish is the owner.
        """
        deadline = time.monotonic() + self.settings.append_timeout
        pause = FIRST_PAUSE
        passing: tuple[type[Exception], ...] = (*waitable(), UnknownFateError)
        while True:
            log = FlussLog(self.settings, log_id, positions)
            try:
                log.open(wait)
                return log
            except StoreFencedError:
                log.close()
                if time.monotonic() >= deadline:
                    raise
            except passing as error:
                log.close()
                if is_hopeless(error) or time.monotonic() >= deadline:
                    raise unavailable(self.settings, "cannot be opened", error) from None
                reason = self.settings.redact(reason_of(error))
                _logger.debug("Cannot open the action state store fluss, %s, yet: %s", self.settings, reason)
            except BaseException:
                log.close()
                raise
            wait(pause * (1 + random.random()))
            pause = min(pause * 2, LONGEST_PAUSE)


def _rebuild(settings: FlussSettings) -> FlussActionStateStore:
    return FlussActionStateStore(
        settings.bootstrap_servers,
        settings.database,
        settings.table,
        buckets=settings.buckets,
        replication_factor=settings.replication_factor,
        properties=settings.properties,
        append_timeout=settings.append_timeout,
    )
