"""Stands for the Java operator: keyed state, mailbox, and what it does with the results of Python."""

from __future__ import annotations

import pickle
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.engine.expiry import EVERYTHING
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.engine.ports import ACTIVE, MEMORY, QUEUED, SEQUENCE, UNCLAIMED
from flink_agents_durable.runtime import operator as operator_module
from flink_agents_durable.runtime.operator import CHECKPOINT, MORE_WORK, WRITE_DIRTY_KEYS, AgentOperator
from flink_agents_durable.runtime.plan import AgentPlan

DEADLINE = 20.0
"""Bounds a test that waits for what never comes."""
MAX_PARALLELISM = 8
ACTIVE_STATES = (ACTIVE, QUEUED, UNCLAIMED)

State = dict[bytes, dict[tuple[int, Any], bytes]]


def group_of(key: bytes) -> int:
    return zlib.crc32(key) % MAX_PARALLELISM


def plan_of(agent: Agent, plan_id: str = "plan", **options: Any) -> AgentPlan:
    named = {f"agents.{name.replace('__', '.').replace('_', '-')}": value for name, value in options.items()}
    named.setdefault("agents.store.type", "none")
    return AgentPlan(agent, "agent", plan_id, named)


@dataclass
class Snapshot:
    """What a checkpoint or savepoint holds; `merged` and `only` are what a rescale makes of it."""

    blobs: dict[int, bytes]
    state: State = field(default_factory=dict)


class InterruptedByJava(RuntimeError):
    """As pemja hands over an interrupt: the throwable is the first argument."""


class FakeHost:
    """The host object, with the thread rules of the real one."""

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.signals = threading.Semaphore(0)
        self.wakes = 0
        self.state: State = {}
        self.metrics: dict[str, Any] = {}
        self.interrupted = threading.Event()
        self._task_thread = threading.current_thread()

    def wake(self) -> None:
        assert threading.current_thread().name == "durable-calls"
        self.wakes += 1
        self.woken.set()

    def signal(self) -> None:
        assert threading.current_thread().name == "durable-calls"
        self.signals.release()

    def awaitSignal(self, millis: int) -> bool:
        self._check_thread()
        if self.interrupted.is_set():
            raise InterruptedByJava("java.lang.InterruptedException")
        return self.signals.acquire(timeout=millis / 1_000)

    def loadKey(self, key: bytes) -> list[Any] | None:
        self._check_thread()
        entries = self.state.get(key)
        if entries is None:
            return None
        return [
            part for (state, sub), value in entries.items() if state != MEMORY for part in (state, sub, value)
        ]

    def loadMemory(self, key: bytes) -> list[Any] | None:
        self._check_thread()
        entries = self.state.get(key, {})
        return [part for (state, sub), value in entries.items() if state == MEMORY for part in (sub, value)]

    def isInterruption(self, throwable: object) -> bool:
        self._check_thread()
        return "InterruptedException" in str(throwable)

    def updateMetrics(self, flat: Sequence[Any]) -> None:
        self._check_thread()
        for path, kind, value in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            if kind in ("m", "h"):
                self.metrics.setdefault(path, []).append(value)
            else:
                self.metrics[path] = value

    def _check_thread(self) -> None:
        assert threading.current_thread() is self._task_thread


class FakeFlink:
    """One subtask. `outputs` are (value, timestamp); watermarks and statuses stand between them."""

    def __init__(
        self,
        plan: AgentPlan,
        snapshot: Snapshot | None = None,
        *,
        groups: range = range(MAX_PARALLELISM),
        job_id: str = "job",
        num_retained: int = 1,
        store: Any = None,
        monkeypatch: Any = None,
    ) -> None:
        if store is not None:
            monkeypatch.setattr(operator_module, "make_store", lambda options, task: store)
        self.host = FakeHost()
        self.emitted: list[Any] = []
        self.dead_letters: list[tuple[Any, int | None]] = []
        self.live = self.in_flight = 0
        self.groups = groups
        self.flushes = 0
        settings = {
            "job_id": job_id,
            "job_name": "test",
            "uid": plan.uid,
            "subtask": 0,
            "parallelism": 1,
            "max_parallelism": MAX_PARALLELISM,
            "first_group": groups[0],
            "last_group": groups[-1],
            "attempt": 0,
            "restored": snapshot is not None,
            "restored_checkpoint_id": 1 if snapshot is not None else -1,
            "plan": plan.dump(),
            "num_retained": num_retained,
            "local": True,
            "unaligned": True,
        }
        self.rt: AgentOperator = operator_module.open_operator(self.host, settings)  # type: ignore[assignment]
        if snapshot is not None:
            self._restore(snapshot)
        try:
            self._apply(self.rt.start())
        except BaseException:
            self.rt.close()
            raise

    def _restore(self, snapshot: Snapshot) -> None:
        state = {key: dict(known) for key, known in snapshot.state.items() if group_of(key) in self.groups}
        self.host.state = state
        for group, blob in snapshot.blobs.items():
            if group in self.groups:
                self.rt.restore_group(group, blob)
        for key, known in state.items():
            if any(kind in ACTIVE_STATES for kind, _ in known):
                self.rt.restore_key(key, group_of(key), self.host.loadKey(key))

    # ---- what Flink does

    def owns(self, key: Any) -> bool:
        return group_of(encode_key(key)) in self.groups

    def process(self, key: Any, value: Any, timestamp: int | None = None) -> None:
        encoded = encode_key(key)
        payload = pickle.dumps((key, value))
        stored = self.host.state.get(encoded, {}).get((SEQUENCE, None))
        self._apply(self.rt.process(encoded, group_of(encoded), payload, timestamp, stored))

    def awaken(self, key: Any, id: str, value: Any = None, failure: str | None = None) -> None:
        encoded = encode_key(key)
        stored = self.host.state.get(encoded, {}).get((SEQUENCE, None))
        resolution = pickle.dumps((id, value, failure))
        self._apply(self.rt.awaken(encoded, group_of(encoded), resolution, stored))

    def watermark(self, timestamp: int) -> None:
        self._apply(self.rt.watermark(timestamp))

    def status(self, active: bool) -> None:
        self._apply(self.rt.watermark_status(active))

    def mail(self) -> None:
        """Run the drain that was asked for."""
        self.host.woken.clear()
        self._apply(self.rt.drain())

    def run_until(self, condition: Callable[[], bool], what: str = "condition") -> None:
        """Process mails until the condition holds; only a wake-up brings a mail."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert self.host.woken.wait(max(0.0, deadline - time.monotonic())), f"no wake-up, never: {what}"
            self.mail()

    def run_until_seen(self, condition: Callable[[], bool], what: str = "condition") -> None:
        """As `run_until`, for what happens in calls and announces itself by no wake-up."""
        deadline = time.monotonic() + DEADLINE
        while not condition():
            assert time.monotonic() < deadline, f"never: {what}"
            if self.host.woken.wait(0.01):
                self.mail()

    def run_until_idle(self) -> None:
        self.run_until(lambda: self.live == 0, "nothing is live")

    def snapshot(self, id: int = 1, kind: int = CHECKPOINT) -> Snapshot:
        blobs, updates = self.rt.snapshot(id, kind)
        self._write(updates)
        state = {key: dict(known) for key, known in self.host.state.items()}
        return Snapshot(dict(zip(self.groups, blobs, strict=True)), state)

    def sweep(self) -> int:
        """A walk over all keys; gives how many were forgotten."""
        flat = [
            part
            for key, known in self.host.state.items()
            if (SEQUENCE, None) in known
            for part in (key, group_of(key), known[SEQUENCE, None])
        ]
        updates = self.rt.forget(flat)
        self._write(updates)
        return len(updates) // 2

    def close(self) -> bool:
        return self.rt.close()

    # ---- results

    @property
    def outputs(self) -> list[tuple[Any, int | None]]:
        return [item for item in self.emitted if isinstance(item, tuple)]

    @property
    def values(self) -> list[Any]:
        return [value for value, _ in self.outputs]

    def _apply(self, result: tuple[Any, ...] | None) -> None:
        if result is None:
            return
        self.in_flight, self.live, flags, *items = result
        rest = iter(items)
        for item in rest:
            if isinstance(item, tuple):
                self.dead_letters.append((pickle.loads(item[0]), item[1]))
                continue
            self.emitted.append((pickle.loads(item), next(rest)) if isinstance(item, bytes) else item)
        if flags & WRITE_DIRTY_KEYS:
            self.flushes += 1
            self._write(self.rt.flush())
        if flags & MORE_WORK:
            self.host.woken.set()

    def _write(self, updates: Sequence[Any]) -> None:
        for key, flat in zip(updates[::2], updates[1::2], strict=True):
            known = self.host.state.setdefault(key, {})
            for state, sub, value in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
                if state == MEMORY and sub is EVERYTHING:
                    for entry in [entry for entry in known if entry[0] == MEMORY]:
                        del known[entry]
                elif value is None:
                    known.pop((state, sub), None)
                else:
                    known[(state, sub)] = value


def merged(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The snapshots of all subtasks, as a rescale reads them."""
    whole = Snapshot({})
    for snapshot in snapshots:
        whole.blobs.update(snapshot.blobs)
        whole.state.update(snapshot.state)
    return whole
