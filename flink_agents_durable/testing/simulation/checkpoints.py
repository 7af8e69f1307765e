"""Checkpoints of the simulated job: the state of all subtasks, where they stood in the log, source and sink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from flink_agents_durable.engine.ports import ACTIVE, JOURNAL, QUEUED, UNCLAIMED, StateEntry
from flink_agents_durable.engine.records import ATTEMPT, Record, decode_record
from flink_agents_durable.engine.replay import RunJournal, Void
from flink_agents_durable.engine.snapshot import QueuedImage, RunImage, UnclaimedImage
from flink_agents_durable.testing.keyed_state import KeyedState
from flink_agents_durable.testing.simulation.attempt_counts import AttemptCounts
from flink_agents_durable.testing.simulation.invariants import Facts, Invariants, RunKey

_run = msgspec.msgpack.Decoder(RunImage)
_queued = msgspec.msgpack.Decoder(QueuedImage)
_unclaimed = msgspec.msgpack.Decoder(UnclaimedImage)


@dataclass(frozen=True)
class CheckpointImage:
    """What a checkpoint holds, and where source and sink were."""

    id: int
    log_id: str
    state: KeyedState
    positions: Mapping[int, int]
    """By key group."""
    source: tuple[tuple[Any, Any], ...]
    outputs: int
    facts: Facts | None


def facts_in(invariants: Invariants, states: Iterable[KeyedState]) -> Facts:
    """What is known when only a checkpoint is left: what was seen, and the records in it."""
    facts = invariants.facts.copy()
    facts.recorded, facts.dead, facts.records = {}, {}, {}
    facts.attempts = AttemptCounts()
    for state in states:
        for key in state.active_keys():
            entries = state.load(key)
            voids = _voids(entries)
            records = [decode_record(data) for kind, _, data in entries if kind == JOURNAL]
            for record in sorted(records, key=lambda record: record.number):
                if not _is_void(record, voids):
                    invariants.learn(facts, record)
            for kind, _, data in entries:
                if kind in (QUEUED, UNCLAIMED):
                    _learn_waiting(invariants, facts, kind, data)
    return facts


def _voids(entries: Iterable[StateEntry]) -> Mapping[int, Sequence[Void]]:
    for kind, _, data in entries:
        if kind == ACTIVE:
            return _run.decode(data).all_voids()
    return {}


def _is_void(record: Record, voids: Mapping[int, Sequence[Void]]) -> bool:
    """Whether a later cut voids a failed attempt, which stays in the state until its execution ends (P13).

    The engine's own rule is not asked, because it is what is examined.
    """
    if record.kind != ATTEMPT:
        return False
    return any(record.slot >= slot and record.number < cut for slot, cut in voids.get(record.execution, ()))


def _learn_waiting(invariants: Invariants, facts: Facts, kind: int, data: bytes) -> None:
    """Records of a run that has not begun: what they void is still among them."""
    journal = RunJournal()
    journal.add_tail((_queued if kind == QUEUED else _unclaimed).decode(data).records)
    for record, _ in journal.records.values():
        if not _is_void(record, journal.voids):
            invariants.learn(facts, record)


class Restored:
    """The records that a restore begins with, and the runs that need theirs."""

    def __init__(self, invariants: Invariants, state: KeyedState, tail: Iterable[tuple[int, bytes]]) -> None:
        self.records: list[bytes] = []
        self.pending: set[RunKey] = set()
        self.done: dict[RunKey, list[int]] = {}
        self._invariants = invariants
        for key in state.active_keys():
            for kind, _, data in state.load(key):
                self._add(key, kind, data)
        self.records += [data for _, data in tail]

    def _add(self, key: bytes, kind: int, data: bytes) -> None:
        if kind == JOURNAL:
            self.records.append(data)
        elif kind == ACTIVE:
            image = _run.decode(data)
            run = self._invariants.run_key(key, image.digest, image.sequence)
            self.pending.add(run)
            self.done[run] = image.done
        elif kind == QUEUED:
            queued = _queued.decode(data)
            self.pending.add(self._invariants.run_key(key, queued.digest, queued.sequence))
            self.records += queued.records
        elif kind == UNCLAIMED:
            unclaimed = _unclaimed.decode(data)
            self.records += unclaimed.records
