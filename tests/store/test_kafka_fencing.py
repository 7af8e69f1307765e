"""Owners of the Kafka store and those before them, who do not know yet that they are not owners any more."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from flink_agents_durable.store import NOTHING_TO_READ, StoreFencedError
from flink_agents_durable.store.kafka import KafkaActionStateStore
from tests.store.conformance import Attempt, Attempts, eventually, of
from tests.store.kafka_broker import KafkaBroker
from tests.store.zombies import (
    GROUPS,
    Zombie,
    check_zombies_that_write_without_a_break,
    open_all,
    shares,
    tails_of,
)

TAKEN_OVER_AGAIN_AND_AGAIN = """
import sys, threading
from flink_agents_durable.store import StoreFencedError
from flink_agents_durable.store.kafka import KafkaActionStateStore
from tests.store.conformance import Attempt
groups, seen = range(12), []
def until_fenced(attempt, count):
    try:
        while True:
            attempt.write(*((group, b"x") for group in groups[:count]))
    except Exception as error:
        seen.append(error)
old = Attempt(KafkaActionStateStore(sys.argv[1], sys.argv[2], partitions=12), dict.fromkeys(groups))
for count in (12, 2, 12, 5, 12, 3, 12, 4, 12, 12):
    writing = threading.Thread(target=until_fenced, args=(old, count))
    writing.start()
    new = Attempt(KafkaActionStateStore(sys.argv[1], sys.argv[2], partitions=12), old.store.positions(0))
    writing.join()
    assert old.store.close(30)
    old = new
assert old.store.close(30)
assert [error for error in seen if not isinstance(error, StoreFencedError)] == []
print(len(seen), "fenced")
"""


@pytest.fixture
def topic() -> str:
    return f"fencing-{uuid.uuid4().hex}"


@pytest.fixture
def attempts(kafka_broker: KafkaBroker, topic: str) -> Iterator[Attempts]:
    opened = Attempts(lambda: KafkaActionStateStore(kafka_broker.bootstrap, topic, partitions=len(GROUPS)))
    yield opened
    opened.close()
    kafka_broker.delete(topic)


@pytest.mark.parametrize("parallelisms", [(3, 2), (2, 3), (1, 4)], ids=str)
def test_p21_p22_s3_zombies_of_another_parallelism_that_write_without_a_break(
    attempts: Attempts, parallelisms: tuple[int, int]
) -> None:
    check_zombies_that_write_without_a_break(attempts, *parallelisms)


def test_p21_p22_s3_zombies_live_through_a_sigkill_of_the_broker(
    attempts: Attempts, kafka_broker: KafkaBroker
) -> None:
    zombies = [Zombie(attempt, f"z{n}") for n, attempt in enumerate(open_all(attempts, shares(3)))]
    for zombie in zombies:
        zombie.await_acknowledged(100)
    kafka_broker.restart()
    owners = open_all(attempts, shares(2))  # while the zombies connect again
    tails = tails_of(owners)
    for zombie in zombies:
        assert isinstance(zombie.end(), StoreFencedError)
        zombie.check(tails)
    for owner in owners:
        owner.close()
    later = attempts.read(GROUPS)
    for group in GROUPS:
        assert of(group, later) == tails[group]


@pytest.mark.parametrize("written", [True, False])
def test_s3_p23_an_owner_that_wrote_nothing_since_its_position_is_found(
    attempts: Attempts, kafka_broker: KafkaBroker, topic: str, written: bool
) -> None:
    """Also when all before the position is truncated, and when nothing of its key groups is to be read."""
    zombie = attempts(range(6))
    if written:
        zombie.write(*((group, b"x") for group in range(6)))
    position = zombie.end()
    zombie.store.truncate(position)
    eventually(lambda: head(kafka_broker, topic, 5) == position[5] - 1)
    second = attempts({group: position[group] for group in range(2, 6)})
    assert second.tail == []
    assert not second.store.missing
    with pytest.raises(StoreFencedError):
        zombie.write((0, b"y"))
    third = attempts(dict.fromkeys(range(3, 5), NOTHING_TO_READ))
    with pytest.raises(StoreFencedError):
        second.write((5, b"y"))
    third.write((3, b"z"))


def test_s3_the_process_survives_that_its_attempts_are_fenced_while_they_write(
    kafka_broker: KafkaBroker, topic: str
) -> None:
    """The client library once freed memory twice, and with its first error nobody knew that they were fenced."""
    ended = subprocess.run(
        [sys.executable, "-c", TAKEN_OVER_AGAIN_AND_AGAIN, kafka_broker.bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=120,
    )
    kafka_broker.delete(topic)
    assert (ended.returncode, ended.stdout) == (0, "10 fenced\n"), ended.stderr[-2000:]


def head(broker: KafkaBroker, topic: str, group: int) -> int:
    asked = {TopicPartition(topic, group): OffsetSpec.earliest()}
    (answer,) = broker.admin().list_offsets(asked).values()
    return int(answer.result().offset)


def test_k13_of_two_that_take_over_from_each_other_at_once_one_stays_at_most(attempts: Attempts) -> None:
    """With other key groups: neither finds the other by its own transactional id."""
    for number in range(4):
        owned = [range(number, number + 4), range(number + 2, number + 6)]
        writers = []
        for attempt in open_all(attempts, owned, rivals=True):
            try:
                attempt.write((number + 2, b"%d" % number))
                writers.append(attempt)
            except StoreFencedError:
                pass
        assert len(writers) <= 1
        assert of(number + 2, attempts.read(GROUPS)).count(b"%d" % number) == len(writers)


def test_p22_transactions_are_replaced_while_the_task_thread_does_nothing(
    kafka_broker: KafkaBroker, topic: str
) -> None:
    """The broker ends transactions after 2 s, and with them whoever had let one grow as old."""
    properties = {"transaction.timeout.ms": "2000"}
    store = KafkaActionStateStore(kafka_broker.bootstrap, topic, partitions=2, properties=properties)
    attempt = Attempt(store, dict.fromkeys(range(2)))
    admin = kafka_broker.admin()

    def committed() -> int:
        asked = {TopicPartition(topic, 0): OffsetSpec.latest()}
        (answer,) = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED).values()
        return int(answer.result().offset)

    for number in range(6):
        attempt.write((0, b"%d" % number))
        end = attempt.end()[0]
        eventually(lambda end=end: committed() >= end)  # type: ignore[misc]
    attempt.close()
    successor = Attempt(
        KafkaActionStateStore(kafka_broker.bootstrap, topic, partitions=2), {0: None, 1: None}
    )
    assert of(0, successor.tail) == [b"%d" % number for number in range(6)]
    successor.close()
