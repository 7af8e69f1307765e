"""Counters of the engine, read by the metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class EngineStats:
    """Counts since this attempt of the task began."""

    runs: int = 0
    calls_executed: int = 0
    calls_replayed: int = 0
    calls_failed: int = 0
    calls_reconciled: int = 0
    calls_retried: int = 0
    mismatches: int = 0
    events_suppressed: int = 0
    unclaimed_dropped: int = 0
    dead_letters: int = 0
    keys_expired: int = 0
    awakeables_resolved: int = 0
    awakeables_dropped: int = 0
