"""K5: once an action has made a synchronous call, steps run on a thread for which the task thread waits."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.call_options import CallOptions
from flink_agents_durable.api.errors import AttemptEndedError, CallTimeoutError, DurableExecutionError
from flink_agents_durable.api.events import InputEvent, OutputEvent
from flink_agents_durable.runtime.action_thread import ActionThread
from flink_agents_durable.runtime.outcomes import SPIN_SECONDS
from flink_agents_durable.runtime.task_failure import TaskFailedError
from tests.runtime.fake_flink import DEADLINE, FakeFlink, plan_of
from tests.runtime.harness import eventually

WARM = "warm"
"""The input of which the call makes the operator change its thread."""
ACTIONS = "durable-actions"


class World:
    """What functions see, and what holds them."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.seen: list[Any] = []
        self.inside = threading.Event()
        self.release = threading.Event()


WORLD = World()


@pytest.fixture(autouse=True)
def _world() -> Iterator[None]:
    WORLD.__init__()  # type: ignore[misc]
    yield
    WORLD.release.set()


def thread_name(value: Any) -> tuple[Any, str]:
    WORLD.calls.append(value)
    return value, threading.current_thread().name


def hold(value: Any) -> Any:
    WORLD.calls.append(value)
    if value != WARM:
        WORLD.inside.set()
        assert WORLD.release.wait(DEADLINE)
    return value


@pytest.fixture(params=["none", "sqlite"])
def store_options(request: pytest.FixtureRequest, tmp_path: Any) -> dict[str, Any]:
    return {"store__type": request.param, "store__sqlite__path": str(tmp_path)}


Warmed = Callable[..., FakeFlink]


@pytest.fixture
def warmed(store_options: dict[str, Any]) -> Iterator[Warmed]:
    """A subtask whose action has made a synchronous call."""
    opened: list[FakeFlink] = []

    def make(act: Callable[..., Any], snapshot: Any = None, **options: Any) -> FakeFlink:
        plan = plan_of(Agent().add_action("act", [InputEvent], act), **store_options, **options)
        flink = FakeFlink(plan, snapshot)
        opened.append(flink)
        flink.process(WARM, WARM)
        flink.run_until_idle()
        flink.emitted.clear()
        WORLD.calls.clear()
        return flink

    yield make
    WORLD.release.set()
    for flink in opened:
        flink.close()


def action_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == ACTIONS]


def calls_twice(event: Any, ctx: Any) -> None:
    places = [ctx.durable_execute(thread_name, place)[1] for place in range(2)]
    ctx.send_event(OutputEvent(output=places))


def call_hold(event: Any, ctx: Any) -> None:
    ctx.send_event(OutputEvent(output=ctx.durable_execute(hold, event.input)))


def swallow(event: Any, ctx: Any) -> None:
    try:
        ctx.durable_execute(hold, event.input)
    except BaseException as error:
        note(error)
        try:
            ctx.durable_execute(thread_name, "after")
        except BaseException as refused:
            note(refused)
    ctx.send_event(OutputEvent(output="done"))


async def swallow_async(event: Any, ctx: Any) -> None:
    swallow(event, ctx)


def note(error: BaseException) -> None:
    WORLD.seen.append(type(error).__name__)


async def numbers() -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
    finally:
        await asyncio.sleep(0)
        WORLD.seen.append("closed")


async def leave_numbers(event: Any, ctx: Any) -> None:
    if event.input == WARM:
        ctx.durable_execute(thread_name, 1)
        return
    await ctx.durable_execute_async(hold, event.input)
    async for number in numbers():
        if number == 1:
            break
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    ctx.send_event(OutputEvent(output=len(WORLD.seen)))


def test_k5_the_first_call_goes_to_a_worker_and_later_steps_run_where_their_calls_do(warmed: Warmed) -> None:
    flink = warmed(calls_twice)
    for number in range(5):
        flink.process(number, number)
    flink.run_until_idle()
    assert flink.values == [[ACTIONS, ACTIONS]] * 5
    assert flink.close()
    assert not action_threads()


def test_k5_no_thread_is_started_for_actions_that_make_no_synchronous_call(warmed: Warmed) -> None:
    async def act(event: Any, ctx: Any) -> None:
        ctx.send_event(OutputEvent(output=await ctx.durable_execute_async(thread_name, 1)))

    flink = warmed(act)
    flink.process(1, 1)
    flink.run_until_idle()
    assert not action_threads()


def test_k5_state_memory_metrics_and_java_keep_to_the_task_thread(warmed: Warmed) -> None:
    """The host checks the thread of each call that it gets."""

    def fail(value: Any) -> Any:
        raise ValueError(value)

    def act(event: Any, ctx: Any) -> None:
        memory = ctx.short_term_memory
        memory.set("count", (memory.get("count") or 0) + 1)
        ctx.action_metric_group.get_counter("inputs").inc()
        try:
            ctx.durable_execute(fail, event.input)
        except ValueError as error:
            ctx.send_event(OutputEvent(output=(str(error), memory.get("count"))))

    flink = warmed(act)
    for number in range(3):
        flink.process("key", number)
    flink.run_until_idle()
    assert flink.values == [("0", 1), ("1", 2), ("2", 3)]
    snapshot = flink.snapshot()
    flink.close()
    restored = warmed(act, snapshot)
    restored.process("key", 3)
    restored.run_until_idle()
    assert restored.values == [("3", 4)]


def test_k5_watermarks_and_the_end_of_input_do_not_change_threads(
    warmed: Warmed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They step nothing, and there may be one for every input."""

    def run(step: Any) -> None:
        raise AssertionError("a change of threads")

    flink = warmed(calls_twice)
    monkeypatch.setattr(flink.rt._actions, "run", run)
    flink.watermark(5)
    flink.status(False)
    flink.rt.end_input()
    assert flink.emitted[0] == 5, "the watermark"


def test_k5_a_call_in_place_sees_no_loop_and_no_context_of_its_action(warmed: Warmed) -> None:
    async def inner() -> str:
        await asyncio.sleep(0)
        return "ran"

    async def act(event: Any, ctx: Any) -> None:
        def nested() -> str:
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            with pytest.raises(DurableExecutionError, match="cannot be used in a durable function"):
                ctx.durable_execute(thread_name, 1)
            return asyncio.run(inner())

        first = ctx.durable_execute(nested)
        ctx.send_event(OutputEvent(output=(first, ctx.durable_execute(thread_name, 2)[0])))

    flink = warmed(act)
    flink.process(1, 1)
    flink.run_until_idle()
    assert flink.values == [("ran", 2)]


def test_k5_calls_with_a_time_limit_and_async_def_functions_still_end_in_time(warmed: Warmed) -> None:
    async def later(value: Any) -> Any:
        await asyncio.sleep(0.01)
        return value

    def act(event: Any, ctx: Any) -> None:
        outputs = [ctx.durable_execute(later, event.input)]
        if event.input != WARM:
            try:
                ctx.durable_execute(hold, event.input, options=CallOptions(timeout=0.05))
            except CallTimeoutError:
                outputs.append("late")
        ctx.send_event(OutputEvent(output=outputs))

    flink = warmed(act)
    flink.process(1, 1)
    flink.run_until_idle()
    assert flink.values == [[1, "late"]]


def test_i4_an_interrupt_frees_the_task_thread_and_the_call_is_not_recorded(warmed: Warmed) -> None:
    flink = warmed(call_hold)
    snapshot = flink.snapshot()
    flink.host.interrupted.set()
    flink.process("a", 1)  # returns although the function does not
    assert WORLD.calls == [1]
    with pytest.raises(TaskFailedError, match="InterruptedException"):
        flink.mail()
    flink.process("b", 2)
    with pytest.raises(TaskFailedError, match="InterruptedException"):
        flink.watermark(1)
    assert isinstance(flink.rt.snapshot(2, 0), str), "no snapshot while the step goes on"
    WORLD.release.set()
    assert flink.close()
    assert not action_threads()
    assert flink.values == []
    second = warmed(call_hold, snapshot)
    second.process("a", 1)
    second.run_until_idle()
    assert (second.values, WORLD.calls) == ([1], [1])


def test_i2_an_action_that_swallows_the_interruption_can_do_nothing_more(warmed: Warmed) -> None:
    flink = warmed(swallow)
    flink.host.interrupted.set()
    flink.process("a", 1)
    WORLD.release.set()
    assert flink.close()
    assert WORLD.seen == ["InterruptedByJava", "AttemptEndedError"]
    assert (WORLD.calls, flink.values) == ([1], [])


def test_s10_close_is_bounded_while_a_call_in_place_never_returns(warmed: Warmed) -> None:
    flink = warmed(swallow_async, close_timeout=0.4)
    flink.host.interrupted.set()
    flink.process("a", 1)
    begin = time.monotonic()
    assert not flink.close(), "a thread is inside: the interpreter must not be closed"
    assert time.monotonic() - begin < 3.0
    WORLD.release.set()
    eventually(lambda: not action_threads(), "the thread ends with its call")
    assert WORLD.seen == ["InterruptedByJava", "AttemptEndedError"], "the engine was closed under the action"


@pytest.mark.parametrize("when", ["state", "metrics"])
def test_i4_what_only_the_task_thread_may_do_is_refused_after_an_interrupt(warmed: Warmed, when: str) -> None:
    """A step that goes on asks for state, which nobody serves any more: it must not wait for ever."""

    def act(event: Any, ctx: Any) -> None:
        try:
            ctx.durable_execute(hold, event.input)
        finally:
            if event.input != WARM and when == "state":
                ctx.short_term_memory.get("anything")

    flink = warmed(act)
    flink.host.interrupted.set()
    flink.process("a", 1)
    WORLD.release.set()
    assert flink.close()
    assert not action_threads()


def test_a_failure_of_an_action_reaches_flink_as_from_the_task_thread(warmed: Warmed) -> None:
    def act(event: Any, ctx: Any) -> None:
        ctx.durable_execute(thread_name, 1)
        if event.input != WARM:
            raise ValueError("no")

    flink = warmed(act)
    flink.process("a", 1)
    with pytest.raises(TaskFailedError, match="ValueError: no"):
        flink.mail()


def test_an_async_generator_that_is_left_is_closed_in_its_step() -> None:
    """Case 27: its `finally` may await. The hooks for it belong to the thread that steps."""

    flink = FakeFlink(plan_of(Agent().add_action("act", [InputEvent], leave_numbers)))
    try:
        flink.process("a", 1)  # its loop is made on the task thread
        flink.process("b", WARM)
        WORLD.release.set()
        flink.run_until_idle()
    finally:
        flink.close()
    assert flink.values == [1]


def test_i4_what_a_step_asks_for_at_the_moment_of_an_interrupt_is_refused() -> None:
    class Interrupt(Exception):
        pass

    heard: list[type] = []
    asking = threading.Event()

    def wait() -> None:
        assert asking.wait(DEADLINE)
        eventually(lambda: not actions._news.empty(), "the step asks")
        raise Interrupt

    def step() -> None:
        time.sleep(2 * SPIN_SECONDS)  # so that the task thread is in its long wait
        asking.set()
        for _ in range(2):
            try:
                actions.ask(threading.get_ident)
            except Interrupt as error:
                heard.append(type(error))

    actions = ActionThread(wait, lambda: None)
    with pytest.raises(Interrupt):
        actions.run(step)
    assert actions.close(DEADLINE)
    assert heard == [Interrupt, Interrupt]
    with pytest.raises(AttemptEndedError):
        actions.run(step)


def test_k5_steps_longer_than_the_wait_on_a_lock_end_by_a_signal(warmed: Warmed) -> None:
    def slow(value: Any) -> Any:
        time.sleep(0.005)
        return value

    def act(event: Any, ctx: Any) -> None:
        ctx.send_event(OutputEvent(output=ctx.durable_execute(slow, event.input)))

    flink = warmed(act)
    signalled: list[bool] = []
    wait = flink.host.awaitSignal
    flink.host.awaitSignal = lambda millis: signalled.append(wait(millis))  # type: ignore[method-assign]
    for number in range(20):
        flink.process(number, number)
    flink.run_until_idle()
    assert sorted(flink.values) == list(range(20))
    assert any(signalled), "each step would take the whole of a wait if no signal came"
