"""The entry points of the Java operator: one engine and its surroundings, driven on the task thread."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions
from flink_agents_durable.api.lazy import LazyObjects, collect_lazy
from flink_agents_durable.engine.engine import Engine
from flink_agents_durable.engine.limits import limit_names
from flink_agents_durable.engine.plan_classes import register_plan_classes, unregister_plan_classes
from flink_agents_durable.engine.services import Services
from flink_agents_durable.engine.settings import EngineSettings
from flink_agents_durable.engine.snapshot import UNKNOWN
from flink_agents_durable.runtime.action_thread import ActionThread
from flink_agents_durable.runtime.admission import limits_of
from flink_agents_durable.runtime.built_in_metrics import BuiltInMetrics
from flink_agents_durable.runtime.drain import Drain
from flink_agents_durable.runtime.durable_timer import DurableTimer, wall_clock
from flink_agents_durable.runtime.executor import CallExecutor
from flink_agents_durable.runtime.garbage import tune_collector
from flink_agents_durable.runtime.host import Host, HostLink, entries, flattened
from flink_agents_durable.runtime.java_bridge import JavaBridge, JavaCalls
from flink_agents_durable.runtime.lasting_method import LastingMethod
from flink_agents_durable.runtime.lazy_objects import close_lazies
from flink_agents_durable.runtime.log_positions import (
    FORMAT,
    GroupBlob,
    LogStart,
    RetainedPositions,
    choose_log,
    read_blob,
)
from flink_agents_durable.runtime.metrics import MetricRegistry
from flink_agents_durable.runtime.operator_ports import OperatorPorts, StoreLink, pickled
from flink_agents_durable.runtime.plan import AgentPlan
from flink_agents_durable.runtime.resources import ResourceRegistry
from flink_agents_durable.runtime.signed_store import sign_if_asked
from flink_agents_durable.runtime.task_failure import TaskFailedError, as_failure, formatted
from flink_agents_durable.runtime.task_settings import (
    TaskSettings,
    make_store,
    warn_about_setup,
)
from flink_agents_durable.runtime.unresolved import UnresolvedAwakeables
from flink_agents_durable.runtime.watermarks import WatermarkGate

_log = logging.getLogger(__name__)

MIN_SWEEP_SECONDS = 1.0
"""Bounds what walks over all keys cost where the time to live is short."""
FLUSH_RECORDS = 10_000
"""Dirty records are written to the state before they are more, which a snapshot would wait for (K6)."""

MORE_WORK = 1
WRITE_DIRTY_KEYS = 2

CHECKPOINT, SAVEPOINT, STOP_SAVEPOINT = range(3)

Result = tuple[Any, ...] | None
"""In-flight runs, live runs, flags, then what is to be emitted. None: nothing to do, and the counts stand."""


def open_operator(
    host: Host, settings: Mapping[str, Any], load: Callable[[bytes], AgentPlan] = AgentPlan.load
) -> AgentOperator | FailedOperator:
    """Called by Java when it opens the operator; then come the restored state and `start`.

    Never raises, as no method with several arguments may: pemja 0.5.7 crashes the JVM on that. A method with
    fewer arguments that Java calls next raises in its place.
    """
    try:
        with formatted():
            lazies = LazyObjects()
            with collect_lazy() as loaded:
                plan = load(bytes(settings["plan"]))
            lazies.add(loaded)
            tune_collector()
            return AgentOperator(HostLink(host), TaskSettings.of(settings), plan, lazies)
    except TaskFailedError as failure:
        return FailedOperator(failure)


class FailedOperator:
    """What could not be opened: says why when it is started."""

    def __init__(self, failure: TaskFailedError) -> None:
        self._failure = failure

    def restore_group(self, group: int, blob: bytes) -> None: ...

    def restore_key(self, key: bytes, group: int, flat: Sequence[Any]) -> None: ...

    def start(self) -> Result:
        raise self._failure

    def close(self) -> bool:
        return True


class AgentOperator:
    """One subtask. All methods are called on the task thread, never one inside another (K2).

    Those with several arguments (`restore_group`, `restore_key`, `process`, `awaken`, `snapshot`) never raise, see
    `open_operator`: they keep the failure, and `start` or `drain` raise it.
    """

    def __init__(
        self, link: HostLink, task: TaskSettings, plan: AgentPlan, lazies: LazyObjects | None = None
    ) -> None:
        self._link = link
        self._task = task
        self._plan = plan
        self._lazies = lazies or LazyObjects()
        self._options: AgentConfiguration = plan.configuration()
        self._compiled = plan.compiled()
        self._blobs: dict[int, GroupBlob] = {}
        self._restored_keys: list[tuple[bytes, int, Sequence[Any]]] = []
        self._metrics = MetricRegistry()
        self._retained = RetainedPositions(task.num_retained)
        self._gate = WatermarkGate(self._options.get(AgentOptions.WATERMARK_HOLD))
        self._resources = ResourceRegistry.of(plan.agent, plan.resources)
        store = sign_if_asked(make_store(self._options, task), self._options)
        self._java = JavaBridge(link, self._options.get(AgentOptions.CALL_WORKERS))
        self._executor = CallExecutor(
            workers=self._options.get(AgentOptions.CALL_WORKERS),
            max_concurrency=self._options.get(AgentOptions.CALL_MAX_CONCURRENCY),
            on_complete=link.wake,
            signal=link.signal,
            is_interruption=link.is_interruption,
            limits=limits_of(self._options),
        )
        self._java.on_first_use = partial(self._executor.use_java, JavaCalls(self._java))
        self._store = StoreLink(store, self._executor, link)
        self._timer = DurableTimer(self._executor.thread, link.wake)
        self._actions = ActionThread(link.wait, partial(self._executor.thread.post, link.signal))
        link.actions = self._actions
        encode = plan.encode_output or pickled
        self._ports = OperatorPorts(
            link, self._executor, self._store, self._timer, self._gate, encode, self._actions
        )
        self._drain = Drain(self._executor, self._store.store, self._timer, self._ports.flush_starts)
        self._engine: Engine | None = None
        self._built_in = BuiltInMetrics(self._metrics, link, self._executor)
        self._log: LogStart | None = None
        self._counts = (0, 0)
        self._flushed_calls = 0
        self._stopped_by: int | None = None
        self._held: list[Callable[[], None]] = []
        self._finished = False
        self._unresolved: UnresolvedAwakeables | None = None  # from the end of the input on
        self._failure: TaskFailedError | None = None
        self.restore_group = LastingMethod(self._restore_group)
        self.restore_key = LastingMethod(self._restore_key)
        self.process = LastingMethod(self._process)
        self.process_batch = LastingMethod(self._process_batch)
        self.awaken = LastingMethod(self._awaken)
        self.snapshot = LastingMethod(self._snapshot)
        register_plan_classes(plan.plan_id, plan.classes)

    # ---- restore

    def _restore_group(self, group: int, blob: bytes) -> None:
        try:
            with formatted():
                self._blobs[group] = read_blob(group, bytes(blob))
        except TaskFailedError as failure:
            self._failure = failure

    def _restore_key(self, key: bytes, group: int, flat: Sequence[Any]) -> None:
        """The keyed state of a key that has work; kept until `start` knows whose log it is."""
        self._restored_keys.append((bytes(key), group, flat))

    def start(self) -> Result:
        """Open the log, read its tail, merge, and restart what was unfinished (L1)."""
        with formatted():
            self._raise_kept()
            warn_about_setup(self._task)
            store = self._store.store
            self._log = log = choose_log(
                self._blobs,
                self._task.groups,
                restored=self._task.restored,
                explicit_id=self._plan.explicit_log_id,
                first_id=self._plan.first_log_id(self._task.job_id),
                store=store.name,
                key_encoding=self._plan.key_encoding,
            )
            self._engine = engine = self._make_engine(log.log_id)
            engine.floors = {group: blob.floor for group, blob in self._blobs.items() if blob.floor}
            keys, self._restored_keys = self._restored_keys, []
            for key, group, flat in keys:
                engine.restore_key(key, group, entries(flat))
            # Fenced, at its end known, then read: in this order inside the store (P21).
            for group, record in store.open(log.log_id, log.positions, self._store.on_ack, self._link.wait):
                engine.restore_tail(group, record)
            # A state older than the head of the log: calls of which the records are gone run again (S2).
            self._built_in.missing_records = max(store.missing.values(), default=0)
            engine.resume(wall_clock())
            return self._result(more=self._drain.has_more(engine))

    def _make_engine(self, log_id: str) -> Engine:
        services = Services(
            job_name=self._task.job_name,
            config=self._options,
            get_resource=self._resources.get_resource,
            limits=limit_names(self._options),
            lazies=self._lazies,
            java=self._java,
            metric_group=self._metric_group,
        )
        settings = EngineSettings.of(self._options)
        return Engine(self._compiled, self._ports, self._plan.codec(), settings, log_id, services)

    def _metric_group(self, action: str | None, is_replaying: Callable[[], bool]) -> Any:
        path = ("agent",) if action is None else ("agent", action)
        return self._metrics.group(*path, is_replaying=is_replaying)

    # ---- input

    def _process(
        self, key: bytes, group: int, payload: bytes, timestamp: int | None, stored: bytes | None
    ) -> Result:
        """`stored` is the key's state `sequence`: asking Java for it would give up the interpreter lock."""
        return self._process_batch((key, group, payload, timestamp, stored))

    def _process_batch(self, flat: Sequence[Any]) -> Result:
        """The arguments of `process` for several inputs, one behind the other."""
        try:
            inputs = [flat[place : place + 5] for place in range(0, len(flat), 5)]
            if self._stopped_by is not None:
                for key, group, payload, timestamp, _ in inputs:
                    # An input that waits may find another state.
                    act = partial(self._admit, bytes(key), group, bytes(payload), timestamp, UNKNOWN)
                    self._held.append(act)
                return None
            self._step(partial(self._admit_all, inputs))
            return self._result()
        except BaseException as error:
            self._failure = as_failure(error)
            in_flight, live = self._counts
            # Brings a `drain`, which raises it; this input stays live, so that no watermark passes it.
            return in_flight, max(1, live), MORE_WORK

    def _awaken(self, key: bytes, group: int, resolution: bytes, stored: bytes | None) -> Result:
        """The resolution of an awakeable; no watermark waits for it. `stored` is as for `process`."""
        try:
            if self._stopped_by is not None:
                act = partial(self._resolve, bytes(key), group, bytes(resolution), UNKNOWN)
                self._held.append(act)
                return None
            self._step(partial(self._resolve, bytes(key), group, bytes(resolution), stored))
            return self._result()
        except BaseException as error:
            self._failure = as_failure(error)
            return *self._counts, MORE_WORK  # brings a `drain`, which raises it

    def watermark(self, timestamp: int) -> Result:
        return self._enter(partial(self._gate.watermark, timestamp))

    def watermark_status(self, active: bool) -> Result:
        return self._enter(partial(self._gate.status, active))

    def _admit_all(self, inputs: Sequence[Sequence[Any]]) -> None:
        for key, group, payload, timestamp, stored in inputs:
            self._admit(bytes(key), group, bytes(payload), timestamp, stored)

    def _admit(
        self, key: bytes, group: int, payload: bytes, timestamp: int | None, stored: bytes | None
    ) -> None:
        engine = self._running()
        engine.process(key, group, payload, timestamp, self._gate.admit(), wall_clock(), stored)

    def _resolve(self, key: bytes, group: int, resolution: bytes, stored: bytes | None) -> None:
        self._running().awaken(key, group, resolution, wall_clock(), stored)

    def _enter(self, act: Callable[[], None]) -> Result:
        """What steps no action. After the savepoint of a stop inputs wait, in order, until it is aborted (K7)."""
        if self._stopped_by is not None:
            self._held.append(act)
            return None
        with formatted():
            if self._held:
                self._step(self._run_held)
            self._raise_kept()
            act()
            return self._result()

    def _step(self, act: Callable[[], None]) -> None:
        """Run what steps the engine; on a thread for it once an action has made a synchronous call (K5)."""
        self._raise_kept()
        if not self._ports.has_blocked:
            self._run_held()
            act()
            return
        try:
            self._actions.run(partial(self._run_after_held, act))
        except BaseException as error:
            if self._actions.interruption is not None:
                self._failure = as_failure(error)  # the step may go on: nothing else may enter the engine
            raise

    def _run_after_held(self, act: Callable[[], None]) -> None:
        self._run_held()
        act()

    def _raise_kept(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run_held(self) -> None:
        while self._held:
            self._held.pop(0)()

    def end_input(self) -> Result:
        """Java yields until nothing is live; `drain` goes on meanwhile."""
        return self._enter(self._end_input)

    def _end_input(self) -> None:
        self._unresolved = UnresolvedAwakeables(self._running(), self._executor.thread, self._link.wake)
        self._unresolved.check()

    def finish(self) -> None:
        """Nothing may be emitted any more (K7)."""
        with formatted():
            self._finished = True
            self._built_in.report(self._running(), now=True)

    # ---- progress

    def drain(self) -> Result:
        """Take completions, acknowledgements and timers, for a bounded time (K10)."""
        if self._stopped_by is not None or self._finished or self._engine is None:
            return None
        with formatted():
            engine = self._engine
            self._step(partial(self._drain.run, engine))
            if self._unresolved is not None:
                self._unresolved.check()
            return self._result(more=self._drain.has_more(engine))

    def flush(self) -> tuple[Any, ...]:
        """Updates of the dirty keys, written before a snapshot asks for them (K6)."""
        with formatted():
            engine = self._running()
            self._flushed_calls = engine.stats.calls_executed
            return flattened(engine.snapshot())

    def _result(self, more: bool = False) -> Result:
        engine = self._running()
        items = self._ports.take()
        unwritten = engine.dirty_keys + engine.stats.calls_executed - self._flushed_calls
        flags = (MORE_WORK if more else 0) | (WRITE_DIRTY_KEYS if unwritten >= FLUSH_RECORDS else 0)
        self._built_in.report(engine)
        counts = (engine.in_flight, engine.live_runs)
        if not items and not flags and counts == self._counts:
            return None
        self._counts = counts
        return (*counts, flags, *items)

    def _running(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("the operator was not started")
        return self._engine

    # ---- checkpoints

    def _snapshot(self, checkpoint_id: int, kind: int) -> tuple[list[bytes], tuple[Any, ...]] | str:
        """Blobs of the key groups, and updates of the dirty keys. Neither emits nor steps (K6).

        A text instead is a failure, with which neither this snapshot nor this attempt can go on.
        """
        try:
            return self._write_snapshot(checkpoint_id, kind)
        except TaskFailedError as failure:
            self._failure = failure
            _log.error("snapshot %d of agent %s failed: %s", checkpoint_id, self._task.uid, failure)
            return str(failure)

    def _write_snapshot(self, checkpoint_id: int, kind: int) -> tuple[list[bytes], tuple[Any, ...]]:
        with formatted():
            self._raise_kept()
            engine, log = self._running(), self._log
            assert log is not None
            assert not self._held, "inputs that wait for the end of a stop are in no snapshot"
            updates = engine.snapshot()
            self._flushed_calls = engine.stats.calls_executed
            store = self._store.store
            positions = store.positions(engine.applied_batches)  # P4
            if kind == CHECKPOINT:
                self._retained.taken(checkpoint_id, positions)
            elif kind == STOP_SAVEPOINT:
                self._stopped_by = checkpoint_id
                self._executor.pause()
            blobs = [
                GroupBlob(
                    FORMAT,
                    log.log_id,
                    store.name,
                    positions.get(group, 0),
                    self._plan.key_encoding,
                    engine.floors.get(group, 0),
                )
                for group in self._task.groups
            ]
            return [blob.to_bytes() for blob in blobs], flattened(updates)

    def sweep_interval(self) -> int | None:
        """Milliseconds between two walks of Java over all keys, or None: nothing expires (P25)."""
        ttl = self._options.get(AgentOptions.SHORT_TERM_MEMORY_TTL)
        return None if ttl is None else round(max(MIN_SWEEP_SECONDS, ttl.total_seconds()) * 1_000)

    def forget(self, flat: Sequence[Any]) -> tuple[Any, ...]:
        """Updates that remove what has expired, of keys given as key, group, state `sequence`, key, ..."""
        with formatted():
            self._raise_kept()
            keys = [(bytes(flat[i]), int(flat[i + 1]), bytes(flat[i + 2])) for i in range(0, len(flat), 3)]
            return flattened(self._running().forget_expired(keys, wall_clock()))

    def completed(self, checkpoint_id: int) -> None:
        """Cut the log, to what the retained checkpoints need (P23)."""
        with formatted():
            positions = self._retained.completed(checkpoint_id)
            if positions is not None:
                self._store.store.truncate(positions)

    def aborted(self, checkpoint_id: int) -> None:
        """An aborted stop lets everything go on; any other aborted checkpoint is harmless."""
        self._retained.aborted(checkpoint_id)
        if checkpoint_id == self._stopped_by:
            self._stopped_by = None
            self._executor.resume()
            self._executor.thread.post(self._link.wake)

    # ---- close

    def close(self) -> bool:
        """Abandon what runs, in bounded time; nothing is recorded for it (I4, S10).

        False: a thread is still inside, and its interpreter must not be closed.
        """
        deadline = time.monotonic() + self._options.get(AgentOptions.CLOSE_TIMEOUT).total_seconds()

        def left() -> float:
            return max(0.0, deadline - time.monotonic())

        step_ended = self._actions.close(left() / 2)
        if self._engine is not None and step_ended:
            _quietly(self._engine.close)
        store_closed = _quietly(self._store.store.close, left())
        _quietly(self._resources.close, self._executor.loop, left() / 2)
        close_lazies(self._lazies, self._executor.loop, left())
        executor_closed = self._executor.close(left())
        self._java.close()
        self._link.release()  # K11
        several = (
            self.restore_group,
            self.restore_key,
            self.process,
            self.process_batch,
            self.awaken,
            self.snapshot,
        )
        for method in several:
            method.release()
        self._engine = None
        self._held.clear()
        unregister_plan_classes(self._plan.plan_id)
        return bool(store_closed) and executor_closed and step_ended


def _quietly(close: Callable[..., Any], *args: Any) -> Any:
    """One part that fails to close does not keep the others open."""
    try:
        return close(*args)
    except BaseException:
        _log.warning("closing an agent operator", exc_info=True)
        return False
