"""Resuming after a restore: keyed state and the tail of the log are merged, then runs start again."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from flink_agents_durable.api.errors import NonDeterministicActionError
from flink_agents_durable.engine import identity, snapshot
from flink_agents_durable.engine.admission import expect_claims
from flink_agents_durable.engine.awakeables import give_back
from flink_agents_durable.engine.memory import KeyMemory, RunMemory
from flink_agents_durable.engine.ports import StateEntry
from flink_agents_durable.engine.records import Record, decode_record
from flink_agents_durable.engine.replay import RunJournal
from flink_agents_durable.engine.run import Execution, KeyState, QueuedInput, Run, Unclaimed

if TYPE_CHECKING:
    from flink_agents_durable.engine.engine import Engine

logger = logging.getLogger(__name__)


class Resumption:
    """Collects what was restored, then puts the runs together."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stored: dict[bytes, snapshot.StoredKey] = {}
        self._tail: dict[bytes, tuple[int, dict[int, list[tuple[Record, bytes]]]]] = {}

    def add_key(self, key: bytes, group: int, entries: Iterable[StateEntry]) -> None:
        """Keyed state of a key that has work."""
        engine = self._engine
        stored = self._stored[key] = snapshot.StoredKey(entries)
        ks = engine.keys[key] = KeyState(key, group, KeyMemory(lambda: engine.ports.load_memory(key)))
        snapshot.restore_idle(ks, stored)
        ks.queued = deque(snapshot.queued_input(arrival, image) for arrival, image in stored.queued)
        ks.arrivals = max((queued.arrival for queued in ks.queued), default=0)
        ks.stored_active = stored.run is not None

    def add_record(self, group: int, data: bytes) -> None:
        """One record of the tail."""
        record = decode_record(data)
        runs = self._tail.setdefault(record.key, (group, {}))[1]
        runs.setdefault(record.sequence, []).append((record, data))

    def merge(self) -> Iterator[KeyState]:
        """Put together every key that has work. Keeps P5: a key with tail records is dirty."""
        engine = self._engine
        for key, (group, runs) in self._tail.items():
            ks = engine.key_state(key, group)
            engine.mark(ks)
            for sequence in sorted(runs):
                if not self._is_active(key, sequence):
                    self._sort_in(ks, sequence, runs[sequence])
        live = [key for key, stored in self._stored.items() if stored.run is not None]
        for key in live:
            self._restore_run(engine.keys[key])
        for ks in list(engine.keys.values()):
            expect_claims(ks)
            engine.live_runs += (ks.run is not None) + len(ks.queued)
            for queued in ks.queued:
                queued.segment = engine.ports.admit_restored()
            if ks.run is not None:
                ks.run.segment = engine.ports.admit_restored()
        yield from list(engine.keys.values())

    def _is_active(self, key: bytes, sequence: int) -> bool:
        stored = self._stored.get(key)
        return stored is not None and stored.run is not None and stored.run.sequence == sequence

    def _sort_in(self, ks: KeyState, sequence: int, tail: list[tuple[Record, bytes]]) -> None:
        """Tail records of a run that is queued, unclaimed, or long over (P6, P8)."""
        records = [data for _, data in tail]
        digest = tail[0][0].digest
        run_id = identity.run_id(self._engine.log_id, ks.key, sequence, digest)
        for queued in ks.queued:
            if queued.sequence == sequence:
                queued.records = queued.records + records
                queued.run_id = queued.run_id or run_id
                ks.queued_changed.append(queued)
                return
        if sequence in ks.unclaimed:
            known = ks.unclaimed[sequence]
            ks.unclaimed[sequence] = Unclaimed(known.digest, known.records + records, known.run_id)
        elif sequence >= ks.sequence:
            ks.unclaimed[sequence] = Unclaimed(digest, records, run_id)
        else:
            return
        ks.unclaimed_dirty = True

    def _restore_run(self, ks: KeyState) -> None:
        engine = self._engine
        stored = self._stored[ks.key]
        image = stored.run
        assert image is not None
        input = QueuedInput(0, image.sequence, image.digest, image.payload, image.timestamp, 0, [])
        run = ks.run = engine.make_run(ks, input, RunMemory(ks.memory, image.commits, image.sensory))
        run.id = image.id  # also in a fork, whose log has another id: a replay must see the same
        run.delivered = image.delivered
        run.done = set(image.done)
        journal = RunJournal()
        journal.last, journal.time = image.applied, image.time
        journal.start_time, journal.begun = image.start_time, image.begun
        journal.voids = image.all_voids()
        journal.add_stored(stored.journal)
        tail = self._tail.get(ks.key, (0, {}))[1].get(image.sequence, [])
        added = journal.add_tail(data for _, data in tail)
        ks.journal_gone = [number for number in (*journal.gone, *journal.changed) if number not in added]
        self._fill(run, journal, added)
        for execution_image in image.executions:
            self._restore_execution(run, journal, execution_image)

    @staticmethod
    def load_claimed(run: Run, records: list[bytes]) -> None:
        """Give a run that has not started yet the tail records that its input has claimed."""
        journal = RunJournal()
        added = journal.add_tail(records)
        Resumption._fill(run, journal, added)

    @staticmethod
    def _fill(run: Run, journal: RunJournal, added: list[int]) -> None:
        run.number = run.applied = journal.last
        run.time = max(run.time, journal.time)
        run.begun = journal.begun
        run.start_time = journal.start_time or run.start_time
        for number in (*added, *journal.changed):
            record, data = journal.records.get(number, (None, b""))
            if record is not None and record.execution not in run.done:
                run.key.journal_new[number] = data
        for void in journal.lost:
            give_back(run.key, void)
        run.records = journal.by_execution()
        run.voids = journal.voids
        run.reopened = journal.reopened
        run.replay = deque(journal.deliveries())

    def _restore_execution(self, run: Run, journal: RunJournal, image: snapshot.ExecutionImage) -> None:
        action = self._engine.plan.by_name.get(image.action)
        if action is None:
            raise NonDeterministicActionError(
                f"the state has an unfinished execution of action {image.action!r}, which the agent no longer has:"
                " keep the action (it may do nothing) until its runs have ended"
            )
        execution = Execution(run, action, image.id, image.trigger, None, image.event)
        execution.start_number = image.start_number
        execution.start_version = image.start_version
        execution.start_time = execution.time = image.start_time
        execution.dispatched = list(image.dispatched)
        execution.suppress = len(image.dispatched)
        execution.reopened = dict(image.reopened)
        self._engine.take_recorded(execution)
        run.executions[execution.id] = execution
        run.starting.append(execution)
