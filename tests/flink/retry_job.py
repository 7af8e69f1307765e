"""An agent whose calls fail at first: a test fails its task in the middle of their back-off."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from flink_agents_durable import (
    Agent,
    CallOptions,
    Event,
    InputEvent,
    OutputEvent,
    RetryPolicy,
    RunnerContext,
    action,
)
from tests.flink.failover_job import ask, is_first, note

BACK_OFF = 10.0
"""Seconds; longer than a restart of the task takes, also on a loaded machine."""

FAILURES = 2


def refuse(folder: str, label: str) -> str:
    """Fails twice, whoever asks; each attempt leaves its time."""
    note(folder, label, f"{time.time():.3f}")
    with open(f"{folder}/{label}") as attempts:
        number = len(attempts.readlines())
    if number <= FAILURES:
        raise ConnectionError(f"refused {number}")
    return f"{label} after {number}"


class Persistent(Agent):
    """One retried call beside held ones; another one that the task waits for; an input that fails the task."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @action(InputEvent)
    async def answer(self, event: Event, ctx: RunnerContext) -> None:
        question = InputEvent.from_event(event).input
        if question.startswith("fault"):
            await ctx.durable_execute_async(ask, self.folder, question, "fault")
            if is_first(self.folder, "failed"):
                raise RuntimeError("failed on purpose")
            return
        if question.startswith("sync"):
            options = CallOptions(retry=RetryPolicy(initial_interval=0.3, backoff_factor=1, jitter=False))
            ctx.send_event(OutputEvent(ctx.durable_execute(refuse, self.folder, "sync", options=options)))
            return
        retried = asyncio.create_task(self.retried(ctx))
        await ctx.durable_execute_async(ask, self.folder, "first", "first")
        await ctx.durable_execute_async(self.held, "second")
        ctx.send_event(OutputEvent(await retried))

    async def retried(self, ctx: RunnerContext) -> Any:
        policy = RetryPolicy(max_attempts=3, initial_interval=BACK_OFF, backoff_factor=1, jitter=False)
        return await ctx.durable_execute_async(
            refuse, self.folder, "async", reconciler=self.reconcile, options=CallOptions(retry=policy)
        )

    async def held(self, label: str) -> str:
        note(self.folder, "held", f"{time.time():.3f}")
        return await ask(self.folder, label, "second")

    def reconcile(self) -> str:
        note(self.folder, "reconciled", "")
        return "reconciled"
