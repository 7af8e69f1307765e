"""Known-bad mutants of the engine around retries (P19), as those of `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest

from flink_agents_durable.engine import replay, retrying
from flink_agents_durable.engine.attempts import Attempts
from flink_agents_durable.engine.execution import Stepper
from flink_agents_durable.engine.records import ATTEMPT, RESERVED
from flink_agents_durable.engine.replay import RunJournal
from flink_agents_durable.engine.retrying import Retrying
from flink_agents_durable.engine.run import NEW


def p19_a_failed_attempt_leaves_the_doubt(patch: pytest.MonkeyPatch) -> None:
    """P19: a crash during a back-off is taken for one during the call."""
    original = RunJournal.by_execution

    def by_execution(self: RunJournal) -> Any:
        known = original(self)
        for record, _ in self.records.values():
            for reservation in record.reserved if record.kind == RESERVED else ():
                if not self._is_cut(reservation[0], reservation[1], record.number):
                    known[reservation[0]].pending[reservation[1]] = reservation
        return known

    patch.setattr(RunJournal, "by_execution", by_execution)


def p19_attempts_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """P19: a restart begins with the first attempt again."""
    original = RunJournal.by_execution

    def by_execution(self: RunJournal) -> Any:
        known = original(self)
        for recorded in known.values():
            recorded.attempts.clear()
        return known

    patch.setattr(RunJournal, "by_execution", by_execution)


def p19_one_doubt_for_all_attempts(patch: pytest.MonkeyPatch) -> None:
    """P19: only the first attempt is PENDING: a crash in a later one makes the call without its reconciler."""
    original = Retrying.hold

    def hold(self: Retrying, slot: Any) -> bool:
        held = original(self, slot)
        if not held and slot.attempts is not None and slot.attempts.failed and slot.batch is None:
            self._engine.start_call(slot)
            return True
        return held

    patch.setattr(Retrying, "hold", hold)


def p19_kills_are_counted(patch: pytest.MonkeyPatch) -> None:
    """P19: an attempt that a crash ended counts as failed."""
    original = Retrying.restore

    def restore(self: Retrying, slot: Any, record: Any) -> None:
        original(self, slot, record)
        slot.attempts.failed += 1

    patch.setattr(Retrying, "restore", restore)


def p19_one_attempt_too_many(patch: pytest.MonkeyPatch) -> None:
    """P19: the count of a restored call lags behind."""
    original = Retrying.restore

    def restore(self: Retrying, slot: Any, record: Any) -> None:
        original(self, slot, record)
        slot.attempts.failed -= 1

    patch.setattr(Retrying, "restore", restore)


def p14_the_count_outlives_a_reopening(patch: pytest.MonkeyPatch) -> None:
    """P14: a reopened call goes on with its old count."""
    patch.setattr(replay, "counted_anew", lambda record: record)


def p13_attempts_outlive_a_cut(patch: pytest.MonkeyPatch) -> None:
    """P13: a snapshot behind a cut keeps the attempts that it voids."""
    original = RunJournal._void

    def void(self: RunJournal, is_void: Any) -> None:
        original(self, lambda record: record.kind != ATTEMPT and is_void(record))

    patch.setattr(RunJournal, "_void", void)
    patch.setattr(RunJournal, "_is_cut", lambda self, execution, slot, number: False)


def p3_back_off_before_the_ack(patch: pytest.MonkeyPatch) -> None:
    """P3: the back-off begins before its record is durable: a crash makes an attempt that was counted nowhere."""

    def back_off(self: Retrying, slot: Any) -> None:
        original(self, slot)
        attempts: Attempts = slot.attempts
        self._engine.timers.arm(retrying.Deadline(slot, attempts.resume_at, total=False))

    original = Retrying._back_off
    patch.setattr(Retrying, "_back_off", back_off)


def f11_places_are_kept(patch: pytest.MonkeyPatch) -> None:
    """F11: a call of a batch keeps its place while it waits; with one place the batch never ends."""

    def failed(self: Retrying, slot: Any, error: Any) -> None:
        batch, slot.batch = slot.batch, None
        original(self, slot, error)
        slot.batch = batch

    original = Retrying.failed
    patch.setattr(Retrying, "failed", failed)


def f8_a_back_off_outlives_its_batch(patch: pytest.MonkeyPatch) -> None:
    """F8: the end of a batch, or a cancel, does not end a back-off."""
    original = Stepper._remove

    def remove(self: Stepper, execution: Any, slot: Any) -> None:
        waits = slot.attempts is not None and slot.attempts.resume_at > self._engine.now
        original(self, execution, slot)
        if waits:
            slot.state = NEW
            execution.run.fresh.append(slot)

    patch.setattr(Stepper, "_remove", remove)
