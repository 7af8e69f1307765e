"""The rules of the recovery protocol: the simulator sees when the engine leaves one out, and is content otherwise."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from flink_agents_durable.testing.simulation import Violation
from tests.simulation import mutants
from tests.simulation.histories import run_history
from tests.simulation.mutants import Mutant


@pytest.fixture(autouse=True)
def _silence() -> Iterator[None]:
    """Failures and mismatches are what these histories are made of: their log lines would fill the report."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def caught(mutant: Mutant, agents: list[str], schedules: int) -> int:
    """How many schedules it takes until the simulator sees the mutant; fails if it does not.

    The engine as it is passes the same schedules.
    """
    for place in range(schedules):
        name, seed = agents[place % len(agents)], place // len(agents)
        with pytest.MonkeyPatch.context() as patch:
            mutant(patch)
            try:
                run_history(name, seed)
            except Violation:
                break
            except Exception:  # the engine itself fell over what the mutant did
                break
    else:
        pytest.fail(f"{mutant.__name__} was not seen within {schedules} schedules of {agents}")
    for before in range(place + 1):
        run_history(agents[before % len(agents)], before // len(agents))
    return place + 1


SEEN: list[tuple[str, Mutant, list[str], int]] = [
    # rule, engine without it, agents, schedules that suffice
    ("P1", mutants.p1_order_by_execution, ["events"], 100),
    ("P2", mutants.p2_ids_by_counting, ["twins"], 100),
    ("P2", mutants.p2_ids_without_place, ["twins"], 50),
    ("P2", mutants.p2_random_uuid, ["sequence"], 100),
    ("P3", mutants.p3_deliver_before_the_ack, ["sequence"], 50),
    ("P4", mutants.p4_position_is_the_end, ["sequence"], 100),
    ("P5", mutants.p5_tail_does_not_make_dirty, ["sequence"], 100),
    ("P6", mutants.p6_unclaimed_not_in_snapshots, ["sequence"], 200),
    ("P7", mutants.p7_claim_by_arrival, ["sequence"], 100),
    ("P7", mutants.p7_number_of_another, ["sequence"], 200),
    ("P8", mutants.p8_tail_counts_again, ["versions", "failing"], 500),
    ("P8", mutants.p8_stale_records_stay, ["race", "wait_for"], 300),
    ("P8", mutants.p8_tail_goes_on_after_a_gap, ["lossy"], 2000),
    ("P9", mutants.p9_calls_start_during_replay, ["race"], 50),
    ("P10", mutants.p10_start_before_pending, ["batch"], 100),
    ("P11", mutants.p11_timers_without_record, ["race"], 100),
    ("P12", mutants.p12_time_of_the_clock, ["sequence"], 100),
    ("P13", mutants.p13_no_cut_record, ["versions"], 100),
    ("P14", mutants.p14_no_reopen_record, ["failing"], 50),
    ("P15", mutants.p15_dispatched_events_outlive_a_rollback, ["sequence"], 100),
    ("P15", mutants.p15_dispatched_events_are_forgotten, ["sequence"], 100),
    ("P15", mutants.p15_dead_letters_outlive_a_rollback, ["giving_up"], 100),
    ("P16", mutants.p16_memory_without_versions, ["two_actions", "events"], 200),
    ("P17", mutants.p17_synchronous_outcomes_wait_for_their_turn, ["synchronous"], 100),
    ("P18", mutants.p18_end_of_a_batch_without_record, ["batch_timeout"], 50),
    ("P18", mutants.p18_end_of_a_batch_without_its_calls, ["batch_timeout"], 50),
    ("P20", mutants.p20_refusals_are_not_recorded, ["big_results"], 100),
    ("P20", mutants.p20_unknown_fate_is_a_failure, ["swallowing"], 400),
    ("P21", mutants.p21_read_before_the_fence, ["sequence"], 100),
    ("P22", mutants.p22_zombies_append, ["batch"], 400),
    ("P23", mutants.p23_cut_to_the_newest, ["sequence"], 200),
    ("P23", mutants.p23_cut_when_taken, ["sequence"], 50),
    ("P24", mutants.p24_timers_end_with_the_attempt, ["sleeping"], 50),
    ("P24", mutants.p24_only_the_first_timer, ["sleeping"], 50),
    ("P25", mutants.p25_judged_by_the_clock, ["forgetful"], 200),
    ("P25", mutants.p25_the_sweep_takes_what_a_replay_reads, ["forgetful"], 400),
    ("P25", mutants.p25_numbers_start_anew, ["forgetful"], 300),
]

FOUND: list[tuple[Mutant, list[str], int]] = [
    (mutants.d5_as_completed_through_a_set, ["generated"], 300),
    (mutants.f8_batch_that_was_given_up, ["joined"], 50),
    (mutants.p14_deadlines_of_earlier_steps, ["late_timeout"], 100),
    (mutants.l2_new_ids_in_a_fork, ["forked"], 200),
    (mutants.p17_synchronous_outcomes_are_applied_late, ["synchronous", "swallowing"], 1000),
    (mutants.p13_voided_before_the_cut, ["versions"], 1000),
    (mutants.p8_records_behind_a_gap, ["lossy"], 1000),
]

MADE_UP: list[tuple[Mutant, list[str], int]] = [
    (mutants.d3_arguments_are_not_compared, ["versions"], 50),
    (mutants.i2_interruptions_are_recorded, ["sequence"], 400),
    (mutants.l3_ended_executions_are_forgotten, ["events"], 50),
    (mutants.p16_memory_before_the_end, ["events"], 50),
    (mutants.s5_tail_of_one_key_group, ["sequence"], 50),
]


@pytest.mark.parametrize(
    ("mutant", "agents", "schedules"),
    [pytest.param(mutant, agents, n, id=f"{rule}-{mutant.__name__}") for rule, mutant, agents, n in SEEN],
)
def test_a_rule_that_is_left_out_is_seen(mutant: Mutant, agents: list[str], schedules: int) -> None:
    """Each of P1 to P18 and P20 to P25."""
    assert caught(mutant, agents, schedules) <= schedules


@pytest.mark.parametrize(
    ("mutant", "agents", "schedules"),
    [pytest.param(mutant, agents, n, id=mutant.__name__) for mutant, agents, n in FOUND],
)
def test_a_fault_that_was_found_is_seen_again(mutant: Mutant, agents: list[str], schedules: int) -> None:
    """Put back, the simulator sees each within so many schedules."""
    assert caught(mutant, agents, schedules) <= schedules


@pytest.mark.parametrize(
    ("mutant", "agents", "schedules"),
    [pytest.param(mutant, agents, n, id=mutant.__name__) for mutant, agents, n in MADE_UP],
)
def test_another_fault_is_seen(mutant: Mutant, agents: list[str], schedules: int) -> None:
    """Faults that no rule of the protocol names: identity, interruption, memory, restores at another scale."""
    assert caught(mutant, agents, schedules) <= schedules


def test_every_rule_has_a_mutant() -> None:
    """P19 has its where retries are tested."""
    assert {rule for rule, *_ in SEEN} == {f"P{n}" for n in range(1, 26)} - {"P19"}
