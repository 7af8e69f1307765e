"""How the Kafka store reaches its cluster: settings, clients, and the library that is an extra."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.store.client_properties import redact, refuse_own

_logger = logging.getLogger(__name__)

TRANSACTION_TIMEOUT_MILLIS = 300_000
"""The broker ends a transaction that is older, and with it the attempt. Above every pause from which a task
comes back (collections, a stopped machine), below the 15 minutes that a broker allows by default."""

BATCH_BYTES = 1_000_000
"""librdkafka's default. A batch is never larger than the topic's limit, or the small messages in it would
fail together with a large one."""

OWN_PROPERTIES = frozenset(
    {
        "bootstrap.servers",
        "transactional.id",
        "enable.idempotence",
        "enable.gapless.guarantee",
        "acks",
        "request.required.acks",
        "delivery.timeout.ms",
        "message.timeout.ms",
        "isolation.level",
        "auto.offset.reset",
        "enable.auto.commit",
        "enable.partition.eof",
        "message.max.bytes",
    }
)
"""What the store sets itself, because its guarantees depend on it."""

_SECRET = re.compile(r"password|secret|\.pem|\.key$|jaas|token|oauthbearer\.config|credential", re.IGNORECASE)


@dataclass(frozen=True)
class KafkaSettings:
    """Where the log is. Its text shows no values of properties, among which are secrets."""

    bootstrap_servers: str
    topic: str
    partitions: int
    replication_factor: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    append_timeout: float = 30.0

    def __post_init__(self) -> None:
        refuse_own("kafka", OWN_PROPERTIES, self.properties)

    def __str__(self) -> str:
        return f"topic {self.topic!r} at {self.bootstrap_servers}"

    def redact(self, text: str) -> str:
        """The text without values that may be secrets."""
        return redact(text, self.properties, _SECRET)

    @property
    def transaction_timeout_millis(self) -> int:
        return int(self.properties.get("transaction.timeout.ms", TRANSACTION_TIMEOUT_MILLIS))

    def common(self, on_error: Callable[[Any], None]) -> dict[str, Any]:
        return {
            "client.id": "flink-agents-durable",
            "log_level": 2,  # errors come through on_error, what is worse also through the logger
            **self.properties,
            "bootstrap.servers": self.bootstrap_servers,
            "error_cb": on_error,
        }

    def producer(self, transactional_id: str, max_message_bytes: int) -> dict[str, Any]:
        timeout = min(int(self.append_timeout * 1000), self.transaction_timeout_millis)
        return {
            "linger.ms": 0,  # the records of a moment are in one message already
            "transaction.timeout.ms": self.transaction_timeout_millis,
            "batch.size": min(BATCH_BYTES, max_message_bytes),
            "transactional.id": transactional_id,
            "delivery.timeout.ms": max(1, timeout),
            "message.max.bytes": max(1_000, max_message_bytes),
        }

    def consumer(self) -> dict[str, Any]:
        return {
            "group.id": f"{self.topic}.reader",  # librdkafka wants one; the store joins and commits to none
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            # The first fetch has only some of the partitions; the others wait for its answer, 500 ms by default.
            "fetch.wait.max.ms": 10,
        }


def library() -> Any:
    """The module confluent_kafka, or an error that says how to get it."""
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError as error:
        raise ConfigurationError(
            "the action state store kafka needs the package confluent-kafka, also on the task managers "
            f"({error}). Remedy: pip install 'flink-agents-durable[kafka]'"
        ) from error
    return confluent_kafka


class Clients:
    """Makes clients, and remembers the last error that any of them reported."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.last_error: Any = None
        self._library = library()

    def on_error(self, error: Any) -> None:
        """Called by librdkafka in `poll` and `flush`; it tries again by itself unless the error is fatal."""
        if error.code() != self._library.KafkaError._ALL_BROKERS_DOWN or self.last_error is None:
            self.last_error = error

    def producer(self, transactional_id: str, max_message_bytes: int) -> Any:
        config = self.settings.producer(transactional_id, max_message_bytes)
        return self._make(self._library.Producer, {**config, **self._common()})

    def consumer(self) -> Any:
        return self._make(self._library.Consumer, {**self._common(), **self.settings.consumer()})

    def admin(self) -> Any:
        return self._make(self._library.admin.AdminClient, self._common())

    def _common(self) -> dict[str, Any]:
        return self.settings.common(self.on_error)

    def _make(self, kind: Any, config: dict[str, Any]) -> Any:
        try:
            return kind(config, logger=_logger)  # without one librdkafka writes to stderr
        except (self._library.KafkaException, ValueError, TypeError) as error:
            reason = error.args[0] if error.args else error
            text = reason.str() if hasattr(reason, "str") else str(reason)
            raise ConfigurationError(
                self.settings.redact(
                    f"the action state store kafka cannot be set up: {text}. Remedy: see "
                    "agents.store.kafka.properties.*, which are properties of librdkafka"
                )
            ) from None
