"""F1 to F12: durable futures, and batches of them."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

from flink_agents_durable import (
    ActionFailedError,
    CallOptions,
    CallTimeoutError,
    DurableFuture,
    DurableSerializationError,
    Outcome,
    RecordTooLargeError,
    RunnerContext,
)
from tests.contracts.functions import ask, check, compute, never
from tests.contracts.kit import Attempts, Gate, WatchedStore, agent_of, called, out, until, values


def test_f1_a_future_that_is_never_awaited_leaves_no_trace(attempts: Attempts) -> None:
    """It starts nothing, takes no slot and warns of nothing; a replay does not miss it."""

    async def with_it(event: Any, ctx: RunnerContext) -> None:
        ctx.durable_execute_async(never, 1)
        ctx.gather(ctx.durable_execute_async(never, 2))
        out(ctx, await ctx.durable_execute_async(ask, "a"))
        out(ctx, await ctx.durable_execute_async(check, "b"))

    async def without_it(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ctx.durable_execute_async(ask, "a"))
        out(ctx, await ctx.durable_execute_async(check, "b"))

    without_it.__name__ = with_it.__name__
    gate = Gate()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first = attempts.start(agent_of(with_it), fakes={check: gate})
        first.process("k", 1)
        until(first, lambda: gate.is_waiting("b"))
        gc.collect()
    second = attempts.start(agent_of(without_it), fakes={ask: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["a!", "b?"]
    assert second.stats.mismatches == 0


def test_f2_the_call_runs_off_the_task_thread(attempts: Attempts) -> None:
    """A new call: neither `def` nor `async def` functions hold the thread of the action."""
    threads: list[int] = []

    def plain(_: Any) -> None:
        threads.append(threading.get_ident())

    async def asynchronous(_: Any) -> None:
        threads.append(threading.get_ident())

    async def act(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(compute, 1)
        await ctx.durable_execute_async(ask, 1)
        ctx.durable_execute(compute, 2)

    runner = attempts.start(agent_of(act), fakes={compute: plain, ask: asynchronous})
    runner.process("k", 1)
    runner.run_until_idle()
    assert len(threads) == 3
    assert threading.get_ident() not in threads


def test_f2_a_call_without_reconciler_that_was_in_flight_runs_again(attempts: Attempts) -> None:
    """Terminal slots replay, a pending one is executed again."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        one, two = await ctx.gather(ctx.durable_execute_async(ask, "a"), ctx.durable_execute_async(ask, "b"))
        out(ctx, [one.value, two.value])

    store = attempts.store = WatchedStore(attempts.folder)
    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a", "b"))
    gate.answer("b", "first b")
    until(first, lambda: first.stats.calls_executed == 1 and store.settled)
    second = attempts.start(agent_of(act))
    second.process("k", 1)
    second.run_until_idle()
    assert called(second) == ["a"]
    assert values(second) == [["a!", "first b"]]


def test_f3_a_resolved_future_gives_the_same_again(attempts: Attempts) -> None:
    """The value or the error of the first await, and no slot: an agent without the second await replays."""

    async def down(what: Any) -> Any:
        raise ValueError(f"no {what}")

    async def twice(event: Any, ctx: RunnerContext) -> None:
        good, bad = ctx.durable_execute_async(ask, "a"), ctx.durable_execute_async(check, "b")
        assert await good is await good
        errors = []
        for _ in range(3):
            try:
                await bad
            except ValueError as error:
                errors.append(error)
        assert len(errors) == 3
        assert errors[0] is errors[1] is errors[2]
        out(ctx, await ctx.durable_execute_async(ask, "c"))
        assert await good == "a!"

    async def once(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, "a")
        with pytest.raises(ValueError, match="no b"):
            await ctx.durable_execute_async(check, "b")
        out(ctx, await ctx.durable_execute_async(ask, "c"))

    once.__name__ = twice.__name__
    first = attempts.start(agent_of(twice), fakes={check: down})
    first.process("k", 1)
    first.run_until_idle()
    assert values(first) == ["c!"]
    second = attempts.start(agent_of(once), fakes={ask: never, check: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["c!"]
    assert second.stats.mismatches == 0


def test_f3_awaiting_one_that_is_in_flight_joins_it(attempts: Attempts) -> None:
    """Two tasks that await one future: one call, one result for both."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        future = ctx.durable_execute_async(ask, "a")

        async def wait() -> Any:
            return await future

        out(ctx, await asyncio.gather(wait(), wait()))

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == [["a!", "a!"]]
    assert called(runner) == ["a"]


def test_f3_a_future_may_be_given_to_several_tasks_as_a_coroutine(attempts: Attempts) -> None:
    """`wait_for` makes a task of it each time, which steps it as a coroutine (F12)."""

    async def action(event: Any, ctx: RunnerContext) -> None:
        future = ctx.durable_execute_async(ask, "a")
        both = await asyncio.gather(asyncio.create_task(future), asyncio.create_task(future))
        out(ctx, [*both, await asyncio.wait_for(future, 60), await asyncio.wait_for(future, 60)])

    runner = attempts.start(agent_of(action))
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == [["a!"] * 4]
    assert called(runner) == ["a"]


def test_f4_a_batch_is_pending_in_one_append_before_a_call_starts(attempts: Attempts) -> None:
    """Every slot of the batch is in one append, and nothing starts until it is acknowledged."""
    store = attempts.store = WatchedStore(attempts.folder)
    store.hold()

    async def act(event: Any, ctx: RunnerContext) -> None:
        outcomes = await ctx.gather(*(ctx.durable_execute_async(ask, name) for name in "abc"))
        out(ctx, [outcome.value for outcome in outcomes])

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    until(runner, lambda: store.batches)
    runner.advance(0)
    assert len(store.batches) == 1
    assert runner.calls == []
    store.release()
    runner.run_until_idle()
    assert called(runner) == ["a", "b", "c"]
    assert values(runner) == [["a!", "b!", "c!"]]


def test_f4_calls_with_a_cached_outcome_do_not_start(attempts: Attempts) -> None:
    """On replay the batch starts only what has no outcome."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        outcomes = await ctx.gather(*(ctx.durable_execute_async(ask, name) for name in "abcd"))
        out(ctx, [outcome.value for outcome in outcomes])

    store = attempts.store = WatchedStore(attempts.folder)
    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting(*"abcd"))
    gate.answer("b")
    gate.answer("d")
    until(first, lambda: first.stats.calls_executed == 2 and store.settled)
    second = attempts.start(agent_of(act))
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == [["a!", "b!", "c!", "d!"]]
    assert called(second) == ["a", "c"]


def test_f5_outcomes_in_argument_order_and_children_are_resolved(attempts: Attempts) -> None:
    """Whatever finishes first; a failure is an outcome; a child awaited later replays without a slot."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        futures = [ctx.durable_execute_async(ask, name) for name in "abc"]
        outcomes = await ctx.gather(*futures)
        assert type(outcomes) is list
        assert all(type(outcome) is Outcome for outcome in outcomes)
        a, b, c = outcomes
        out(ctx, [a.is_success(), a.value, a.error])
        out(ctx, [b.is_failure(), str(b.error)])
        with pytest.raises(ValueError, match="no b"):
            _ = b.value
        with pytest.raises(ValueError, match="no b"):
            await futures[1]
        out(ctx, [c.value, await futures[2]])
        out(ctx, await ctx.durable_execute_async(check, "d"))

    async def no_later_awaits(event: Any, ctx: RunnerContext) -> None:
        await ctx.gather(*(ctx.durable_execute_async(ask, name) for name in "abc"))
        out(ctx, await ctx.durable_execute_async(check, "d"))

    gate = Gate()
    runner = attempts.start(agent_of(act), fakes={ask: gate})
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting(*"abc"))
    gate.answer("c")
    until(runner, lambda: runner.stats.calls_executed == 1)
    gate.fail("b", ValueError("no b"))
    until(runner, lambda: runner.stats.calls_executed == 2)
    gate.answer("a")
    runner.run_until_idle()
    assert values(runner) == [[True, "a!", None], [True, "no b"], ["c!", "c!"], "d?"]
    no_later_awaits.__name__ = act.__name__
    second = attempts.start(agent_of(no_later_awaits), fakes={ask: never, check: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["d?"]
    assert second.stats.mismatches == 0


def test_f6_only_distinct_unresolved_single_calls_of_this_context(attempts: Attempts) -> None:
    """Anything else is an error that says what is wrong, before a slot is reserved or a call starts."""
    foreign: list[DurableFuture[Any]] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        if event.input == "foreign":
            foreign.append(ctx.durable_execute_async(ask, "foreign"))
            await ctx.durable_execute_async(check, "wait")
            return
        one, two, awaited = (ctx.durable_execute_async(ask, name) for name in ("one", "two", "awaited"))
        await awaited
        gathered = ctx.durable_execute_async(ask, "gathered")
        await ctx.gather(gathered)
        batch = ctx.gather(two)
        for bad, text in [
            ((one, one), "given twice"),
            ((one, awaited), "awaited"),
            ((one, gathered), "gathered already"),
            ((one, foreign[0]), "another action execution"),
            ((one, batch), "no DurableFuture"),
            ((one, 5), "no DurableFuture"),
            ((one, None), "no DurableFuture"),
        ]:
            with pytest.raises(ValueError, match=text):
                await ctx.gather(*bad)
        in_flight = asyncio.ensure_future(ctx.durable_execute_async(ask, "in flight"))
        coroutine = asyncio.sleep(0)
        with pytest.raises(ValueError, match="no DurableFuture"):
            await ctx.gather(one, coroutine)
        coroutine.close()
        await in_flight
        assert await ctx.gather() == []
        [outcome] = await ctx.gather(one)
        out(ctx, outcome.value)

    gate = Gate()
    runner = attempts.start(agent_of(act), fakes={check: gate})
    runner.process("k1", "foreign")
    until(runner, lambda: gate.is_waiting("wait"))
    runner.process("k2", "act")
    gate.answer("wait")
    runner.run_until_idle()
    assert values(runner) == ["one!"]
    assert called(runner) == ["wait", "awaited", "gathered", "in flight", "one"]


def test_f6_a_batch_made_before_and_awaited_after_is_checked_again(attempts: Attempts) -> None:
    """What was fine when the batch was made, and is not when it is awaited, is an error as well."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        one, two = ctx.durable_execute_async(ask, "one"), ctx.durable_execute_async(ask, "two")
        batch = ctx.gather(one, two)
        await one
        with pytest.raises(ValueError, match="awaited"):
            await batch
        out(ctx, await two)

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == ["two!"]
    assert called(runner) == ["one", "two"]


def test_f7_a_single_await_raises_the_failure(attempts: Attempts) -> None:
    """An ordinary `except` around the await catches it."""

    async def down(what: Any) -> Any:
        raise LookupError(what)

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "a")
        except LookupError as error:
            out(ctx, error.args)

    runner = attempts.start(agent_of(act), fakes={ask: down})
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == [("a",)]


async def batch_with_timeout(event: Any, ctx: RunnerContext) -> None:
    outcomes = await ctx.gather(*(ctx.durable_execute_async(ask, name) for name in "abc"), timeout=30)
    out(ctx, [type(outcome.error).__name__ if outcome.error else outcome.value for outcome in outcomes])
    out(ctx, await ctx.durable_execute_async(check, "after"))


def test_case_20_f8_a_batch_that_times_out_keeps_what_finished(attempts: Attempts) -> None:
    """Case 20: the finished call keeps its outcome, the others time out; replay takes the same branch."""
    options = {"agents.call.parallelism": 2}
    gate = Gate()
    first = attempts.start(agent_of(batch_with_timeout), fakes={ask: gate, check: gate}, options=options)
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a", "b"))
    gate.answer("a")
    until(first, lambda: gate.is_waiting("c"))
    first.advance(30)
    until(first, lambda: gate.is_waiting("after"))
    assert values(first) == [["a!", "CallTimeoutError", "CallTimeoutError"]]
    second = attempts.start(agent_of(batch_with_timeout), fakes={ask: never}, options=options)
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == [["a!", "CallTimeoutError", "CallTimeoutError"], "after?"]


def test_f8_calls_that_never_started_time_out_too(attempts: Attempts) -> None:
    """With parallelism 1 and a call that hangs, the second is never started and has a timeout outcome."""
    gate = Gate()
    runner = attempts.start(
        agent_of(batch_with_timeout), fakes={ask: gate}, options={"agents.call.parallelism": 1}
    )
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting("a"))
    runner.advance(30)
    runner.run_until_idle()
    assert values(runner) == [["CallTimeoutError"] * 3, "after?"]
    assert gate.started == ["a"]
    until(runner, lambda: gate.cancelled == ["a"])


def test_f8_a_call_that_ended_before_the_timeout_has_its_real_outcome(attempts: Attempts) -> None:
    """It ended and its record is still on its way when the time is over."""
    store = attempts.store = WatchedStore(attempts.folder)
    gate = Gate()
    runner = attempts.start(agent_of(batch_with_timeout), fakes={ask: gate})
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting(*"abc"))
    store.hold()
    gate.answer("b")
    until(runner, lambda: runner.stats.calls_executed == 1)
    assert values(runner) == []
    store.release_at_batch(len(store.batches) + 1)
    runner.advance(30)
    runner.run_until_idle()
    assert values(runner)[0] == ["CallTimeoutError", "b!", "CallTimeoutError"]


def test_f8_the_timed_out_calls_of_an_uncaught_timeout_run_again(attempts: Attempts) -> None:
    """P18: the slots stay pending; when the timeout ends the action, they run in the next attempt."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        outcomes = await ctx.gather(*(ctx.durable_execute_async(ask, name) for name in "abc"), timeout=30)
        out(ctx, [outcome.value for outcome in outcomes])

    store = attempts.store = WatchedStore(attempts.folder)
    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate}, options={"agents.call.parallelism": 2})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a", "b"))
    appended = len(store.batches)
    gate.answer("b", "kept")
    until(first, lambda: gate.is_waiting("c") and len(store.batches) > appended)
    with pytest.raises(ActionFailedError) as caught:
        first.advance(30)
    assert isinstance(caught.value.__cause__, CallTimeoutError)
    second = attempts.start(agent_of(act))
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == [["a!", "kept", "c!"]]
    assert called(second) == ["a", "c"]


def test_f9_a_crash_in_a_batch_keeps_what_was_finished(attempts: Attempts) -> None:
    """Each outcome is recorded when its call finishes, not when the batch does."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        outcomes = await ctx.gather(*(ctx.durable_execute_async(ask, name) for name in "abc"))
        out(ctx, [outcome.value for outcome in outcomes])

    store = attempts.store = WatchedStore(attempts.folder)
    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting(*"abc"))
    gate.answer("c", "kept")
    until(first, lambda: first.stats.calls_executed == 1)
    until(first, lambda: store.settled)
    second = attempts.start(agent_of(act))
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == [["a!", "b!", "kept"]]
    assert called(second) == ["a", "b"]


class Unpicklable:
    def __reduce__(self) -> Any:
        raise TypeError("this one cannot be pickled")


@pytest.mark.parametrize("kind", ["synchronous", "async", "gather"])
def test_f10_a_result_that_cannot_be_recorded_is_a_failure_of_its_call(attempts: Attempts, kind: str) -> None:
    """Case 1, D6: it names call and type; neighbours keep their slots, nothing runs again after a crash."""

    async def strange(what: Any) -> Any:
        return Unpicklable()

    async def act(event: Any, ctx: RunnerContext) -> None:
        if kind == "gather":
            one, bad, two = await ctx.gather(
                ctx.durable_execute_async(ask, "one"),
                ctx.durable_execute_async(check, "bad"),
                ctx.durable_execute_async(ask, "two"),
            )
            error = bad.error
            results = [one.value, two.value]
        else:
            results = [await ctx.durable_execute_async(ask, "one")]
            try:
                if kind == "async":
                    await ctx.durable_execute_async(check, "bad")
                else:
                    ctx.durable_execute(check, "bad")
            except DurableSerializationError as caught:
                error = caught
            results.append(await ctx.durable_execute_async(ask, "two"))
        assert type(error) is DurableSerializationError
        out(ctx, [*results, str(error)])

    first = attempts.start(agent_of(act), fakes={check: strange})
    first.process("k", 1)
    first.run_until_idle()
    [[one, two, text]] = values(first)
    assert (one, two) == ("one!", "two!")
    assert "check" in text
    assert "Unpicklable" in text
    second = attempts.start(agent_of(act), fakes={ask: never, check: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == values(first)


def test_case_24_f10_a_result_that_is_too_large_names_call_size_and_limit(attempts: Attempts) -> None:
    """It never reaches the store; uncaught, its slot is pending again."""
    store = attempts.store = WatchedStore(attempts.folder, max_record_bytes=10_000)

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "caught")
        except RecordTooLargeError as error:
            out(ctx, str(error))
        out(ctx, len(await ctx.durable_execute_async(check, "uncaught")))

    async def large(what: Any) -> Any:
        return "x" * 50_000

    first = attempts.start(agent_of(act), fakes={ask: large, check: large})
    first.process("k", 1)
    with pytest.raises(ActionFailedError) as caught:
        first.run_until_idle()
    assert isinstance(caught.value.__cause__, RecordTooLargeError)
    [text] = values(first)
    assert "ask" in text
    assert "10000" in text
    assert "500" in text
    assert store.bytes < 20_000
    second = attempts.start(agent_of(act), fakes={ask: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == [text, len("uncaught?")]


def test_f11_at_most_call_parallelism_calls_of_a_batch_run(attempts: Attempts) -> None:
    """The others wait; results and their order are as without the limit."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        outcomes = await ctx.gather(*(ctx.durable_execute_async(ask, name) for name in range(7)))
        out(ctx, [outcome.value for outcome in outcomes])

    gate = Gate()
    runner = attempts.start(agent_of(act), fakes={ask: gate}, options={"agents.call.parallelism": 3})
    runner.process("k", 1)
    for number in range(7):
        until(runner, lambda number=number: gate.is_waiting(number))  # type: ignore[misc]
        until(runner, lambda number=number: len(gate.started) == min(7, number + 3))  # type: ignore[misc]
        gate.answer(number)
    runner.run_until_idle()
    assert gate.most == 3
    assert values(runner) == [[f"{number}!" for number in range(7)]]


def test_f11_at_most_max_concurrency_calls_of_a_subtask_run(attempts: Attempts) -> None:
    """Over all keys and batches."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        await ctx.gather(*(ctx.durable_execute_async(ask, f"{event.input}{n}") for n in range(3)))
        out(ctx, event.input)

    gate = Gate()
    runner = attempts.start(agent_of(act), fakes={ask: gate}, options={"agents.call.max-concurrency": 4})
    for key in "abc":
        runner.process(key, key)
    for _ in range(9):
        until(runner, lambda: gate.waiting)
        gate.answer(gate.waiting[0])
    runner.run_until_idle()
    assert gate.most == 4
    assert sorted(values(runner)) == ["a", "b", "c"]


def test_f12_durable_futures_inside_asyncio(attempts: Attempts) -> None:
    """They are awaitables to asyncio, not asyncio futures, and behave as their awaits would."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        future = ctx.durable_execute_async(ask, "a")
        assert isinstance(future, DurableFuture)
        assert not isinstance(future, asyncio.Future)
        assert not asyncio.isfuture(future)
        assert asyncio.iscoroutine(future)
        task = asyncio.create_task(future)
        out(ctx, await asyncio.wait_for(ctx.durable_execute_async(ask, "b"), 5))
        out(ctx, await asyncio.gather(*(ctx.durable_execute_async(ask, name) for name in "cd")))
        out(ctx, await task)
        done, pending = await asyncio.wait({asyncio.ensure_future(ctx.durable_execute_async(ask, "e"))})
        out(ctx, [len(done), len(pending), await done.pop()])
        shielded = asyncio.shield(ctx.durable_execute_async(ask, "f"))
        out(ctx, await shielded)

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == ["b!", ["c!", "d!"], "a!", [1, 0, "e!"], "f!"]
    second = attempts.start(agent_of(act), fakes={ask: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == values(runner)


def test_f12_asyncio_gather_raises_the_first_failure(attempts: Attempts) -> None:
    """As asyncio's own does; the others go on and can be awaited."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        slow = asyncio.ensure_future(ctx.durable_execute_async(ask, "slow"))
        try:
            await asyncio.gather(slow, ctx.durable_execute_async(ask, "bad"))
        except ValueError as error:
            out(ctx, str(error))
        out(ctx, await slow)

    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("slow", "bad"))
    gate.fail("bad", ValueError("bad"))
    until(first, lambda: values(first))
    gate.answer("slow")
    first.run_until_idle()
    second = attempts.start(agent_of(act), fakes={ask: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(first) == values(second) == ["bad", "slow!"]


@pytest.mark.parametrize("value", [None, False, 0, "", b"", [], {}, (), 0.0, set()], ids=repr)
@pytest.mark.parametrize("kind", ["synchronous", "async", "gather"])
def test_f2_falsy_results_replay_as_such(attempts: Attempts, value: Any, kind: str) -> None:
    """Case 31: they are results, not a missing one."""

    async def nothing(what: Any) -> Any:
        return value

    async def act(event: Any, ctx: RunnerContext) -> None:
        if kind == "synchronous":
            result = ctx.durable_execute(ask, "a")
        elif kind == "async":
            result = await ctx.durable_execute_async(ask, "a")
        else:
            [outcome] = await ctx.gather(ctx.durable_execute_async(ask, "a"))
            assert outcome.is_success()
            result = outcome.value
        out(ctx, result)

    first = attempts.start(agent_of(act), fakes={ask: nothing})
    first.process("k", 1)
    first.run_until_idle()
    second = attempts.start(agent_of(act), fakes={ask: never})
    second.process("k", 1)
    second.run_until_idle()
    for runner in (first, second):
        [result] = values(runner)
        assert result == value
        assert type(result) is type(value)


def test_case_34_a_call_that_outlasts_its_timeout(attempts: Attempts) -> None:
    """Case 34: the timeout is recorded, the late answer ignored."""
    gate = Gate()

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "late", options=CallOptions(timeout=0.05))
        except TimeoutError as error:
            out(ctx, [isinstance(error, CallTimeoutError), str(error)])
        out(ctx, await ctx.durable_execute_async(check, "next"))

    first = attempts.start(agent_of(act), fakes={ask: gate, check: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("next"))
    gate.late_answer("late", "late answer")
    gate.answer("next")
    first.run_until_idle()
    second = attempts.start(agent_of(act), fakes={ask: never, check: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(first) == values(second)
    [[is_call_timeout, text], result] = values(first)
    assert is_call_timeout
    assert "ask" in text
    assert "0.05" in text
    assert result == "next!"


def test_case_45_many_results_cost_constant_bytes(tmp_path: Path) -> None:
    """Case 45: 1,000 results of 1 kB in one action: each is durable, at most 1.3 kB a call."""
    job = Attempts(tmp_path)
    store = job.store = WatchedStore(tmp_path)

    async def act(event: Any, ctx: RunnerContext) -> None:
        for number in range(event.input):
            await ctx.durable_execute_async(ask, number)
        out(ctx, "done")

    async def kilobyte(what: Any) -> Any:
        return "x" * 1000

    first = job.start(agent_of(act), fakes={ask: kilobyte})
    first.process("few", 200)
    first.run_until_idle()
    few = store.bytes
    first.process("many", 1000)
    first.run_until_idle()
    many = store.bytes - few
    assert many / 1000 <= 1300
    assert abs(many / 1000 - few / 200) < 20
    second = job.start(agent_of(act), fakes={ask: never})
    second.process("few", 200)
    second.process("many", 1000)
    second.run_until_idle()
    assert values(second) == ["done", "done"]
    job.close()
