"""P19 under the simulator: every mutant of it is seen, and the engine as it is passes the same schedules."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.simulation import retry_mutants
from tests.simulation.mutants import Mutant
from tests.simulation.test_protocol import caught

SEEN: list[tuple[Mutant, list[str], int]] = [
    (retry_mutants.p19_a_failed_attempt_leaves_the_doubt, ["retrying"], 50),
    (retry_mutants.p19_attempts_are_forgotten, ["retrying"], 50),
    (retry_mutants.p19_one_doubt_for_all_attempts, ["retrying"], 50),
    (retry_mutants.p19_kills_are_counted, ["retrying"], 50),
    (retry_mutants.p19_one_attempt_too_many, ["retrying"], 50),
    (retry_mutants.p14_the_count_outlives_a_reopening, ["retrying_uncaught"], 50),
    (retry_mutants.p13_attempts_outlive_a_cut, ["retrying_versions"], 700),
    (retry_mutants.f11_places_are_kept, ["retrying_uncaught"], 50),
    (retry_mutants.p3_back_off_before_the_ack, ["retrying"], 50),
    (retry_mutants.f8_a_back_off_outlives_its_batch, ["retrying_batch"], 50),
]


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    ("mutant", "agents", "schedules"),
    [pytest.param(mutant, agents, n, id=mutant.__name__) for mutant, agents, n in SEEN],
)
def test_p19_a_rule_of_retries_that_is_left_out_is_seen(
    mutant: Mutant, agents: list[str], schedules: int
) -> None:
    assert caught(mutant, agents, schedules) <= schedules
