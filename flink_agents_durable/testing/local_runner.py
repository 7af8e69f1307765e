"""Run an agent without a JVM: the same engine, call executor and stores as in a job, and virtual time."""

from __future__ import annotations

import copy
import math
import threading
import time as real_time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any

from flink_agents_durable.agents.builtin_actions import builtin_actions
from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.awakeables import AwakeableResolution, awakeable_failure, awakeable_result
from flink_agents_durable.api.call_options import Duration, seconds
from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions
from flink_agents_durable.api.dead_letters import DeadLetter
from flink_agents_durable.api.errors import CallTimeoutError
from flink_agents_durable.api.lazy import LazyObjects
from flink_agents_durable.engine.awakeables import read_id
from flink_agents_durable.engine.compile import compile_agent
from flink_agents_durable.engine.engine import Engine
from flink_agents_durable.engine.expiry import has_expired, last_use
from flink_agents_durable.engine.interruption import is_interruption
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.engine.limits import limit_names
from flink_agents_durable.engine.memory import OBJECT
from flink_agents_durable.engine.ports import CallStart, Completion, StateEntry
from flink_agents_durable.engine.services import Services
from flink_agents_durable.engine.settings import EngineSettings
from flink_agents_durable.runtime.admission import limits_of
from flink_agents_durable.runtime.codecs import make_codec
from flink_agents_durable.runtime.executor import CallExecutor
from flink_agents_durable.runtime.lazy_objects import close_lazies
from flink_agents_durable.runtime.resources import ResourceRegistry
from flink_agents_durable.runtime.signed_store import sign_if_asked
from flink_agents_durable.store.none import NoActionStateStore
from flink_agents_durable.store.protocol import ActionStateStore
from flink_agents_durable.testing.keyed_state import MAX_PARALLELISM, KeyedState, key_group

START = 1_700_000_000_000
"""Virtual time at which a runner starts, epoch milliseconds; a round number makes timestamps readable."""

CLOSE_SECONDS = 1.0
"""How long closing waits for calls: tests leave no thread behind, but one blocked call must not hold them."""
STORE_CLOSE_SECONDS = 10.0
"""Bounds the wait for a store that hangs. A truncation under way ends first, also on a busy machine."""


HELD_SECONDS = 0.1
"""Bounds one wait for calls that a limit lets start; what comes later announces itself."""


@dataclass(frozen=True)
class Call:
    """A durable call that was executed (not replayed)."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class LocalRunner:
    """Runs one agent in this process, as one subtask would.

    `store=None` means no external store. `fakes` maps durable functions to what is called instead. Time is
    virtual: it moves by `advance` and by `run_until_idle(advance_timers=True)` alone. An uncaught failure of an
    action raises out of the method that caused it, after which this attempt has ended: `restore` another one.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        store: ActionStateStore | None = None,
        options: Mapping[Any, object] | None = None,
        resources: Mapping[Any, Any] | None = None,
        fakes: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
        key_selector: Callable[[Any], Any] | None = None,
        job_id: str = "local",
        _checkpoint: bytes | None = None,
        _time: int = START,
    ) -> None:
        config = AgentConfiguration({AgentOptions.STRICT_VALUES.key: True, **_by_key(options or {})})
        plan = compile_agent(agent, builtin_actions())
        self.calls: list[Call] = []
        """Calls that were executed, in the order of their start; replayed ones are not among them."""
        self.outputs: list[tuple[Any, Any]] = []
        """(key, value) of each output, in the order of emission; after a restore only new ones."""
        self.timestamps: list[int | None] = []
        self.dead_letters: list[DeadLetter] = []
        """Letters of actions that failed under `dead-letter`; after a restore only new ones."""
        own: ActionStateStore = copy.copy(store) if store is not None else NoActionStateStore()
        self._store = sign_if_asked(own, config)
        self._key_selector = key_selector
        self._codec = make_codec(config)
        self._time = _time
        self._crashed = False
        self._ports = _LocalPorts(self, dict(fakes or {}), config)
        self._resources = ResourceRegistry.of(agent, dict(resources or {}))
        self._lazies = LazyObjects()
        services = Services(
            "local", config, self._resources.get_resource, limit_names(config), self._lazies, _no_metrics
        )
        log_id = f"{config.get(AgentOptions.JOB_ID) or job_id}/{type(agent).__name__}"
        self._engine = Engine(plan, self._ports, self._codec, EngineSettings.of(config), log_id, services)
        try:
            self._open(log_id, _checkpoint)
        except BaseException:
            self.close()
            raise

    @classmethod
    def restore(
        cls, agent: Agent, checkpoint: bytes | None, *, time: float | None = None, **kwargs: Any
    ) -> LocalRunner:
        """A new attempt from a checkpoint, or from nothing (None), with the store's log.

        `time` is the virtual time (seconds) at which it starts; default: that at which runners start.
        """
        start = START if time is None else round(time * 1000)
        return cls(agent, _checkpoint=checkpoint, _time=start, **kwargs)

    def _open(self, log_id: str, checkpoint: bytes | None) -> None:
        positions: dict[int, int | None] = dict.fromkeys(range(MAX_PARALLELISM), None)
        if checkpoint is not None:
            self._ports.state, known = KeyedState.from_checkpoint(checkpoint)
            positions.update(known.positions)
            self._engine.floors.update(self._ports.state.floors)
        state, engine = self._ports.state, self._engine
        for key in state.active_keys():
            engine.restore_key(key, key_group(key), state.load(key))
        self._log_id = log_id
        for group, record in self._store.open(log_id, positions, self._ports.wake):
            engine.restore_tail(group, record)
        engine.resume(self._time)

    # --- driving ---

    def process(self, *key_and_value: Any, timestamp: int | None = None) -> None:
        """Admit one input: `process(key, value)`, or `process(value)` with a `key_selector`."""
        if len(key_and_value) == 1 and self._key_selector is not None:
            key, value = self._key_selector(key_and_value[0]), key_and_value[0]
        elif len(key_and_value) == 2:
            key, value = key_and_value
        else:
            raise TypeError("process(key, value), or process(value) with a key_selector")
        encoded = encode_key(key)
        payload = self._codec.inputs.dumps((key, value))
        self._check()
        self._engine.process(encoded, key_group(encoded), payload, timestamp, 0, self._time)
        self._pump()

    def resolve(self, id: str, value: Any, *, key: Any = None) -> None:
        """Resolve an awakeable, as `awakeable_result` in the stream does.

        `key` is needed only where no live run has made the awakeable: before its input, after a restore, or too
        late. Raises LookupError if no run of this runner has it and no key is given.
        """
        self._awaken(awakeable_result(key, id, value))

    def fail(self, id: str, message: str, *, key: Any = None) -> None:
        """Let the wait for an awakeable fail, as `awakeable_failure` in the stream does; see `resolve`."""
        self._awaken(awakeable_failure(key, id, message))

    def _awaken(self, resolution: AwakeableResolution) -> None:
        self._check()
        known = read_id(resolution.id)
        encoded = encode_key(resolution.key) if resolution.key is not None else None
        for key, state in self._engine.keys.items():
            if encoded is None and known is not None and state.run is not None and known.is_of(key):
                encoded = key
        if encoded is None:
            raise LookupError(f"no live run has made the awakeable {resolution.id}: say whose it is, key=...")
        payload = self._codec.inputs.dumps((resolution.id, resolution.value, resolution.failure))
        self._engine.awaken(encoded, key_group(encoded), payload, self._time)
        self._pump()

    def run_until_idle(self, advance_timers: bool = False, timeout: Duration = 60.0) -> None:
        """Go on until nothing can move without time passing; waits for running calls.

        With `advance_timers` virtual time jumps to the next durable timer, or to when a `per-second` limit lets
        the next call start, whenever nothing else can move.
        Raises TimeoutError, with the calls that still run, after `timeout` seconds of real time.
        """
        deadline = real_time.monotonic() + seconds(timeout)
        while True:
            self._check()
            self._pump()
            if self._ports.busy():
                self._ports.wait(deadline)
                continue
            moves_at = self._ports.moves_at()
            if not advance_timers or moves_at is None:
                return
            self._time = max(self._time, moves_at)
            self._fire()

    def advance(self, duration: Duration) -> None:
        """Let virtual time pass, in seconds or as a timedelta; timers fire in their order."""
        end = self._time + round(seconds(duration) * 1000)
        self._check()
        self._pump()
        moves_at = self._ports.moves_at()
        while moves_at is not None and moves_at <= end:
            self._time = max(self._time, moves_at)
            self._fire()
            self._settle_appends()
            moves_at = self._ports.moves_at()
        self._time = end
        self._ports.start_held()

    def _fire(self) -> None:
        self._engine.fire_timers(self._time)
        self._ports.start_held()
        self._pump()

    def _settle_appends(self) -> None:
        deadline = real_time.monotonic() + 60.0
        while self._ports.unacknowledged():
            self._ports.wait(deadline)
            self._pump()

    def _pump(self) -> None:
        ports, engine = self._ports, self._engine
        while True:
            ports.event.clear()
            completions = ports.executor.drain(1000)
            if completions:
                engine.complete(completions, self._time)
            batches = self._store.acknowledged() if ports.store_durable else 0
            if batches > engine.applied_batches:
                engine.acknowledge(batches, self._time)
            elif not completions:
                break

    def _check(self) -> None:
        if self._crashed:
            raise RuntimeError("this runner has crashed; go on with LocalRunner.restore(...)")

    # --- looking ---

    @property
    def time(self) -> float:
        """Virtual time, seconds since the epoch."""
        return self._time / 1000

    @property
    def idle(self) -> bool:
        """Whether no run is unfinished."""
        return self._engine.live_runs == 0

    @property
    def stats(self) -> Any:
        """Counters of the engine: calls executed, replayed, failed."""
        return self._engine.stats

    def memory(self, key: Any) -> dict[str, Any]:
        """The committed short-term memory of a key, as a run that starts now would find it: path to value."""
        encoded = encode_key(key)
        live = self._engine.keys.get(encoded)
        ttl = self._engine.settings.memory_ttl
        used = live.used if live is not None else last_use(self._ports.state.load(encoded))
        if ttl is not None and has_expired(used, ttl, self._time) and (live is None or live.run is None):
            return {}
        values = dict(live.memory.values) if live is not None else dict(self._ports.state.memory(encoded))
        return {
            path: self._codec.loads(value)
            for path, value in values.items()
            if value is not None and value != OBJECT
        }

    # --- checkpoints and crashes ---

    def checkpoint(self) -> bytes:
        """Take a checkpoint and give the bytes that Flink would hold."""
        self._check()
        ports = self._ports
        ports.state.apply(self._engine.snapshot())
        ports.state.apply(self._engine.forget_expired(ports.state.sequences(), self._time))
        ports.state.floors = dict(self._engine.floors)
        positions = self._store.positions(self._engine.applied_batches)
        return ports.state.to_checkpoint(self._log_id, positions)

    def complete_checkpoint(self, checkpoint: bytes) -> None:
        """Tell the store that a checkpoint is complete: it may drop what lies before it (P23)."""
        self._store.truncate(KeyedState.from_checkpoint(checkpoint)[1].positions)

    def crash(self) -> None:
        """End this attempt as SIGKILL does: nothing is cleaned up in the action, late results go nowhere."""
        self._crashed = True
        self._ports.executor.close(0)
        self._store.close(CLOSE_SECONDS)

    def close(self) -> None:
        """End this attempt and leave nothing behind."""
        self._crashed = True
        self._engine.close()
        self._resources.close(self._ports.executor.loop, CLOSE_SECONDS)
        close_lazies(self._lazies, self._ports.executor.loop, CLOSE_SECONDS)
        self._ports.executor.close(CLOSE_SECONDS)
        self._store.close(STORE_CLOSE_SECONDS)

    def __enter__(self) -> LocalRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class _LocalPorts:
    """The engine's surroundings in a LocalRunner."""

    def __init__(
        self,
        runner: LocalRunner,
        fakes: dict[Callable[..., Any], Callable[..., Any]],
        config: AgentConfiguration,
    ) -> None:
        self._runner = runner
        self._fakes = fakes
        self.event = threading.Event()
        self.state = KeyedState()
        self.timer: int | None = None
        self.appended = 0
        self.store_durable = runner._store.durable
        self.executor = CallExecutor(
            workers=config.get(AgentOptions.CALL_WORKERS),
            max_concurrency=config.get(AgentOptions.CALL_MAX_CONCURRENCY),
            on_complete=self.wake,
            is_interruption=lambda error: is_interruption(error, None),
            signal=self.wake,
            limits=limits_of(config),
            clock=self._seconds,
        )

    def _seconds(self) -> float:
        """Virtual time for the limits: from a small number on, so that its fractions stay exact enough."""
        return (self._runner._time - START) / 1000

    @property
    def max_record_bytes(self) -> int | None:
        return self._runner._store.max_record_bytes

    def wake(self) -> None:
        self.event.set()

    def unacknowledged(self) -> bool:
        return self.store_durable and self._runner._engine.applied_batches < self.appended

    def busy(self) -> bool:
        """Whether something will move by itself."""
        calls = self._runner._engine.calls
        return self.unacknowledged() or (bool(calls) and self._held_until() is None)

    def moves_at(self) -> int | None:
        """The virtual time at which a timer fires or a limit lets a call start, if nothing moves before."""
        times = [when for when in (self.timer, self._held_until()) if when is not None]
        return min(times, default=None)

    def _held_until(self) -> int | None:
        """When a limit opens, if every call of the engine waits for that."""
        opens_at = self.executor.opens_at()
        if opens_at is None or opens_at <= self._seconds():
            return None
        if len(self._runner._engine.calls) > self.executor.waiting:
            return None
        when = START + math.ceil(opens_at * 1000)
        return when if (when - START) / 1000 >= opens_at else when + 1

    def start_held(self) -> None:
        """Virtual time has moved: calls that a limit held back may start."""
        if self.executor.waiting:
            self.executor.start_held(HELD_SECONDS)

    def wait(self, deadline: float) -> None:
        left = deadline - real_time.monotonic()
        if left <= 0 or not self.event.wait(left):
            raise TimeoutError(
                f"not idle after the given time: {len(self._runner._engine.calls)} calls still run"
            )

    def append(self, records: list[tuple[int, bytes]]) -> None:
        self.appended += 1
        self._runner._store.append(records)

    def append_and_wait(self, records: list[tuple[int, bytes]]) -> None:
        self.append(records)
        self._runner._store.wait_acknowledged(self.appended, self._wait_for_ack)

    def _wait_for_ack(self, seconds: float) -> None:
        self.event.wait(seconds)
        self.event.clear()

    def start_calls(self, calls: list[CallStart]) -> None:
        self.executor.start([self._prepare(call) for call in calls])

    def cancel_calls(self, ids: list[int]) -> None:
        self.executor.cancel(ids)

    def run_blocking(self, call: CallStart, expires: int | None) -> Completion:
        wait = None if call.limit is None else partial(self._wait_blocking, call.name, expires)
        return self.executor.run_blocking(self._prepare(call), wait)

    def _wait_blocking(self, name: str, expires: int | None) -> None:
        """Nothing but this call can move time on: it goes to where the limit opens, or its time is over."""
        opens_at = self.executor.opens_at()
        if opens_at is not None and opens_at > self._seconds():
            opens = START + math.ceil(opens_at * 1000)
            if expires is not None and expires <= opens:
                self._runner._time = max(self._runner._time, expires)
                raise CallTimeoutError(
                    f"the durable call {name} had no result when its total_timeout was over"
                )
            self._runner._time = opens
            self.start_held()
        else:
            self.event.wait(HELD_SECONDS)
            self.event.clear()

    def _prepare(self, call: CallStart) -> CallStart:
        self._runner.calls.append(Call(call.name, call.args, dict(call.kwargs)))
        fake = self._fakes.get(call.function) if self._fakes else None
        if fake is not None:
            call.function = fake
        return call

    def wait_until(self, when: int) -> None:
        self._runner._time = max(self._runner._time, when)  # nothing else can move meanwhile

    def now(self) -> int:
        return self._runner._time

    def emit(self, key: object, output: object, timestamp: int | None) -> None:
        codec = self._runner._codec.inputs
        self._runner.outputs.append((key, codec.loads(codec.dumps(output))))  # as it stands now
        self._runner.timestamps.append(timestamp)

    def emit_dead_letter(self, letter: DeadLetter, timestamp: int | None) -> None:
        self._runner.dead_letters.append(letter)

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


def _by_key(options: Mapping[Any, object]) -> dict[str, object]:
    return {getattr(option, "key", option): value for option, value in options.items()}


def _no_metrics(action: str | None, is_replaying: Callable[[], bool]) -> Any:
    return None
