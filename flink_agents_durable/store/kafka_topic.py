"""The topic of the Kafka store: made when it is absent, and refused when it would lose records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.store.kafka_client import KafkaSettings, library
from flink_agents_durable.store.kafka_errors import error_of

SEGMENT_BYTES = 16 * 1024 * 1024
"""Of a topic that we make. Truncation frees whole segments only, so that each partition keeps up to one."""

REQUEST_SECONDS = 5.0
"""Of one request. Bounds how long the task thread cannot be interrupted while it opens the store."""

_REQUIRED = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


@dataclass(frozen=True)
class Topic:
    """What is known of the topic once it is found fit."""

    max_message_bytes: int


class NotReadyError(Exception):
    """The topic is not usable yet; its argument is a KafkaError that says why."""


def ensure_topic(admin: Any, settings: KafkaSettings, found: Any) -> Topic:
    """Make the topic if it was not found, and check it.

    Raises KafkaException or NotReadyError for what may pass, and ConfigurationError for a topic with which
    records would be lost.
    """
    kafka = library()
    if found.error is not None and found.error.code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
        _create(admin, settings)
        raise NotReadyError(
            kafka.KafkaError(kafka.KafkaError.LEADER_NOT_AVAILABLE, "the topic is being made")
        )
    if found.error is not None:
        raise NotReadyError(found.error)
    _check_partitions(found, settings)
    values = _configuration(admin, settings)
    wrong = [
        f"{key} = {values[key]}, has to be {value}"
        for key, value in _REQUIRED.items()
        if values[key] != value
    ]
    if wrong:
        raise ConfigurationError(
            f"the topic {settings.topic!r} at {settings.bootstrap_servers} would lose records of the action "
            f"state store: {'; '.join(wrong)}. Remedy: alter the topic, or leave it to the store to make one "
            "(agents.store.kafka.topic)"
        )
    return Topic(min(int(values["max.message.bytes"]), int(values["segment.bytes"])))


def _create(admin: Any, settings: KafkaSettings) -> None:
    kafka = library()
    topic = kafka.admin.NewTopic(
        settings.topic,
        num_partitions=settings.partitions,
        replication_factor=settings.replication_factor or -1,
        config={**_REQUIRED, "segment.bytes": str(SEGMENT_BYTES), "unclean.leader.election.enable": "false"},
    )
    (future,) = admin.create_topics([topic], request_timeout=REQUEST_SECONDS).values()
    try:
        future.result()
    except kafka.KafkaException as exception:
        if error_of(exception).code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:  # by another subtask
            raise


def _check_partitions(found: Any, settings: KafkaSettings) -> None:
    kafka = library()
    if len(found.partitions) != settings.partitions:
        raise ConfigurationError(
            f"the topic {settings.topic!r} at {settings.bootstrap_servers} has {len(found.partitions)} "
            f"partitions, and the agent {settings.partitions} key groups (its max parallelism). Remedy: "
            "another topic (agents.store.kafka.topic), or the max parallelism that the topic was made for"
        )
    for number, partition in found.partitions.items():
        if partition.error is not None or partition.leader < 0:
            error = partition.error or kafka.KafkaError(kafka.KafkaError.LEADER_NOT_AVAILABLE)
            raise NotReadyError(
                kafka.KafkaError(error.code(), f"partition {number} has no leader ({error.str()})")
            )


def _configuration(admin: Any, settings: KafkaSettings) -> dict[str, str]:
    kafka = library()
    resource = kafka.admin.ConfigResource(kafka.admin.ConfigResource.Type.TOPIC, settings.topic)
    (future,) = admin.describe_configs([resource], request_timeout=REQUEST_SECONDS).values()
    return {key: entry.value for key, entry in future.result().items()}
