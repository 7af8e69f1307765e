"""Memory with a time to live: judged by recorded times, so that a replay reads the same (P25)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from flink_agents_durable import RunnerContext
from tests.contracts.functions import ask
from tests.contracts.kit import Attempts, Gate, WatchedStore, agent_of, called, out, until, values

TTL = {"agents.short-term-memory.ttl": "1 h"}
HOUR = 3600


async def visit(event: Any, ctx: RunnerContext) -> None:
    """What it finds of the visits before; it leaves its own."""
    memory = ctx.short_term_memory
    seen = memory.get("seen", [])
    memory.set("seen", [*seen, event.input])
    memory.set("deep.er", event.input)
    out(ctx, seen)


async def visit_and_ask(event: Any, ctx: RunnerContext) -> None:
    await visit(event, ctx)
    await ctx.durable_execute_async(ask, event.input)


def no_memory(event: Any, ctx: RunnerContext) -> None:
    out(ctx, ctx.run_id)


@pytest.mark.parametrize("store", ["attempts", "storeless"])
def test_memory_that_nobody_uses_for_so_long_is_gone(store: str, request: pytest.FixtureRequest) -> None:
    """All of it; each use gives it its whole time again."""
    job: Attempts = request.getfixturevalue(store)
    runner = job.start(agent_of(visit), options=TTL)
    for pause in (0, HOUR - 1, HOUR - 1, HOUR, 1):
        runner.advance(pause)
        runner.process("k", pause)
    runner.run_until_idle()
    assert values(runner) == [[], [0], [0, HOUR - 1], [], [HOUR]]
    assert runner.memory("k") == {"seen": [HOUR, 1], "deep.er": 1}
    runner.advance(HOUR)
    assert runner.memory("k") == {}


def test_other_keys_and_runs_that_do_not_ask_for_it_do_not_matter(attempts: Attempts) -> None:
    def act(event: Any, ctx: RunnerContext) -> None:
        if event.input != "nothing":
            out(ctx, ctx.short_term_memory.get("n"))
            ctx.short_term_memory.set("n", event.input)

    runner = attempts.start(agent_of(act), options=TTL)
    runner.process("k", 1)
    runner.advance(HOUR - 1)
    runner.process("k", "nothing")
    runner.process("other", 2)
    runner.advance(1)
    runner.process("k", 3)
    runner.process("other", 4)
    assert runner.outputs == [("k", None), ("other", None), ("k", None), ("other", 2)]


def test_a_long_run_keeps_its_memory_and_uses_it_until_its_end(attempts: Attempts) -> None:
    """Nothing expires in its middle, nor right behind it."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        memory = ctx.short_term_memory
        before = memory.get("n")
        memory.set("n", event.input)
        if event.input == 1:
            await asyncio.sleep(5 * HOUR)
        out(ctx, (before, memory.get("n")))

    runner = attempts.start(agent_of(act), options=TTL)
    runner.process("k", 1)
    runner.run_until_idle(advance_timers=True)
    runner.advance(HOUR - 1)
    runner.process("k", 2)
    runner.run_until_idle()
    assert values(runner) == [(None, 1), (1, 2)]


def test_sensory_memory_has_no_time_to_live(attempts: Attempts) -> None:
    """It ends with its run, and does not count as use."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        ctx.sensory_memory.set("n", 1)
        await asyncio.sleep(2 * HOUR)
        out(ctx, ctx.sensory_memory.get("n"))

    runner = attempts.start(agent_of(act), options=TTL)
    runner.process("k", 1)
    runner.run_until_idle(advance_timers=True)
    assert values(runner) == [1]


@pytest.mark.parametrize("pause", [HOUR - 1, HOUR], ids=["kept", "gone"])
def test_p25_a_late_replay_finds_what_the_first_attempt_found(attempts: Attempts, pause: int) -> None:
    """The runs come back hours later, in another attempt: they have their recorded starts."""
    gate = Gate()
    first = attempts.start(agent_of(visit_and_ask), options=TTL, fakes={ask: gate})
    checkpoint = first.checkpoint()
    first.process("k", 1)
    gate.answer(1)
    first.run_until_idle()
    first.advance(pause)
    first.process("k", 2)
    until(first, lambda: gate.is_waiting(2))
    gate.answer(2)
    first.run_until_idle()
    for later in (0, 10 * HOUR):
        second = attempts.start(
            agent_of(visit_and_ask), checkpoint=checkpoint, options=TTL, time=first.time + later
        )
        second.process("k", 1)
        second.process("k", 2)
        second.run_until_idle()
        assert called(second) == []
        assert values(second) == values(first)
        assert second.memory("k") == (first.memory("k") if not later else {})


def test_p12_p25_a_use_is_recorded_though_its_run_makes_no_call(attempts: Attempts) -> None:
    """Else the replay of the run behind it would not know that it came too late."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        await visit(event, ctx)
        if event.input == 2:
            await ctx.durable_execute_async(ask, event.input)

    first = attempts.start(agent_of(act), options=TTL)
    checkpoint = first.checkpoint()
    first.process("k", 1)
    first.advance(HOUR)
    first.process("k", 2)
    first.run_until_idle()
    assert values(first) == [[], []]
    second = attempts.start(agent_of(act), checkpoint=checkpoint, options=TTL, time=first.time + 7)
    second.process("k", 1)
    second.process("k", 2)
    second.run_until_idle()
    assert values(second) == [[], []]
    assert called(second) == []


class LosingStore(WatchedStore):
    """Appends of an attempt that is about to die never reach the log."""

    def __init__(self, path: Any) -> None:
        super().__init__(path)
        self.losing = threading.Event()  # shared by the attempts

    def append(self, records: Any) -> None:
        if not self.losing.is_set():
            super().append(records)


def test_p12_p25_the_start_of_a_run_does_not_move(attempts: Attempts) -> None:
    """A snapshot knows the time of an outcome whose record is lost: `begin`, written anew, is as old as the start."""

    async def ask_and_visit(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, event.input)
        await visit(event, ctx)

    gate = Gate()
    store = attempts.store = LosingStore(attempts.folder)
    first = attempts.start(agent_of(ask_and_visit), options=TTL, fakes={ask: gate})
    first.process("k", 1)
    gate.answer(1)
    first.run_until_idle()
    store.losing.set()
    first.advance(HOUR - 10)
    first.process("k", 2)
    until(first, lambda: gate.is_waiting(2))
    first.advance(100)
    gate.answer(2)
    until(first, lambda: first.stats.calls_executed == 2)
    checkpoint = first.checkpoint()
    store.losing.clear()
    for number in range(2):
        later = attempts.start(agent_of(ask_and_visit), checkpoint=checkpoint, options=TTL, time=first.time)
        later.run_until_idle()
        assert later.memory("k")["seen"] == [1, 2]
        assert len(called(later)) == 1 - number


def test_p25_keys_that_never_come_back_leave_the_state(attempts: Attempts) -> None:
    """Also those that never had memory; the sequence number goes with them, and ids do not come again."""
    runner = attempts.start(agent_of(visit, no_memory), options=TTL)
    for key in range(20):
        runner.process(key, "first")
    checkpoint = runner.checkpoint()
    ids = {value for value in values(runner) if isinstance(value, str)}
    runner = attempts.start(agent_of(visit, no_memory), checkpoint=checkpoint, options=TTL, time=runner.time)
    runner.advance(2 * HOUR)
    runner.process(3, "still there")
    checkpoint = runner.checkpoint()
    assert runner.stats.keys_expired == 19
    assert len(runner._ports.state.sequences()) == 1
    third = attempts.start(agent_of(visit, no_memory), checkpoint=checkpoint, options=TTL, time=runner.time)
    for key in range(20):
        third.process(key, "first")
    again = {value for value in values(third) if isinstance(value, str)}
    assert len(again) == 20
    assert not ids & again


def test_p25_the_sweep_leaves_alone_what_a_replay_may_read(attempts: Attempts) -> None:
    """Records whose input is still on its way keep the memory of their key, however long that takes."""
    first = attempts.start(agent_of(visit_and_ask), options=TTL)
    first.process("k", 1)
    first.run_until_idle()
    checkpoint = first.checkpoint()
    first.process("k", 2)
    first.run_until_idle()
    assert values(first) == [[], [1]]
    second = attempts.start(agent_of(visit_and_ask), checkpoint=checkpoint, options=TTL, time=first.time)
    second.advance(10 * HOUR)
    checkpoint = second.checkpoint()  # sweeps
    assert second.stats.keys_expired == 0
    third = attempts.start(agent_of(visit_and_ask), checkpoint=checkpoint, options=TTL, time=second.time)
    third.process("k", 2)
    third.run_until_idle()
    assert values(third) == [[1]]
    assert called(third) == []


def test_state_from_before_there_was_a_time_to_live(attempts: Attempts) -> None:
    """Its time begins with the next use."""
    first = attempts.start(agent_of(visit))
    first.process("k", 1)
    checkpoint = first.checkpoint()
    second = attempts.start(agent_of(visit), checkpoint=checkpoint, options=TTL, time=first.time + 9 * HOUR)
    second.checkpoint()
    second.process("k", 2)
    second.advance(HOUR)
    second.process("k", 3)
    assert values(second) == [[1], []]


def test_without_a_time_to_live_a_use_costs_no_record(attempts: Attempts) -> None:
    """The option costs only those who set it."""
    attempts.store = WatchedStore(attempts.folder)
    runner = attempts.start(agent_of(visit))
    runner.process("k", 1)
    assert attempts.store.batches == []
