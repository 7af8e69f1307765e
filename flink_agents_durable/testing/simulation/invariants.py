"""What must hold in every history, whatever fails in it. `Invariants` is told what happens and complains at once.

A run is known by its key and the digest of its input (and its number, where inputs are equal), a call by its
run and its label, so that the checks do not trust the ids of the engine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set
from typing import Any, NamedTuple

from flink_agents_durable.engine.payload import PayloadCodec
from flink_agents_durable.engine.records import (
    ATTEMPT,
    AWAKENED,
    BATCH_END,
    CUT,
    OUTCOME,
    REOPEN,
    SYNC_OUTCOME,
    TIMER,
    Record,
    decode_record,
)
from flink_agents_durable.engine.run import Run, Slot
from flink_agents_durable.testing.simulation.attempt_counts import AttemptCounts

_SUCCESS = (0, 0, True)


class Result(NamedTuple):
    """What the calls of simulated agents return: no two executions return the same."""

    label: str
    nonce: int
    parent: int = 0

    def __repr__(self) -> str:
        after = f" after {self.parent}" if self.parent else ""
        return f"<{self.label.rstrip()} #{self.nonce}{after}>"


SEEN = frozenset((OUTCOME, SYNC_OUTCOME, TIMER, BATCH_END, AWAKENED))
"""Records that actions get to see."""

RunKey = tuple[bytes, bytes, int]
Place = tuple[RunKey, str]
Seen = tuple[Any, int]
"""A value, and the number of the delivery at which it was seen."""
Noted = tuple[int, tuple[Any, ...]]
"""Number of the delivery, and what was done in its step."""


class Facts:
    """What is known to be durable, and what actions have seen of it."""

    def __init__(self) -> None:
        self.seen: dict[Place, Seen] = {}  # values by the place at which an action saw them
        self.expected: dict[Place, Seen] = {}  # outputs that actions have sent
        self.voided: Counter[str] = (
            Counter()
        )  # outputs that followed from what is void: they may be in the sink
        self.records: dict[
            RunKey, list[Record]
        ] = {}  # outcomes, timers and ends of batches that are not void
        self.transcripts: dict[tuple[RunKey, int], list[Noted]] = {}  # of executions
        self.changed: set[RunKey] = set()  # runs of which something was voided: they may go another way
        self.labels: dict[tuple[RunKey, int, int], str] = {}  # of calls, by execution and slot
        self.recorded: dict[Place, tuple[int, int, bool]] = {}  # call -> execution, slot, success
        self.dead: dict[Place, tuple[int, int]] = {}  # calls that were cancelled, or timed out in a batch
        self.doubtful: dict[Place, tuple[int, int]] = {}  # reconcilable calls that have started
        self.numbers: dict[RunKey, int] = {}  # last record number in the log
        self.results: set[Result] = set()  # in the log
        self.completed: set[int] = set()  # executions
        self.attempts = AttemptCounts()

    def copy(self) -> Facts:
        """What is known now; what it is made of never changes."""
        facts = Facts()
        for name, known in vars(self).items():
            setattr(facts, name, known.copy())
        facts.records = {run: list(known) for run, known in self.records.items()}
        facts.transcripts = {of: list(known) for of, known in self.transcripts.items()}
        return facts


class Transcript:
    """What one execution asked for and was given, as its driver goes through it once."""

    def __init__(self, invariants: Invariants, noted: list[Noted], name: str) -> None:
        self._invariants = invariants
        self._noted = noted
        self._name = name
        self._at = 0

    def note(self, delivered: int, entry: tuple[Any, ...]) -> None:
        """The next step. On a replay it has to be the known one, up to what was voided since."""
        noted, at = self._noted, self._at
        if at < len(noted):
            if noted[at][1] != entry:
                self._invariants.complain(
                    f"{self._name} does {entry} on replay, before it did {noted[at][1]}"
                )
        elif at == len(noted):
            noted.append((delivered, entry))
        else:
            return  # what it had done was voided under it: only the next attempt is told from the beginning
        self._at = at + 1


class Invariants:
    """The checks. `complain` raises a violation."""

    def __init__(
        self, complain: Callable[[str], None], codec: PayloadCodec, *, equal: bool, durable: bool
    ) -> None:
        self.complain = complain
        self.codec = codec
        self.equal = equal
        self.durable = durable
        self.facts = Facts()
        self.lossy = False  # records were lost once: calls may have run again, and differently
        self.flipped = False  # the code changed once

    # --- going back to a checkpoint, where the log ends with it (store `none`, a fork) ---

    def restore(self, facts: Facts | None) -> None:
        """Only this is known."""
        self.facts = facts.copy() if facts is not None else Facts()

    def lose(self, keys: Set[bytes], restored: Iterable[bytes]) -> None:
        """The log lost records of these keys: what happens from now on has to fit together, and to what was
        restored."""
        facts = self.facts
        for by_place in (
            facts.seen,
            facts.expected,
            facts.recorded,
            facts.dead,
            facts.doubtful,
            facts.transcripts,
        ):
            _forget(by_place, lambda of: of[0][0] in keys)
        for by_run in (facts.records, facts.numbers):
            _forget(by_run, lambda run: run[0] in keys)
        for record in map(decode_record, restored):
            if record.kind in SEEN:
                self._records_of(record).append(record)

    def check_restored(
        self, restored: Iterable[bytes], pending: Set[RunKey], done: dict[RunKey, list[int]]
    ) -> None:
        """State and tail together hold every durable outcome of the `pending` runs, as it was recorded, but for
        those of executions that are `done`: a later journal begins with the earlier one."""
        known = {}
        for record in map(decode_record, restored):
            known[self.run_key(record.key, record.digest, record.sequence), record.number] = record
        for run in pending:
            for record in self.facts.records.get(run, ()):
                if record.execution in done.get(run, ()):
                    continue
                found = known.get((run, record.number))
                if found is None:
                    self.complain(f"record {record.number} of run {record.sequence} was lost")
                elif found != record:
                    self.complain(f"record {record.number} of run {record.sequence} became {found}")

    # --- who is who ---

    def run_key(self, key: bytes, digest: bytes, sequence: int) -> RunKey:
        """Which input it is."""
        return key, digest, sequence if self.equal else 0

    def transcript(self, run: Run, execution: int) -> Transcript:
        """What an execution does from its beginning on, beside what it did before."""
        noted = self.facts.transcripts.setdefault((self.run_of(run), execution), [])
        return Transcript(self, noted, f"execution {execution % 997} of run {run.sequence}")

    def run_of(self, run: Run) -> RunKey:
        """Which input a run works on."""
        return self.run_key(run.key.key, run.digest, run.sequence)

    # --- calls ---

    def starts(self, slot: Slot, reconciler: bool, current: bool, owns: bool) -> None:
        """A call, or its reconciler, starts; `owns`: what this attempt appends is still taken."""
        spec, execution = slot.spec, slot.execution.id
        label = str(spec.args[0]) if spec.args else str(spec.function_id)
        run = self.run_of(slot.execution.run)
        call, facts = (run, label), self.facts
        # What a zombie starts may have been voided since: its successor makes that call, or another, anew (R3).
        stands = current or owns or run not in facts.changed
        if stands or (run, execution, slot.index) not in facts.labels:
            facts.labels[run, execution, slot.index] = label
        if not self.durable and slot.attempts is not None and slot.attempts.failed:
            facts.doubtful.pop(call, None)  # with a store the record of the failed attempt says so
        if (
            not self.durable
            and slot.index in slot.execution.reopened
            and not facts.recorded.get(call, _SUCCESS)[2]
        ):
            del facts.recorded[call]  # a failure of the state is tried again in place (P14)
            if slot.attempts is not None:
                facts.doubtful.pop(call, None)  # the attempt had failed (P19)
        if current:
            if call in facts.recorded:
                self.complain(f"the call {label} runs again although its outcome was recorded")
            if call in facts.dead:
                self.complain(f"the call {label} runs again although it had been cancelled")
            if call in facts.doubtful and not reconciler and spec.reconciler is not None:
                self.complain(f"the call {label} was in doubt and runs without its reconciler")
            facts.attempts.starts(call, slot, reconciler, self.durable, self._complain_of_attempts)
        if spec.reconciler is not None and stands:
            facts.doubtful[call] = execution, slot.index

    def cancelled(self, slot: Slot, current: bool) -> None:
        """A call was cancelled by a durable delivery, which may be void where a zombie makes it."""
        run = self.run_of(slot.execution.run)
        if current or run not in self.facts.changed:
            self.facts.dead[run, label_of(slot.spec)] = slot.execution.id, slot.index

    # --- records ---

    def appended(self, data: bytes) -> Record:
        """A record is in the log."""
        record = decode_record(data)
        run = self.run_key(record.key, record.digest, record.sequence)
        self._check_number(run, record)
        execution, facts = record.execution, self.facts
        if not record.ok and b"InterruptedError" in record.payload:
            self.complain(f"an interruption of run {record.sequence} was recorded (I2)")
        self._check_attempt(run, record)
        self.learn(facts, record)
        if record.kind == CUT:
            if not (run in facts.changed or self.flipped or self.lossy):
                self.complain(f"a cut of run {record.sequence}, though neither code nor outcomes changed")
            for known in (facts.recorded, facts.dead, facts.doubtful):
                _forget_values(known, lambda of: of[0] == execution and of[1] >= record.slot)
            self._void(run, lambda r: r.execution == execution and r.slot >= record.slot)
        elif record.kind == REOPEN:
            slots = set(record.slots)
            _forget_values(facts.recorded, lambda of: of[0] == execution and of[1] in slots and not of[2])
            _forget_values(facts.dead, lambda of: of[0] == execution)
            self._void(
                run,
                lambda r: (
                    r.execution == execution
                    and not slots.isdisjoint((r.slot, *r.slots))
                    and (not r.ok or r.kind in (TIMER, BATCH_END))
                ),
            )
        return record

    def _check_attempt(self, run: RunKey, record: Record) -> None:
        """Attempts count up one by one, and a failed one clears the doubt (P19)."""
        facts, call = self.facts, self._call(run, record.execution, record.slot)
        facts.attempts.appended(
            record,
            lambda slot: self._call(run, record.execution, slot),
            call in facts.recorded,
            self._complain_of_attempts,
        )
        if record.kind == ATTEMPT:
            facts.doubtful.pop(call, None)

    def _complain_of_attempts(self, text: str) -> None:
        if not self.lossy:
            self.complain(text)

    def _call(self, run: RunKey, execution: int, slot: int) -> Place:
        return run, self.facts.labels.get((run, execution, slot), "")

    def _void(self, run: RunKey, is_void: Callable[[Record], bool]) -> None:
        """Records are void: what was seen from the first of them on may differ from now on."""
        records = self.facts.records.get(run, [])
        void = [record for record in records if is_void(record)]
        facts = self.facts
        facts.changed.add(run)
        if not void:
            return
        facts.records[run] = [record for record in records if record not in void]
        first = min(record.number for record in void)
        places = [facts.seen, facts.expected]
        if any(record.kind == SYNC_OUTCOME for record in void):  # seen in the step of the delivery before it
            earlier = [
                at for known in places for (of, _), (_, at) in known.items() if of == run and at < first
            ]
            first = max(earlier, default=first)
        for known in places:
            for place in [place for place, (_, at) in known.items() if place[0] == run and at >= first]:
                value, _ = known.pop(place)
                if known is facts.expected:
                    facts.voided[repr(value)] += 1
        for (of, _), noted in facts.transcripts.items():
            if of == run:
                noted[:] = [entry for entry in noted if entry[0] < first]

    def learn(self, facts: Facts, record: Record) -> None:
        """An outcome or the end of a batch is durable."""
        run, execution = self.run_key(record.key, record.digest, record.sequence), record.execution
        facts.attempts.learn(record, lambda slot: self._call(run, execution, slot))
        if record.kind in SEEN:
            facts.records.setdefault(run, []).append(record)
        if record.kind in (OUTCOME, SYNC_OUTCOME):
            label = self.facts.labels.get((run, execution, record.slot))
            if label is not None:
                facts.recorded[run, label] = execution, record.slot, record.ok
            value: Any = self.codec.loads(record.payload) if record.ok else None
            if isinstance(value, Result):
                facts.results.add(value)
        elif record.kind == BATCH_END:
            for index in record.slots:
                label = self.facts.labels.get((run, execution, index))
                if label is not None:
                    facts.dead[run, label] = execution, index

    def _records_of(self, record: Record) -> list[Record]:
        run = self.run_key(record.key, record.digest, record.sequence)
        return self.facts.records.setdefault(run, [])

    def _check_number(self, run: RunKey, record: Record) -> None:
        # One counter, without a gap: every attempt goes on where the log ends (P1, P8).
        last = self.facts.numbers.get(run)
        if last is not None and record.number != last + 1:
            self.complain(f"record {record.number} of a run follows record {last}")
        self.facts.numbers[run] = record.number

    # --- what actions see and do ---

    def observe(self, run: Run, place: str, value: Any) -> None:
        """An action saw a value: on every later attempt it must see the same there."""
        if self.durable:
            for result in _results(value):
                if result not in self.facts.results:
                    self.complain(f"at {place!r} the action saw {result}, which is not durable")
        known, _ = self.facts.seen.setdefault((self.run_of(run), place), (value, run.delivered))
        if known != value:
            self.complain(f"at {place!r} the action saw {known!r} before a failure and {value!r} after it")

    def expect(self, run: Run, place: str, output: Any) -> None:
        """An action sends an output; it has to arrive once."""
        known, _ = self.facts.expected.setdefault((self.run_of(run), place), (output, run.delivered))
        if known != output:
            self.complain(f"at {place!r} the action sent {known!r} before a failure and {output!r} after it")

    def reads(self, execution: int, writer: int) -> None:
        """An execution reads from memory what another one wrote."""
        if writer != execution and writer not in self.facts.completed:
            self.complain(f"execution {execution:x} reads what {writer:x} wrote, which has not completed")

    # --- outputs ---

    def check_output(self, output: str, times: int) -> None:
        """An output leaves the operator, `times` of it are in the sink now."""
        if times > 1 and not self.equal and not self.lossy and times > 1 + self.facts.voided[output]:
            self.complain(f"emitted twice: {output}")

    def check_outputs(
        self, outputs: list[tuple[Any, Any]], inputs: list[tuple[Any, Any]], ordered: bool
    ) -> None:
        """At the end: each output once; inputs of a key one after the other, and in order."""
        got = Counter(repr(output) for _, output in outputs)
        want = Counter(repr(output) for output, _ in self.facts.expected.values())
        lost, more = want - got, got - want
        if not self.lossy:
            more -= self.facts.voided
        if lost or (more and not self.lossy):
            self.complain(f"outputs: lost {dict(lost)}, doubled {dict(more)}")
        if self.equal:
            return
        for key in {key for key, _ in outputs}:
            order: list[Any] = []
            for other, output in outputs:
                if other == key and (not order or order[-1] != output[0]):
                    order.append(output[0])
            if len(set(order)) < len(order):
                self.complain(f"runs of key {key!r} overlap: {order}")
            if ordered and order != [value for other, value in inputs if other == key and value in order]:
                self.complain(f"inputs of key {key!r} out of order: {order}")


def _forget(known: dict[Any, Any], of: Callable[[Any], bool]) -> None:
    for name in [name for name in known if of(name)]:
        del known[name]


def _forget_values(known: dict[Place, Any], of: Callable[[Any], bool]) -> None:
    for call in [call for call, where in known.items() if of(where)]:
        del known[call]


def _results(value: Any) -> list[Result]:
    if isinstance(value, Result):
        return [value]
    if isinstance(value, (list, tuple)):
        return [result for item in value for result in _results(item)]
    return []


def label_of(spec: Any) -> str:
    """What tells a call from others: its first argument, in the agents of the simulator."""
    return str(spec.args[0]) if spec.args else str(spec.function_id)
