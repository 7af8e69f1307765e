"""Engines that leave out a rule of awakeables."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from flink_agents_durable.engine import awakeables, execution_port, snapshot
from flink_agents_durable.engine.commands import NOT_LIVE
from flink_agents_durable.engine.engine import Engine
from flink_agents_durable.engine.records import AWAKENED


def p2_ids_by_counting(patch: pytest.MonkeyPatch) -> None:
    """P2: the id of an awakeable is another one on each attempt."""
    count = itertools.count(1)
    original = execution_port.make_id
    patch.setattr(execution_port, "make_id", lambda *of: original(*of[:3], next(count)))


def p3_delivered_before_the_ack(patch: pytest.MonkeyPatch) -> None:
    """P3: a resolution is delivered when it is recorded."""
    original = awakeables.record

    def record(engine: Engine, slot: Any) -> None:
        run = slot.execution.run
        original(engine, slot)
        entry = engine.journal.outbox[-1]
        engine._stepper.deliver(
            slot, AWAKENED, entry.number, entry.time, entry.ok, entry.payload, NOT_LIVE, []
        )
        engine.advance(run)

    patch.setattr(awakeables, "record", record)


def p4_forgotten_when_recorded(patch: pytest.MonkeyPatch) -> None:
    """P4: a snapshot has a resolution no more from the moment when its record is handed over."""
    original = awakeables.record

    def record(engine: Engine, slot: Any) -> None:
        original(engine, slot)
        awakeables._remove(slot.execution.run.key, slot.spec.function_id)

    patch.setattr(awakeables, "record", record)


def p6_not_in_snapshots(patch: pytest.MonkeyPatch) -> None:
    """P6: resolutions that nobody has got yet are not kept in the state."""
    patch.setattr(snapshot, "_early", lambda ks, updates: None)


def p6_dropped_before_their_input(patch: pytest.MonkeyPatch) -> None:
    """P6: a resolution whose input has not come back is dropped."""
    original = awakeables._has_passed
    patch.setattr(
        awakeables, "_has_passed", lambda ks, sequence: sequence >= ks.sequence or original(ks, sequence)
    )


def p1_the_last_one_wins(patch: pytest.MonkeyPatch) -> None:
    """P1: a resolution that comes again takes the place of the first one."""
    original = awakeables.keep

    def keep(ks: Any, id: str, ok: bool, payload: bytes) -> str:
        if id in ks.early:
            awakeables._remove(ks, id)
        return original(ks, id, ok, payload)

    patch.setattr(awakeables, "keep", keep)


def early_ones_are_not_seen(patch: pytest.MonkeyPatch) -> None:
    """Who begins to wait does not look at what has come before."""
    patch.setattr(awakeables, "wait", lambda engine, slot: None)


def dropped_with_the_wait(patch: pytest.MonkeyPatch) -> None:
    """A wait that is given up takes the resolution with it that is on its way."""
    original = awakeables.leave

    def leave(slot: Any) -> None:
        if slot.spec.function_id in slot.execution.run.key.early:
            awakeables._remove(slot.execution.run.key, slot.spec.function_id)
        original(slot)

    patch.setattr(awakeables, "leave", leave)


def p13_lost_by_a_cut(patch: pytest.MonkeyPatch) -> None:
    """P13: a mismatch voids an answer for good."""
    patch.setattr(awakeables, "give_back", lambda ks, void: None)
