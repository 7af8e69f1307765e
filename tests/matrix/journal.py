"""The journal of a job in its Kafka topic, as its store wrote it: which slots are pending."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, TopicPartition

from flink_agents_durable.engine import records
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.store.kafka_messages import RECORDS, read_stamp
from flink_agents_durable.store.values import records_of

Slot = tuple[int, int]
"""Execution and slot of a run; each cell has one run."""


@dataclass
class Slots:
    reserved: set[Slot] = field(default_factory=set)
    ended: set[Slot] = field(default_factory=set)
    others: list[int] = field(default_factory=list)
    """Kinds of records that no cell should have: cuts, reopened failures."""

    @property
    def pending(self) -> int:
        return len(self.reserved - self.ended)


def read_slots(bootstrap: str, topic: str, cells: Iterable[str]) -> dict[str, Slots]:
    """By name of cell, from all records of the topic, which no checkpoint has truncated."""
    names = {encode_key(name): name for name in cells}
    found: dict[str, Slots] = defaultdict(Slots)
    for record in read_records(bootstrap, topic):
        if (name := names.get(record.key)) is None:
            continue
        slots = found[name]
        if record.kind == records.RESERVED:
            slots.reserved |= {(execution, slot) for execution, slot, *_ in record.reserved}
        elif record.kind in (records.OUTCOME, records.SYNC_OUTCOME):
            slots.ended.add((record.execution, record.slot))
        elif record.kind != records.BEGIN:
            slots.others.append(record.kind)
    return dict(found)


def read_records(bootstrap: str, topic: str) -> list[records.Record]:
    """In the order of each key. Transactions of the store stay open while it lives: they are read all the same."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "journal",
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    left = set(partitions)
    found = []
    try:
        while left:
            message = consumer.poll(30)
            if message is None:
                raise RuntimeError(f"partitions {sorted(left)} of {topic} cannot be read")
            if (error := message.error()) is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise RuntimeError(f"partition {message.partition()} of {topic} cannot be read: {error}")
                left.discard(message.partition())
                continue
            stamp = read_stamp(message.key())
            if stamp is not None and stamp.kind == RECORDS:
                found += [records.decode_record(data) for data in records_of(message.value())]
        return found
    finally:
        consumer.close()
