"""L1 to L6: a restore finds no coroutine, restarts from the beginning, repeats nothing that was finished."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from flink_agents_durable import ActionFailedError, Event, RunnerContext
from tests.contracts.functions import ask, check, never
from tests.contracts.kit import Attempts, Gate, WatchedStore, agent_of, called, out, until, values


async def two_calls(event: Any, ctx: RunnerContext) -> None:
    first = await ctx.durable_execute_async(ask, f"{event.input}1")
    out(ctx, first)
    second = await ctx.durable_execute_async(ask, f"{event.input}2")
    out(ctx, second)


def test_l1_an_unfinished_execution_restarts_with_the_same_ids(attempts: Attempts) -> None:
    """The coroutine of a suspended action is lost; after a restore it begins anew and sees the same ids."""
    ids: list[Any] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        sent = Event("note")
        await ctx.durable_execute_async(ask, "a")
        ids.append((ctx.run_id, ctx.uuid4(), ctx.random().random(), event.id, sent.id, ctx.now()))
        out(ctx, await ctx.durable_execute_async(ask, "b"))

    gate = Gate()
    agent = agent_of(act)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a"))
    gate.answer("a")
    until(first, lambda: gate.is_waiting("b"))
    checkpoint = first.checkpoint()
    second = attempts.start(agent, checkpoint=checkpoint, time=first.time + 1000)
    second.run_until_idle()
    assert values(second) == ["b!"]
    assert len(ids) == 2
    (run1, *same1, event1, sent1, now1), (run2, *same2, event2, sent2, now2) = ids
    assert (run1, *same1, sent1, now1) == (run2, *same2, sent2, now2)
    assert event1 == event2, "the id of the triggering event differs after the restore"


def test_l1_a_restore_with_no_call_made_yet(attempts: Attempts) -> None:
    """An execution that waits for its first call restarts as well, although its journal is empty."""
    gate = Gate()
    agent = agent_of(two_calls)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", "x")
    until(first, lambda: gate.is_waiting("x1"))
    second = attempts.start(agent, checkpoint=first.checkpoint())
    second.run_until_idle()
    assert values(second) == ["x1!", "x2!"]


def test_l2_with_a_store_calls_after_the_checkpoint_replay(attempts: Attempts) -> None:
    """With a store a finished call does not run again, whatever the last checkpoint was."""
    gate = Gate()
    agent = agent_of(two_calls)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", "x")
    until(first, lambda: gate.is_waiting("x1"))
    checkpoint = first.checkpoint()
    gate.answer("x1")
    until(first, lambda: gate.is_waiting("x2"))
    second = attempts.start(agent, checkpoint=checkpoint)
    second.run_until_idle()
    assert called(second) == ["x2"]
    assert values(second) == ["x1!", "x2!"]


def test_l2_without_a_store_calls_up_to_the_checkpoint_replay(storeless: Attempts) -> None:
    """Without a store results are as durable as the last checkpoint."""
    gate = Gate()

    async def act(event: Any, ctx: RunnerContext) -> None:
        for name in "abc":
            out(ctx, await ctx.durable_execute_async(ask, name))

    agent = agent_of(act)
    first = storeless.start(agent, fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a"))
    gate.answer("a")
    until(first, lambda: gate.is_waiting("b"))
    checkpoint = first.checkpoint()
    gate.answer("b")
    until(first, lambda: gate.is_waiting("c"))
    second = storeless.start(agent, checkpoint=checkpoint)
    second.run_until_idle()
    assert called(second) == ["b", "c"]
    assert values(second) == ["b!", "c!"]


def test_case_43_l2_a_crash_before_any_checkpoint(attempts: Attempts) -> None:
    """Case 43: the source sends the input again, and the log has the finished call."""
    gate = Gate()
    agent = agent_of(two_calls)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", "x")
    until(first, lambda: gate.is_waiting("x1"))
    gate.answer("x1")
    until(first, lambda: gate.is_waiting("x2"))
    second = attempts.start(agent)
    second.process("k", "x")
    second.run_until_idle()
    assert called(second) == ["x2"]
    assert values(second) == ["x1!", "x2!"]


@pytest.mark.parametrize("with_store", [True, False])
def test_case_41_l2_a_checkpoint_during_a_long_call(tmp_path: Path, with_store: bool) -> None:
    """Case 41: sixty calls are done, a checkpoint completes in the 61st: none of the sixty runs again."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        total = 0
        for number in range(100):
            total += await ctx.durable_execute_async(ask, number)
        out(ctx, total)

    gate = Gate()

    async def answer(number: int) -> Any:
        return number if number != 60 else await gate(number)

    job = Attempts(tmp_path)
    if not with_store:
        job.store = None
    agent = agent_of(act)
    first = job.start(agent, fakes={ask: answer})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting(60))
    checkpoint = first.checkpoint()
    second = job.start(agent, checkpoint=checkpoint, fakes={ask: lambda number: number})
    second.run_until_idle()
    assert called(second) == list(range(60, 100))
    assert values(second) == [sum(range(100))]
    job.close()


def test_l3_executions_in_flight_restart_each_with_its_own_journal(attempts: Attempts) -> None:
    """Three actions on one key and the same on others: each replays its own results."""

    async def one(event: Any, ctx: RunnerContext) -> None:
        first = await ctx.durable_execute_async(ask, f"{event.input} one")
        out(ctx, [first, await ctx.durable_execute_async(check, f"{event.input} one")])

    async def two(event: Any, ctx: RunnerContext) -> None:
        first = await ctx.durable_execute_async(ask, f"{event.input} two")
        out(ctx, [first, await ctx.durable_execute_async(check, f"{event.input} two")])

    async def three(event: Any, ctx: RunnerContext) -> None:
        first = await ctx.durable_execute_async(ask, f"{event.input} three")
        out(ctx, [first, await ctx.durable_execute_async(check, f"{event.input} three")])

    gate = Gate()
    agent = agent_of(one, two, three)
    first = attempts.start(agent, fakes={check: gate})
    keys = [f"k{number}" for number in range(5)]
    names = [f"{key} {name}" for key in keys for name in ("one", "two", "three")]
    for key in keys:
        first.process(key, key)
    until(first, lambda: gate.is_waiting(*names))
    second = attempts.start(agent, checkpoint=first.checkpoint(), fakes={ask: never})
    second.run_until_idle()
    assert sorted(called(second)) == sorted(names)
    assert sorted(values(second)) == sorted([f"{name}!", f"{name}?"] for name in names)
    assert all(value[0].startswith(key) for key, value in second.outputs)


def test_l3_inputs_of_a_key_keep_their_order(attempts: Attempts) -> None:
    """Inputs behind the live run of their key wait for it, also when they come out of a checkpoint."""
    gate = Gate()
    agent = agent_of(two_calls)
    first = attempts.start(agent, fakes={ask: gate})
    for value in "abc":
        first.process("k", value)
    until(first, lambda: gate.is_waiting("a1"))
    assert gate.waiting == ["a1"]
    second = attempts.start(agent, checkpoint=first.checkpoint())
    second.process("k", "d")
    second.run_until_idle()
    assert values(second) == [f"{value}{number}!" for value in "abcd" for number in (1, 2)]


def test_case_42_l3_another_keys_finished_calls_stay(attempts: Attempts) -> None:
    """Case 42: the first input of a new key comes during another key's long call, then a crash."""
    gate = Gate()
    agent = agent_of(two_calls)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("old", "x")
    until(first, lambda: gate.is_waiting("x1"))
    gate.answer("x1")
    until(first, lambda: gate.is_waiting("x2"))
    checkpoint = first.checkpoint()
    first.process("new", "y")
    until(first, lambda: gate.is_waiting("y1"))
    second = attempts.start(agent, checkpoint=checkpoint)
    second.process("new", "y")
    second.run_until_idle()
    assert sorted(called(second)) == ["x2", "y1", "y2"]


def test_l5_what_was_emitted_before_the_checkpoint_is_not_emitted_again(attempts: Attempts) -> None:
    """Outputs and events sent before the lost `await` appear once over the attempts."""
    noted: list[Any] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        ctx.send_event(Event("note", {"n": 1}))
        out(ctx, "begin")
        out(ctx, await ctx.durable_execute_async(ask, "a"))
        out(ctx, await ctx.durable_execute_async(ask, "b"))

    def note(event: Any, ctx: RunnerContext) -> None:
        noted.append(event.get_attr("n"))
        out(ctx, "noted")

    gate = Gate()
    agent = agent_of(act, note=note)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a"))
    gate.answer("a")
    until(first, lambda: gate.is_waiting("b"))
    checkpoint = first.checkpoint()
    second = attempts.start(agent, checkpoint=checkpoint)
    second.run_until_idle()
    assert sorted(values(first)) == ["a!", "begin", "noted"]
    assert values(second) == ["b!"]
    assert noted == [1]


def test_l5_what_was_rolled_back_is_emitted_again(attempts: Attempts) -> None:
    """Outputs since the checkpoint were rolled back with it by the sink: the next attempt emits them."""
    gate = Gate()
    agent = agent_of(two_calls)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", "x")
    until(first, lambda: gate.is_waiting("x1"))
    checkpoint = first.checkpoint()
    gate.answer("x1")
    until(first, lambda: gate.is_waiting("x2"))
    assert values(first) == ["x1!"]
    second = attempts.start(agent, checkpoint=checkpoint)
    second.run_until_idle()
    assert values(second) == ["x1!", "x2!"]


class Held:
    """Something that an action holds, to see whether the action is still in memory."""


@pytest.mark.parametrize("end", ["finished", "failed", "cancelled", "closed"])
def test_l6_nothing_of_an_ended_execution_stays(
    attempts: Attempts, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No coroutine, handle, callback or task keeps what an ended action held."""
    # Log handlers of the test runner keep the traceback of the failure, and with it the action's frame.
    monkeypatch.setattr(logging.getLogger("flink_agents_durable.engine.execution"), "disabled", True)
    held: list[weakref.ref[Held]] = []
    gate = Gate()

    async def wait(ctx: RunnerContext, own: Held) -> None:
        held.append(weakref.ref(own))
        await ctx.durable_execute_async(ask, "b")

    async def act(event: Any, ctx: RunnerContext) -> None:
        own = Held()
        held.append(weakref.ref(own))
        task = asyncio.create_task(wait(ctx, Held()))
        await ctx.durable_execute_async(check, "a")
        if end == "failed":
            raise ValueError("on purpose")
        if end == "cancelled":
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        else:
            await task

    runner = attempts.start(
        agent_of(act), fakes={ask: gate, check: gate}, options={"agents.action-failure": "skip"}
    )
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting("a", "b"))
    if end == "closed":
        runner.close()
    else:
        gate.answer("a")
        if end == "finished":
            gate.answer("b")
        runner.run_until_idle()
        assert runner.idle
    gc.collect()
    assert len(held) == 2
    assert [ref() for ref in held] == [None, None]


def test_l6_a_restart_with_its_replays_leaves_nothing_either(attempts: Attempts) -> None:
    """The same after a restore: what replayed is gone when the run has ended."""
    held: list[weakref.ref[Held]] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        own = Held()
        held.append(weakref.ref(own))
        await ctx.durable_execute_async(ask, "a")
        await ctx.gather(*(ctx.durable_execute_async(check, name) for name in "bc"), timeout=5)

    gate = Gate()
    agent = agent_of(act)
    first = attempts.start(agent, fakes={check: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("b", "c"))
    second = attempts.start(agent, checkpoint=first.checkpoint())
    second.run_until_idle()
    assert second.idle
    first.close()
    gc.collect()
    assert [ref() for ref in held] == [None, None]


def test_case_44_a_transient_failure_is_tried_again_after_the_restart(attempts: Attempts) -> None:
    """Case 44, P14: a failure that nothing caught is not replayed until the job gives up."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ctx.durable_execute_async(ask, "a"))
        out(ctx, await ctx.durable_execute_async(check, "b"))

    async def down(what: str) -> str:
        raise ConnectionError("the server is down")

    agent = agent_of(act)
    first = attempts.start(agent, fakes={check: down})
    first.process("k", 1)
    with pytest.raises(ActionFailedError, match="the server is down"):
        first.run_until_idle()
    second = attempts.start(agent, fakes={ask: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["a!", "b?"]


def test_a_failure_replays_with_uncaught_failure_replay(attempts: Attempts) -> None:
    """P14: with `uncaught-failure=replay` the recorded failure stands."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, "a")

    async def down(what: str) -> str:
        raise ConnectionError("the server is down")

    options = {"agents.uncaught-failure": "replay"}
    first = attempts.start(agent_of(act), fakes={ask: down}, options=options)
    first.process("k", 1)
    with pytest.raises(ActionFailedError):
        first.run_until_idle()
    second = attempts.start(agent_of(act), fakes={ask: never}, options=options)
    with pytest.raises(ActionFailedError, match="the server is down"):
        second.process("k", 1)
    assert second.calls == []


def test_case_26_an_abandoned_coroutine_is_closed_on_the_task_thread(attempts: Attempts) -> None:
    """Case 26: its `finally` runs on the task thread; what it asks for is ignored."""
    seen: list[Any] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "a")
        finally:
            seen.append(threading.get_ident())
            ctx.short_term_memory.set("closed", True)
            out(ctx, "closed")
            await ctx.durable_execute_async(check, "closed")

    gate = Gate()
    agent = agent_of(act)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a"))
    first.close()
    assert seen == [threading.get_ident()]
    assert values(first) == []
    assert called(first) == ["a"]
    second = attempts.start(agent)
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["closed"]


def test_a_result_reaches_the_action_only_when_it_is_durable(attempts: Attempts) -> None:
    """P3: until its record is acknowledged a result does not exist for the action."""
    store = attempts.store = WatchedStore(attempts.folder)
    runner = attempts.start(agent_of(two_calls))
    store.hold()
    runner.process("k", "x")
    until(runner, lambda: sum(map(len, store.batches)) >= 2)
    runner.advance(0)
    assert values(runner) == []
    store.release()
    runner.run_until_idle()
    assert values(runner) == ["x1!", "x2!"]
