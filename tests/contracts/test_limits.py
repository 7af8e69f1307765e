"""Named limits: so many calls at a time, so many in a second; what waits holds nothing back (F11)."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from flink_agents_durable import (
    CallOptions,
    CallTimeoutError,
    ConfigurationError,
    RetryPolicy,
    RunnerContext,
    configured,
)
from flink_agents_durable.api.errors import ActionFailedError
from flink_agents_durable.testing import check_replay
from tests.contracts.functions import ask, check, compute, never
from tests.contracts.kit import Attempts, Gate, WatchedStore, agent_of, called, out, until, values

TWO_AT_A_TIME = {"agents.limits.api.max-concurrency": 2}
TWO_A_SECOND = {"agents.limits.api.per-second": 2}
API = CallOptions(limit="api")


class Busy(Exception):
    """As HTTP clients raise it."""

    response = SimpleNamespace(status_code=429, headers={"Retry-After": "30"})


async def five(event: Any, ctx: RunnerContext) -> None:
    calls = [ctx.durable_execute_async(ask, number, options=API) for number in range(5)]
    outcomes = await ctx.gather(*calls)
    out(ctx, [outcome.value for outcome in outcomes])


async def one(event: Any, ctx: RunnerContext) -> None:
    out(ctx, await ctx.durable_execute_async(ask, event.input, options=API))


def test_f11_so_many_calls_of_a_limit_at_a_time_first_in_first_out(attempts: Attempts) -> None:
    """Of a gather and of several keys alike."""
    gate = Gate()

    async def act(event: Any, ctx: RunnerContext) -> None:
        await (five if event.input == "five" else one)(event, ctx)

    runner = attempts.start(agent_of(act), fakes={ask: gate}, options=TWO_AT_A_TIME)
    runner.process("k", "five")
    until(runner, lambda: gate.is_waiting(0, 1))
    runner.process("other", "one")
    expected = [0, 1, 2, 3, 4, "one"]
    for place, name in enumerate(expected):
        last = min(place + 2, len(expected))
        until(runner, lambda last=last: gate.started == expected[:last])
        gate.answer(name)
    runner.run_until_idle()
    assert gate.most == 2
    assert values(runner) == [[f"{number}!" for number in range(5)], "one!"]


def test_other_calls_overtake(attempts: Attempts) -> None:
    """Those of no limit and of another one; also when plain functions wait, which hold no worker."""

    async def slow(event: Any, ctx: RunnerContext) -> None:
        tasks = [
            asyncio.create_task(ctx.durable_execute_async(compute, number, options=API))
            for number in range(4)
        ]
        out(ctx, await ctx.durable_execute_async(ask, "free"))
        out(ctx, await ctx.durable_execute_async(check, "other limit", options=CallOptions(limit="other")))
        for task in tasks:
            out(ctx, await task)

    release = threading.Event()
    started: list[Any] = []

    def held(what: Any) -> Any:
        started.append(what)
        assert release.wait(20)
        return what

    options = {**TWO_AT_A_TIME, "agents.limits.other.per-second": 1, "agents.call.workers": 3}
    runner = attempts.start(agent_of(slow), fakes={compute: held}, options=options)
    runner.process("k", 1)
    until(runner, lambda: values(runner) == ["free!", "other limit?"])
    assert sorted(started) == [0, 1]
    release.set()
    runner.run_until_idle()
    assert values(runner)[2:] == [0, 1, 2, 3]


def test_per_second_in_virtual_time(attempts: Attempts) -> None:
    """Never more in any second; what waits for time leaves the runner idle."""
    runner = attempts.start(agent_of(*[five]), fakes={ask: Timed()}, options=TWO_A_SECOND)
    begin = runner.time
    Timed.runner, Timed.times = runner, []
    runner.process("k", 1)
    runner.run_until_idle()
    assert [round(time - begin, 3) for time in Timed.times] == [0, 0]
    runner.advance(0.9)
    assert len(Timed.times) == 2
    runner.run_until_idle(advance_timers=True)
    assert [round(time - begin, 3) for time in Timed.times] == [0, 0, 1, 1, 2]
    assert values(runner) == [[0, 1, 2, 3, 4]]
    assert runner.time == begin + 2


class Timed:
    """An async function that notes the virtual time at which it starts."""

    runner: Any = None
    times: ClassVar[list[float]] = []

    async def __call__(self, what: Any) -> Any:
        self.times.append(self.runner.time)
        return what


def test_per_second_with_advance_and_durable_timers(attempts: Attempts) -> None:
    """Timers and the opening of limits come in their order."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        async def sleeper() -> None:
            await asyncio.sleep(0.75)
            out(ctx, "slept")

        task = asyncio.create_task(sleeper())
        for number in range(2):
            out(ctx, await ctx.durable_execute_async(ask, number, options=API))
        await task

    runner = attempts.start(agent_of(act), fakes={ask: Timed()}, options={"agents.limits.api.per-second": 1})
    Timed.runner, Timed.times = runner, []
    begin = runner.time
    runner.process("k", 1)
    until(runner, lambda: values(runner) == [0])
    runner.advance(5)
    until(runner, lambda: runner.idle)
    assert values(runner) == [0, "slept", 1]
    assert [round(time - begin, 3) for time in Timed.times] == [0, 1]


def test_a_synchronous_call_waits_in_virtual_time(attempts: Attempts) -> None:
    """It moves time on itself: nothing else can."""

    def act(event: Any, ctx: RunnerContext) -> None:
        for number in range(3):
            out(ctx, ctx.durable_execute(compute, number, options=CallOptions(limit="slow")))

    runner = attempts.start(agent_of(act), options={"agents.limits.slow.per-second": 0.1})
    begin = runner.time
    runner.process("k", 1)
    assert values(runner) == ["0!", "1!", "2!"]
    assert runner.time == begin + 20


@pytest.mark.parametrize("retry", [None, RetryPolicy(max_attempts=4, initial_interval=1, jitter=False)])
def test_total_timeout_counts_the_time_in_which_a_limit_holds_a_synchronous_call_back(
    attempts: Attempts, retry: Any
) -> None:
    """Case 34: it is over though the call has not started, and the call never starts."""
    options = CallOptions(limit="slow", total_timeout=3, retry=retry)

    def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, ctx.durable_execute(compute, 1, options=options))
        try:
            ctx.durable_execute(compute, 2, options=options)
        except CallTimeoutError as error:
            out(ctx, str(error))
        out(ctx, ctx.durable_execute(compute, 3, options=CallOptions(limit="slow")))

    started: list[Any] = []

    def watched(number: int) -> str:
        started.append(number)
        return f"{number}!"

    limit = {"agents.limits.slow.per-second": 0.1}
    runner = attempts.start(agent_of(act), options=limit, fakes={compute: watched})
    begin = runner.time
    runner.process("k", 1)
    first, text, last = values(runner)
    assert (first, last) == ("1!", "3!")
    assert "within its total_timeout of 3 s: no attempt ended" in text
    assert started == [1, 3]
    assert runner.time == begin + 10
    again = attempts.start(agent_of(act), options=limit, fakes={compute: never})
    again.process("k", 1)
    assert values(again) == [first, text, last]


def test_an_unknown_limit_is_an_error_at_the_call(attempts: Attempts) -> None:
    """It names the known ones, nothing is reserved; in every form of call."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        wrong = CallOptions(limit="apis")
        for call in (
            lambda: ctx.durable_execute(compute, 1, options=wrong),
            lambda: ctx.durable_execute_async(compute, 1, options=wrong),
            lambda: ctx.durable_execute_async(configured(compute, options=wrong), 1),
        ):
            with pytest.raises(ConfigurationError, match=r"'apis'; did you mean 'api'\? \(known: api\)"):
                call()
        out(ctx, await ctx.durable_execute_async(ask, "fine", options=API))

    runner = attempts.start(agent_of(act), options=TWO_AT_A_TIME)
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == ["fine!"]
    storeless = attempts.start(agent_of(one))
    with pytest.raises(ActionFailedError, match=r"no limit 'api' \(known: none\)"):
        storeless.process("k", 1)


@pytest.mark.parametrize(
    ("key", "value"), [("max-concurrency", 0), ("per-second", 0), ("per-second", -1), ("rate", 3)]
)
def test_limits_that_are_none(attempts: Attempts, key: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"agents\.limits\.api"):
        attempts.start(agent_of(one), options={f"agents.limits.api.{key}": value})


def test_a_timeout_counts_from_the_real_start(attempts: Attempts) -> None:
    """The second call waits for longer than its timeout and is not late."""
    gate = Gate()

    async def act(event: Any, ctx: RunnerContext) -> None:
        options = CallOptions(limit="api", timeout=event.input)
        try:
            out(ctx, await ctx.durable_execute_async(ask, event.input, options=options))
        except CallTimeoutError:
            out(ctx, "late")

    runner = attempts.start(
        agent_of(act), fakes={ask: gate}, options={"agents.limits.api.max-concurrency": 1}
    )
    runner.process("first", 60)
    runner.process("second", 0.2)
    until(runner, lambda: gate.is_waiting(60))
    threading.Event().wait(0.3)  # longer than the timeout of the one that waits
    runner.advance(0)
    assert gate.started == [60]
    assert values(runner) == []
    gate.answer(60)
    runner.run_until_idle()  # the second one starts now, and is late now
    assert gate.started == [60, 0.2]
    assert values(runner) == ["60!", "late"]


def test_p18_a_batch_that_times_out_while_its_calls_wait_leaves_the_queue(attempts: Attempts) -> None:
    gate = Gate()

    async def act(event: Any, ctx: RunnerContext) -> None:
        calls = [ctx.durable_execute_async(ask, number, options=API) for number in range(4)]
        outcomes = await ctx.gather(*calls, timeout=5)
        out(ctx, [outcome.is_success() for outcome in outcomes])
        out(ctx, await ctx.durable_execute_async(ask, "next", options=API))

    runner = attempts.start(agent_of(act), fakes={ask: gate}, options=TWO_AT_A_TIME)
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting(0, 1))
    runner.advance(5)
    until(runner, lambda: gate.is_waiting("next"))
    assert gate.started == [0, 1, "next"]
    gate.answer("next")
    runner.run_until_idle()
    assert values(runner) == [[False] * 4, "next!"]


def test_s1_a_crash_while_calls_wait(attempts: Attempts) -> None:
    """They run after the restart, those with a record do not; the limit begins anew."""
    gate = Gate()
    attempts.store = WatchedStore(attempts.folder)
    first = attempts.start(agent_of(five), fakes={ask: gate}, options=TWO_AT_A_TIME)
    checkpoint = first.checkpoint()
    first.process("k", 1)
    until(first, lambda: gate.is_waiting(0, 1))
    gate.answer(0)
    until(first, lambda: gate.is_waiting(1, 2) and first.stats.calls_executed == 1)
    until(first, lambda: attempts.store.settled)
    second = attempts.start(agent_of(five), checkpoint=checkpoint, options=TWO_AT_A_TIME)
    second.process("k", 1)
    second.run_until_idle()
    assert called(second) == [1, 2, 3, 4]
    assert values(second) == [[f"{number}!" for number in range(5)]]


def test_i4_close_with_calls_that_wait(attempts: Attempts) -> None:
    gate = Gate()
    runner = attempts.start(agent_of(five), fakes={ask: gate}, options=TWO_AT_A_TIME)
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting(0, 1))
    runner.close()
    assert gate.started == [0, 1]
    assert runner._ports.executor.waiting == 0


def test_a_limit_obeys_the_retry_after_of_a_busy_server(attempts: Attempts) -> None:
    """In virtual time; other limits go on."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        call = ctx.durable_execute_async(ask, event.input, options=CallOptions(limit=event.input[0]))
        try:
            out(ctx, (await call, runner.time - begin))
        except Busy:
            out(ctx, "busy")

    def answer(what: Any) -> Any:
        if what == ("api", 1):
            raise Busy
        return what[1]

    limits = {"agents.limits.api.max-concurrency": 1, "agents.limits.other.max-concurrency": 1}
    runner = attempts.start(agent_of(act), fakes={ask: answer}, options=limits)
    begin = runner.time
    runner.process("a", ("api", 1))
    runner.run_until_idle()
    runner.process("b", ("api", 2))
    runner.process("c", ("other", 3))
    runner.run_until_idle()
    assert values(runner) == ["busy", (3, 0)]
    runner.run_until_idle(advance_timers=True)
    assert values(runner)[2:] == [(2, 30)]


def test_a_reconciler_is_under_the_limit_of_its_call(attempts: Attempts) -> None:
    """It asks the same server."""
    gate = Gate()

    async def act(event: Any, ctx: RunnerContext) -> None:
        await ctx.gather(
            *[
                ctx.durable_execute_async(ask, number, options=API, reconciler=lambda n=number: gate(n))
                for number in range(4)
            ]
        )

    held = Gate()
    first = attempts.start(agent_of(act), fakes={ask: held}, options={"agents.limits.api.max-concurrency": 4})
    checkpoint = first.checkpoint()
    first.process("k", 1)
    until(first, lambda: held.is_waiting(0, 1, 2, 3))
    second = attempts.start(agent_of(act), checkpoint=checkpoint, options=TWO_AT_A_TIME)
    second.process("k", 1)
    for number in range(4):
        until(second, lambda number=number: gate.is_waiting(number))
        gate.answer(number)
    second.run_until_idle()
    assert gate.most <= 2


def test_check_replay_knows_limits() -> None:
    report = check_replay(agent_of(five), [("k", 1)], options=TWO_A_SECOND)
    assert report.calls == 5
