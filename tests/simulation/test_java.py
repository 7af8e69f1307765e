"""Java actions under the simulator: the rules that they lean on are seen when they are left out."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from flink_agents_durable.engine import pinned
from flink_agents_durable.engine.java_driver import JavaDriver
from tests.simulation import mutants
from tests.simulation.mutants import Mutant
from tests.simulation.test_protocol import caught


def f5_a_batch_in_the_order_of_its_ends(patch: pytest.MonkeyPatch) -> None:
    """The driver gives the outcomes of a batch as they came."""
    original = JavaDriver._resolve_in_batch

    def resolve(self, batch, slot, ok, payload, live):  # type: ignore[no-untyped-def]
        batch.outcomes[slot] = batch.outcomes.pop(slot)
        return original(self, batch, slot, ok, payload, live)

    patch.setattr(JavaDriver, "_resolve_in_batch", resolve)


def p14_failures_without_slots(patch: pytest.MonkeyPatch) -> None:
    """The driver forgets which failure ended a Java action."""
    original = JavaDriver._take

    def take(self, items, commands):  # type: ignore[no-untyped-def]
        return original(self, [[*item[:2], []] if item[0] == 7 else item for item in items], commands)

    patch.setattr(JavaDriver, "_take", take)


def p17_what_was_awaited_is_no_synchronous_call(patch: pytest.MonkeyPatch) -> None:
    """A frame that cannot wait is not given what was recorded where it could."""
    patch.setattr(pinned, "take_outcome", lambda *_: None)


def p11_a_timer_that_fired_is_slept_again(patch: pytest.MonkeyPatch) -> None:
    """The same for timers, and for the ends of batches."""
    patch.setattr(pinned, "take_firing", lambda *_: False)


def p18_a_late_call_of_a_batch_is_made(patch: pytest.MonkeyPatch) -> None:
    """A batch that had timed out runs to its end where the frame cannot wait."""
    patch.setattr(pinned, "late_calls", lambda *_: [])


def p1_what_others_were_given_before_comes_later(patch: pytest.MonkeyPatch) -> None:
    """A frame that cannot wait gets its outcome out of turn."""
    patch.setattr(pinned, "_catch_up", lambda *_: None)


SEEN: list[tuple[Mutant, list[str], int]] = [
    (mutants.p3_deliver_before_the_ack, ["java_sequence"], 50),
    (mutants.p4_position_is_the_end, ["java_sequence"], 100),
    (mutants.p10_start_before_pending, ["java_batch"], 100),
    (mutants.p12_time_of_the_clock, ["java_sequence"], 100),
    (mutants.p14_no_reopen_record, ["java_failing"], 50),
    (mutants.p15_dispatched_events_are_forgotten, ["java_sequence"], 100),
    (mutants.p18_end_of_a_batch_without_record, ["java_batch"], 100),
    (mutants.p24_timers_end_with_the_attempt, ["java_sequence"], 100),
    (f5_a_batch_in_the_order_of_its_ends, ["java_batch"], 50),
    (p14_failures_without_slots, ["java_failing"], 50),
    (p17_what_was_awaited_is_no_synchronous_call, ["java_pinned"], 100),
    (p11_a_timer_that_fired_is_slept_again, ["java_pinned"], 100),
    (p18_a_late_call_of_a_batch_is_made, ["java_pinned"], 100),
    (p1_what_others_were_given_before_comes_later, ["java_pinned"], 100),
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
def test_a_rule_that_java_actions_lean_on_is_seen(mutant: Mutant, agents: list[str], schedules: int) -> None:
    assert caught(mutant, agents, schedules) <= schedules
