"""R1 to R4: a call in doubt is settled by its reconciler instead of being made again."""

from __future__ import annotations

from typing import Any

import pytest

from flink_agents_durable import CallOptions, Event, RunnerContext, configured
from tests.contracts.functions import ask, check, never
from tests.contracts.kit import Attempts, Gate, WatchedStore, agent_of, called, out, until, values

KINDS = ["synchronous", "async", "gather"]


class Ledger:
    """What became of payments; its methods are reconcilers."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def found(self) -> str:
        self.asked.append("found")
        return "found"

    async def found_later(self) -> str:
        self.asked.append("found later")
        return "found"

    def missing(self) -> str:
        self.asked.append("missing")
        raise LookupError("no such payment")


async def pay(ctx: RunnerContext, kind: str, reconciler: Any, what: str = "pay") -> Any:
    """A durable call with a reconciler, in one of its forms."""
    if kind == "synchronous":
        return ctx.durable_execute(ask, what, reconciler=reconciler)
    future = ctx.durable_execute_async(ask, what, reconciler=reconciler)
    if kind == "async":
        return await future
    [outcome] = await ctx.gather(future)
    return outcome.value


@pytest.mark.parametrize("kind", ["async", "gather"])
def test_r1_the_slot_is_pending_before_the_call_starts(attempts: Attempts, kind: str) -> None:
    """Until the store has acknowledged the reservation, the call is not made."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await pay(ctx, kind, Ledger().found))

    store = attempts.store = WatchedStore(attempts.folder)
    store.hold()
    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    until(runner, lambda: store.batches and store.settled)
    runner.advance(0)
    assert runner.calls == []
    store.release()
    runner.run_until_idle()
    assert called(runner) == ["pay"]
    assert values(runner) == ["pay!"]


def test_r1_the_slot_is_pending_before_a_synchronous_call_starts(attempts: Attempts) -> None:
    """When the function runs, its reservation is durable."""
    store = attempts.store = WatchedStore(attempts.folder)
    durable_at_start: list[bool] = []

    async def look(what: Any) -> Any:
        durable_at_start.append(bool(store.batches) and store.settled)
        return what

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await pay(ctx, "synchronous", Ledger().found))

    runner = attempts.start(agent_of(act), fakes={ask: look})
    runner.process("k", 1)
    runner.run_until_idle()
    assert durable_at_start == [True]


def in_doubt(attempts: Attempts, kind: str, agent: Any) -> bytes:
    """An attempt that crashes while the call is being made; gives a checkpoint from before it."""
    if kind == "synchronous":
        # The task thread waits for the call: a crash there is an interruption that records nothing.
        async def interrupted(what: Any) -> Any:
            raise KeyboardInterrupt

        first = attempts.start(agent, fakes={ask: interrupted})
        checkpoint = first.checkpoint()
        with pytest.raises(BaseException, match=r".*") as caught:
            first.process("k", 1)
        assert not isinstance(caught.value, AssertionError)
        return checkpoint
    gate = Gate()
    first = attempts.start(agent, fakes={ask: gate})
    checkpoint = first.checkpoint()
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("pay"))
    return checkpoint


@pytest.mark.parametrize("reconciler", ["found", "found_later"])
@pytest.mark.parametrize("kind", KINDS)
def test_r2_a_call_in_doubt_is_reconciled(attempts: Attempts, kind: str, reconciler: str) -> None:
    """Its result is the recorded outcome: the attempt after that asks nobody any more."""
    ledger = Ledger()

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await pay(ctx, kind, getattr(ledger, reconciler)))

    agent = agent_of(act)
    in_doubt(attempts, kind, agent)
    second = attempts.start(agent, fakes={ask: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["found"]
    assert len(ledger.asked) == 1
    third = attempts.start(agent, fakes={ask: never})
    third.process("k", 1)
    third.run_until_idle()
    assert values(third) == ["found"]
    assert len(ledger.asked) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_r2_what_the_reconciler_raises_is_the_outcome(attempts: Attempts, kind: str) -> None:
    """The action catches it as it would a failure of the call, on every attempt."""
    ledger = Ledger()

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await pay(ctx, kind, ledger.missing)
        except LookupError as error:
            out(ctx, str(error))

    agent = agent_of(act)
    in_doubt(attempts, kind, agent)
    for _ in range(2):
        runner = attempts.start(agent, fakes={ask: never})
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == ["no such payment"]
    assert ledger.asked == ["missing"]


@pytest.mark.parametrize("kind", KINDS)
def test_r3_a_terminal_slot_replays(attempts: Attempts, kind: str) -> None:
    """Neither the call nor the reconciler is made."""
    ledger = Ledger()

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await pay(ctx, kind, ledger.found))

    for fake in (ask, never):
        runner = attempts.start(agent_of(act), fakes={ask: fake})
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == ["pay!"]
    assert ledger.asked == []


@pytest.mark.parametrize("kind", KINDS)
def test_r3_a_mismatch_makes_the_call_and_not_the_reconciler(attempts: Attempts, kind: str) -> None:
    """What was in doubt was another call: it is void, and the present one is made."""
    ledger = Ledger()

    def agent(amount: str) -> Any:
        async def act(event: Any, ctx: RunnerContext) -> None:
            out(ctx, await pay(ctx, kind, ledger.found, amount))
            out(ctx, await ctx.durable_execute_async(check, "after"))

        return agent_of(act)

    in_doubt(attempts, kind, agent("pay"))
    second = attempts.start(agent("pay less"))
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["pay less!", "after?"]
    assert ledger.asked == []
    assert second.stats.mismatches == 1
    third = attempts.start(agent("pay less"), fakes={ask: never, check: never})
    third.process("k", 1)
    third.run_until_idle()
    assert values(third) == ["pay less!", "after?"]
    assert third.stats.mismatches == 0


def test_p13_r3_what_was_in_doubt_stays_void_while_its_action_has_not_started(attempts: Attempts) -> None:
    """The new code triggers it later: the checkpoint before that holds the cut, though no execution has it."""
    ledger = Ledger()

    def agent(*before: str) -> Any:
        async def first(event: Any, ctx: RunnerContext) -> None:
            for name in before:
                await ctx.durable_execute_async(ask, name)
            ctx.send_event(Event("go"))

        async def second(event: Any, ctx: RunnerContext) -> None:
            await ctx.durable_execute_async(check, "before")
            out(ctx, await pay(ctx, "async", ledger.found))

        return agent_of(first, go=second)

    gate = Gate()
    first = attempts.start(agent(), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("pay"))
    gate = Gate()
    second = attempts.start(agent("new"), fakes={ask: gate})
    second.process("k", 1)
    until(second, lambda: gate.is_waiting("new"))
    assert second.stats.mismatches == 1
    third = attempts.start(agent("new"), checkpoint=second.checkpoint())
    third.run_until_idle()
    assert third.stats.mismatches == 0
    assert values(third) == ["pay!"]
    assert called(third) == ["new", "before", "pay"]
    assert ledger.asked == []


def test_r4_calls_with_and_without_a_reconciler_in_one_batch(attempts: Attempts) -> None:
    """After a crash each does what it should: replay, reconcile, run again."""
    ledger = Ledger()

    async def act(event: Any, ctx: RunnerContext) -> None:
        outcomes = await ctx.gather(
            ctx.durable_execute_async(ask, "done", reconciler=ledger.missing),
            ctx.durable_execute_async(ask, "in doubt", reconciler=ledger.found),
            ctx.durable_execute_async(ask, "again"),
            ctx.durable_execute_async(ask, "also in doubt", reconciler=ledger.found_later),
        )
        out(ctx, [outcome.value for outcome in outcomes])
        out(ctx, ctx.durable_execute(check, "after", reconciler=ledger.missing))

    store = attempts.store = WatchedStore(attempts.folder)
    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("done", "in doubt", "again", "also in doubt"))
    gate.answer("done")
    until(first, lambda: first.stats.calls_executed == 1 and store.settled)
    second = attempts.start(agent_of(act))
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == [["done!", "found", "again!", "found"], "after?"]
    assert sorted(ledger.asked) == ["found", "found later"]
    assert [call.args for call in second.calls if call.args] == [("again",), ("after",)]


def test_r4_a_reconciler_carried_by_the_function(attempts: Attempts) -> None:
    """`configured` gives a function of the same signature that carries reconciler and options."""
    ledger = Ledger()
    careful = configured(ask, reconciler=ledger.found, options=CallOptions(durable_id="payment"))

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ctx.durable_execute_async(careful, "pay"))

    in_doubt(attempts, "async", agent_of(act))
    second = attempts.start(agent_of(act), fakes={ask: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["found"]
    assert [call.name for call in second.calls] == ["reconciler of payment"]


def test_r4_without_a_store_a_checkpoint_holds_the_doubt(storeless: Attempts) -> None:
    """A pending slot of the last checkpoint is reconciled; without one the call is simply made again."""
    ledger = Ledger()

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await pay(ctx, "async", ledger.found))

    gate = Gate()
    first = storeless.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("pay"))
    checkpoint = first.checkpoint()
    second = storeless.start(agent_of(act), checkpoint=checkpoint, fakes={ask: never})
    second.run_until_idle()
    assert values(second) == ["found"]
    third = storeless.start(agent_of(act))
    third.process("k", 1)
    third.run_until_idle()
    assert values(third) == ["pay!"]


def test_r2_a_reconciler_in_flight_at_a_second_crash_is_asked_again(attempts: Attempts) -> None:
    """The doubt stays until an outcome is recorded."""
    ledger = Ledger()
    gate = Gate()

    async def slow() -> Any:
        return await gate("reconciler")

    reconcilers = [slow, slow, ledger.found]

    def agent(attempt: int) -> Any:
        async def act(event: Any, ctx: RunnerContext) -> None:
            out(ctx, await pay(ctx, "async", reconcilers[attempt]))

        return agent_of(act)

    in_doubt(attempts, "async", agent(0))
    second = attempts.start(agent(1), fakes={ask: never})
    second.process("k", 1)
    until(second, lambda: gate.is_waiting("reconciler"))
    third = attempts.start(agent(2), fakes={ask: never})
    third.process("k", 1)
    third.run_until_idle()
    assert values(third) == ["found"]
