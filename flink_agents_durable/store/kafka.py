"""The action state store of a cluster: a Kafka topic with one partition per key group."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flink_agents_durable.store.frame import LogStore, later
from flink_agents_durable.store.kafka_client import Clients, KafkaSettings, library
from flink_agents_durable.store.kafka_errors import error_of, is_hopeless, unavailable
from flink_agents_durable.store.kafka_log import KafkaLog
from flink_agents_durable.store.kafka_topic import NotReadyError
from flink_agents_durable.store.protocol import Record, StoreFencedError
from flink_agents_durable.store.writer import GroupCommitWriter

_logger = logging.getLogger(__name__)

DEFAULT_MAX_RECORD_BYTES = 1_000_000
"""Until the topic has been asked: below what a broker takes by default."""

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between tries to open. A broker that starts takes seconds."""


class KafkaActionStateStore(LogStore[KafkaLog, dict[int, int]]):
    """Every acknowledged record is on the in-sync replicas of its partition.

    The topic has as many partitions as the job has key groups (its max parallelism); it is made when it is
    absent. Several logs may share it: they are told apart by their ids, but what is older than another log's
    messages is not truncated, so that a topic for each job is better. `properties` are those of librdkafka.
    """

    name = "kafka"
    durable = True

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        partitions: int = 128,
        replication_factor: int | None = None,
        properties: Mapping[str, str] | None = None,
        append_timeout: float = 30.0,
    ) -> None:
        super().__init__()
        library()
        self.settings = KafkaSettings(
            bootstrap_servers, topic, partitions, replication_factor, dict(properties or {}), append_timeout
        )

    @property
    def max_record_bytes(self) -> int | None:
        """By the max.message.bytes of the topic, known after `open`."""
        return self._log.max_record_bytes if self._log is not None else DEFAULT_MAX_RECORD_BYTES

    def open(
        self,
        log_id: str,
        positions: Mapping[int, int | None],
        on_ack: Callable[[], None],
        wait: Callable[[float], None] = time.sleep,
    ) -> Iterator[Record]:
        self._check_unopened()
        self._log = log = self._open_log(log_id, positions, wait)
        self._report_missing(str(self.settings), "the topic is not the one it was written with")
        return self._then_write(
            log.tail(),
            lambda: GroupCommitWriter(log, log.end, on_ack, "action-state-store-kafka", later),
        )

    def positions(self, batches: int) -> Mapping[int, int]:
        """One more than the offset of a message of this attempt, for each key group. Keeps P4."""
        return self._started().position(batches)

    def __reduce__(self) -> tuple[Callable[..., KafkaActionStateStore], tuple[KafkaSettings]]:
        return (_rebuild, (self.settings,))

    def __repr__(self) -> str:
        return f"KafkaActionStateStore({self.settings})"

    def _open_log(
        self, log_id: str, positions: Mapping[int, int | None], wait: Callable[[float], None]
    ) -> KafkaLog:
        """Try until it works, the time is over, or the reason is one that does not pass. Keeps S7.

        An attempt that is fenced while it opens tries again: of several the last to finish is the owner.
        """
        kafka = library()
        deadline = time.monotonic() + self.settings.append_timeout
        pause = FIRST_PAUSE
        while True:
            clients = Clients(self.settings)
            log = KafkaLog(clients, log_id, positions)
            try:
                log.open(deadline, wait)
                return log
            except (kafka.KafkaException, NotReadyError) as exception:
                log.abandon()
                error = _more_telling(error_of(exception), clients.last_error)
                if is_hopeless(error) or time.monotonic() >= deadline:
                    raise unavailable(self.settings, "cannot be opened", error) from None
                _logger.debug("Cannot open the action state store kafka, %s, yet: %s", self.settings, error)
            except StoreFencedError:
                log.abandon()
                if time.monotonic() >= deadline:
                    raise
            except BaseException:
                log.abandon()
                raise
            wait(pause * (1 + random.random()))
            pause = min(pause * 2, LONGEST_PAUSE)


def _more_telling(error: Any, last_error: Any) -> Any:
    """A request that found no connection says only that its time is over; the connection says why."""
    vague = ("_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "REQUEST_TIMED_OUT")
    return last_error if last_error is not None and error.name() in vague else error


def _rebuild(settings: KafkaSettings) -> KafkaActionStateStore:
    return KafkaActionStateStore(
        settings.bootstrap_servers,
        settings.topic,
        partitions=settings.partitions,
        replication_factor=settings.replication_factor,
        properties=settings.properties,
        append_timeout=settings.append_timeout,
    )
