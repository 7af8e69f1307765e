"""Case 34: time-outs of an attempt, and of a call over all its attempts, also across restarts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flink_agents_durable import ActionFailedError, CallOptions, CallTimeoutError, RunnerContext
from tests.contracts.functions import ask, never
from tests.contracts.kit import Attempts, Gate, agent_of, out, until, values
from tests.contracts.retries import (
    AWAITED,
    KINDS,
    STEADY,
    Server,
    ask_again,
    asking,
    run,
)


@pytest.mark.parametrize("kind", KINDS)
def test_case_34_an_attempt_that_takes_too_long_counts_as_failed(storeless: Attempts, kind: str) -> None:
    """The next one follows; the late answer of the first is ignored."""
    reached: list[Any] = []

    async def slow_once(what: Any) -> Any:
        reached.append(what)
        if len(reached) == 1:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return "late"
        return f"{what}!"

    runner = storeless.start(asking(kind, CallOptions(timeout=0.05, retry=STEADY)), fakes={ask: slow_once})
    run(runner)
    assert values(runner) == ["a!"]
    assert len(reached) == 2
    assert runner.stats.calls_retried == 1


@pytest.mark.parametrize("kind", KINDS)
def test_total_timeout_ends_the_attempts(attempts: Attempts, kind: str) -> None:
    """An attempt that could only start after it is not waited for; the last failure is the cause."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ask_again(ctx, kind, CallOptions(retry=STEADY, total_timeout=170))
        except CallTimeoutError as error:
            out(ctx, [str(error), str(error.__cause__)])

    server = Server(failures=1_000)
    for fake in (server, never):
        runner = attempts.start(agent_of(act), fakes={ask: fake})
        start = runner.time
        run(runner)
        [(text, cause)] = values(runner)
        assert "within its total_timeout of 170 s: 2 attempts failed" in text
        assert cause == "refused 2"
        assert server.reached == 2
        assert runner.time <= start + 60


@pytest.mark.parametrize("kind", AWAITED)
def test_case_34_total_timeout_ends_a_running_attempt(storeless: Attempts, kind: str) -> None:
    """Its late answer is ignored (case 34)."""
    gate = Gate()
    runner = storeless.start(asking(kind, CallOptions(total_timeout=30)), fakes={ask: gate})
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting("a"))
    runner.advance(29)
    assert values(runner) == []
    runner.advance(1)
    assert values(runner)[0].startswith("CallTimeoutError")
    assert "no attempt ended" in values(runner)[0]
    until(runner, lambda: gate.cancelled == ["a"])
    assert runner._engine.calls == {}


@pytest.mark.parametrize("kind", KINDS)
def test_total_timeout_in_real_time(storeless: Attempts, kind: str) -> None:
    """A call that hangs ends by it, synchronous ones too."""

    async def hangs(what: Any) -> Any:
        await asyncio.sleep(3_600)

    runner = storeless.start(asking(kind, CallOptions(total_timeout=0.05, retry=STEADY)), fakes={ask: hangs})
    run(runner)
    assert "total_timeout of 0.05 s" in values(runner)[0]


@pytest.mark.parametrize("kind", AWAITED)
@pytest.mark.parametrize("down", [50, 5_000])
def test_a_restart_does_not_extend_total_timeout(attempts: Attempts, kind: str, down: float) -> None:
    """It counts from the recorded time of the step that asked; what is over at the restart is not tried again."""
    gate = Gate()
    agent = asking(kind, CallOptions(total_timeout=100))
    first = attempts.start(agent, fakes={ask: gate})
    start = first.time
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a"))
    gate._waiting.clear()
    second = attempts.start(agent, fakes={ask: gate}, time=start + down)
    second.process("k", 1)
    if down < 100:
        until(second, lambda: gate.is_waiting("a"))
        second.advance(49)
        assert values(second) == []
        second.advance(1)
    second.run_until_idle()
    assert values(second)[0].startswith("CallTimeoutError")
    assert len(gate.started) == (2 if down < 100 else 1)


def test_total_timeout_counts_the_time_in_which_a_batch_holds_the_call_back(storeless: Attempts) -> None:
    """A call that waits for its place under `call.parallelism` times out there."""
    gate = Gate()

    async def act(event: Any, ctx: RunnerContext) -> None:
        first = ctx.durable_execute_async(ask, "a")
        second = ctx.durable_execute_async(ask, "b", options=CallOptions(total_timeout=10))
        out(
            ctx,
            [o.value if o.is_success() else type(o.error).__name__ for o in await ctx.gather(first, second)],
        )

    runner = storeless.start(agent_of(act), fakes={ask: gate}, options={"agents.call.parallelism": 1})
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting("a"))
    runner.advance(10)
    gate.answer("a")
    runner.run_until_idle()
    assert values(runner) == [["a!", "CallTimeoutError"]]
    assert gate.started == ["a"]


def test_p14_total_timeout_that_nothing_caught_counts_from_the_restart(attempts: Attempts) -> None:
    """The reopened call gets its whole time again."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ask_again(ctx, "async", CallOptions(total_timeout=30)))

    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a"))
    with pytest.raises(ActionFailedError, match="total_timeout"):
        first.advance(30)
    second = attempts.start(agent_of(act), fakes={ask: ask}, time=first.time + 1)
    run(second)
    assert values(second) == ["a!"]
