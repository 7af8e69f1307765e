"""The Kafka store: its topic, its errors, and what it does when the broker does not do its part."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from flink_agents_durable import KafkaActionStateStore
from flink_agents_durable.api.errors import ConfigurationError, DurableExecutionError, StoreUnavailableError
from flink_agents_durable.store import UnknownFateError, kafka_log
from tests.store.conformance import Attempt, eventually, numbered, of
from tests.store.kafka_broker import PASSWORDS, KafkaBroker

Make = Callable[..., KafkaActionStateStore]


@pytest.fixture
def topic() -> str:
    return f"agents-{uuid.uuid4().hex}"


@pytest.fixture
def make(kafka_broker: KafkaBroker, topic: str) -> Iterator[Make]:
    def make(**arguments: Any) -> KafkaActionStateStore:
        return KafkaActionStateStore(kafka_broker.bootstrap, topic, **{"partitions": 4, **arguments})

    yield make
    kafka_broker.delete(topic)


def create(broker: KafkaBroker, topic: str, partitions: int = 4, **config: str) -> None:
    fitting = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
    values = {**fitting, **{key.replace("_", "."): value for key, value in config.items()}}
    (made,) = broker.admin().create_topics([NewTopic(topic, partitions, 1, config=values)]).values()
    made.result()


def opened(store: KafkaActionStateStore, groups: int = 4) -> Attempt:
    return Attempt(store, dict.fromkeys(range(groups)))


# -- the topic -----------------------------------------------------------------------------------------------


def test_the_topic_is_made_with_what_keeps_records(make: Make, kafka_broker: KafkaBroker, topic: str) -> None:
    opened(make()).close()
    found = kafka_broker.admin().list_topics(topic).topics[topic]
    assert len(found.partitions) == 4
    opened(make()).close()  # and then taken as it is


def test_a_topic_that_is_there_and_fits_is_used(make: Make, kafka_broker: KafkaBroker, topic: str) -> None:
    create(kafka_broker, topic, max_message_bytes="20000")
    attempt = opened(make())
    limit = attempt.store.max_record_bytes
    assert limit is not None
    assert 18_000 < limit < 20_000
    attempt.write((0, b"small"), (0, b"x" * limit), (0, b"small"), (1, b"y" * limit))
    attempt.close()
    assert of(0, opened(make()).tail) == [b"small", b"x" * limit, b"small"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"cleanup_policy": "compact"}, "cleanup.policy = compact, has to be delete"),
        ({"cleanup_policy": "compact,delete"}, "has to be delete"),
        ({"retention_ms": "604800000"}, "retention.ms = 604800000, has to be -1"),
        ({"retention_bytes": "1000000"}, "retention.bytes = 1000000, has to be -1"),
        ({"partitions": 5}, "has 5 partitions, and the agent 4 key groups"),
    ],
    ids=str,
)
def test_a_topic_that_would_lose_records_is_refused(
    make: Make, kafka_broker: KafkaBroker, topic: str, config: dict[str, Any], said: str
) -> None:
    create(kafka_broker, topic, **config)
    with pytest.raises(ConfigurationError, match="Remedy") as caught:
        opened(make())
    assert said in str(caught.value)
    assert topic in str(caught.value)


def test_p23_logs_that_share_a_topic_keep_each_other(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Truncation of one stops before the other's first message, also after a restart that reads neither."""
    one = Attempt(make(), dict.fromkeys(range(4)), "one")
    one.write((0, b"one"))
    two = Attempt(make(), dict.fromkeys(range(4)), "two")
    assert two.tail == []
    two.write((0, b"two"))
    with caplog.at_level(logging.WARNING):
        one.write((0, b"later"))
        position = one.end()
        one.store.truncate(position)
        one.write((0, b"last"))
        one.close()
    assert "another log" in caplog.text
    again = Attempt(make(), position, "one")
    assert again.tail == [(0, b"last")]
    again.store.truncate(again.end())
    again.close()
    two.close()
    two = Attempt(make(), dict.fromkeys(range(4)), "two")
    assert two.tail == [(0, b"two")]
    assert not two.store.missing
    two.close()


# -- a broker that fails -------------------------------------------------------------------------------------


def named(error: Exception, broker: KafkaBroker, topic: str) -> str:
    text = str(error)
    assert topic in text
    assert "Remedy: " in text
    assert (broker.bootstrap in text) or (broker.secure_bootstrap in text)
    for password in PASSWORDS.values():
        assert password not in text
    return text


def test_s7_case46_a_broker_that_is_down_at_start(make: Make, kafka_broker: KafkaBroker, topic: str) -> None:
    kafka_broker.kill()
    try:
        with pytest.raises(StoreUnavailableError) as caught:
            opened(make(append_timeout=1.0))
        named(caught.value, kafka_broker, topic)
        attempts: list[Attempt] = []
        thread = threading.Thread(target=lambda: attempts.append(opened(make(append_timeout=60.0))))
        thread.start()
    finally:
        kafka_broker.start()
    thread.join(60)
    (attempt,) = attempts  # it waited for the broker
    attempt.write((0, b"x"))
    attempt.close()


def test_s7_a_broker_killed_under_load_loses_and_doubles_nothing(
    make: Make, kafka_broker: KafkaBroker
) -> None:
    attempt = opened(make(append_timeout=60.0))
    records = numbered(6_000, 4)
    for start in range(0, len(records), 10):
        attempt.append(*records[start : start + 10])
        if start in (1_000, 3_000):
            eventually(lambda start=start: attempt.store.acknowledged() * 10 > start - 500)  # type: ignore[misc]
            kafka_broker.kill()
        if start in (1_500, 3_500):
            kafka_broker.start()
    eventually(lambda: attempt.store.acknowledged() == attempt.sent)
    attempt.close()
    tail = opened(make()).tail
    for group in range(4):
        assert of(group, tail) == of(group, records)


def test_p20_an_append_without_an_answer_is_of_unknown_fate(
    make: Make, kafka_broker: KafkaBroker, topic: str
) -> None:
    attempt = opened(make(append_timeout=5.0))
    attempt.write((0, b"known"))
    kafka_broker.pause()
    try:
        attempt.append((0, b"unknown"))
        failure = attempt.until_failure()
    finally:
        kafka_broker.go_on()
    assert isinstance(failure, UnknownFateError)
    assert "append-timeout" in named(failure, kafka_broker, topic)
    successor = opened(make(append_timeout=60.0))  # the broker has lost its session meanwhile
    assert of(0, successor.tail) in ([b"known"], [b"known", b"unknown"])
    successor.write((0, b"next"))
    successor.close()


def test_s10_closing_while_the_broker_does_not_answer_is_bounded(
    make: Make, kafka_broker: KafkaBroker
) -> None:
    """And its client, with a message in flight, is destroyed later: the library may free memory twice, see `_drop`."""
    attempt = opened(make())
    kafka_broker.pause()
    try:
        attempt.append((0, b"x"))
        assert attempt.store.close(4.0)
        client = kafka_log._undelivered[-1]
        assert len(client) == 1
    finally:
        kafka_broker.go_on()
    eventually(lambda: client.poll(0.1) >= 0 and not len(client))
    opened(make()).close()
    assert client not in kafka_log._undelivered


def test_s7_a_topic_that_is_deleted_under_the_job(make: Make, kafka_broker: KafkaBroker, topic: str) -> None:
    attempt = opened(make(append_timeout=5.0))
    attempt.write((0, b"x"))
    position = attempt.end()
    (deleted,) = kafka_broker.admin().delete_topics([topic]).values()
    deleted.result()
    failure: DurableExecutionError | None = None
    while failure is None:
        try:
            attempt.write((0, b"y"))
        except DurableExecutionError as error:
            failure = error
    named(failure, kafka_broker, topic)
    attempt.close()
    successor = Attempt(make(), position)  # makes the topic again, and says what that means
    assert successor.tail == []
    assert 0 in successor.store.missing
    successor.write((0, b"z"))
    successor.close()


def test_s7_a_partition_without_a_leader(make: Make, kafka_broker: KafkaBroker, topic: str) -> None:
    """Its only replica was on a broker that is gone; the other partitions are fine. Named before any input."""
    fitting = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
    with kafka_broker.second_broker():
        wanted = NewTopic(topic, 4, replica_assignment=[[1], [1], [2], [1]], config=fitting)
        (made,) = kafka_broker.admin().create_topics([wanted]).values()
        made.result()
        attempt = opened(make(append_timeout=4.0))
        attempt.write((2, b"on the second"))
        position = attempt.end()
    with pytest.raises(DurableExecutionError) as lost:
        attempt.write((2, b"nowhere"))
    named(lost.value, kafka_broker, topic)
    attempt.close()
    with pytest.raises(StoreUnavailableError, match="partition 2 has no leader") as caught:
        opened(make(append_timeout=4.0))
    named(caught.value, kafka_broker, topic)
    with kafka_broker.second_broker():
        successor = Attempt(make(), position)  # nothing was lost
        successor.write((2, b"again"))
        successor.close()


# -- security ------------------------------------------------------------------------------------------------


@pytest.fixture
def secure(kafka_broker: KafkaBroker, topic: str) -> Iterator[Make]:
    """As the user `agents`, who may do with its topic what the documentation says is needed."""
    kafka_broker.grant("agents", "agents-")

    def make(user: str = "agents", password: str | None = None, **others: str) -> KafkaActionStateStore:
        properties = {**kafka_broker.secure_properties(user, password), **others}
        return KafkaActionStateStore(
            kafka_broker.secure_bootstrap, topic, partitions=4, properties=properties, append_timeout=20.0
        )

    yield make
    kafka_broker.delete(topic)


def test_sasl_and_tls(secure: Make) -> None:
    attempt = opened(secure())
    attempt.write((0, b"x"))
    position = attempt.end()
    attempt.store.truncate(position)
    attempt.write((0, b"y"))
    attempt.close()
    assert Attempt(secure(), position).tail == [(0, b"y")]


def test_scram(secure: Make, kafka_broker: KafkaBroker) -> None:
    properties = kafka_broker.scram_properties("agents")
    attempt = opened(secure(**properties))
    attempt.write((0, b"x"))
    attempt.close()
    assert opened(secure(**properties)).tail == [(0, b"x")]
    with pytest.raises(StoreUnavailableError, match=r"sasl\.password"):
        opened(secure(**{**properties, "sasl.password": PASSWORDS["agents"]}))


def test_s7_a_wrong_password_is_told_at_once(secure: Make, kafka_broker: KafkaBroker, topic: str) -> None:
    with pytest.raises(StoreUnavailableError, match=r"sasl\.password") as caught:
        opened(secure(password="a wrong one"))
    assert "a wrong one" not in named(caught.value, kafka_broker, topic)


def test_s7_a_user_without_rights(secure: Make, kafka_broker: KafkaBroker, topic: str) -> None:
    with pytest.raises(StoreUnavailableError, match="AUTHORIZATION_FAILED") as caught:
        opened(secure("stranger"))
    named(caught.value, kafka_broker, topic)


def test_s7_an_unknown_authority(
    kafka_broker: KafkaBroker, topic: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    properties = kafka_broker.secure_properties("agents")
    del properties["ssl.ca.location"]
    store = KafkaActionStateStore(
        kafka_broker.secure_bootstrap, topic, properties=properties, append_timeout=1.0
    )
    with pytest.raises(StoreUnavailableError, match="ssl") as caught:
        opened(store)
    named(caught.value, kafka_broker, topic)


def test_secrets_are_shown_nowhere() -> None:
    store = KafkaActionStateStore("h:1", "t", properties={"sasl.password": "hidden", "ssl.key.pem": "hidden"})
    assert "hidden" not in f"{store!r} {store.settings!r} {store.settings}"
    assert "hidden" not in store.settings.redact("an error that tells hidden things")
    assert dict(pickle.loads(pickle.dumps(store)).settings.properties)["sasl.password"] == "hidden"


# -- what users set ------------------------------------------------------------------------------------------


def test_properties_of_the_store_itself_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"transactional\.id"):
        KafkaActionStateStore("h:1", "t", properties={"transactional.id": "mine"})


def test_an_unknown_property_is_named(make: Make) -> None:
    with pytest.raises(ConfigurationError, match=r"linger\.millis"):
        opened(make(properties={"linger.millis": "1"}))


def test_a_missing_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        "from flink_agents_durable import KafkaActionStateStore\n"
        "KafkaActionStateStore('h:1', 't')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "pip install 'flink-agents-durable[kafka]'" in done.stderr
