"""Expiry of what a key keeps when nobody uses it (P25).

Two things with one time to live. What an action reads is judged by recorded times alone: a run's start against
the last recorded use of the memory before it, so that a replay, however late, reads the same. What nobody asks for
any more is garbage, which a sweep over all keys removes by the clock: memory, and the sequence number with it.

The sweep leaves alone what a replay could still judge: keys that are live, have tail records whose input has not
come back, or resolutions of awakeables. The numbers of a key that it forgot must not come again, for ids derive
from them and the log may hold records under them: a key that is unknown starts at the floor of its key group,
which is kept in the same snapshot as the removal.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from flink_agents_durable.engine import snapshot
from flink_agents_durable.engine.ports import MEMORY, SEQUENCE, StateEntry

if TYPE_CHECKING:
    from flink_agents_durable.engine.engine import Engine
    from flink_agents_durable.engine.run import Execution, KeyState

EVERYTHING = None
"""As the path of an entry in the state `memory`: all of them."""

ForgottenKey = tuple[bytes, list[StateEntry]]


def use_memory(engine: Engine, execution: Execution, ttl: int) -> None:
    """An execution asks for its key's memory; the first one of a run finds it gone if its time is over.

    The run's start becomes a record, as whenever somebody asks for the time (P12): it is in the log before
    anything that follows from what is read.
    """
    if execution.uses_memory:
        return
    execution.uses_memory = True
    run = execution.run
    ks = run.key
    engine.journal.begin(run, engine.now)
    if has_expired(ks.used, ttl, run.start_time):
        ks.memory.clear()
    ks.used = max(ks.used, execution.time)
    engine.mark(ks)


def ended(execution: Execution) -> None:
    """An execution that used memory has ended: its time to live begins now."""
    ks = execution.run.key
    ks.used = max(ks.used, execution.time)


def run_ended(ks: KeyState, now: int) -> None:
    """A key that never used memory has nothing that could be read: its number may expire by the clock."""
    if not ks.used:
        ks.used = now


def has_expired(used: int, ttl: int, now: int) -> bool:
    """Whether the time of something is over. A key from before there was a time to live has no last use: 0."""
    return 0 < used <= now - ttl


def last_use(entries: Iterable[StateEntry]) -> int:
    """The last use that the keyed state of a key tells of, or 0."""
    return max(
        (snapshot.read_sequence(data).used for state, _, data in entries if state == SEQUENCE), default=0
    )


def sweep(engine: Engine, keys: Iterable[tuple[bytes, int, bytes]], now: int, ttl: int) -> list[ForgottenKey]:
    """Forget what has expired among keys, given with group and state `sequence`; gives their updates.

    Neither emits nor steps. The updates must be in the next snapshot together with `Engine.floors`.
    """
    updates: list[ForgottenKey] = []
    for key, group, sequence in keys:
        image = snapshot.read_sequence(sequence)
        if key in engine.keys or snapshot.has_more(sequence) or not has_expired(image.used, ttl, now):
            continue
        engine.floors[group] = max(engine.floors.get(group, 0), image.sequence)
        updates.append((key, [(MEMORY, EVERYTHING, None), (SEQUENCE, None, None)]))
    engine.stats.keys_expired += len(updates)
    return updates
