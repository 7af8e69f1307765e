"""The Kafka store against the conformance suite, on a real broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from flink_agents_durable.store.kafka import KafkaActionStateStore
from tests.store.conformance import Make, StoreConformance
from tests.store.kafka_broker import KafkaBroker


class TestKafka(StoreConformance):
    @pytest.fixture
    def make(self, kafka_broker: KafkaBroker) -> Iterator[Make]:
        topic = f"conformance-{uuid.uuid4().hex}"
        yield lambda: KafkaActionStateStore(kafka_broker.bootstrap, topic, partitions=12)
        kafka_broker.delete(topic)
