"""The operator's own metrics, and the flush of all metrics to Flink: at most once a second."""

from __future__ import annotations

import time

from flink_agents_durable.engine.engine import Engine
from flink_agents_durable.runtime.executor import CallExecutor
from flink_agents_durable.runtime.host import HostLink
from flink_agents_durable.runtime.metrics import MetricRegistry

FLUSH_SECONDS = 1.0
"""Bounds what metrics cost: a hop to Java takes as long as a durable call's share of the engine."""

_COUNTERS = {
    "runs": "runs",
    "callsExecuted": "calls_executed",
    "callsReplayed": "calls_replayed",
    "callsFailed": "calls_failed",
    "callsRetried": "calls_retried",
    "callsReconciled": "calls_reconciled",
    "replayMismatches": "mismatches",
    "eventsSuppressed": "events_suppressed",
    "unclaimedRunsDropped": "unclaimed_dropped",
    "deadLetters": "dead_letters",
    "keysExpired": "keys_expired",
    "awakeablesResolved": "awakeables_resolved",
    "awakeablesDropped": "awakeables_dropped",
}
"""Name in Flink, and the field of `EngineStats`."""


class BuiltInMetrics:
    """Looks at the engine when the time has come. On the task thread."""

    def __init__(self, registry: MetricRegistry, link: HostLink, executor: CallExecutor) -> None:
        self.missing_records = 0
        self._registry = registry
        self._link = link
        self._executor = executor
        self._next_flush = 0.0
        self._wake_is_set = False

    def report(self, engine: Engine, *, now: bool = False) -> None:
        """Flush if a second has passed, else see to it that somebody comes back then."""
        time_now = time.monotonic()
        if not now and time_now < self._next_flush:
            self._come_back()
            return
        self._next_flush = time_now + FLUSH_SECONDS
        self._wake_is_set = False
        self._collect(engine)
        if self._registry.is_dirty:
            self._link.update_metrics(self._registry.take())

    def _collect(self, engine: Engine) -> None:
        registry, executor = self._registry, self._executor
        for name, field in _COUNTERS.items():
            registry.set_counter(f"durable.{name}", getattr(engine.stats, field))
        registry.set_counter("durable.missingRecords", self.missing_records)
        registry.set_gauge("durable.liveRuns", engine.live_runs)
        registry.set_gauge("durable.runsInFlight", engine.in_flight)
        registry.set_gauge("durable.callsRunning", executor.running)
        registry.set_gauge("durable.callsWaiting", executor.waiting)
        registry.set_gauge("durable.abandonedWorkers", executor.abandoned_workers)

    def _come_back(self) -> None:
        """Once for all that happens until the next flush: an idle job has no timer."""
        if not self._wake_is_set:
            self._wake_is_set = True
            self._executor.thread.post(self._wake_later)

    def _wake_later(self) -> None:
        self._executor.thread.call_at(self._executor.loop.time() + FLUSH_SECONDS, self._link.wake)
