"""The world of the simulator: source, log, checkpoints, sink, attempts, and a seeded scheduler.

Actions under simulation report what they see by `World.observe` and send outputs by `World.emit`; their durable
functions are `World.call` and its like. A violation is raised as soon as an invariant breaks; its history names
every step.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.errors import AttemptEndedError, DurableExecutionError
from flink_agents_durable.api.events import OutputEvent
from flink_agents_durable.engine.compile import compile_agent
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.engine.payload import PayloadCodec
from flink_agents_durable.engine.ports import JOURNAL, CallStart
from flink_agents_durable.engine.records import decode_record
from flink_agents_durable.engine.run import Slot
from flink_agents_durable.engine.settings import EngineSettings
from flink_agents_durable.testing.keyed_state import KeyedState, key_group
from flink_agents_durable.testing.simulation.attempt import RETAINED, Attempt, Crashed
from flink_agents_durable.testing.simulation.attempt_counts import AttemptCounts
from flink_agents_durable.testing.simulation.faults import Faults
from flink_agents_durable.testing.simulation.invariants import Facts, Invariants, Result
from flink_agents_durable.testing.simulation.log import SimulatedLog

STEP_LIMIT = 4_000
"""Steps after the last fault: a history that is longer hangs."""

GIVE_UP = 40
"""Failures of the task after the last fault: a failure that comes back for ever makes a job give up."""


class Violation(AssertionError):
    """An invariant is broken."""

    def __init__(self, seed: int, text: str, history: list[str]) -> None:
        self.seed = seed
        self.text = text
        self.history = history
        lines = history if len(history) <= 100 else ["...", *history[-100:]]
        super().__init__(f"seed {seed}: {text}\n  " + "\n  ".join(lines))


@dataclass(frozen=True)
class CheckpointImage:
    """What a checkpoint holds, and where source and sink were."""

    id: int
    state: bytes
    position: int
    source: tuple[tuple[Any, Any], ...]
    outputs: int
    facts: Facts | None


class World:
    """One history. `inputs` are (key, value); all values are distinct unless they are `equal`."""

    OPENING = ("fence", "read")
    """Steps of opening the log (P21)."""

    def __init__(
        self,
        seed: int,
        make_agent: Callable[[World], Agent],
        inputs: Sequence[tuple[Any, Any]],
        *,
        faults: Faults | None = None,
        steps: int = 80,
        reorder: bool = True,
        equal: bool = False,
        store: bool = True,
        max_record_bytes: int | None = None,
        settings: EngineSettings | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.inputs = list(inputs)
        self.source = list(inputs)
        self.settings = settings or EngineSettings(strict_values=True)
        self.store_durable = store
        self.max_record_bytes = max_record_bytes
        self.codec = PayloadCodec()
        self.history: list[str] = []
        self.version = 1
        self.flipped = False
        self.plan = compile_agent(make_agent(self))
        self.log = SimulatedLog("simulated")
        self.now = 1_000_000
        self.outputs: list[tuple[Any, Any]] = []
        self.invariants = Invariants(self.violation, self.codec, equal=equal, durable=store)
        self.executed: Counter[str] = Counter()
        self.parents: dict[str, int] = {}
        self.broken: Violation | None = None
        self.faults = faults or Faults()
        self.faulty = True
        self.crashes_left = self.faults.crashes
        self.failures = 0  # of the task since the last fault
        self.steps = steps
        self.reorder = reorder
        self.checkpoints: list[CheckpointImage] = []
        self.taken = 0
        self.pending: CheckpointImage | None = None
        self.notifications: list[int] = []
        self.zombie: Attempt | None = None
        self.attempt = Attempt(self, 0)
        self.attempt.opened = True
        self.attempt.engine.resume(self.now)

    # --- what agents under simulation use ---

    def observe(self, ctx: Any, place: str, value: Any) -> None:
        """An action saw a value: on every later attempt it must see the same there."""
        if self._counts(ctx):
            self.invariants.observe(ctx._driver.port._execution.run, place, value)

    def emit(self, ctx: Any, place: str, value: Any, *more: Any) -> None:
        """Send an output: input, place, and what the action has seen."""
        output = [value, place, list(more)]
        if self._counts(ctx):
            self.invariants.expect(ctx._driver.port._execution.run, place, output)
        ctx.send_event(OutputEvent(output))

    def give_up(self, ctx: Any, action: str, value: Any, error: Exception) -> None:
        """The action fails for good: a dead letter is due, as `Attempt.emit_dead_letter` writes it."""
        place = f"dead letter of {action}"
        output = [value, place, [f"builtins.{type(error).__name__}: {error}"]]
        if self._counts(ctx):
            self.invariants.expect(ctx._driver.port._execution.run, place, output)

    def call(self, label: str, fail: float = 0.0) -> Result:
        """What durable functions of simulated agents do: give a value that no other execution gives."""
        self.executed[label] += 1
        # Without a store and checkpoints each failure costs everything: at the end there must be none.
        if (self.faulty or self.store_durable) and self.random.random() < fail:
            raise ConnectionError(f"{label} failed {self.executed[label]}")
        return Result(label, self.executed[label])

    def call_after(self, label: str, parent: str) -> Result:
        """A call that depends on an earlier one though its arguments do not show it; see `depends`."""
        self.executed[label] += 1
        return Result(label, self.executed[label], self.parents[parent])

    def depends(self, ctx: Any, label: str, nonce: int) -> None:
        """What `call_after` takes for the result of its parent."""
        if self._counts(ctx):
            self.parents[label] = nonce

    def check(self, ctx: Any, holds: bool, text: str) -> None:
        """An invariant of the agent."""
        if not holds and self._counts(ctx):
            self.violation(text)

    def big(self, label: str) -> Any:
        """A result that the store may refuse."""
        self.executed[label] += 1
        if self.random.random() < 0.5:
            return Result(label + " " * 5_000, self.executed[label])
        return Result(label, self.executed[label])

    def remember(self, ctx: Any, path: str, value: Any) -> None:
        """Write to memory."""
        ctx.short_term_memory.set(path, (ctx._driver.port.id, value))

    def recall(self, ctx: Any, path: str) -> Any:
        """Read from memory; only completed executions may have written it."""
        writer, value = ctx.short_term_memory.get(path, (0, None))
        if writer and self._counts(ctx):
            self.invariants.reads(ctx._driver.port.id, writer)
        return value

    def completes(self, ctx: Any) -> None:
        """The last thing that an action does, if others read what it has written."""
        if self._counts(ctx):
            self.invariants.facts.completed.add(ctx._driver.port.id)

    def _counts(self, ctx: Any) -> bool:
        """Whether an action belongs to the present attempt, and the attempt to the living."""
        attempt = ctx._driver.port._engine.ports
        return attempt is self.attempt and self.attempt.alive

    def violation(self, text: str) -> None:
        """Raise a violation with the history."""
        # An action may swallow what is raised in it: the next step raises it again.
        self.broken = self.broken or Violation(self.seed, text, list(self.history))
        raise self.broken

    # --- what attempts report ---

    def counts(self, attempt: Attempt) -> bool:
        """Whether what an attempt does matters: a zombie's log may be one that nobody reads any more."""
        followed = attempt.log is self.log and self.store_durable and not self.invariants.lossy
        return attempt is self.attempt or followed

    def chance(self, attempt: Attempt, fault: str) -> bool:
        """Whether a fault happens now."""
        probability: float = getattr(self.faults, fault)
        if not probability or not self.faulty or attempt is not self.attempt:
            return False
        return self.random.random() < probability

    def dies(self, attempt: Attempt, where: str) -> bool:
        """Whether an attempt dies inside a step."""
        if self.crashes_left and self.chance(attempt, "crash_inside"):
            self.history.append(f"[{attempt.number}] crash {where}")
            return True
        return False

    def started(self, attempt: Attempt, call: CallStart) -> Slot:
        """A call or a reconciler starts."""
        slot = attempt.engine.calls[call.id]
        self.history.append(f"[{attempt.number}] starts {call.name} {slot.spec.args[0]}")
        if self.counts(attempt):
            self.invariants.starts(slot, call.function is slot.spec.reconciler, attempt is self.attempt)
        return slot

    def append(self, attempt: Attempt, batch: list[tuple[int, bytes]]) -> int:
        """A batch reaches the log."""
        before = attempt.log.end
        end = attempt.log.append(attempt.number, batch)
        if attempt.log is not self.log or end == before:
            return end  # what a zombie adds after a fork, or in vain, concerns nobody
        for _, data in batch:
            record = self.invariants.appended(data)
            self.history.append(
                f"[{attempt.number}] appends kind {record.kind} run {record.sequence} number {record.number}"
                f" execution {record.execution % 997} slot {record.slot} ok {record.ok} {record.slots or ''}"
            )
        return end

    def emitted(self, attempt: Attempt, key: Any, output: Any) -> None:
        """An output leaves the operator."""
        if attempt is self.attempt:
            self.history.append(f"[{self.attempt.number}] emits {output!r}")
            self.outputs.append((key, output))

    # --- steps ---

    def run(self) -> None:
        """Run the history to its end, and check what must hold then."""
        for _ in range(self.steps):
            if not self.step():
                break
        self.faulty = False
        self.history.append("no more faults")
        for _ in range(STEP_LIMIT):
            if not self.step():
                break
        else:
            self.violation("it never ends")
        self._check_end()

    def step(self) -> bool:
        """One random step; False if nothing can move."""
        choices = self._choices()
        if not choices:
            return False
        step = self.random.choice(choices)
        attempt = self.attempt
        try:
            step()
        except (Crashed, AttemptEndedError) as error:
            if attempt is not self.attempt:
                raise
            self.history.append(f"[{attempt.number}] ends: {error}")
            self._restart(zombie=False)
        except DurableExecutionError as error:
            self.failures += not self.faulty
            if self.failures > GIVE_UP:
                self.violation(f"the job gives up: {error}")
            self.history.append(f"[{attempt.number}] the task fails: {error}")
            self._restart(zombie=False)
        if self.broken is not None:
            raise self.broken
        if self.attempt.engine.stats.mismatches and not self._may_differ():
            self.violation("a replay asked for another call than the recorded one")
        return True

    def _may_differ(self) -> bool:
        """Whether a replay may ask for other calls than before."""
        return self.flipped or bool(self.invariants.facts.changed) or self.invariants.lossy

    def _choices(self) -> list[Callable[[], None]]:
        attempt = self.attempt
        faulty = self.faulty
        choices: list[Callable[[], None]] = []
        if not attempt.opened:
            choices.append(self._open)
        else:
            if self.source:
                choices.append(self._arrive)
            choices += [self._finish] * min(3, len(attempt.calls))
            choices += [attempt.write_one] * min(2, len(attempt.batches))
            if attempt.acknowledged < len(attempt.positions):
                choices += [self._acknowledge] * 2
            # Without a store nothing is kept between failures: deadlines must not come before everything else.
            if attempt.timer is not None and (faulty or self.store_durable or not choices):
                choices.append(self._fire)
            if faulty:
                choices += [self._trigger_checkpoint, self._flush][: 2 if self.pending is None else 0]
                if self.chance(attempt, "wake_up"):
                    choices.append(self._wake_up)
                if self.chance(attempt, "stop"):
                    choices = [self._stop_with_savepoint]
        if self.pending is not None:
            choices.append(self._complete_checkpoint)
            if faulty:
                choices.append(self._abort_checkpoint)
        if self.notifications:
            choices.append(self._notify)
        if self.zombie is not None:
            zombie = self.zombie
            moves = bool(zombie.batches or zombie.calls) + (zombie.acknowledged < len(zombie.positions))
            choices += [self._zombie_step] * moves
        if self.crashes_left and self.chance(attempt, "crash"):
            choices = [self._crash]
        return choices

    def _arrive(self) -> None:
        key, value = self.source.pop(0)
        self.history.append(f"input {key} {value}")
        self.now += 1
        encoded = encode_key(key)
        payload = self.codec.dumps((key, value))
        self.attempt.engine.process(encoded, key_group(encoded), payload, None, 0, self.now)

    def _finish(self) -> None:
        attempt = self.attempt
        id = self.random.choice(sorted(attempt.calls))
        call, slot = attempt.calls.pop(id)
        self.now += self.random.randrange(3)
        completion = attempt.outcome(call, slot)
        self.history.append(f"[{attempt.number}] {call.name} ends: {completion[2]!r}")
        attempt.engine.complete([completion], self.now)

    def _acknowledge(self) -> None:
        attempt = self.attempt
        attempt.acknowledged = self.random.randint(attempt.acknowledged + 1, len(attempt.positions))
        self.history.append(f"[{attempt.number}] acknowledged up to batch {attempt.acknowledged}")
        attempt.engine.acknowledge(attempt.acknowledged, self.now)

    def _fire(self) -> None:
        attempt = self.attempt
        assert attempt.timer is not None
        self.now = max(self.now, attempt.timer)
        self.history.append(f"[{attempt.number}] time {self.now}")
        attempt.engine.fire_timers(self.now)

    def _wake_up(self) -> None:
        """A wake-up for nothing: too early, or a second time."""
        engine = self.attempt.engine
        self.history.append("wake-ups for nothing")
        engine.fire_timers(self.now)
        engine.acknowledge(self.attempt.acknowledged, self.now)
        engine.complete([(-1, 0, Result("late", 0))], self.now)

    # --- checkpoints ---

    def _flush(self) -> None:
        """Changed keys are written early (K6)."""
        self.history.append("keyed state is written")
        self.attempt.state.apply(self.attempt.engine.snapshot())

    def _snapshot(self) -> CheckpointImage:
        attempt = self.attempt
        attempt.state.apply(attempt.engine.snapshot())
        position = attempt.applied_position
        if self.chance(attempt, "lag"):
            earlier = [known for known in attempt.positions if attempt.lowest_position <= known < position]
            position = self.random.choice([attempt.lowest_position, *earlier])
        attempt.lowest_position = position
        self.taken += 1
        facts = None
        if not self.store_durable or self.faults.fork:
            facts = self._facts_of(attempt.state)
        state = attempt.state.to_checkpoint(self.log.id, {})
        return CheckpointImage(self.taken, state, position, tuple(self.source), len(self.outputs), facts)

    def _facts_of(self, state: KeyedState) -> Facts:
        """What is known when only a checkpoint is left: what was seen, and the records in it."""
        facts = self.invariants.image()
        facts.recorded, facts.dead = {}, {}
        facts.attempts = AttemptCounts()
        for key in state.active_keys():
            for kind, _, data in state.load(key):
                if kind == JOURNAL:
                    self.invariants.learn(facts, decode_record(data))
        return facts

    def _trigger_checkpoint(self) -> None:
        self.pending = image = self._snapshot()
        self.history.append(f"[{self.attempt.number}] snapshot {image.id} at {image.position}")
        self.attempt.retained.taken(image.id, {0: image.position})

    def _complete_checkpoint(self) -> None:
        assert self.pending is not None
        self.history.append(f"checkpoint {self.pending.id} completes")
        self.checkpoints = [*self.checkpoints, self.pending][-RETAINED:]
        self.notifications.append(self.pending.id)
        self.pending = None

    def _abort_checkpoint(self) -> None:
        assert self.pending is not None
        self.history.append("checkpoint aborted")
        self.attempt.retained.aborted(self.pending.id)
        self.pending = None

    def _notify(self) -> None:
        id = self.notifications.pop(0)
        if self.chance(self.attempt, "lost_notification"):
            return
        positions = self.attempt.retained.completed(id)
        if positions is not None:
            self.history.append(f"log cut at {positions[0]}")
            self.log.truncate(positions[0])

    def _stop_with_savepoint(self) -> None:
        """Stop, and start again from the savepoint, which counts for no truncation (P23)."""
        image = self._snapshot()
        self.history.append(f"stop with savepoint at {image.position}")
        self.checkpoints = [image]
        self._restart(zombie=False)

    # --- failures ---

    def _zombie_step(self) -> None:
        zombie = self.zombie
        assert zombie is not None
        try:
            if zombie.acknowledged < len(zombie.positions):
                zombie.acknowledged = len(zombie.positions)
                zombie.engine.acknowledge(zombie.acknowledged, self.now)
            elif zombie.batches:
                zombie.write_one()
            else:
                id = self.random.choice(sorted(zombie.calls))
                zombie.engine.complete([zombie.outcome(*zombie.calls.pop(id))], self.now)
        except (Crashed, DurableExecutionError) as error:
            self.history.append(f"zombie [{zombie.number}] ends: {error}")
            self.zombie = None

    def _crash(self) -> None:
        self.history.append(f"[{self.attempt.number}] crash")
        self._restart(zombie=self.attempt.opened and self.random.random() < self.faults.zombie)

    def _restart(self, *, zombie: bool) -> None:
        if self.faulty:
            self.crashes_left = max(0, self.crashes_left - 1)
        old = self.attempt
        self.zombie = old if zombie else None
        self.pending = None
        self.notifications = []
        if len(self.checkpoints) == 2 and self.chance(old, "older"):
            self.checkpoints.pop()
            self.history.append("restore from the older checkpoint")
        image = self.checkpoints[-1] if self.checkpoints else None
        del self.outputs[image.outputs if image else 0 :]
        self.source = list(image.source) if image else list(self.inputs)
        self._shuffle_keys()
        if self.chance(old, "flip"):
            self.version, self.flipped = 3 - self.version, True
            self.history.append(f"version {self.version} of the code")
        if self.chance(old, "lost_head"):
            self._lose_head()
        if self.store_durable and self.chance(old, "fork"):
            self.log = SimulatedLog(f"fork {old.number}")
            self.checkpoints = self.checkpoints[-1:]
            self.history.append("a fork: from here on another log")
            self.invariants.restore(image.facts if image else None)
            self.invariants.facts.numbers.clear()
        elif not self.store_durable:
            self.invariants.restore(image.facts if image else None)
        self.attempt = Attempt(self, old.number + 1)
        if not zombie:
            self._close(old)

    def _lose_head(self) -> None:
        position = self.checkpoints[-1].position if self.checkpoints else 0
        if position < self.log.end:
            self.log.truncate(self.random.randint(position, self.log.end))
            self.invariants.lossy = True
            self.history.append(f"the log is gone up to {self.log.head}")

    def _close(self, attempt: Attempt) -> None:
        attempt.dead = True
        attempt.engine.close()
        engine = attempt.engine
        if engine.keys or engine.calls or engine.dirty:
            self.violation("something is left in an engine that was closed")

    def _shuffle_keys(self) -> None:
        """Inputs come back in another order; with `reorder` sometimes also those of one key (S6)."""
        if self.reorder and self.random.random() < 0.5:
            self.random.shuffle(self.source)
            return
        keys = [key for key, _ in self.source]
        self.random.shuffle(keys)
        queues: dict[Any, list[tuple[Any, Any]]] = {}
        for key, value in self.source:
            queues.setdefault(key, []).append((key, value))
        self.source = [queues[key].pop(0) for key in keys]

    # --- opening ---

    def _open(self) -> None:
        """Fence, find the end, read; then merge and resume (P21)."""
        attempt = self.attempt
        step = self.OPENING[attempt.opening]
        attempt.opening += 1
        self.history.append(f"[{attempt.number}] opens: {step}")
        image = self.checkpoints[-1] if self.checkpoints else None
        position = (
            image.position
            if image and KeyedState.from_checkpoint(image.state)[1].log_id == self.log.id
            else 0
        )
        if step == "fence":
            self.log.take_over(attempt.number)
        else:
            if position < self.log.head and self.invariants.lossy:
                self.invariants.lose()
            elif position < self.log.head:
                self.violation(f"the log was cut at {self.log.head}, the restore needs it from {position}")
            attempt.tail = self.log.tail(position)
            attempt.start_position = attempt.lowest_position = self.log.end
        if attempt.opening < len(self.OPENING):
            return
        if image is not None:
            attempt.state, _ = KeyedState.from_checkpoint(image.state)
        engine = attempt.engine
        for key in attempt.state.active_keys():
            attempt.crash_point("while state is restored")
            engine.restore_key(key, key_group(key), attempt.state.load(key))
        for group, record in attempt.tail if self.store_durable else ():
            engine.restore_tail(group, record)
        attempt.crash_point("before it resumes")
        attempt.opened = True
        engine.resume(self.now)

    # --- the end ---

    def _check_end(self) -> None:
        attempt, engine = self.attempt, self.attempt.engine
        for _ in range(RETAINED):  # after which nothing of the log is needed any more
            self._trigger_checkpoint()
            self._complete_checkpoint()
            while self.notifications:
                self._notify()
        left = {
            "runs": engine.live_runs,
            "in flight": engine.in_flight,
            "calls": engine.calls,
            "calls of the executor": attempt.calls,
            "timer": attempt.timer is not None,
            "timers": engine.timers.next() is not None,
            "keys": engine.keys,
            "dirty keys": engine.dirty,
            "records": [*engine.journal.outbox, *engine.journal.unacknowledged, *attempt.batches],
            "commands": [*engine.starts, *engine.cancels, *engine.idle],
            "entries in the keyed state": attempt.state.entries(),
            "records in the log": self.log.tail(0) if self.store_durable else (),
        }
        for what, value in left.items():
            if value:
                self.violation(f"left at the end: {what}: {value}")
        self.invariants.check_outputs(self.outputs, self.inputs, ordered=not self.reorder)
