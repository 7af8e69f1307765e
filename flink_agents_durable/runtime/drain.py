"""What came while the task thread did other things, taken for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable

from flink_agents_durable.engine.engine import Engine
from flink_agents_durable.runtime.durable_timer import DurableTimer, wall_clock
from flink_agents_durable.runtime.executor import CallExecutor
from flink_agents_durable.store.protocol import ActionStateStore

DRAIN_COMPLETIONS = 1_000
DRAIN_SECONDS = 0.010
"""A mail takes no longer than these, so that barriers are not blocked (K10)."""
DRAIN_CHUNK = 128
"""How much is done between two looks at the clock."""


class Drain:
    """Hands completions, acknowledgements and timers to the engine (K10)."""

    def __init__(
        self,
        executor: CallExecutor,
        store: ActionStateStore,
        timer: DurableTimer,
        flush_starts: Callable[[], None],
    ) -> None:
        self._executor = executor
        self._store = store
        self._timer = timer
        self._flush_starts = flush_starts

    def run(self, engine: Engine) -> None:
        """Take what came. Raises the failure of the store's writer."""
        deadline = time.monotonic() + DRAIN_SECONDS
        left = DRAIN_COMPLETIONS
        progress = True
        while progress and left > 0 and time.monotonic() < deadline:
            # Completions first: the writer works on their records while older ones are delivered.
            completions = self._executor.drain(min(DRAIN_CHUNK, left))
            left -= len(completions)
            progress = bool(completions)
            if completions:
                engine.complete(completions, wall_clock())
            progress |= self._take_acknowledgements(engine, deadline)
            progress |= self._fire_timers(engine)
            self._flush_starts()

    def _fire_timers(self, engine: Engine) -> bool:
        now = wall_clock()
        if not self._timer.is_due(now):
            return False
        engine.fire_timers(now)
        return True

    def _take_acknowledgements(self, engine: Engine, deadline: float) -> bool:
        """Batch by batch, as each may make many actions go on. Raises the failure of the writer (P20)."""
        durable = self._store.acknowledged()
        if not self._store.durable:
            return False
        progress = False
        while engine.applied_batches < durable:
            engine.acknowledge(engine.applied_batches + 1, wall_clock())
            progress = True
            if time.monotonic() >= deadline:
                break
        return progress

    def has_more(self, engine: Engine) -> bool:
        """Work that no later wake-up announces, because its wake-up has come already."""
        if self._executor.completed:
            return True
        store = self._store
        return store.durable and engine.applied_batches < store.acknowledged()
