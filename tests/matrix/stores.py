"""The stores on which the matrix runs: what a job has to be told, and what it has written."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, TopicPartition

from flink_agents_durable.engine.records import Record, decode_record
from flink_agents_durable.store import fluss_rows, kafka_messages
from flink_agents_durable.store.fluss_client import FlussSettings
from flink_agents_durable.store.fluss_session import Session
from flink_agents_durable.store.values import records_of
from tests.store.fluss_server import DATABASE, FlussServer
from tests.store.kafka_broker import KafkaBroker


class Store(Protocol):
    def options(self, journal: str) -> dict[str, str]:
        """Of a job whose journal has this name."""

    def read(self, journal: str, groups: int) -> list[Record]:
        """All that is in it, in the order of each key."""


class OnKafka:
    def __init__(self, broker: KafkaBroker) -> None:
        self._broker = broker

    def options(self, journal: str) -> dict[str, str]:
        return {
            "agents.store.type": "kafka",
            "agents.store.kafka.bootstrap-servers": self._broker.bootstrap,
            "agents.store.kafka.topic": journal,
        }

    def read(self, journal: str, groups: int) -> list[Record]:
        """Transactions of the store stay open while it lives: they are read all the same."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap,
                "group.id": "journal",
                "isolation.level": "read_uncommitted",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        left = set(range(groups))
        consumer.assign([TopicPartition(journal, number, 0) for number in left])
        found = []
        try:
            while left:
                message = consumer.poll(30)
                if message is None:
                    raise RuntimeError(f"partitions {sorted(left)} of {journal} cannot be read")
                if (error := message.error()) is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise RuntimeError(
                            f"partition {message.partition()} of {journal} cannot be read: {error}"
                        )
                    left.discard(message.partition())
                    continue
                stamp = kafka_messages.read_stamp(message.key())
                if stamp is not None and stamp.kind == kafka_messages.RECORDS:
                    found += [decode_record(data) for data in records_of(message.value())]
            return found
        finally:
            consumer.close()


class OnFluss:
    def __init__(self, server: FlussServer) -> None:
        self._server = server

    def options(self, journal: str) -> dict[str, str]:
        return self._server.options(journal)

    def read(self, journal: str, groups: int) -> list[Record]:
        """Without what older attempts have written behind the claims of later ones."""
        settings = FlussSettings(self._server.bootstrap, DATABASE, journal, groups)
        return asyncio.run(_read(settings))


async def _read(settings: FlussSettings) -> list[Record]:
    session = await Session.connect(settings)
    groups = range(settings.buckets)
    ends = await session.ends(groups)
    reader = await session.reader(await session.heads(groups), values=True)
    buckets: defaultdict[int, fluss_rows.Bucket] = defaultdict(fluss_rows.Bucket)
    found: list[Record] = []
    while any(reader.reached[group] < end for group, end in ends.items()):
        for group, offset, data, value in await reader.poll():
            stamp = fluss_rows.read_stamp(data)
            if stamp is None or not buckets[group].counts(offset, stamp) or value is None:
                continue
            if stamp.kind == fluss_rows.RECORDS:
                found += [decode_record(record) for record in records_of(value)]
    await session.close()
    return found


@contextlib.contextmanager
def own_store(name: str, folder: Path) -> Iterator[Store]:
    """With a server of its own."""
    if name == "fluss":
        server = FlussServer(folder)
        try:
            server.start()
            yield OnFluss(server)
        finally:
            server.kill()
        return
    broker = KafkaBroker(folder)
    try:
        broker.start()
        yield OnKafka(broker)
    finally:
        broker.kill()
