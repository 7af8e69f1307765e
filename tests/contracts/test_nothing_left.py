"""L6 for everything at once: random agents that use all there is, lose attempts, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from typing import Any

import pytest

from flink_agents_durable import Agent, CallOptions, InputEvent, RetryPolicy, RunnerContext
from flink_agents_durable.engine.awakeables import awaited
from flink_agents_durable.engine.run import BACKOFF, CALL_SLOT
from flink_agents_durable.testing import LocalRunner
from tests.contracts.kit import Attempts, out, until

KINDS = ("call", "sync", "batch", "awakeable", "deadline", "sleep", "cancel", "memory", "race", "children")


async def ask(tag: str, fails: bool) -> str:
    await asyncio.sleep(0)
    return compute(tag, fails)


def compute(tag: str, fails: bool) -> str:
    if fails:
        raise ConnectionError(tag)
    return tag


def found() -> str:
    return "found"


def options(source: random.Random) -> CallOptions:
    retry = RetryPolicy(max_attempts=source.randint(1, 3), initial_interval=source.choice([0, 2]))
    return CallOptions(
        retry=source.choice([None, retry]),
        total_timeout=source.choice([None, 3]),
        limit=source.choice([None, "one", "rate"]),
    )


class Anything:
    """One execution that does random things; the same ones in every attempt."""

    def __init__(self, seed: str, ctx: RunnerContext) -> None:
        self.source = random.Random(seed)
        self.ctx = ctx

    def call(self, how: Any) -> Any:
        source = self.source
        settings = {"options": options(source), "reconciler": source.choice([None, found])}
        return how(source.choice([ask, compute]), str(source.random()), source.random() < 0.4, **settings)

    async def step(self, depth: int = 0) -> None:
        source, ctx = self.source, self.ctx
        kind = source.choice(KINDS if depth < 2 else KINDS[:5])
        if kind == "call":
            await self.call(ctx.durable_execute_async)
        elif kind == "sync":
            self.call(ctx.durable_execute)
        elif kind == "batch":
            calls = [self.call(ctx.durable_execute_async) for _ in range(source.randint(1, 4))]
            await ctx.gather(*calls, timeout=source.choice([None, 1, 30]))
        elif kind in ("awakeable", "deadline"):
            await asyncio.wait_for(ctx.awakeable()[1], 1 if kind == "deadline" else 500)
        elif kind == "sleep":
            await asyncio.sleep(source.choice([0, 1, 5]))
        elif kind == "memory":
            ctx.short_term_memory.set("last", ctx.short_term_memory.get("last", 0) + 1)
        else:
            tasks = [asyncio.ensure_future(self.step(depth + 1)) for _ in range(source.randint(1, 3))]
            if kind == "race":
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if kind != "children":
                for task in tasks:
                    task.cancel()
            await asyncio.gather(*tasks, return_exceptions=kind != "children")


def agent() -> Agent:
    """Two actions for each input; a failure ends its own execution alone."""

    async def skipped(event: Any, ctx: RunnerContext) -> None:
        anything = Anything(event.input, ctx)
        for _ in range(4):
            with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
                await anything.step()
        out(ctx, event.input)

    async def buried(event: Any, ctx: RunnerContext) -> None:
        anything = Anything(f"{event.input} again", ctx)
        for _ in range(3):
            await anything.step()

    made = Agent().add_action("skipped", [InputEvent], skipped)
    return made.add_action("buried", [InputEvent], buried)


def check_counts(runner: LocalRunner) -> None:
    """What is counted for back-pressure is what there is."""
    engine = runner._engine
    for key in engine.keys.values():
        if key.run is not None:
            slots = [slot for one in key.run.executions.values() for slot in one.slots.values()]
            held = sum(slot.kind == CALL_SLOT and slot.state != BACKOFF for slot in slots)
            assert key.run.open_calls == held
    assert engine.in_flight == sum(key.counted for key in engine.keys.values()) >= 0


def finish(runner: LocalRunner) -> None:
    """Until every run has ended: time passes, then who still waits for an awakeable gets one."""
    while not runner.idle:
        runner.run_until_idle(advance_timers=True)
        check_counts(runner)
        runs = [key.run for key in runner._engine.keys.values() if key.run is not None]
        for id in [id for run in runs for id in awaited(run)]:
            with contextlib.suppress(LookupError):  # its run has ended by an earlier one
                runner.resolve(id, "yes")


def left(runner: LocalRunner) -> dict[str, Any]:
    """Everything that is still somewhere."""
    engine, executor = runner._engine, runner._ports.executor
    until(runner, lambda: executor.running == 0)  # calls that were given up end by themselves
    runner.checkpoint()
    places = {
        "keys": engine.keys,
        "dirty": engine.dirty,
        "calls": engine.calls,
        "starts": engine.starts,
        "cancels": engine.cancels,
        "records": [*engine.journal.outbox, *engine.journal.unacknowledged],
        "timer": engine.timers.next(),
        "armed": engine.timers._heap,
        "in flight": engine.in_flight,
        "waiting calls": executor.waiting,
        "workers": executor._admission.workers_running,
        "limits": [name for name, limit in executor._admission._limits.items() if limit.running],
        "state": runner._ports.state.entries(),
    }
    return {name: place for name, place in places.items() if place}


@pytest.mark.parametrize("payload", ["pickle", "json"])
@pytest.mark.parametrize("seed", range(6))
def test_l6_nothing_is_left_of_whatever_an_agent_did(attempts: Attempts, payload: str, seed: int) -> None:
    source = random.Random(f"{payload} {seed}")
    attempts.options = {
        "agents.payload": payload,
        "agents.action-failure": source.choice(["skip", "dead-letter"]),
        "agents.limits.one.max-concurrency": 1,
        "agents.limits.rate.per-second": 2,
        "agents.call.parallelism": source.choice([1, 2, 100]),
        "agents.short-term-memory.ttl": source.choice([5, 10_000]),
    }
    threads = threading.active_count()
    runner = attempts.start(agent())
    inputs = [(source.choice("abc"), f"{seed} {number}") for number in range(4)]
    for key, value in inputs:
        runner.process(key, value)
    for _ in range(3):
        for _ in range(source.randint(0, 3)):
            runner.advance(source.choice([0.1, 1, 7]))
            check_counts(runner)
        checkpoint, time = runner.checkpoint(), runner.time
        runner.advance(source.choice([0, 1]))
        runner = attempts.start(agent(), checkpoint=checkpoint, time=max(time, runner.time))
    finish(runner)
    assert left(runner) == {}
    attempts.close()
    assert threading.active_count() <= threads
