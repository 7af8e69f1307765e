"""The world of the simulator: source, log, checkpoints, sink, attempts of a job, and a seeded scheduler.

A violation is raised as soon as an invariant breaks; its history names every step.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.errors import AttemptEndedError, DurableExecutionError
from flink_agents_durable.engine.admission import input_digest
from flink_agents_durable.engine.compile import compile_agent
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.engine.payload import PayloadCodec
from flink_agents_durable.engine.plan import CompiledPlan
from flink_agents_durable.engine.ports import CallStart
from flink_agents_durable.engine.run import Slot
from flink_agents_durable.engine.settings import EngineSettings
from flink_agents_durable.testing.keyed_state import MAX_PARALLELISM, KeyedState, key_group
from flink_agents_durable.testing.simulation.attempt import RETAINED, Attempt, Crashed
from flink_agents_durable.testing.simulation.checkpoints import CheckpointImage, Restored, facts_in
from flink_agents_durable.testing.simulation.faults import Faults
from flink_agents_durable.testing.simulation.history import SHOWN, Step, record_step, told
from flink_agents_durable.testing.simulation.invariants import Invariants, Result, label_of
from flink_agents_durable.testing.simulation.log import SimulatedLog
from flink_agents_durable.testing.simulation.stage import Stage
from flink_agents_durable.testing.simulation.watched import watched

STEP_LIMIT = 4_000
"""Steps after the last fault: a history that is longer hangs."""

GIVE_UP = 40
"""Failures of the task after the last fault: a failure that comes back for ever makes a job give up."""

PARALLELISMS = (1, 3)
"""Of the job: keys `a` and `b` belong to one subtask at the first, to two at the second."""

ZOMBIES = 3
"""At a time; older ones have ended."""

SNAPSHOTS = 0.5
"""How often a snapshot is among the choices: more of them are steps in which nothing happens."""

GAP = 5
"""Records that a log loses at most: short gaps leave something behind them."""

BORED = 0.25
"""How likely a step with nothing to do ends the time of faults: what follows would mostly be checkpoints."""

Move = Callable[[Attempt], None]


class Violation(AssertionError):
    """An invariant is broken."""

    def __init__(self, seed: int, text: str, history: list[Step], program: Sequence[str] = ()) -> None:
        self.seed = seed
        self.text = text
        self.history = told(history)
        lines = self.history if len(history) <= SHOWN else ["...", *self.history[-SHOWN:]]
        lines = [*program, *lines]
        super().__init__(f"seed {seed}: {text}\n  " + "\n  ".join(lines))


class World(Stage):
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
        self.history: list[Step] = []
        self.program = []
        self.version = 1
        self.faults = faults or Faults()
        self.flips = self.faults.flip > 0
        self.plan = _watched(compile_agent(make_agent(self)))
        self.log = SimulatedLog("simulated")
        self.now = 1_000_000
        self.outputs: list[tuple[Any, Any]] = []
        self.sent: Counter[str] = Counter()  # what is in the sink
        self.invariants = Invariants(self.violation, self.codec, equal=equal, durable=store)
        self.executed = Counter()
        self.broken: Violation | None = None
        self.faulty = True
        self.crashes_left = self.faults.crashes
        self.failures = 0  # of the task since the last fault
        self.steps = steps
        self.reorder = reorder
        self.checkpoints: list[CheckpointImage] = []
        self.taken = 0
        self.pending: CheckpointImage | None = None
        self.notifications: list[tuple[Attempt, int]] = []
        self.zombies: list[Attempt] = []
        self.encoded = {key: encode_key(key) for key, _ in inputs}
        self.groups = {key: key_group(encoded) for key, encoded in self.encoded.items()}
        self.parallelism = PARALLELISMS[0]
        self.attempts = self._new_attempts(0)
        for attempt in self.attempts:
            attempt.opened = True
            attempt.engine.resume(self.now)

    def violation(self, text: str) -> NoReturn:
        """Raise a violation with the history."""
        # An action may swallow what is raised in it: the next step raises it again.
        self.broken = self.broken or Violation(self.seed, text, self.history, self.program)
        raise self.broken

    # --- what attempts report ---

    def counts(self, attempt: Attempt) -> bool:
        """Whether what an attempt does matters: a zombie's log may be one that nobody reads any more."""
        followed = attempt.log is self.log and self.store_durable and not self.invariants.lossy
        return attempt.current or followed

    def chance(self, attempt: Attempt, fault: str) -> bool:
        """Whether a fault happens now."""
        if not self.faulty or not attempt.current:
            return False
        probability: float = getattr(self.faults, fault)
        return probability > 0 and self.random.random() < probability

    def dies(self, attempt: Attempt, where: str) -> bool:
        """Whether an attempt dies inside a step."""
        if self.crashes_left and self.faulty and self.random.random() < self.faults.crash_inside:
            self.history.append(("[{}] crash {}", attempt.number, where))
            return True
        return False

    def started(self, attempt: Attempt, call: CallStart) -> Slot:
        """A call or a reconciler starts."""
        slot = attempt.engine.calls[call.id]
        reconciler = call.function is slot.spec.reconciler
        what = "reconciler" if reconciler else "call"
        self.history.append(("[{}] {} {} starts", attempt.number, what, label_of(slot.spec)))
        if self.counts(attempt):
            owns = attempt.log.owners.get(slot.execution.run.key.group) == attempt.number
            self.invariants.starts(slot, reconciler, attempt.current, owns)
        return slot

    def append(self, attempt: Attempt, batch: list[tuple[int, bytes]]) -> int:
        """A batch reaches the log."""
        before = attempt.log.end
        end = attempt.log.append(attempt.number, batch)
        if attempt.log is not self.log or end == before:
            return end  # what a zombie adds after a fork, or in vain, concerns nobody
        for _, data in batch:
            record = self.invariants.appended(data)
            self.history.append(record_step(attempt.number, record))
        return end

    def emitted(self, attempt: Attempt, key: Any, output: Any) -> None:
        """An output leaves the operator."""
        if attempt.current:
            text = repr(output)
            self.history.append(("[{}] emits {}", attempt.number, text))
            self.outputs.append((key, output))
            self.sent[text] += 1
            self.invariants.check_output(text, self.sent[text])

    # --- steps ---

    def run(self) -> None:
        """Run the history to its end, and check what must hold then."""
        try:
            self._run()
        finally:
            for attempt in [*self.attempts, *self.zombies]:
                attempt.close()

    def _run(self) -> None:
        for _ in range(self.steps):
            if not self.step() or (self._idle() and self.random.random() < BORED):
                break
        self.faulty = False
        self.history.append("no more faults")
        for _ in range(STEP_LIMIT):
            if not self.step():
                break
        else:
            self.violation("it never ends")
        self._check_end()

    def _idle(self) -> bool:
        """Whether all inputs have been worked on, for now."""
        return not self.source and all(attempt.idle for attempt in self.attempts)

    def step(self) -> bool:
        """One random step; False if nothing can move."""
        choices = self._choices()
        if not choices:
            return False
        move, attempt = choices[int(self.random.random() * len(choices))]
        try:
            move(attempt)
        except (Crashed, AttemptEndedError) as error:
            if not attempt.current:
                raise
            self.history.append(("[{}] ends: {}", attempt.number, error))
            self._restart(attempt)
        except DurableExecutionError as error:
            self.failures += not self.faulty
            if self.failures > GIVE_UP:
                self.violation(f"the job gives up: {error}")
            self.history.append(("[{}] the task fails: {}", attempt.number, error))
            self._restart(attempt)
        if self.broken is not None:
            raise self.broken
        if attempt.engine.stats.mismatches and attempt.current and not self._may_differ():
            self.violation("a replay asked for another call than the recorded one")
        return True

    def _may_differ(self) -> bool:
        """Whether a replay may ask for other calls than before."""
        invariants = self.invariants
        return invariants.flipped or bool(invariants.facts.changed) or invariants.lossy

    def _choices(self) -> list[tuple[Move, Attempt]]:
        faulty, first = self.faulty, self.attempts[0]
        if self.crashes_left and self.chance(first, "crash"):
            return [(self._crash, attempt) for attempt in self.attempts]
        choices: list[tuple[Move, Attempt]] = []
        opened = True
        for attempt in self.attempts:
            if attempt.opened:
                self._add_moves(choices, attempt)
            else:
                opened = False
                choices.append((self._open, attempt))
        if opened and faulty:
            if self.chance(first, "stop"):
                return [(self._stop_with_savepoint, first)]
            if self.pending is None and self.random.random() < SNAPSHOTS:
                choices.append((self._trigger_checkpoint, first))
                choices.append((self._flush, first))
        if self.pending is not None:
            choices.append((self._complete_checkpoint, first))
            if faulty:
                choices.append((self._abort_checkpoint, first))
        if self.notifications:
            choices.append((self._notify, first))
        for zombie in self.zombies:
            if zombie.batches or zombie.calls or zombie.acknowledged < len(zombie.positions):
                choices.append((self._zombie_step, zombie))
        # Without a store nothing is kept between failures: deadlines must not come before everything else.
        if faulty or self.store_durable or not choices:
            for attempt in self.attempts:
                if attempt.timer is not None and attempt.opened:
                    choices.append((self._fire, attempt))
        return choices

    def _add_moves(self, choices: list[tuple[Move, Attempt]], attempt: Attempt) -> None:
        if self.source and self.groups[self.source[0][0]] in attempt.groups:
            choices.append((self._arrive, attempt))
        if attempt.calls:
            choices += [(self._finish, attempt)] * min(3, len(attempt.calls))
        if attempt.batches:
            choices += [(Attempt.write_one, attempt)] * min(2, len(attempt.batches))
        if attempt.acknowledged < len(attempt.positions):
            choices += [(self._acknowledge, attempt)] * 2
        if self.faulty and self.chance(attempt, "wake_up"):
            choices.append((self._wake_up, attempt))

    def _arrive(self, attempt: Attempt) -> None:
        key, value = self.source.pop(0)
        self.history.append(("input {} {}", key, value))
        self.now += 1
        payload = self.codec.dumps((key, value))
        attempt.engine.process(self.encoded[key], self.groups[key], payload, None, 0, self.now)

    def _finish(self, attempt: Attempt) -> None:
        id = self.random.choice(list(attempt.calls))
        call, slot = attempt.calls.pop(id)
        self.now += self.random.randrange(3)
        completion = attempt.outcome(call, slot)
        self.history.append(("[{}] call {} ends: {!r}", attempt.number, label_of(slot.spec), completion[2]))
        attempt.engine.complete([completion], self.now)

    def _acknowledge(self, attempt: Attempt) -> None:
        attempt.acknowledged = self.random.randint(attempt.acknowledged + 1, len(attempt.positions))
        self.history.append(("[{}] acknowledged up to batch {}", attempt.number, attempt.acknowledged))
        attempt.engine.acknowledge(attempt.acknowledged, self.now)

    def _fire(self, attempt: Attempt) -> None:
        assert attempt.timer is not None
        self.now = max(self.now, attempt.timer)
        self.history.append(("[{}] time {}", attempt.number, self.now))
        attempt.engine.fire_timers(self.now)

    def _wake_up(self, attempt: Attempt) -> None:
        """A wake-up for nothing: too early, or a second time."""
        engine = attempt.engine
        self.history.append("wake-ups for nothing")
        engine.fire_timers(self.now)
        engine.acknowledge(attempt.acknowledged, self.now)
        engine.complete([(-1, 0, Result("late", 0))], self.now)

    # --- checkpoints: subtasks do not meet, so that their parts may be taken at one moment ---

    def _flush(self, _: Attempt) -> None:
        """Changed keys are written early (K6), and what has expired is removed (P25)."""
        self.history.append("keyed state is written")
        for attempt in self.attempts:
            attempt.state.apply(attempt.engine.snapshot())
            attempt.sweep()

    def _snapshot(self) -> CheckpointImage:
        state = KeyedState()
        positions: dict[int, int] = {}
        for attempt in self.attempts:
            attempt.state.apply(attempt.engine.snapshot())
            state.add(attempt.state)
            positions |= dict.fromkeys(attempt.groups, self._snapshot_position(attempt))
        self.taken += 1
        facts = None
        if not self.store_durable or self.faults.fork:
            facts = facts_in(self.invariants, [state])
        source, outputs = tuple(self.source), len(self.outputs)
        return CheckpointImage(self.taken, self.log.id, state, positions, source, outputs, facts)

    def _snapshot_position(self, attempt: Attempt) -> int:
        position = attempt.applied_position
        if self.chance(attempt, "lag"):
            earlier = [known for known in attempt.positions if attempt.lowest_position <= known < position]
            position = self.random.choice([attempt.lowest_position, *earlier])
        attempt.lowest_position = position
        return position

    def _trigger_checkpoint(self, first: Attempt) -> None:
        self.pending = image = self._snapshot()
        self.history.append(("[{}] snapshot {} at {}", first.number, image.id, image.positions))
        for attempt in self.attempts:
            positions = {group: image.positions[group] for group in attempt.groups}
            attempt.retained.taken(image.id, positions)

    def _complete_checkpoint(self, _: Attempt) -> None:
        assert self.pending is not None
        self.history.append(("checkpoint {} completes", self.pending.id))
        self.checkpoints = [*self.checkpoints, self.pending][-RETAINED:]
        self.notifications += [(attempt, self.pending.id) for attempt in self.attempts]
        self.pending = None

    def _abort_checkpoint(self, _: Attempt) -> None:
        assert self.pending is not None
        self.history.append("checkpoint aborted")
        for attempt in self.attempts:
            attempt.retained.aborted(self.pending.id)
        self.pending = None

    def _notify(self, _: Attempt) -> None:
        attempt, id = self.notifications.pop(0)
        if self.chance(attempt, "lost_notification"):
            return
        positions = attempt.retained.completed(id)
        if positions is not None:
            self.history.append(("log cut at {}", positions))
            self.log.truncate(positions)

    def _stop_with_savepoint(self, first: Attempt) -> None:
        """Stop, and start again from the savepoint, which counts for no truncation (P23)."""
        image = self._snapshot()
        self.history.append(("stop with savepoint at {}", image.positions))
        self.checkpoints = [image]
        self._restart(None, zombies=0.0)

    # --- failures ---

    def _zombie_step(self, zombie: Attempt) -> None:
        try:
            if zombie.acknowledged < len(zombie.positions):
                zombie.acknowledged = len(zombie.positions)
                zombie.engine.acknowledge(zombie.acknowledged, self.now)
            elif zombie.batches:
                zombie.write_one()
            else:
                id = self.random.choice(list(zombie.calls))
                zombie.engine.complete([zombie.outcome(*zombie.calls.pop(id))], self.now)
        except (Crashed, DurableExecutionError) as error:
            self.history.append(("zombie [{}] ends: {}", zombie.number, error))
            self.zombies.remove(zombie)
            zombie.close()

    def _crash(self, attempt: Attempt) -> None:
        self.history.append(("[{}] crash", attempt.number))
        self._restart(None)

    def _restart(self, failed: Attempt | None, zombies: float | None = None) -> None:
        """All subtasks end, or go on as zombies, and start again from a checkpoint."""
        if self.faulty:
            self.crashes_left = max(0, self.crashes_left - 1)
        old = self.attempts
        zombies = self.faults.zombie if zombies is None else zombies
        lives = [a for a in old if a is not failed and a.opened and self.random.random() < zombies]
        known = self.zombies
        self.zombies = [*known, *lives][-ZOMBIES:]
        self.pending = None
        self.notifications = []
        if len(self.checkpoints) == 2 and self.chance(old[0], "older"):
            self.checkpoints.pop()
            self.history.append("restore from the older checkpoint")
        image = self.checkpoints[-1] if self.checkpoints else None
        del self.outputs[image.outputs if image else 0 :]
        self.sent = Counter(repr(output) for _, output in self.outputs)
        self.source = list(image.source) if image else list(self.inputs)
        self._shuffle_keys()
        self._change_circumstances(old[0], image)
        self.attempts = self._new_attempts(old[0].number + 1)
        for attempt in old:
            attempt.current = False
        for attempt in [attempt for attempt in (*old, *known) if attempt not in self.zombies]:
            self._close(attempt)

    def _change_circumstances(self, old: Attempt, image: CheckpointImage | None) -> None:
        """Other code, another parallelism, another log, or a log that has lost something."""
        if self.chance(old, "flip"):
            self.version, self.invariants.flipped = 3 - self.version, True
            self.history.append(("version {} of the code", self.version))
        if len(self.groups) > 1 and self.chance(old, "rescale"):
            self.parallelism = self.random.choice(PARALLELISMS)
            self.history.append(("parallelism {}", self.parallelism))
        if self.chance(old, "lost_head"):
            self._lose_head()
        if self.chance(old, "lost_end"):
            self._lose_end()
        if self.store_durable and self.chance(old, "fork"):
            self.log = SimulatedLog(f"fork {old.number}")
            self.checkpoints = self.checkpoints[-1:]
            self.history.append("a fork: from here on another log")
            self.invariants.restore(image.facts if image else None)
            self.invariants.facts.numbers.clear()
        elif not self.store_durable:
            self.invariants.restore(image.facts if image else None)

    def _new_attempts(self, number: int) -> list[Attempt]:
        """A subtask for each set of keys that belong together at this parallelism."""
        subtasks: dict[int, set[int]] = {}
        for group in self.groups.values():
            subtasks.setdefault(group * self.parallelism // MAX_PARALLELISM, set()).add(group)
        return [Attempt(self, number, frozenset(groups)) for groups in subtasks.values()]

    def _lose_head(self) -> None:
        at = min(self.checkpoints[-1].positions.values()) if self.checkpoints else 0
        if at < self.log.end:
            at = self.random.randint(at, min(self.log.end, at + GAP))
            self.log.truncate(dict.fromkeys(self.groups.values(), at))
            self.invariants.lossy = True
            self.history.append(("the log is gone up to {}", at))

    def _lose_end(self) -> None:
        at = self.random.randint(max(0, self.log.end - GAP), self.log.end)
        self.log.lose_end(at)
        self.invariants.lossy = True
        self.history.append(("the log is gone after {}", at))

    def _close(self, attempt: Attempt) -> None:
        attempt.close()
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

    def _open(self, attempt: Attempt) -> None:
        """Fence, find the end, read; then merge and resume (P21)."""
        step = self.OPENING[attempt.opening]
        attempt.opening += 1
        self.history.append(("[{}] opens: {}", attempt.number, step))
        image = self.checkpoints[-1] if self.checkpoints else None
        if step == "fence":
            self.log.take_over(attempt.number, attempt.groups)
        else:
            self._read(attempt, image)
        if attempt.opening < len(self.OPENING):
            return
        if image is not None:
            attempt.state = image.state.part(lambda key: key_group(key) in attempt.groups)
            attempt.engine.floors.update(image.state.floors)
        self._check_restored(attempt, image)
        engine = attempt.engine
        for key in attempt.state.active_keys():
            attempt.crash_point("while state is restored")
            engine.restore_key(key, key_group(key), attempt.state.load(key))
        for group, record in attempt.tail if self.store_durable else ():
            engine.restore_tail(group, record)
        attempt.crash_point("before it resumes")
        attempt.opened = True
        engine.resume(self.now)

    def _read(self, attempt: Attempt, image: CheckpointImage | None) -> None:
        positions = dict.fromkeys(attempt.groups, 0)
        if image is not None and image.log_id == self.log.id:
            positions = {group: image.positions[group] for group in attempt.groups}
        attempt.misses = self.log.misses(positions)
        if attempt.misses and not self.invariants.lossy:
            self.violation(f"the log was cut at {self.log.heads}, the restore needs it from {positions}")
        attempt.misses |= self.log.lacks(positions)
        attempt.tail = self.log.tail(positions)
        attempt.start_position = attempt.lowest_position = self.log.end

    def _check_restored(self, attempt: Attempt, image: CheckpointImage | None) -> None:
        """State and tail hold what is known to be durable; after a loss only that is known."""
        invariants = self.invariants
        restored = Restored(invariants, attempt.state, attempt.tail)
        mine = {self.encoded[key] for key, group in self.groups.items() if group in attempt.groups}
        if attempt.misses:
            invariants.lose(mine, restored.records)
        elif self.store_durable and not invariants.lossy and (image is None or image.log_id == self.log.id):
            if not invariants.equal:
                restored.pending |= {self._run_key(entry) for entry in self.source}
            pending = {run for run in restored.pending if run[0] in mine}
            invariants.check_restored(restored.records, pending, restored.done)

    def _run_key(self, entry: tuple[Any, Any]) -> tuple[bytes, bytes, int]:
        key, value = entry
        digest = input_digest(value, self.codec.dumps(entry))
        return self.invariants.run_key(self.encoded[key], digest, 0)

    # --- the end ---

    def _check_end(self) -> None:
        first = self.attempts[0]
        for _ in range(RETAINED):  # after which nothing of the log is needed any more
            self._trigger_checkpoint(first)
            self._complete_checkpoint(first)
            while self.notifications:
                self._notify(first)
        for attempt in self.attempts:
            for what, value in attempt.left().items():
                if value:
                    self.violation(f"left at the end: {what}: {value}")
        if self.store_durable and self.log.tail(dict.fromkeys(self.groups.values(), 0)):
            self.violation("left at the end: records in the log")
        self.invariants.check_outputs(self.outputs, self.inputs, ordered=not self.reorder)


def _watched(plan: CompiledPlan) -> CompiledPlan:
    return CompiledPlan.of([replace(action, make_driver=watched(action)) for action in plan.by_name.values()])
