"""The engine: takes inputs, outcomes, acknowledgements and timers, and says what is to happen.

It does no I/O and knows neither threads nor a clock; `Ports` is its only way out. All methods are called on the
task thread, one at a time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from flink_agents_durable.api.errors import (
    AttemptEndedError,
    DurableSerializationError,
    RecordTooLargeError,
    UnreadableRecordError,
)
from flink_agents_durable.engine import awakeables, expiry, identity, mismatch, snapshot
from flink_agents_durable.engine.admission import claim, drop_stale, input_digest
from flink_agents_durable.engine.attempts import Deadline
from flink_agents_durable.engine.codec import Codec
from flink_agents_durable.engine.commands import NOT_LIVE
from flink_agents_durable.engine.execution import Stepper, ends_calls, input_event
from flink_agents_durable.engine.expiry import ForgottenKey
from flink_agents_durable.engine.failures import encode_failure
from flink_agents_durable.engine.journal import Entry, Journal
from flink_agents_durable.engine.memory import KeyMemory, RunMemory
from flink_agents_durable.engine.plan import CompiledPlan
from flink_agents_durable.engine.ports import INTERRUPTED, SUCCEEDED, CallStart, Completion, Ports, StateEntry
from flink_agents_durable.engine.records import (
    ATTEMPT,
    BATCH_END,
    CUT,
    OUTCOME,
    RESERVED,
    SYNC_OUTCOME,
    TIMER,
)
from flink_agents_durable.engine.reopening import remember_live
from flink_agents_durable.engine.resume import Resumption
from flink_agents_durable.engine.retrying import Retrying
from flink_agents_durable.engine.run import (
    BATCH_SLOT,
    GONE,
    NOTHING_QUEUED,
    RECORDED,
    RESERVING,
    RUNNING,
    Execution,
    KeyState,
    QueuedInput,
    Run,
    Slot,
    drop_numbers,
)
from flink_agents_durable.engine.services import Services
from flink_agents_durable.engine.settings import EngineSettings
from flink_agents_durable.engine.snapshot import UNKNOWN
from flink_agents_durable.engine.stats import EngineStats
from flink_agents_durable.engine.timers import Timers

logger = logging.getLogger(__name__)


class Engine:
    """Runs the durable executions of one subtask."""

    def __init__(
        self,
        plan: CompiledPlan,
        ports: Ports,
        codec: Codec,
        settings: EngineSettings,
        log_id: str,
        services: Services | None = None,
    ) -> None:
        self.plan = plan
        self.ports = ports
        self.codec = codec
        self._inputs = codec.inputs
        self.settings = settings
        self._strict = settings.strict_values
        self.log_id = log_id.encode()
        self.services = services or Services()
        self.journal = Journal(ports)
        self.timers = Timers()
        self.stats = EngineStats()
        self.keys: dict[bytes, KeyState] = {}
        self.calls: dict[int, Slot] = {}  # calls that the executor has, by id
        self.starts: list[CallStart] = []
        self.cancels: list[int] = []
        self.idle: deque[KeyState] = deque()  # keys whose run ended in this step
        self.dirty: dict[bytes, KeyState] = {}
        self.floors: dict[int, int] = {}  # by key group: where the numbers of unknown keys start (P25)
        self.live_runs = 0
        self.in_flight = 0
        self.now = 0
        self.max_record_bytes: int | None = None  # of the store, which is open when the engine resumes
        self.ended: BaseException | None = None
        self._next_call = 0
        self._durable = 0  # batches that are known to be durable before `acknowledge` says so
        self._stepper = Stepper(self)
        self.retrying = Retrying(self, self._stepper)
        self._resumption: Resumption | None = Resumption(self)

    # --- restore ---

    def restore_key(self, key: bytes, group: int, entries: Iterable[StateEntry]) -> None:
        """Take the keyed state of a key that has work."""
        assert self._resumption is not None
        self._resumption.add_key(key, group, entries)

    def restore_tail(self, group: int, record: bytes) -> None:
        """Take one record of the tail of the log, in log order."""
        assert self._resumption is not None
        self._resumption.add_record(group, record)

    def resume(self, now: int) -> None:
        """Merge snapshot and tail, and restart every unfinished execution from its beginning (L1)."""
        self._enter(now)
        self.max_record_bytes = self.ports.max_record_bytes
        assert self._resumption is not None
        resumption, self._resumption = self._resumption, None
        for ks in resumption.merge():
            if ks.run is not None:
                self.advance(ks.run)
            self._kick(ks)
        self._leave()

    # --- entry points ---

    def process(
        self,
        key: bytes,
        group: int,
        payload: bytes,
        timestamp: int | None,
        segment: int,
        now: int,
        stored: bytes | None = UNKNOWN,
    ) -> None:
        """Admit one input: a pickled (key, value). Raises UnreadableRecordError if it cannot be unpickled.

        `stored` is the keyed state `sequence` of the key, None if it has none; without it Flink is asked.
        """
        self._enter(now)
        try:
            value: Any = self._inputs.loads(payload)
            _, content = value
        except (UnreadableRecordError, TypeError, ValueError) as error:
            self.ended = error
            raise UnreadableRecordError(f"an input of key {key!r} cannot be unpickled: {error}") from error
        ks = self.keys.get(key) or self.key_state(key, group, stored)
        digest = input_digest(content, payload)
        sequence, claimed = claim(ks, digest)
        records, run_id = (claimed.records, claimed.run_id) if claimed is not None else ([], b"")
        dropped = drop_stale(ks)
        if dropped:
            self.stats.unclaimed_dropped += dropped
            self.stats.awakeables_dropped += awakeables.drop_passed(ks)
        ks.arrivals += 1
        queued = QueuedInput(
            ks.arrivals, sequence, digest, payload, timestamp, segment, records, value, run_id
        )
        self.live_runs += 1
        self.mark(ks)
        if ks.run is None and not ks.queued:
            self.begin_run(ks, queued)
        else:
            if ks.queued is NOTHING_QUEUED:
                ks.queued = deque()
            ks.queued.append(queued)
            self.recount(ks)
        self._leave()

    def awaken(
        self, key: bytes, group: int, payload: bytes, now: int, stored: bytes | None = UNKNOWN
    ) -> None:
        """Take the resolution of an awakeable: a pickled (id, value, message of a failure or None).

        It passes the queue of its key. Kept until it is delivered; one that nobody can get is dropped and counted.
        Raises UnreadableRecordError if it cannot be unpickled. `stored` is as for `process`.
        """
        self._enter(now)
        try:
            awakeables.receive(self, key, group, payload, stored)
        except UnreadableRecordError as error:
            self.ended = error
            raise
        self._leave()

    def unresolvable(self) -> list[tuple[Any, str]]:
        """Key and id of awakeables whose runs wait for nothing else; looks at all live runs."""
        return [
            (ks.run.key_object, id)
            for ks in self.keys.values()
            if ks.run is not None and not ks.run.open_calls
            for id in awakeables.unresolvable(ks.run)
        ]

    def complete(self, completions: Sequence[Completion], now: int) -> None:
        """Take outcomes of calls: each is numbered and recorded (F9); unknown ids are late and ignored (I4)."""
        self._enter(now)
        for id, status, value in completions:
            slot = self.calls.pop(id, None)
            if slot is None or slot.state != RUNNING:
                continue
            if status != SUCCEEDED:
                if status == INTERRUPTED:
                    self._interrupt(slot, value)
                if slot.spec.options is not None:
                    self.retrying.failed(slot, value)
                    continue
            slot.state = RECORDED
            self.write_outcome(OUTCOME, slot, status == SUCCEEDED, value)
            if slot.batch is not None:
                self._stepper.start_next_of_batch(slot.batch)
        self._leave()

    def acknowledge(self, batches: int, now: int) -> None:
        """So many batches are durable: apply their records in order (P3)."""
        self._enter(now)
        self._apply_batches(batches)
        self._leave()

    def _apply_batches(self, batches: int) -> None:
        journal = self.journal
        while journal.applied_batches < batches and journal.unacknowledged:
            entries = journal.unacknowledged.popleft()
            journal.applied_batches += 1  # no snapshot comes before the end of this step
            for entry in entries:
                self.apply(entry)

    def waited(self) -> None:
        """All batches are durable now: a synchronous call waited for them. They are applied when the step ends,
        so that no snapshot has outputs that follow from an outcome without the outcome itself (P4, P17)."""
        self._durable = self.journal.applied_batches + len(self.journal.unacknowledged)

    @property
    def applied_batches(self) -> int:
        """How many batches have been applied on the task thread (P4)."""
        return self.journal.applied_batches

    def fire_timers(self, now: int) -> None:
        """Record the firing of every timer that is due (P11, P18); start the attempts that waited (P19)."""
        self._enter(now)
        runs: dict[bytes, Run] = {}
        for slot in list(self.timers.due(now)):
            if isinstance(slot, Deadline):
                run = self.retrying.due(slot)
                if run is not None:
                    runs[run.id] = run
            elif slot.kind == BATCH_SLOT:
                self._expire(slot)
            else:
                slot.state = RECORDED
                self.journal.write(slot.execution.run, TIMER, self.now, slot)
        for run in runs.values():
            self._stepper.go_live(run)
            self.recount(run.key)
        self._leave()

    def snapshot(self) -> list[tuple[bytes, list[StateEntry]]]:
        """Updates of the keys that changed. Neither emits nor steps (K6)."""
        updates = []
        for key, ks in self.dirty.items():
            updates.append((key, snapshot.key_updates(ks)))
            ks.dirty = False
            if ks.run is None and not ks.queued and not ks.unclaimed:
                del self.keys[key]
        self.dirty = {}
        return updates

    def forget_expired(self, keys: Iterable[tuple[bytes, int, bytes]], now: int) -> list[ForgottenKey]:
        """Updates that remove what has expired of idle keys, given with group and state `sequence` (P25)."""
        ttl = self.settings.memory_ttl
        return [] if ttl is None else expiry.sweep(self, keys, max(now, self.now), ttl)

    @property
    def dirty_keys(self) -> int:
        """How many keys the next snapshot has to write."""
        return len(self.dirty)

    def close(self) -> None:
        """Abandon every execution; call it on the task thread."""
        self.ended = self.ended or AttemptEndedError("the engine is closed")
        for ks in self.keys.values():
            if ks.run is not None:
                for execution in ks.run.executions.values():
                    if execution.driver is not None:
                        execution.driver.abandon()
                ks.run = None
        self.keys.clear()
        self.calls.clear()
        self.dirty.clear()

    # --- a step ---

    def _enter(self, now: int) -> None:
        if self.ended is not None:
            raise AttemptEndedError("this attempt of the task has ended") from self.ended
        if now > self.now:
            self.now = now

    def _leave(self) -> None:
        """Give the surroundings what this step asks for; with store `none` records are durable at once."""
        journal = self.journal
        while True:
            while self.idle:
                self._kick(self.idle.popleft())
            if journal.applied_batches < self._durable:
                self._apply_batches(journal.applied_batches + 1)
                continue
            if self.ports.store_durable or not journal.outbox:
                break
            for entry in journal.take():
                self.apply(entry)
        journal.hand_over()
        if self.cancels:
            cancels, self.cancels = self.cancels, []
            # What was cancelled in the step that starts it must not start after its cancel.
            cancelled = set(cancels)
            self.starts = [call for call in self.starts if call.id not in cancelled]
            self.ports.cancel_calls(cancels)
        if self.starts:
            starts, self.starts = self.starts, []
            self.ports.start_calls(starts)
        if self.timers.changed():
            self.ports.set_timer(self.timers.next())

    def key_state(self, key: bytes, group: int, stored: bytes | None = UNKNOWN) -> KeyState:
        """The live state of a key, read from Flink when it is not here.

        A key without work has its sequence number, and perhaps unclaimed records: then that number says so.
        """
        ks = self.keys.get(key)
        if ks is None:
            ks = self.keys[key] = KeyState(key, group, KeyMemory(lambda: self.ports.load_memory(key)))
            if stored is not None and (stored is UNKNOWN or snapshot.has_more(stored)):
                snapshot.restore_idle(ks, snapshot.StoredKey(self.ports.load_key(key)))
            elif stored is not None:
                snapshot.restore_sequence(ks, stored)
            if self.floors and not ks.stored_sequence:
                ks.sequence = self.floors.get(group, 0)
        return ks

    def mark(self, ks: KeyState) -> None:
        """The next snapshot has to write this key."""
        if not ks.dirty:
            ks.dirty = True
            self.dirty[ks.key] = ks

    def recount(self, ks: KeyState) -> None:
        """Runs that wait only for timers or awakeables, and inputs behind them, are not in flight (back-pressure)."""
        run = ks.run
        if run is not None and run.open_calls == 0 and run.executions and not run.fresh:
            count = 0
        else:
            count = len(ks.queued) + (run is not None)
        self.in_flight += count - ks.counted
        ks.counted = count

    # --- runs ---

    def _kick(self, ks: KeyState) -> None:
        """Begin the next inputs of a key while it has no live run."""
        while ks.run is None and ks.queued:
            queued = ks.queued.popleft()
            if queued.stored:
                ks.queued_gone.append(queued.arrival)
            self.begin_run(ks, queued)
        self.recount(ks)

    def begin_run(self, ks: KeyState, queued: QueuedInput) -> None:
        """Begin the run of an input, with the tail records that it has claimed."""
        run = self.make_run(ks, queued, RunMemory(ks.memory, [], {}))
        ks.run = run
        run.start_time = run.time = self.now
        self.stats.runs += 1
        if queued.records:
            Resumption.load_claimed(run, queued.records)
        trigger = run.id
        self.trigger(run, input_event(queued.value[1], trigger, run.timestamp), trigger, b"", run.start_time)
        self.advance(run)

    def make_run(self, ks: KeyState, queued: QueuedInput, memory: RunMemory) -> Run:
        """A run without executions."""
        if queued.value is None:
            queued.value = self._inputs.loads(queued.payload)
        id = queued.run_id or identity.run_id(self.log_id, ks.key, queued.sequence, queued.digest)
        return Run(
            ks,
            queued.value[0],
            id,
            queued.sequence,
            queued.digest,
            queued.payload,
            queued.timestamp,
            queued.segment,
            memory,
        )

    def trigger(self, run: Run, event: Any, trigger: bytes, payload: bytes, time: int) -> None:
        """Make an execution for each action that the event triggers; they start in this step.

        Only the first action of an input gets the event itself; the others and those of sent events get what was
        recorded, so that none sees what another did to it.
        """
        own = None if payload else event
        for action in self.plan.by_event.get(event.type, ()):
            execution = Execution(
                run, action, identity.execution_id(trigger, action.name.encode()), trigger, own, payload
            )
            own = None
            execution.start_number = run.delivered
            execution.start_time = execution.time = time
            if execution.id in run.executions or execution.id in run.done:
                continue  # sent again after a mismatch
            if run.records or run.voids or run.reopened:
                self.take_recorded(execution)
            run.executions[execution.id] = execution
            run.starting.append(execution)

    def take_recorded(self, execution: Execution) -> None:
        """Give an execution what the journal knows of it."""
        run = execution.run
        execution.recorded = run.records.pop(execution.id, None)
        if execution.recorded is not None:
            execution.numbers = execution.recorded.numbers
        execution.voids = run.voids.pop(execution.id, execution.voids)
        for (id, slot), time in run.reopened.items():
            if id == execution.id:
                execution.reopened[slot] = time

    def advance(self, run: Run) -> None:
        """Start what is to be started, replay what was recorded, then go live. Keeps P1 and P9."""
        stepper = self._stepper
        while True:
            while run.starting:
                stepper.start(run.starting.pop(0))
            if not run.replay:
                break
            stepper.replay_next(run)
        if not run.executions:
            self._finish(run)
        else:
            if run.fresh:
                stepper.go_live(run)
            self.recount(run.key)

    def _finish(self, run: Run) -> None:
        ks = run.key
        ks.run = None
        for recorded in run.records.values():
            drop_numbers(run, recorded.numbers)
        self.live_runs -= 1
        if self.settings.memory_ttl is not None:
            expiry.run_ended(ks, self.now)
        self.mark(ks)
        if ks.early:
            self.stats.awakeables_dropped += awakeables.drop_passed(ks)
        self.recount(ks)
        self.ports.input_done(run.segment)
        if ks.queued:
            self.idle.append(ks)

    # --- records ---

    def apply(self, entry: Entry) -> None:
        """A record is durable: put it into the state and, if it is a delivery, deliver it (P3, P4)."""
        run, number, kind = entry.run, entry.number, entry.kind
        if number > run.applied:
            run.applied = number
        ks = run.key
        if ks.run is not run:
            return
        if not ks.dirty:
            self.mark(ks)
        slot = entry.slot
        if slot is None:
            if kind == CUT:  # else: the begin of the run
                mismatch.apply_cut(entry)
                self.advance(run)
            return
        if kind == RESERVED:
            self._apply_reservation(entry, slot)
            return
        execution = slot.execution
        if run.executions.get(execution.id) is not execution:
            return  # it has ended, or started again
        execution.numbers.append(number)
        ks.journal_new[number] = entry.data
        if execution.given:
            remember_live(execution, entry.data)
        if kind == OUTCOME:
            is_delivery = slot.state == RECORDED
        elif kind == ATTEMPT:
            self.retrying.applied(entry)
            return
        else:
            is_delivery = kind != SYNC_OUTCOME and (
                slot.state == RECORDED or ends_calls(kind, execution, entry.slots)
            )
        if is_delivery:
            live = NOT_LIVE if self._strict else entry.live
            self._stepper.deliver(slot, kind, number, entry.time, entry.ok, entry.payload, live, entry.slots)
            if run.starting or not run.executions:
                self.advance(run)
            else:
                if run.fresh:
                    self._stepper.go_live(run)
                if run.open_calls == 0 or ks.counted == 0:
                    self.recount(ks)

    def _apply_reservation(self, entry: Entry, slot: Slot) -> None:
        """Slots are PENDING in the store: their calls may start (P10)."""
        run = entry.run
        run.key.journal_new[entry.number] = entry.data
        execution = slot.execution
        if execution.id in run.done:
            drop_numbers(run, [entry.number])
            return
        execution.numbers.append(entry.number)
        if len(entry.slots) == 1 and slot.attempts is not None:
            slot.attempts.numbers.append(entry.number)
        for slot in entry.slots:
            if slot.state == RESERVING:
                self._stepper.start_reserved(slot)

    def write_outcome(self, kind: int, slot: Slot, ok: bool, value: Any) -> Entry:
        """Record the outcome of a call; what cannot be recorded is a failure of this call alone (F10, D6)."""
        run = slot.execution.run
        name = slot.spec.function_id
        payload = b""
        if ok:
            try:
                payload = self.codec.dumps(value)
            except DurableSerializationError as error:
                ok, value = (
                    False,
                    DurableSerializationError(f"the result of {name} cannot be recorded: {error}"),
                )
        if not ok:
            payload = encode_failure(value, self.codec)
        limit = self.max_record_bytes
        if limit is not None and len(payload) + 512 > limit:
            ok, value = (
                False,
                RecordTooLargeError(
                    f"the result of {name} takes {len(payload)} bytes; the action state store takes {limit}:"
                    " return a reference to large data instead of the data"
                ),
            )
            payload = encode_failure(value, self.codec)
        self.stats.calls_executed += 1
        if not ok:
            self.stats.calls_failed += 1
        return self.journal.write_outcome(run, kind, self.now, slot, ok, payload, value)

    def _expire(self, end: Slot) -> None:
        """The time of a batch is over: what has no outcome yet stays PENDING and gets a time-out (F8, P18)."""
        batch = end.batch
        assert batch is not None
        expired = []
        batch.waiting.clear()  # before calls are cancelled: that makes room for the next ones
        for slot in batch.slots:
            if slot.state not in (RECORDED, GONE) and slot.index in slot.execution.slots:
                self._stepper.forget_call(slot)
                slot.state = GONE
                expired.append(slot.index)
        end.state = RECORDED
        entry = self.journal.write(end.execution.run, BATCH_END, self.now, end, slots=expired)
        entry.slots = expired

    # --- calls ---

    def start_call(self, slot: Slot) -> None:
        """Start a call, or its reconciler when it is in doubt (R2)."""
        slot.state = RUNNING
        spec = slot.spec
        if spec.options is not None or slot.pending:
            self.starts.append(self.call_start(slot))
            return
        id = self._next_call = self._next_call + 1
        slot.call = id
        self.calls[id] = slot
        name = spec.function_id
        self.starts.append(CallStart(id, spec.function, spec.args, spec.kwargs, None, name, spec.context))

    def call_start(self, slot: Slot) -> CallStart:
        """What the executor needs for this slot."""
        self._next_call += 1
        id = slot.call = self._next_call
        self.calls[id] = slot
        spec = slot.spec
        options = spec.options
        timeout = limit = None
        if options is not None:
            timeout = self.retrying.time_left(slot, options.timeout_seconds)
            limit = options.limit
        if slot.pending and spec.reconciler is not None:
            self.stats.calls_reconciled += 1
            return CallStart(
                id, spec.reconciler, (), {}, timeout, f"reconciler of {spec.function_id}", spec.context, limit
            )
        return CallStart(
            id, spec.function, spec.args, spec.kwargs, timeout, spec.function_id, spec.context, limit
        )

    def cancel_call(self, slot: Slot) -> None:
        """Cancel a call that runs; a late outcome is ignored."""
        if self.calls.pop(slot.call, None) is not None:
            self.cancels.append(slot.call)

    def _interrupt(self, slot: Slot, error: Any) -> None:
        """A call was interrupted: the caller sees the original, nothing is recorded, the attempt ends (I2, I5)."""
        driver = slot.execution.driver
        assert driver is not None
        self.journal.hand_over()  # outcomes that came before it are kept
        self.ended = error
        driver.resolve(slot.index, False, b"", error)
        raise AttemptEndedError(
            f"the durable call {slot.spec.function_id} was interrupted ({type(error).__name__}); it stays pending"
        ) from error
