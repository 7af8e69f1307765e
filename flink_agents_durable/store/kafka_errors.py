"""What an error of Kafka means for an attempt, and what a user can do about it."""

from __future__ import annotations

from typing import Any

from flink_agents_durable.api.errors import DurableExecutionError, StoreUnavailableError
from flink_agents_durable.store.kafka_client import KafkaSettings, library
from flink_agents_durable.store.protocol import StoreFencedError, UnknownFateError

_FENCED = (
    "_FENCED",
    "INVALID_PRODUCER_EPOCH",
    "PRODUCER_FENCED",
    "INVALID_PRODUCER_ID_MAPPING",
    "UNKNOWN_PRODUCER_ID",
)
_REFUSED = (
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "ILLEGAL_SASL_STATE",
    "TOPIC_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "INVALID_TRANSACTION_TIMEOUT",
    "INVALID_REPLICATION_FACTOR",
    "INVALID_TOPIC_EXCEPTION",
    "INVALID_CONFIG",
    "INVALID_PARTITIONS",
    "POLICY_VIOLATION",
    "UNSUPPORTED_VERSION",
    "_UNSUPPORTED_FEATURE",
)

_REMEDIES = {
    "TOPIC_AUTHORIZATION_FAILED": "let its user Describe, DescribeConfigs, Read, Write and Delete the topic, "
    "and Create it unless it exists",
    "CLUSTER_AUTHORIZATION_FAILED": "create the topic beforehand, or let its user Create it",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "let its user Describe and Write the transactional ids that "
    "begin with the name of the topic",
    "INVALID_TRANSACTION_TIMEOUT": "set agents.store.kafka.properties.transaction.timeout.ms to at most the "
    "transaction.max.timeout.ms of the broker",
    "INVALID_REPLICATION_FACTOR": "set agents.store.kafka.replication-factor to at most the number of brokers",
    "NOT_ENOUGH_REPLICAS": "start the missing brokers, or lower min.insync.replicas of the topic",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "start the missing brokers, or lower min.insync.replicas of the topic",
    "MSG_SIZE_TOO_LARGE": "the max.message.bytes of the topic was lowered under the running job; restart it",
    "UNKNOWN_TOPIC_OR_PART": "the topic was deleted; the restart creates it again, and what it held is lost",
}
for _name in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"):
    _REMEDIES[_name] = (
        "see sasl.username, sasl.password and sasl.mechanism in agents.store.kafka.properties.*"
    )
for _name in ("_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION"):
    _REMEDIES[_name] = _REMEDIES["UNKNOWN_TOPIC_OR_PART"]
_REMEDIES["_SSL"] = "see security.protocol and ssl.* in agents.store.kafka.properties.*"
_REMEDY = "see that the brokers at agents.store.kafka.bootstrap-servers run and can be reached from here"


def error_of(exception: Any) -> Any:
    """The KafkaError in a KafkaException."""
    return exception.args[0]


def is_fenced(error: Any) -> bool:
    return error.name() in _FENCED or (
        # A fatal error is told a second time as _FATAL, with the first one only in its text.
        error.name() in ("_FATAL", "_STATE") and "fenced" in error.str().lower()
    )


def is_hopeless(error: Any) -> bool:
    """Trying again does not help: somebody has to change something first."""
    return error.name() in _REFUSED


def unavailable(settings: KafkaSettings, what: str, error: Any) -> StoreUnavailableError:
    """`what` is what could not be done; the error is a KafkaError."""
    remedy = _REMEDIES.get(error.name(), _REMEDY)
    text = (
        f"the action state store kafka, {settings}, {what}: {error.name()}: {error.str()}. Remedy: {remedy}"
    )
    return StoreUnavailableError(settings.redact(text))


def append_failed(settings: KafkaSettings, error: Any, last_error: Any) -> DurableExecutionError:
    """What ends the attempt after an append or a commit that failed. Keeps P20, P22, S7."""
    if is_fenced(error):
        return StoreFencedError(
            f"another attempt has taken over key groups of this subtask in the action state store kafka, "
            f"{settings} ({error.name()})"
        )
    if is_hopeless(error) or error.name() in (
        "_UNKNOWN_TOPIC",
        "_UNKNOWN_PARTITION",
        "UNKNOWN_TOPIC_OR_PART",
    ):
        return unavailable(settings, "takes no records", error)
    cause = f"; last: {last_error.name()}: {last_error.str()}" if last_error is not None else ""
    remedy = _REMEDIES.get(error.name(), _REMEDY)
    return UnknownFateError(
        settings.redact(
            f"an append to the action state store kafka, {settings}, was not acknowledged within "
            f"agents.store.append-timeout ({settings.append_timeout:g} s; {error.name()}: {error.str()}{cause}); "
            f"whether it was written is seen when the next attempt reads the log. Remedy: {remedy}"
        )
    )


def timed_out() -> Any:
    """For a time limit of our own."""
    kafka = library()
    return kafka.KafkaError(kafka.KafkaError._TIMED_OUT, "no answer in time")
