"""I2, I4, I5: an interruption is no outcome; nothing of it is recorded and the attempt ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flink_agents_durable import AttemptEndedError, RunnerContext
from tests.contracts.functions import ask, check, never
from tests.contracts.java import PyJObject
from tests.contracts.kit import Attempts, Gate, WatchedStore, agent_of, called, out, until, values


def interruption() -> RuntimeError:
    """An interrupted Java call as it arrives in Python, below a Java exception of another kind."""
    interrupted = PyJObject("java.lang.InterruptedException", "sleep interrupted")
    return RuntimeError(PyJObject("java.lang.RuntimeException", "wrapped", interrupted))


def raiser(error: BaseException) -> Any:
    async def fail(what: Any) -> Any:
        raise error

    return fail


def run_to_the_end(runner: Any, value: Any = 1) -> BaseException:
    """Process one input; gives what ended the attempt."""
    try:
        runner.process("k", value)
        runner.run_until_idle()
    except BaseException as error:
        return error
    raise AssertionError("the attempt did not end")


def wrapped(error: BaseException, original: BaseException) -> bool:
    """Whether the error is the original or was caused by it."""
    current: BaseException | None = error
    while current is not None:
        if current is original:
            return True
        current = current.__cause__
    return False


@pytest.mark.parametrize("kind", ["synchronous", "async", "gather"])
def test_i2_an_interruption_reaches_the_caller_and_is_not_recorded(attempts: Attempts, kind: str) -> None:
    """The original is raised in the action; what the action does then is refused, and the call runs again."""
    seen: list[BaseException] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ctx.durable_execute_async(check, "before"))
        try:
            if kind == "synchronous":
                out(ctx, ctx.durable_execute(ask, "a"))
            elif kind == "async":
                out(ctx, await ctx.durable_execute_async(ask, "a"))
            else:
                [outcome] = await ctx.gather(ctx.durable_execute_async(ask, "a"))
                out(ctx, outcome.value)
        except RuntimeError as error:
            seen.append(error)
            ctx.short_term_memory.set("swallowed", True)
            out(ctx, "swallowed")
            out(ctx, await ctx.durable_execute_async(check, "must not run"))

    error = interruption()
    first = attempts.start(agent_of(act), fakes={ask: raiser(error)})
    ended = run_to_the_end(first)
    assert wrapped(ended, error)
    assert seen == [error]
    assert values(first) == ["before?"]
    assert called(first) == ["before", "a"]
    with pytest.raises(AttemptEndedError):
        first.process("k", 2)
    second = attempts.start(agent_of(act))
    second.process("k", 1)
    second.run_until_idle()
    assert called(second) == ["a"]
    assert values(second) == ["before?", "a!"]
    assert second.memory("k") == {}


@pytest.mark.parametrize("kind", ["synchronous", "async", "gather"])
def test_i2_an_interrupted_reconciler_leaves_the_call_in_doubt(attempts: Attempts, kind: str) -> None:
    """The slot stays pending: the next attempt reconciles again and does not make the call."""
    outcomes: list[Any] = [interruption(), "found"]

    def reconciler() -> Any:
        outcome = outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def act(event: Any, ctx: RunnerContext) -> None:
        if kind == "synchronous":
            out(ctx, ctx.durable_execute(ask, "a", reconciler=reconciler))
        elif kind == "async":
            out(ctx, await ctx.durable_execute_async(ask, "a", reconciler=reconciler))
        else:
            [outcome] = await ctx.gather(ctx.durable_execute_async(ask, "a", reconciler=reconciler))
            out(ctx, outcome.value)

    agent = agent_of(act)
    run_to_the_end(attempts.start(agent, fakes={ask: raiser(interruption())}))
    run_to_the_end(attempts.start(agent, fakes={ask: never}))
    third = attempts.start(agent, fakes={ask: never})
    third.process("k", 1)
    third.run_until_idle()
    assert values(third) == ["found"]
    assert outcomes == []


def test_i2_in_a_batch_earlier_outcomes_are_kept(attempts: Attempts) -> None:
    """The interrupted slot and later ones stay pending, what had finished is not run again."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        outcomes = await ctx.gather(*(ctx.durable_execute_async(ask, name) for name in "abcd"))
        out(ctx, [outcome.value for outcome in outcomes])

    store = attempts.store = WatchedStore(attempts.folder)
    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting(*"abcd"))
    gate.answer("d", "kept")
    gate.answer("a", "kept")
    until(first, lambda: first.stats.calls_executed == 2 and store.settled)
    error = interruption()
    gate.fail("b", error)
    with pytest.raises(BaseException, match=r"(?s).*") as caught:
        first.run_until_idle()
    assert wrapped(caught.value, error)
    second = attempts.start(agent_of(act))
    second.process("k", 1)
    second.run_until_idle()
    assert called(second) == ["b", "c"]
    assert values(second) == [["kept", "b!", "c!", "kept"]]


@pytest.mark.parametrize(
    "name",
    ["java.io.InterruptedIOException", "java.net.SocketTimeoutException", "java.lang.RuntimeException"],
)
def test_i2_other_java_errors_are_ordinary_failures(attempts: Attempts, name: str) -> None:
    """HTTP clients throw InterruptedIOException for plain timeouts: recorded, caught, replayed."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "a")
        except RuntimeError as error:
            out(ctx, name in str(error) or "PyJObject" in repr(error))

    error = RuntimeError(PyJObject(name, "interrupted while reading"))
    first = attempts.start(agent_of(act), fakes={ask: raiser(error)}, options={"agents.strict-values": False})
    first.process("k", 1)
    first.run_until_idle()
    second = attempts.start(agent_of(act), fakes={ask: never})
    second.process("k", 1)
    second.run_until_idle()
    assert values(first) == values(second) == [True]


@pytest.mark.parametrize("how", ["crash", "close"])
def test_case_10_i4_calls_in_flight_at_the_end_of_an_attempt_are_not_recorded(
    attempts: Attempts, how: str
) -> None:
    """Case 10: shutdown, failover and cancel record nothing; a late result is ignored."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            out(ctx, await ctx.durable_execute_async(ask, "a"))
        except BaseException:
            out(ctx, "cancelled")
            raise

    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a"))
    first.crash() if how == "crash" else first.close()
    gate.late_answer("a", "late")
    assert values(first) == []
    second = attempts.start(agent_of(act))
    second.process("k", 1)
    second.run_until_idle()
    assert called(second) == ["a"]
    assert values(second) == ["a!"]


@pytest.mark.parametrize("kind", ["synchronous", "async", "gather"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_case_12_i5_exceptions_that_end_a_process_are_never_recorded(
    attempts: Attempts, error: type[BaseException], kind: str
) -> None:
    """Case 12: the attempt ends, the call runs again in the next one."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        if kind == "synchronous":
            out(ctx, ctx.durable_execute(ask, "a"))
        elif kind == "async":
            out(ctx, await ctx.durable_execute_async(ask, "a"))
        else:
            [outcome] = await ctx.gather(ctx.durable_execute_async(ask, "a"))
            out(ctx, outcome.value)

    first = attempts.start(agent_of(act), fakes={ask: raiser(error("on purpose"))})
    ended = run_to_the_end(first)
    assert not isinstance(ended, AssertionError)
    second = attempts.start(agent_of(act))
    second.process("k", 1)
    second.run_until_idle()
    assert called(second) == ["a"]
    assert values(second) == ["a!"]


def test_i5_an_exception_that_ends_a_process_in_a_plain_function(attempts: Attempts) -> None:
    """On a worker thread as well."""

    def leave(what: Any) -> Any:
        raise SystemExit(3)

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ctx.durable_execute_async(ask, "a"))

    first = attempts.start(agent_of(act), fakes={ask: leave})
    run_to_the_end(first)
    second = attempts.start(agent_of(act))
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == ["a!"]


def test_case_11_i6_a_cancelled_error_of_a_library_is_a_failure_of_its_call(attempts: Attempts) -> None:
    """Case 11: nobody cancelled; the action catches a failure, and its later awaits work."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "a")
        except Exception as error:
            out(ctx, "CancelledError" in str(error))
        await asyncio.sleep(0)
        out(ctx, await ctx.durable_execute_async(check, "next"))

    gone = asyncio.CancelledError("the server is gone")
    for fakes in ({ask: raiser(gone)}, {ask: never, check: never}):
        runner = attempts.start(agent_of(act), fakes=fakes)
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == [True, "next?"]
