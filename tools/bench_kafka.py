"""How fast the Kafka store acknowledges, reads and truncates, beside a bare producer of the same bytes.

    python tools/bench_kafka.py --seconds 5 --bytes 200 --in-flight 10000

It starts a broker of its own, see tests/store/kafka_broker.py. `bare` is an idempotent producer that sends each
record as a message to one of as many partitions. `store` hands batches over and waits for nothing but room;
`busy` does the same beside a task thread that works in Python for some microseconds per record.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench_store import GROUPS, measure_busy
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from flink_agents_durable import KafkaActionStateStore
from tests.store.kafka_broker import KafkaBroker

TAIL = 100_000


@contextlib.contextmanager
def broker() -> Iterator[KafkaBroker]:
    with tempfile.TemporaryDirectory() as folder:
        started = KafkaBroker(Path(folder), java_options=())
        started.start()
        try:
            yield started
        finally:
            started.kill()


def store_at(broker: KafkaBroker, topic: str = "") -> KafkaActionStateStore:
    return KafkaActionStateStore(broker.bootstrap, topic or uuid.uuid4().hex, partitions=GROUPS)


def measure_bare(broker: KafkaBroker, seconds: float, size: int, in_flight: int) -> float:
    """Records per second of a producer alone, with at most so many records on their way."""
    topic = uuid.uuid4().hex
    (made,) = broker.admin().create_topics([NewTopic(topic, GROUPS, 1)]).values()
    made.result()
    config = {
        "bootstrap.servers": broker.bootstrap,
        "enable.idempotence": True,
        "linger.ms": 5,
        "log_level": 0,
    }
    producer = Producer({**config, "queue.buffering.max.messages": in_flight})
    body, sent = bytes(size), 0
    for group in range(GROUPS):  # connections and metadata are no part of it
        producer.produce(topic, body, partition=group)
    producer.flush()
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        try:
            producer.produce(topic, body, partition=sent % GROUPS)
            sent += 1
        except BufferError:
            producer.poll(0.001)
    delivered = sent - len(producer)
    producer.flush()
    broker.delete(topic)
    return delivered / elapsed


def measure_store(store: KafkaActionStateStore, seconds: float, size: int, in_flight: int) -> float:
    """Acknowledged records per second, in batches of one record for each key group."""
    progress = threading.Event()
    list(store.open("bench", dict.fromkeys(range(GROUPS)), progress.set))
    batch = [(group, bytes(size)) for group in range(GROUPS)]
    store.append(batch)
    store.wait_acknowledged(1, lambda limit: None)
    sent = acknowledged = 1
    begin = time.perf_counter()
    while (elapsed := time.perf_counter() - begin) < seconds:
        while (sent - acknowledged) * GROUPS < in_flight:
            store.append(batch)
            sent += 1
        progress.wait(1)
        progress.clear()
        acknowledged = store.acknowledged()
    store.close(10)
    return (acknowledged - 1) * GROUPS / elapsed


def measure_tail(broker: KafkaBroker, size: int) -> tuple[float, float]:
    """Seconds to open the store with a tail of 100,000 records and read it, and until they are truncated."""
    topic = uuid.uuid4().hex
    store = store_at(broker, topic)
    list(store.open("bench", dict.fromkeys(range(GROUPS)), lambda: None))
    batch = [(number % GROUPS, bytes(size)) for number in range(1_000)]
    for _ in range(TAIL // 1_000):
        store.append(batch)
    store.close(60)
    store = store_at(broker, topic)
    begin = time.perf_counter()
    count = len(list(store.open("bench", dict.fromkeys(range(GROUPS)), lambda: None)))
    read = time.perf_counter() - begin
    assert count == TAIL
    begin = time.perf_counter()
    positions = store.positions(0)
    store.truncate(positions)
    wanted = sum(position - 1 for position in positions.values())
    while _heads(broker, topic) < wanted:
        time.sleep(0.001)
    truncated = time.perf_counter() - begin
    store.close(10)
    return read, truncated


def _heads(broker: KafkaBroker, topic: str) -> int:
    asked = {TopicPartition(topic, group): OffsetSpec.earliest() for group in range(GROUPS)}
    return sum(answer.result().offset for answer in broker.admin().list_offsets(asked).values())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--bytes", type=int, default=200)
    parser.add_argument("--in-flight", type=int, default=10_000)
    options = parser.parse_args()
    seconds, size, in_flight = options.seconds, options.bytes, options.in_flight
    with broker() as at:
        bare = measure_bare(at, seconds, size, in_flight)
        print(f"bare     {bare:12,.0f} records/s", flush=True)
        rate = measure_store(store_at(at), seconds, size, in_flight)
        print(f"store    {rate:12,.0f} records/s, {rate / bare:.2f} of bare", flush=True)
        rate = measure_busy(store_at(at), seconds, size, in_flight)
        print(f"busy     {rate:12,.0f} records/s, {rate / bare:.2f} of bare", flush=True)
        read, truncated = measure_tail(at, size)
        print(f"tail     {read:12.2f} s to open and read {TAIL:,} records", flush=True)
        print(f"truncate {truncated:12.3f} s until the broker has dropped them", flush=True)


if __name__ == "__main__":
    main()
