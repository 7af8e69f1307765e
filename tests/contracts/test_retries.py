"""P19, case 33: a failed attempt is followed by another one, and holds nothing while it waits."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from flink_agents_durable import CallOptions, RetryPolicy, RunnerContext
from flink_agents_durable.api.errors import AttemptEndedError
from flink_agents_durable.engine.attempts import decode_attempt
from flink_agents_durable.engine.records import ATTEMPT, OUTCOME, SYNC_OUTCOME
from tests.contracts.functions import ask, check, never
from tests.contracts.kit import Attempts, Gate, WatchedStore, agent_of, out, until, values
from tests.contracts.retries import (
    KINDS,
    STEADY,
    Server,
    asking,
    failed_attempts,
    idle,
    records,
    run,
)


@pytest.mark.parametrize("kind", KINDS)
def test_p19_a_failed_attempt_is_recorded_and_followed_by_another(attempts: Attempts, kind: str) -> None:
    """One record for each; the waits grow."""
    store = attempts.store = WatchedStore(attempts.folder)
    server = Server(failures=3)
    runner = attempts.start(asking(kind, CallOptions(retry=STEADY)), fakes={ask: server})
    start = runner.time
    runner.process("k", 1)
    idle(runner)
    assert values(runner) == ["a!"]
    assert server.reached == 4
    assert failed_attempts(store) == [(1, 60), (2, 120), (3, 240)]
    assert runner.time == start + 60 + 120 + 240
    assert runner.stats.calls_retried == 3
    assert (runner.stats.calls_executed, runner.stats.calls_failed) == (1, 0)
    again = attempts.start(asking(kind, CallOptions(retry=STEADY)), fakes={ask: never})
    again.process("k", 1)
    again.run_until_idle()
    assert values(again) == ["a!"]


@pytest.mark.parametrize("kind", KINDS)
def test_p19_the_last_attempt_decides(attempts: Attempts, kind: str) -> None:
    """Its own failure reaches the action, and replays."""
    server = Server(failures=9)
    for fake in (server, never):
        runner = attempts.start(asking(kind, CallOptions(retry=STEADY)), fakes={ask: fake})
        runner.process("k", 1)
        idle(runner)
        assert values(runner) == ["ConnectionError: refused 4"]
    assert server.reached == 4


@pytest.mark.parametrize(
    ("retry_on", "error", "reached"),
    [
        (ConnectionError, ConnectionRefusedError("x"), 2),
        (ConnectionError, ValueError("x"), 1),
        ((KeyError, ValueError), ValueError("x"), 2),
        ((), ValueError("x"), 1),
        (lambda error: "again" in str(error), ValueError("try again"), 2),
        (lambda error: "again" in str(error), ValueError("no"), 1),
        (Exception, type("Odd", (BaseException,), {})("x"), 1),
    ],
)
def test_retry_on_says_which_failures_are_tried_again(
    storeless: Attempts, retry_on: Any, error: BaseException, reached: int
) -> None:
    """A class, a tuple of classes, or a predicate; what is no Exception is not tried again by default."""
    server = Server(failures=1, error=lambda number: error)
    options = CallOptions(retry=RetryPolicy(initial_interval=1, retry_on=retry_on))

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            out(ctx, await ctx.durable_execute_async(ask, "a", options=options))
        except BaseException as failure:
            if not isinstance(failure, type(error)) and str(error) not in str(failure):
                raise
            out(ctx, "failed")

    runner = storeless.start(agent_of(act), fakes={ask: server})
    runner.process("k", 1)
    idle(runner)
    assert server.reached == reached
    assert values(runner) == ["a!" if reached == 2 else "failed"]


def cancelled(error: BaseException) -> bool:
    raise asyncio.CancelledError


@pytest.mark.parametrize("kind", KINDS)
def test_i5_an_interrupt_in_a_policy_ends_the_attempt(attempts: Attempts, kind: str) -> None:
    """Nothing is recorded of it: the next attempt of the job makes the call again, and may ask again."""

    def interrupted(error: BaseException) -> bool:
        raise KeyboardInterrupt

    store = attempts.store = WatchedStore(attempts.folder)
    options = CallOptions(retry=RetryPolicy(initial_interval=1, retry_on=interrupted))
    first = attempts.start(asking(kind, options), fakes={ask: Server(failures=1)})
    with pytest.raises((KeyboardInterrupt, AttemptEndedError)):
        run(first)
    with pytest.raises(AttemptEndedError):
        first.process("other", 1)
    assert not [record for record in records(store) if record.kind in (ATTEMPT, OUTCOME, SYNC_OUTCOME)]
    again = attempts.start(asking(kind, options), fakes={ask: Server(failures=0)})
    run(again)
    assert values(again) == ["a!"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "broken",
    [
        {"retry_on": lambda error: error.no_such_attribute},
        {"retry_on": cancelled},
        {"retry_after": lambda error: error.no_such_attribute},
        {"retry_after": lambda error: float("nan")},
        {"retry_after": lambda error: "soon"},
    ],
)
def test_a_policy_that_raises_makes_the_failure_final(
    storeless: Attempts, kind: str, broken: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The action sees the original failure, the log tells what the policy did."""
    options = CallOptions(retry=RetryPolicy(**broken))
    runner = storeless.start(asking(kind, options), fakes={ask: Server(failures=1)})
    runner.process("k", 1)
    idle(runner)
    assert values(runner) == ["ConnectionError: refused 1"]
    assert "the retry policy raised" in caplog.text
    assert runner.stats.calls_retried == 0


@pytest.mark.parametrize(("advice", "waited"), [(7, 7), (0, 0), (-5, 0), (None, 60), (900, 900)])
def test_retry_after_is_the_servers_own_advice(storeless: Attempts, advice: Any, waited: float) -> None:
    """It takes the place of the back-off, without jitter and without `max_interval`; None does not."""
    policy = RetryPolicy(initial_interval=60, jitter=False, retry_after=lambda error: advice)
    runner = storeless.start(asking("async", CallOptions(retry=policy)), fakes={ask: Server(failures=1)})
    start = runner.time
    runner.process("k", 1)
    idle(runner)
    assert values(runner) == ["a!"]
    assert runner.time - start == waited


def test_p19_jitter_is_the_same_on_every_attempt_of_the_job(attempts: Attempts) -> None:
    """It depends on the call: neighbours spread between a half and the whole wait."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        options = CallOptions(retry=RetryPolicy(max_attempts=2, initial_interval=1000, max_interval=1000))
        calls = [ctx.durable_execute_async(ask, str(number), options=options) for number in range(20)]
        out(ctx, len(await ctx.gather(*calls)))

    found = []
    for folder in ("one", "two"):
        attempts.store = WatchedStore(attempts.folder / folder)
        runner = attempts.start(agent_of(act), fakes={ask: Server(failures=20)})
        runner.process("k", 1)
        idle(runner)
        found.append(
            sorted((r.slot, decode_attempt(r).delay) for r in records(attempts.store) if r.kind == ATTEMPT)
        )
    assert found[0] == found[1]
    delays = [delay for _, delay in found[0]]
    assert min(delays) >= 500_000
    assert max(delays) <= 1_000_000
    assert len(set(delays)) > 15


@pytest.mark.parametrize("kind", KINDS)
def test_f10_a_result_that_cannot_be_recorded_is_not_tried_again(storeless: Attempts, kind: str) -> None:
    """The call was made: only its result is useless."""
    made: list[Any] = []

    def useless(what: Any) -> Any:
        made.append(what)
        return threading.Lock()

    runner = storeless.start(asking(kind, CallOptions(retry=STEADY)), fakes={ask: useless})
    runner.process("k", 1)
    idle(runner)
    assert made == ["a"]
    assert values(runner)[0].startswith("DurableSerializationError")


@pytest.mark.parametrize("kind", KINDS)
def test_i2_an_interruption_is_never_tried_again(attempts: Attempts, kind: str) -> None:
    """It ends the attempt of the task; the next one goes on with the same count."""
    store = attempts.store = WatchedStore(attempts.folder)
    server = Server(failures=3, error=lambda n: KeyboardInterrupt() if n == 2 else ConnectionError(str(n)))
    agent = asking(kind, CallOptions(retry=RetryPolicy(max_attempts=3, jitter=False, retry_on=BaseException)))
    first = attempts.start(agent, fakes={ask: server})
    with pytest.raises(BaseException, match=r"interrupted|^$"):
        run(first)
    assert failed_attempts(store) == [(1, 1)]
    second = attempts.start(agent, fakes={ask: server}, time=first.time)
    run(second)
    assert failed_attempts(store) == [(1, 1), (2, 2)]
    assert values(second) == ["a!"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_retry_is_logged_with_all_that_names_it(
    storeless: Attempts, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Job, key, action, call, attempt, delay and failure, but no credential (X8)."""
    error = ConnectionError("refused for https://me:s3cret-word@host")
    fake = Server(failures=1, error=lambda number: error)
    with caplog.at_level(logging.WARNING):
        run(storeless.start(asking(kind, CallOptions(retry=STEADY)), fakes={ask: fake}))
    (line,) = [record.getMessage() for record in caplog.records if "attempt 1" in record.getMessage()]
    for part in ("job local", "key 'k'", "action act", "functions.ask", "attempt 1 of 4", "60 s", "refused"):
        assert part in line
    assert "s3cret" not in line


def test_case_35_x8_the_failure_of_an_attempt_is_recorded_bounded_and_clean(attempts: Attempts) -> None:
    """Lone surrogates, NUL, 450,000 characters, a password."""
    store = attempts.store = WatchedStore(attempts.folder)
    error = ConnectionError("https://me:s3cret-word@host \ud800 \0" + "x" * 450_000)
    run(
        attempts.start(
            asking("async", CallOptions(retry=STEADY)),
            fakes={ask: Server(failures=1, error=lambda number: error)},
        )
    )
    (record,) = [record for record in records(store) if record.kind == ATTEMPT]
    assert len(record.payload) < 4_000
    assert b"s3cret" not in record.payload


# --- what a back-off holds ---


def test_case_33_a_back_off_holds_no_thread_and_no_permit(storeless: Attempts) -> None:
    """With one worker and one call at a time, other keys go on meanwhile."""

    def plain(what: Any) -> Any:
        return server(what) if what == "a" else what

    server = Server(failures=1)

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ctx.durable_execute_async(ask, event.input, options=CallOptions(retry=STEADY)))

    options = {"agents.call.workers": 1, "agents.call.max-concurrency": 1}
    runner = storeless.start(agent_of(act), fakes={ask: plain}, options=options)
    runner.process("waits", "a")
    runner.run_until_idle()
    executor = runner._ports.executor
    assert (executor.running, executor.waiting, executor.abandoned_workers) == (0, 0, 0)
    runner.process("other", "b")
    runner.run_until_idle()
    assert values(runner) == ["b"]
    idle(runner)
    assert values(runner) == ["b", "a!"]


def test_case_33_a_run_in_back_off_is_not_in_flight(storeless: Attempts) -> None:
    """As with a timer, neither the run nor the inputs behind it press back; while an attempt runs, they do."""
    gate = Gate()
    agent = asking("async", CallOptions(retry=STEADY))
    runner = storeless.start(agent, fakes={ask: gate})
    for number in range(3):
        runner.process("k", number)
    engine = runner._engine
    assert (engine.in_flight, engine.live_runs) == (3, 3)
    gate.fail("a", ConnectionError("refused"))
    until(runner, lambda: engine.in_flight == 0)
    assert engine.live_runs == 3
    restored = storeless.start(agent, checkpoint=runner.checkpoint(), fakes={ask: gate}, time=runner.time)
    engine = restored._engine
    assert (engine.in_flight, engine.live_runs) == (0, 3)
    restored.advance(60)
    assert engine.in_flight == 3
    while engine.live_runs:
        left = engine.live_runs - 1
        gate.answer("a")
        until(restored, lambda: engine.live_runs <= left)  # noqa: B023
    assert (engine.in_flight, engine.live_runs) == (0, 0)


def test_f11_a_back_off_gives_its_place_in_the_batch_away(storeless: Attempts) -> None:
    """With `call.parallelism` 1 the next call of the batch starts, and the attempt waits for its turn later."""
    gate = Gate()

    async def act(event: Any, ctx: RunnerContext) -> None:
        calls = [
            ctx.durable_execute_async(ask, what, options=CallOptions(retry=STEADY)) for what in ("a", "b")
        ]
        out(ctx, [outcome.value for outcome in await ctx.gather(*calls)])

    runner = storeless.start(agent_of(act), fakes={ask: gate}, options={"agents.call.parallelism": 1})
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting("a"))
    gate.fail("a", ConnectionError("refused"))
    until(runner, lambda: gate.is_waiting("b"))
    runner.advance(60)
    assert gate.waiting == ["b"], "the batch has one place"
    gate.answer("b")
    until(runner, lambda: gate.is_waiting("a"))
    gate.answer("a")
    runner.run_until_idle()
    assert values(runner) == [["a!", "b!"]]
    assert gate.most == 1


# --- the end of waiting ---


def test_f8_the_time_out_of_a_batch_ends_a_back_off(attempts: Attempts) -> None:
    """That call has no result, the finished one keeps its own; a replay says the same."""
    server = Server(failures=1_000)

    def fake(what: Any) -> Any:
        return server(what) if what == "a" else what

    async def act(event: Any, ctx: RunnerContext) -> None:
        calls = [
            ctx.durable_execute_async(ask, what, options=CallOptions(retry=STEADY)) for what in ("a", "b")
        ]
        out(
            ctx,
            [
                o.value if o.is_success() else type(o.error).__name__
                for o in await ctx.gather(*calls, timeout=70)
            ],
        )
        await asyncio.sleep(1_000)
        out(ctx, "end")

    for used in (fake, never):
        runner = attempts.start(agent_of(act), fakes={ask: used})
        start = runner.time
        runner.process("k", 1)
        runner.run_until_idle()
        runner.advance(69)
        runner.run_until_idle()
        runner.advance(1)
        runner.run_until_idle()
        assert values(runner) == [["CallTimeoutError", "b"]]
        assert runner.time == start + 70
        assert server.reached == 2
    idle(runner)
    assert server.reached == 2, "the attempt after the time-out is not made"
    assert values(runner)[-1] == "end"


@pytest.mark.parametrize("how", ["wait_for", "cancel"])
def test_a_cancel_by_the_action_ends_a_back_off(attempts: Attempts, how: str) -> None:
    """Nothing of it is left: no timer, no attempt, also on a replay."""
    server = Server(failures=1_000)

    async def act(event: Any, ctx: RunnerContext) -> None:
        future = ctx.durable_execute_async(ask, "a", options=CallOptions(retry=STEADY))
        if how == "wait_for":
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(future, 30)
        else:
            task = asyncio.create_task(future)
            await asyncio.sleep(30)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        out(ctx, "gave up")
        out(ctx, await ctx.durable_execute_async(check, "after"))

    for fake in (server, never):
        runner = attempts.start(agent_of(act), fakes={ask: fake, check: check})
        run(runner)
        assert values(runner) == ["gave up", "after?"]
        assert runner._engine.timers.next() is None
    assert server.reached == 1
