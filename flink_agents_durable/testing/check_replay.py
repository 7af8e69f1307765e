"""`check_replay`: crash an agent before and after every record of its journal, and compare what comes out."""

from __future__ import annotations

import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flink_agents_durable.agents.builtin_actions import builtin_actions
from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.awakeables import AwakeableResolution
from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions
from flink_agents_durable.api.dead_letters import DeadLetter
from flink_agents_durable.api.lazy import LazyObjects
from flink_agents_durable.engine.awakeables import awaited
from flink_agents_durable.engine.compile import compile_agent
from flink_agents_durable.engine.engine import Engine
from flink_agents_durable.engine.interruption import is_interruption
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.engine.limits import limit_names
from flink_agents_durable.engine.plan import CompiledPlan
from flink_agents_durable.engine.ports import CallStart, Completion, StateEntry
from flink_agents_durable.engine.records import (
    AWAKENED,
    BATCH_END,
    BEGIN,
    CUT,
    OUTCOME,
    REOPEN,
    RESERVED,
    SYNC_OUTCOME,
    TIMER,
    decode_record,
)
from flink_agents_durable.engine.run import Execution, KeyState, Slot
from flink_agents_durable.engine.services import Services
from flink_agents_durable.engine.settings import EngineSettings
from flink_agents_durable.runtime.codecs import make_codec
from flink_agents_durable.runtime.executor import CallExecutor
from flink_agents_durable.runtime.lazy_objects import close_lazies
from flink_agents_durable.runtime.resources import ResourceRegistry
from flink_agents_durable.testing.keyed_state import KeyedState, key_group
from flink_agents_durable.testing.replay_outputs import (
    Outputs,
    ReplayDifferenceError,
    compare_outputs,
    copy_outputs,
    line_text,
    sender,
)

CLOSE_SECONDS = 1.0
"""How long closing waits for resources and calls; one that blocks must not hold the test."""
START = 1_700_000_000_000

Place = tuple[int, int, int]
"""Execution, slot, and failed attempts before it, of one try of a call: the same after every crash."""

_Checkpoint = tuple[bytes, int, Outputs, set[str]]
"""State, position in the log, what had been emitted, and the awakeables that had been resolved."""

Resolve = Callable[[Any, str], AwakeableResolution | None]
"""From key and id of an awakeable that an action waits for to its resolution; None: nobody answers."""

_KINDS = {
    BEGIN: "the start of the run",
    RESERVED: "the reservation of",
    OUTCOME: "the outcome of",
    SYNC_OUTCOME: "the outcome of",
    TIMER: "a timer",
    AWAKENED: "the resolution of awakeable",
    BATCH_END: "the end of a batch",
    CUT: "a mismatch",
    REOPEN: "an uncaught failure",
}


@dataclass(frozen=True)
class ReplayReport:
    """What a check has tried."""

    crash_points: int
    calls: int
    outputs: int


class _Stop(BaseException):
    """The attempt ends here."""


class _Baseline:
    """The run without a crash: what was called, with which outcome, in which order, and what came out."""

    def __init__(self) -> None:
        self.outcomes: dict[Place, tuple[str, int, object]] = {}  # call, status, value
        self.order: dict[Place, int] = {}
        self.outputs: Outputs = {}
        self.records: list[bytes] = []

    def last(self, place: Place) -> Place:
        """The last attempt of the same call: what a reconciler finds."""
        return max((other for other in self.outcomes if other[:2] == place[:2]), default=place)


class _Setting:
    """The agent, as every attempt runs it."""

    def __init__(
        self,
        agent: Agent,
        options: Mapping[Any, object],
        resources: Mapping[Any, Any],
        resolve: Resolve | None,
    ) -> None:
        self._resolve = resolve or (lambda key, id: None)
        self._resolutions: dict[str, AwakeableResolution | None] = {}
        named = {getattr(option, "key", option): value for option, value in options.items()}
        defaults = {AgentOptions.STRICT_VALUES.key: True, AgentOptions.MISMATCH_POLICY.key: "fail"}
        config = AgentConfiguration({**defaults, **named})
        self.plan: CompiledPlan = compile_agent(agent, builtin_actions())
        self.settings = EngineSettings.of(config)
        self.resources = ResourceRegistry.of(agent, dict(resources))
        self.lazies = LazyObjects()
        self.services = Services(
            "local", config, self.resources.get_resource, limit_names(config), self.lazies, _no_metrics
        )
        self.codec = make_codec(config)
        self.executor = CallExecutor(
            workers=2,
            max_concurrency=2,
            on_complete=lambda: None,
            is_interruption=lambda error: is_interruption(error, None),
        )

    def resolution(self, key: Any, id: str) -> AwakeableResolution | None:
        """What becomes of an awakeable: the same in every attempt."""
        if id not in self._resolutions:
            self._resolutions[id] = self._resolve(key, id)
        return self._resolutions[id]

    def close(self) -> None:
        self.resources.close(self.executor.loop, CLOSE_SECONDS)
        close_lazies(self.lazies, self.executor.loop, CLOSE_SECONDS)
        self.executor.close(CLOSE_SECONDS)


class _Attempt:
    """One attempt: ports of an engine whose calls end in the order of the run without a crash."""

    store_durable = True
    max_record_bytes: int | None = None

    def __init__(
        self,
        setting: _Setting,
        fakes: Mapping[Any, Any],
        log: list[tuple[int, bytes]],
        baseline: _Baseline | None,
    ) -> None:
        self.setting = setting
        self.fakes = fakes
        self.log = log
        self.baseline = baseline
        self.stop_at = -1  # records after which this attempt dies; -1: never
        self.state = KeyedState()
        self.engine = Engine(
            setting.plan, self, setting.codec, setting.settings, "check_replay", setting.services
        )
        self.calls: dict[int, tuple[CallStart, Slot]] = {}
        self.executed: list[tuple[Place, str]] = []
        self.outcomes: dict[Place, tuple[str, int, object]] = {}
        self.order: dict[Place, int] = {}
        self.outputs: Outputs = defaultdict(list)
        self.batches = 0
        self.time = START
        self.timer: int | None = None
        self.dead = False
        self.checkpoint: _Checkpoint | None = None
        self.resolved: set[str] = set()

    # --- driving ---

    def process(self, inputs: Iterable[tuple[Any, Any]]) -> None:
        for key, value in inputs:
            encoded = encode_key(key)
            payload = self.setting.codec.inputs.dumps((key, value))
            self.engine.process(encoded, key_group(encoded), payload, None, 0, self.time)

    def drive(self) -> None:
        """Until nothing moves any more; timers fire when nothing else can happen."""
        engine = self.engine
        while True:
            self._take_checkpoint()
            if engine.applied_batches < self.batches:
                engine.acknowledge(engine.applied_batches + 1, self.time)
            elif self.calls:
                id = min(self.calls, key=lambda id: (self._rank(self.calls[id][1]), id))
                call, slot = self.calls.pop(id)
                engine.complete([self._outcome(call, slot)], self.time)
            elif (waiting := self._awaited()) is not None:
                self._resolve(*waiting)
            elif self.timer is not None:
                self.time = max(self.time, self.timer)
                engine.fire_timers(self.time)
            else:
                return

    def _awaited(self) -> tuple[KeyState, AwakeableResolution] | None:
        """The next awakeable that is to be resolved, before any timer fires."""
        for state in self.engine.keys.values():
            run = state.run
            if run is None:
                continue
            for id in awaited(run):
                if id not in self.resolved:
                    self.resolved.add(id)
                    resolution = self.setting.resolution(run.key_object, id)
                    if resolution is not None:
                        return state, resolution
        return None

    def _resolve(self, state: KeyState, given: AwakeableResolution) -> None:
        payload = self.setting.codec.inputs.dumps((given.id, given.value, given.failure))
        self.engine.awaken(state.key, state.group, payload, self.time)

    def _take_checkpoint(self) -> None:
        if self.stop_at >= 0 and self.engine.applied_batches == self.batches:
            self.state.apply(self.engine.snapshot())
            outputs = copy_outputs(self.outputs)
            self.checkpoint = (self.state.to_checkpoint("", {}), len(self.log), outputs, set(self.resolved))

    def restore(self, checkpoint: _Checkpoint | None) -> None:
        position = 0
        if checkpoint is not None:
            data, position, outputs, resolved = checkpoint
            self.resolved = set(resolved)
            self.state, _ = KeyedState.from_checkpoint(data)
            self.outputs.update(copy_outputs(outputs))
        for key in self.state.active_keys():
            self.engine.restore_key(key, key_group(key), self.state.load(key))
        for group, record in self.log[position:]:
            self.engine.restore_tail(group, record)
        self.engine.resume(self.time)

    def _rank(self, slot: Slot) -> int:
        return self.baseline.order.get(_place(slot), 1 << 40) if self.baseline is not None else 0

    def _outcome(self, call: CallStart, slot: Slot) -> Completion:
        place, text = _place(slot), _call_text(slot)
        self.executed.append((place, text))
        self.order[place] = len(self.order)
        if self.baseline is None:
            call.function = self.fakes.get(call.function, call.function)
            _, status, value = self.setting.executor.run_blocking(call)
        else:
            in_doubt = call.function is slot.spec.reconciler
            known = self.baseline.outcomes.get(self.baseline.last(place) if in_doubt else place)
            if known is None or known[0] != text:
                was = "nothing" if known is None else known[0]
                raise ReplayDifferenceError(
                    f"action {slot.execution.action.name!r}{_line(slot.execution.driver)} now calls {text}; without"
                    f" a crash it called {was} there"
                )
            _, status, value = known
        self.outcomes[place] = text, status, value
        return call.id, status, value

    # --- ports ---

    def _alive(self) -> None:
        if self.dead:
            raise _Stop

    def append(self, records: list[tuple[int, bytes]]) -> None:
        self._alive()
        for record in records:
            if len(self.log) == self.stop_at:
                self.dead = True
                raise _Stop
            self.log.append(record)
        self.batches += 1

    append_and_wait = append

    def start_calls(self, calls: list[CallStart]) -> None:
        self._alive()
        for call in calls:
            self.calls[call.id] = call, self.engine.calls[call.id]

    def cancel_calls(self, ids: list[int]) -> None:
        for id in ids:
            self.calls.pop(id, None)

    def run_blocking(self, call: CallStart, expires: int | None) -> Completion:
        self._alive()
        return self._outcome(call, self.engine.calls[call.id])

    def emit(self, key: object, output: object, timestamp: int | None) -> None:
        self._record(key, output, *sender())

    def emit_dead_letter(self, letter: DeadLetter, timestamp: int | None) -> None:
        """Compared as outputs are, without what differs on replay: the frames of a traceback."""
        self._record(letter.key, replace(letter, traceback=""), sender()[0], " (a dead letter)")

    def _record(self, key: object, output: object, execution: Execution, line: str) -> None:
        self._alive()
        self.outputs[repr(key), execution.id, execution.action.name].append((output, line))

    def wait_until(self, when: int) -> None:
        self._alive()
        self.time = max(self.time, when)

    def now(self) -> int:
        return self.time

    def input_done(self, segment: int) -> None:
        pass

    def admit_restored(self) -> int:
        return 0

    def set_timer(self, when: int | None) -> None:
        self.timer = when

    def load_key(self, key: bytes) -> list[StateEntry]:
        return self.state.load(key)

    def load_memory(self, key: bytes) -> list[tuple[str, bytes]]:
        return self.state.memory(key)


def check_replay(
    agent: Agent,
    inputs: Iterable[tuple[Any, Any]],
    *,
    options: Mapping[Any, object] | None = None,
    resources: Mapping[Any, Any] | None = None,
    fakes: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
    awakeables: Resolve | None = None,
) -> ReplayReport:
    """Check that an agent does the same after a crash, wherever it crashes. Inputs are (key, value).

    The agent runs once, with its durable calls made for real (or by `fakes`). Then it runs again for every record
    of its journal, dies before it is written, and starts anew: from the log alone, and from a checkpoint just
    before. Calls whose outcome was not recorded get the outcome of the first run. Raises ReplayDifferenceError at
    the first difference: another call than before, a recorded call that is made again, another output.

    `awakeables` is asked once for each awakeable that an action waits for, with key and id, and gives what
    `awakeable_result` or `awakeable_failure` make, or None: nobody answers, so that a deadline passes.
    """
    inputs = list(inputs)
    setting = _Setting(agent, options or {}, resources or {}, awakeables)
    try:
        baseline = _run_once(setting, inputs, fakes or {})
        for point in range(len(baseline.records) + 1):
            for from_checkpoint in (False, True):
                _crash_at(setting, inputs, baseline, point, from_checkpoint)
    finally:
        setting.close()
    outputs = sum(len(values) for values in baseline.outputs.values())
    return ReplayReport(
        2 * (len(baseline.records) + 1), len({place[:2] for place in baseline.outcomes}), outputs
    )


def _run_once(setting: _Setting, inputs: list[tuple[Any, Any]], fakes: Mapping[Any, Any]) -> _Baseline:
    attempt = _Attempt(setting, fakes, [], None)
    attempt.engine.resume(attempt.time)
    attempt.process(inputs)
    attempt.drive()
    baseline = _Baseline()
    baseline.outcomes, baseline.order = attempt.outcomes, attempt.order
    baseline.outputs = dict(attempt.outputs)
    baseline.records = [data for _, data in attempt.log]
    return baseline


def _crash_at(
    setting: _Setting, inputs: list[tuple[Any, Any]], baseline: _Baseline, point: int, from_checkpoint: bool
) -> None:
    first = _Attempt(setting, {}, [], baseline)
    first.stop_at = point
    where = _where(baseline, point, from_checkpoint)
    try:
        first.engine.resume(first.time)
        first.process(inputs)
        first.drive()
    except _Stop:
        pass
    except Exception as error:
        if not first.dead:  # what the action makes of its death does not count
            raise ReplayDifferenceError(f"in a second run of the same inputs, {_text(error)}") from error
    first.dead = True
    first.engine.close()
    checkpoint = first.checkpoint if from_checkpoint else None
    again = _Attempt(setting, {}, first.log, baseline)
    again.time = first.time
    recorded = {
        (r.execution, r.slot) for r in map(decode_record, (d for _, d in first.log)) if r.kind == OUTCOME
    }
    try:
        again.restore(checkpoint)
        if checkpoint is None:
            again.process(inputs)
        again.drive()
    except Exception as error:
        raise ReplayDifferenceError(f"{where}: {_text(error)}{_lines(again.engine, error)}") from error
    for place, text in again.executed:
        if place[:2] in recorded:
            raise ReplayDifferenceError(f"{where}: {text} is called again although its outcome was recorded")
    compare_outputs(where, baseline.outputs, again.outputs)
    again.engine.close()


def _where(baseline: _Baseline, point: int, from_checkpoint: bool) -> str:
    start = "a checkpoint" if from_checkpoint else "the log alone"
    if point == len(baseline.records):
        return f"after a crash at the end, restored from {start}"
    record = decode_record(baseline.records[point])
    name = record.function_id or ", ".join(dict.fromkeys(entry[2] for entry in record.reserved))
    what = f"{_KINDS.get(record.kind, 'a record')} {name}".strip()
    return f"after a crash before {what} was recorded (record {point + 1}), restored from {start}"


def _place(slot: Slot) -> Place:
    return slot.execution.id, slot.index, slot.attempts.failed if slot.attempts is not None else 0


def _call_text(slot: Slot) -> str:
    spec = slot.spec
    given = [repr(value) for value in spec.args] + [
        f"{name}={value!r}" for name, value in spec.kwargs.items()
    ]
    return f"{spec.function_id}({', '.join(given)})"


def _text(error: BaseException) -> str:
    return str(error) if isinstance(error, ReplayDifferenceError) else f"{type(error).__name__}: {error}"


def _lines(engine: Engine, error: BaseException) -> str:
    """Where the actions that the error names stand."""
    if isinstance(error, ReplayDifferenceError):
        return ""
    lines = ""
    for state in engine.keys.values():
        for execution in state.run.executions.values() if state.run is not None else ():
            if repr(execution.action.name) in str(error):
                lines += _line(execution.driver)
    return lines


def _line(driver: Any) -> str:
    task = getattr(driver, "task", None)
    frames = task.get_stack() if task is not None else ()
    if not frames:
        return ""
    return line_text(traceback.extract_stack(frames[-1], 1)[0])


def _no_metrics(action: str | None, is_replaying: Callable[[], bool]) -> Any:
    return None
