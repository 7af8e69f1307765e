"""What the tests of retries and deadlines share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flink_agents_durable import CallOptions, RetryPolicy, RunnerContext
from flink_agents_durable.engine.attempts import decode_attempt
from flink_agents_durable.engine.records import ATTEMPT, Record, decode_record
from flink_agents_durable.testing import LocalRunner
from tests.contracts.functions import ask
from tests.contracts.kit import WatchedStore, agent_of, out

KINDS = ["synchronous", "async", "gather"]
AWAITED = ["async", "gather"]

STEADY = RetryPolicy(max_attempts=4, initial_interval=60, backoff_factor=2, max_interval=600, jitter=False)
"""Waits of 60, 120 and 240 seconds."""


class Server:
    """Fails as often as it was told to, then answers. It counts what reached it, over all attempts of the job."""

    def __init__(self, *, failures: int, error: Callable[[int], BaseException] | None = None) -> None:
        self.failures = failures
        self.error = error or (lambda number: ConnectionError(f"refused {number}"))
        self.reached = 0
        self.reconciled = 0

    def __call__(self, what: Any) -> Any:
        self.reached += 1
        if self.reached <= self.failures:
            raise self.error(self.reached)
        return f"{what}!"

    def found(self) -> str:
        self.reconciled += 1
        return "found"

    def missing(self) -> str:
        self.reconciled += 1
        raise LookupError("no such payment")


async def ask_again(
    ctx: RunnerContext, kind: str, options: CallOptions, what: str = "a", reconciler: Any = None
) -> Any:
    """A durable call in one of its forms."""
    if kind == "synchronous":
        return ctx.durable_execute(ask, what, options=options, reconciler=reconciler)
    future = ctx.durable_execute_async(ask, what, options=options, reconciler=reconciler)
    if kind == "async":
        return await future
    (outcome,) = await ctx.gather(future)
    return outcome.value


def asking(kind: str, options: CallOptions, reconciler: Any = None) -> Any:
    """An agent with one call, whose failure it catches."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            out(ctx, await ask_again(ctx, kind, options, reconciler=reconciler))
        except Exception as error:
            out(ctx, f"{type(error).__name__}: {error}")

    return agent_of(act)


def idle(runner: LocalRunner) -> None:
    """Until nothing is left to do, whatever time it takes."""
    runner.run_until_idle(advance_timers=True)


def records(store: WatchedStore) -> list[Record]:
    """All records that reached the store."""
    return [decode_record(data) for batch in store.batches for data in batch]


def failed_attempts(store: WatchedStore) -> list[tuple[int, int]]:
    """Number and delay in seconds of the failed attempts in the log."""
    attempts = [decode_attempt(record) for record in records(store) if record.kind == ATTEMPT]
    return [(attempt.failed, attempt.delay // 1000) for attempt in attempts]


def run(runner: LocalRunner) -> None:
    """One input, to the end."""
    runner.process("k", 1)
    idle(runner)
