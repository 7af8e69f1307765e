"""The world of the simulator: source, log, checkpoints, sink, attempts, and a seeded scheduler.

Actions under simulation report what they see by `World.observe`; durable functions are made by `World.call`.
A violation is raised as soon as an invariant breaks; its history names every step.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.errors import AttemptEndedError, DurableExecutionError
from flink_agents_durable.engine.compile import compile_agent
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.engine.payload import PayloadCodec
from flink_agents_durable.engine.ports import CallStart
from flink_agents_durable.engine.records import BATCH_END, CUT, OUTCOME, REOPEN, SYNC_OUTCOME, decode_record
from flink_agents_durable.engine.settings import EngineSettings
from flink_agents_durable.testing.keyed_state import KeyedState, key_group
from flink_agents_durable.testing.simulation.attempt import Attempt, Crashed
from flink_agents_durable.testing.simulation.log import Fenced, SimulatedLog

STEP_LIMIT = 4_000
"""Steps after the last fault: a history that is longer hangs."""


class Violation(AssertionError):
    """An invariant is broken."""


@dataclass(frozen=True)
class CheckpointImage:
    """What a completed checkpoint holds, and where source and sink were."""

    state: bytes
    position: int
    source: tuple[tuple[Any, Any], ...]
    outputs: int
    time: int


class World:
    """One history. `inputs` are (key, value); all values are distinct."""

    def __init__(
        self,
        seed: int,
        make_agent: Callable[[World], Agent],
        inputs: Sequence[tuple[Any, Any]],
        *,
        crashes: int = 3,
        steps: int = 80,
        reorder: bool = True,
        settings: EngineSettings | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.inputs = list(inputs)
        self.source = list(inputs)
        self.settings = settings or EngineSettings(strict_values=True)
        self.codec = PayloadCodec()
        self.plan = compile_agent(make_agent(self))
        self.log = SimulatedLog()
        self.now = 1_000_000
        self.outputs: list[tuple[Any, Any]] = []
        self.committed = 0
        self.recorded: set[Any] = set()  # labels of calls whose outcome is in the log
        self.doubtful: set[Any] = set()  # labels of reconcilable calls that have started
        self.seen: dict[Any, Any] = {}
        self.executed: Counter[Any] = Counter()
        self.history: list[str] = []
        self.broken: Violation | None = None
        self.faults = True
        self.crashes_left = crashes
        self.steps = steps
        self.reorder = reorder
        self.checkpoints: list[CheckpointImage] = []
        self.pending: CheckpointImage | None = None
        self.notifications: list[int] = []
        self.zombie: Attempt | None = None
        self.attempt = self._new_attempt(0)
        self.attempt.opened = True
        self.attempt.engine.resume(self.now)

    # --- what agents under simulation use ---

    def observe(self, ctx: Any, place: Any, value: Any) -> None:
        """An action saw a value: on every later attempt it must see the same there."""
        known = self.seen.setdefault((ctx.run_id, place), value)
        if known != value:
            self.violation(f"at {place!r} the action saw {known!r} before a failure and {value!r} after it")

    def call(self, label: Any, fail: float = 0.0) -> Any:
        """What durable functions of simulated agents do: give a value that no other execution gives."""
        self.executed[label] += 1
        if self.random.random() < fail:
            raise ConnectionError(f"{label} failed")
        return (label, self.executed[label])

    def violation(self, text: str) -> None:
        """Raise a violation with the history."""
        # An action may swallow what is raised in it: the next step raises it again.
        self.broken = self.broken or Violation(f"seed {self.seed}: {text}\n  " + "\n  ".join(self.history[-60:]))
        raise self.broken

    # --- what attempts report ---

    def call_started(self, attempt: Attempt, call: CallStart) -> None:
        """A call or a reconciler starts."""
        label = call.args[0] if call.args else None
        self.history.append(f"[{attempt.number}] starts {call.name} {label}")
        if attempt is not self.attempt or label is None:
            return
        if label in self.recorded:
            self.violation(f"the call {label} runs again although its outcome was recorded")
        if isinstance(label, str) and label.startswith("pay"):
            if label in self.doubtful:
                self.violation(f"the call {label} was in doubt and runs without its reconciler")
            self.doubtful.add(label)

    def append(self, attempt: Attempt, batch: list[tuple[int, bytes]]) -> int:
        """A batch reaches the log."""
        end = self.log.append(attempt.number, batch)
        for _, data in batch:
            record = decode_record(data)
            self.history.append(
                f"[{attempt.number}] appends kind {record.kind} run {record.sequence} number {record.number}"
                f" slot {record.slot} ok {record.ok}"
            )
            if record.kind in (OUTCOME, SYNC_OUTCOME) and record.ok:
                value: Any = self.codec.loads(record.payload)
                if isinstance(value, tuple) and len(value) == 2:
                    self.recorded.add(value[0])
            elif record.kind in (CUT, REOPEN, BATCH_END):
                pass
        return end

    def emitted(self, attempt: Attempt, key: Any, output: Any) -> None:
        """An output leaves the operator."""
        if attempt is self.attempt:
            self.history.append(f"[{attempt.number}] emits {output!r}")
            self.outputs.append((key, output))

    def crash_point(self, where: str) -> None:
        """Maybe die inside a step."""
        if self.faults and self.crashes_left and self.random.random() < 0.01:
            self.history.append(f"crash {where}")
            raise Crashed

    # --- steps ---

    def run(self) -> None:
        """Run the history to its end, and check what must hold then."""
        for _ in range(self.steps):
            if not self.step():
                break
        self.faults = False
        for _ in range(STEP_LIMIT):
            if not self.step():
                break
        else:
            self.violation("it never ends")
        self._check_end()

    def step(self) -> bool:
        """One random step; False if nothing can move."""
        if self.broken is not None:
            raise self.broken
        choices = self._choices()
        if not choices:
            return False
        step = self.random.choice(choices)
        try:
            step()
        except (Crashed, AttemptEndedError, Fenced):
            self._restart(zombie=False)
        except DurableExecutionError as error:
            self.history.append(f"the task fails: {error}")
            self._restart(zombie=False)
        return True

    def _choices(self) -> list[Callable[[], None]]:
        attempt = self.attempt
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
            if attempt.timer is not None:
                choices.append(self._fire)
            if self.faults and self.pending is None:
                choices.append(self._trigger_checkpoint)
        if self.pending is not None:
            choices.append(self._complete_checkpoint)
            if self.faults:
                choices.append(self._abort_checkpoint)
        if self.notifications:
            choices.append(self._notify)
        if self.zombie is not None:
            choices += [self._zombie_step] * bool(self.zombie.batches or self.zombie.calls)
        if self.faults and self.crashes_left and self.random.random() < 0.15:
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
        call = attempt.calls.pop(id)
        self.now += self.random.randrange(3)
        completion = attempt.outcome(call)
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

    def _trigger_checkpoint(self) -> None:
        attempt = self.attempt
        attempt.state.apply(attempt.engine.snapshot())
        self.history.append(f"[{attempt.number}] snapshot at {attempt.applied_position}")
        image = attempt.state.to_checkpoint("simulated", {})
        self.pending = CheckpointImage(
            image, attempt.applied_position, tuple(self.source), len(self.outputs), self.now
        )

    def _complete_checkpoint(self) -> None:
        assert self.pending is not None
        self.history.append("checkpoint completes")
        self.checkpoints = [*self.checkpoints, self.pending][-2:]
        self.committed = self.pending.outputs
        self.pending = None
        if len(self.checkpoints) == 2:
            self.notifications.append(self.checkpoints[0].position)

    def _abort_checkpoint(self) -> None:
        self.history.append("checkpoint aborted")
        self.pending = None

    def _notify(self) -> None:
        position = self.notifications.pop(0)
        if self.faults and self.random.random() < 0.3:
            return  # lost
        self.history.append(f"log cut at {position}")
        self.log.truncate(position)

    def _zombie_step(self) -> None:
        zombie = self.zombie
        assert zombie is not None
        try:
            if zombie.batches:
                zombie.write_one()
            else:
                id = self.random.choice(sorted(zombie.calls))
                zombie.engine.complete([zombie.outcome(zombie.calls.pop(id))], self.now)
        except (Fenced, Crashed, DurableExecutionError):
            self.zombie = None

    # --- failures ---

    def _crash(self) -> None:
        self.history.append("crash")
        self._restart(zombie=self.attempt.opened and self.random.random() < 0.5)

    def _restart(self, *, zombie: bool) -> None:
        if self.faults:
            self.crashes_left = max(0, self.crashes_left - 1)
        old = self.attempt
        self.zombie = old if zombie else None
        if not zombie:
            old.engine.close()
        self.pending = None
        self.notifications = []
        if self.faults and len(self.checkpoints) == 2 and self.random.random() < 0.3:
            self.checkpoints.pop()
            self.history.append("restore from the older checkpoint")
        image = self.checkpoints[-1] if self.checkpoints else None
        self.committed = image.outputs if image else 0
        del self.outputs[self.committed :]
        self.source = list(image.source) if image else list(self.inputs)
        self._shuffle_keys()
        self.attempt = self._new_attempt(old.number + 1)

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

    def _new_attempt(self, number: int) -> Attempt:
        return Attempt(self, number, self.plan, self.codec, self.settings)

    def _open(self) -> None:
        """Fence, find the end, read, merge, resume (P21)."""
        attempt = self.attempt
        self.log.take_over(attempt.number)
        image = self.checkpoints[-1] if self.checkpoints else None
        if image is not None:
            attempt.state, _ = KeyedState.from_checkpoint(image.state)
        self.history.append(f"[{attempt.number}] opens from position {image.position if image else 0}")
        for key in attempt.state.active_keys():
            attempt.engine.restore_key(key, key_group(key), attempt.state.load(key))
        for group, record in self.log.tail(image.position if image else 0):
            attempt.engine.restore_tail(group, record)
        attempt.start_position = len(self.log.records)
        attempt.opened = True
        attempt.engine.resume(self.now)

    # --- the end ---

    def _check_end(self) -> None:
        engine = self.attempt.engine
        if engine.live_runs or engine.in_flight or engine.calls or self.attempt.timer is not None:
            self.violation(
                f"work is left: {engine.live_runs} runs, {engine.in_flight} in flight, {engine.calls}, timer {self.attempt.timer}"
            )
        self.attempt.state.apply(engine.snapshot())
        unclaimed = sum(len(ks.unclaimed) for ks in engine.keys.values())
        if self.attempt.state.entries() and not unclaimed:
            self.violation(f"{self.attempt.state.entries()} entries are left in the keyed state")
        twice = [output for output, count in Counter(map(repr, self.outputs)).items() if count > 1]
        if twice:
            self.violation(f"emitted twice: {twice}")
