"""The back-off of a synchronous call in the operator (P17, K5): interruptible, and without a worker."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flink_agents_durable import Agent, CallOptions, CallTimeoutError, InputEvent, OutputEvent, RetryPolicy
from flink_agents_durable.runtime.operator_ports import OperatorPorts
from flink_agents_durable.runtime.task_failure import TaskFailedError
from tests.runtime.fake_flink import DEADLINE, FakeFlink, plan_of

CALLS: list[int] = []


def refused(value: int, waits: float) -> int:
    CALLS.append(value)
    if len(CALLS) < 3:
        raise ConnectionError("refused")
    return value


def act(event: Any, ctx: Any) -> None:
    value, wait = event.input
    policy = RetryPolicy(initial_interval=wait, backoff_factor=1, max_interval=wait, jitter=False)
    ctx.send_event(OutputEvent(ctx.durable_execute(refused, value, wait, options=CallOptions(retry=policy))))


@pytest.fixture
def plan(tmp_path: Any) -> Any:
    CALLS.clear()
    agent = Agent().add_action("act", [InputEvent], act)
    return plan_of(agent, store__type="sqlite", store__sqlite__path=str(tmp_path))


def test_p17_a_synchronous_call_waits_for_its_next_attempt(plan: Any) -> None:
    flink = FakeFlink(plan)
    try:
        flink.process("a", (1, 0.05))
        flink.run_until_idle()
        assert flink.values == [1]
        assert len(CALLS) == 3
    finally:
        flink.close()


def test_p17_p19_an_interrupt_ends_the_wait_and_the_next_attempt_goes_on(
    plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cancel of the task during a wait of an hour: nothing more is recorded, and after it the wait goes on."""
    waits: list[int] = []
    original = OperatorPorts.wait_until

    def wait_until(self: OperatorPorts, when: int) -> None:
        waits.append(when)
        flink.host.interrupted.set()
        original(self, when)

    monkeypatch.setattr(OperatorPorts, "wait_until", wait_until)
    flink = FakeFlink(plan)
    snapshot = flink.snapshot()
    for attempt in (1, 2):
        try:
            flink.process("a", (1, 3_600))
            assert len(waits) == attempt
            with pytest.raises(TaskFailedError, match="InterruptedException"):
                flink.mail()
        finally:
            flink.close()
        flink = FakeFlink(plan, snapshot)
    flink.close()
    assert CALLS == [1]
    assert waits[0] == waits[1], "the rest of the same hour"


RELEASE = threading.Event()
INSIDE = threading.Event()


def held(value: int) -> int:
    INSIDE.set()
    assert RELEASE.wait(DEADLINE)
    return value


async def held_back(event: Any, ctx: Any) -> None:
    if event.input == "first":
        options = CallOptions(limit="api")
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(held, 1, options=options)))
        return
    try:
        ctx.durable_execute(refused, 2, 0, options=CallOptions(limit="api", total_timeout=0.3))
    except CallTimeoutError as error:
        ctx.send_event(OutputEvent(str(error)))


def test_case_34_a_synchronous_call_gives_up_while_its_limit_holds_it_back() -> None:
    """The task thread waits no longer than `total_timeout`, though nothing signals; the call never starts."""
    CALLS.clear()
    RELEASE.clear()
    INSIDE.clear()
    agent = Agent().add_action("act", [InputEvent], held_back)
    flink = FakeFlink(plan_of(agent, **{"limits__api__max-concurrency": 1}))
    try:
        flink.process("a", "first")
        flink.run_until_seen(INSIDE.is_set, "the first call runs")
        flink.process("b", "second")
        assert "within its total_timeout of 0.3 s" in flink.values[0]
        RELEASE.set()
        flink.run_until_idle()
        assert flink.values[1:] == [1]
        assert CALLS == []
    finally:
        RELEASE.set()
        flink.close()
