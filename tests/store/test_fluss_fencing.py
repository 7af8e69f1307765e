"""Owners of the Fluss store and those before them, and servers that are killed under them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from flink_agents_durable.api.errors import DurableExecutionError
from flink_agents_durable.store import NOTHING_TO_READ, StoreFencedError, UnknownFateError
from flink_agents_durable.store.fluss import FlussActionStateStore
from tests.store.conformance import Attempts, of
from tests.store.fluss_server import DATABASE, FlussServer
from tests.store.zombies import (
    GROUPS,
    Zombie,
    check_zombies_that_write_without_a_break,
    open_all,
    shares,
    tails_of,
)

APPEND_SECONDS = 120.0
"""Of three replicas two may be away for a moment, when a server is killed before the one before it has caught up."""


@pytest.fixture
def table() -> str:
    return f"fencing_{uuid.uuid4().hex}"


def attempts_on(server: FlussServer, table: str, replicas: int = 1) -> Attempts:
    return Attempts(
        lambda: FlussActionStateStore(
            server.bootstrap,
            DATABASE,
            table,
            buckets=len(GROUPS),
            replication_factor=replicas,
            append_timeout=APPEND_SECONDS,
        )
    )


@pytest.fixture
def attempts(fluss_server: FlussServer, table: str) -> Iterator[Attempts]:
    opened = attempts_on(fluss_server, table)
    yield opened
    opened.close()
    fluss_server.drop(table)


@pytest.mark.parametrize("parallelisms", [(3, 2), (2, 3), (1, 4)], ids=str)
def test_p21_p22_s3_zombies_of_another_parallelism_that_write_without_a_break(
    attempts: Attempts, parallelisms: tuple[int, int]
) -> None:
    check_zombies_that_write_without_a_break(attempts, *parallelisms)


@pytest.mark.parametrize("written", [True, False])
def test_s3_p23_an_owner_that_wrote_nothing_since_its_position_is_found(
    attempts: Attempts, written: bool
) -> None:
    """Also when nothing of its key groups is to be read."""
    zombie = attempts(range(6))
    if written:
        zombie.write(*((group, b"x") for group in range(6)))
    position = zombie.end()
    zombie.store.truncate(position)
    second = attempts({group: position[group] for group in range(2, 6)})
    assert second.tail == []
    assert not second.store.missing
    with pytest.raises(StoreFencedError):
        zombie.write((0, b"y"), (2, b"y"))
    third = attempts(dict.fromkeys(range(3, 5), NOTHING_TO_READ))
    with pytest.raises(StoreFencedError):
        second.write((3, b"y"), (5, b"y"))
    third.write((3, b"z"))


def test_k13_of_two_that_take_over_from_each_other_at_once_one_stays_at_most(attempts: Attempts) -> None:
    """With other key groups, some of them common."""
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


# -- servers that are killed ---------------------------------------------------------------------------------


def outcome_under_kills(attempts: Attempts, server: FlussServer, kills: int) -> None:
    """A writer under load while tablet servers are killed and started again, one at a time."""
    chance = random.Random(5)
    zombies = [Zombie(attempt, f"z{n}") for n, attempt in enumerate(open_all(attempts, shares(2)))]
    for _ in range(kills):
        reached = [zombie.acknowledged for zombie in zombies]
        for zombie, count in zip(zombies, reached, strict=True):
            zombie.await_acknowledged(count + 200, APPEND_SECONDS)
        server.restart_tablet(chance.randrange(server.tablets))
    for zombie in zombies:
        zombie.await_acknowledged(zombie.acknowledged + 200, APPEND_SECONDS)
    owners = open_all(attempts, shares(3))
    tails = tails_of(owners)
    for zombie in zombies:
        assert isinstance(zombie.end(), StoreFencedError)
        zombie.check(tails)


def test_s7_p20_a_server_killed_under_load_loses_nothing_without_a_word(
    attempts: Attempts, fluss_server: FlussServer
) -> None:
    """With one replica it forgets rows that it had acknowledged; then the attempt ends."""
    (attempt,) = open_all(attempts, [GROUPS])
    zombie = Zombie(attempt, "z")
    zombie.await_acknowledged(500)
    fluss_server.restart_tablet(0)
    zombie.await_acknowledged(zombie.acknowledged + 500)  # or until it has ended
    failure: DurableExecutionError | None = None
    if zombie.failure is None:
        tail = tails_of(open_all(attempts, [GROUPS]))
        failure = zombie.end()
        assert isinstance(failure, StoreFencedError)
        zombie.check(tail)
    else:
        assert isinstance(zombie.failure, UnknownFateError), zombie.failure
        assert "replication" in str(zombie.failure)
        tail = tails_of(open_all(attempts, [GROUPS]))
    for group in GROUPS:  # in any case what is left is a beginning of what was written
        assert tail[group] == of(group, zombie.sent)[: len(tail[group])]


@pytest.mark.slow
def test_s7_p21_p22_with_three_replicas_servers_that_are_killed_lose_nothing(
    tmp_path: Path, table: str
) -> None:
    server = FlussServer(tmp_path, tablets=3)
    try:
        server.start()
        attempts = attempts_on(server, table, replicas=3)
        try:
            outcome_under_kills(attempts, server, kills=6)
        finally:
            attempts.close()
    finally:
        server.kill()
