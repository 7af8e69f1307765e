"""Awakeables in the operator: back-pressure, watermarks, stops, the end of the input, other parallelisms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.events import InputEvent, OutputEvent
from flink_agents_durable.runtime import unresolved
from flink_agents_durable.runtime.operator import STOP_SAVEPOINT
from flink_agents_durable.runtime.task_failure import TaskFailedError
from tests.runtime.fake_flink import FakeFlink, merged, plan_of
from tests.runtime.test_operator_restarts import parts

IDS: dict[Any, str] = {}


@pytest.fixture(autouse=True)
def _ids() -> None:
    IDS.clear()


@pytest.fixture(params=["none", "sqlite"])
def options(request: pytest.FixtureRequest, tmp_path: Any) -> dict[str, Any]:
    return {"store__type": request.param, "store__sqlite__path": str(tmp_path)}


@pytest.fixture
def open_flink() -> Iterator[Callable[..., FakeFlink]]:
    opened: list[FakeFlink] = []

    def make(*args: Any, **kwargs: Any) -> FakeFlink:
        opened.append(FakeFlink(*args, **kwargs))
        return opened[-1]

    yield make
    for flink in opened:
        flink.close()


Open = Callable[..., FakeFlink]


async def echo(value: Any) -> Any:
    return value


async def approve(event: Any, ctx: Any) -> None:
    """Inputs that are numbers are answered by a call, texts by somebody else."""
    if isinstance(event.input, int):
        ctx.send_event(OutputEvent(output=await ctx.durable_execute_async(echo, event.input)))
        return
    IDS[event.input], result = ctx.awakeable()
    ctx.send_event(OutputEvent(output=[event.input, await result]))


async def approve_in_time(event: Any, ctx: Any) -> None:
    id, result = ctx.awakeable()
    IDS[event.input] = id
    try:
        ctx.send_event(OutputEvent(output=await asyncio.wait_for(result, 0.05)))
    except asyncio.TimeoutError:
        ctx.send_event(OutputEvent(output="no answer"))


async def approve_after_a_call(event: Any, ctx: Any) -> None:
    await ctx.durable_execute_async(echo, event.input)
    await approve(event, ctx)


def agent_of(function: Callable[..., Any]) -> Agent:
    return Agent().add_action("act", [InputEvent], function)


def test_ten_thousand_waiting_approvals_do_not_stop_other_inputs(open_flink: Open, options: Any) -> None:
    """Neither they nor the inputs behind them count as in flight, so that nothing holds the stream back."""
    flink = open_flink(plan_of(agent_of(approve), **options))
    for number in range(10_000):
        flink.process(number, f"text {number}")
    for number in range(1_000):
        flink.process(number, number)
    assert (flink.live, flink.in_flight) == (11_000, 0)
    flink.process("other", 7)
    flink.run_until(lambda: flink.values == [7], "the other input")
    flink.awaken(500, IDS["text 500"], "yes")
    flink.run_until(lambda: flink.values[1:] == [["text 500", "yes"], 500], "the input and the one behind it")
    assert (flink.live, flink.in_flight) == (10_998, 0)


def test_l1_s5_approvals_wait_through_restarts_at_other_parallelisms(open_flink: Open, options: Any) -> None:
    plan = plan_of(agent_of(approve), **options)
    flinks = [open_flink(plan)]
    for number in range(20):
        flinks[0].process(number, f"text {number}")
        flinks[0].process(number, f"second {number}")
    first_id = IDS["text 3"]
    for parallelism in (3, 1, 8, 2):
        snapshot = merged(flink.snapshot() for flink in flinks)
        for flink in flinks:
            flink.close()
        flinks = [open_flink(plan, snapshot, groups=groups) for groups in parts(parallelism)]
        assert sum(flink.live for flink in flinks) == 40
    assert IDS["text 3"] == first_id
    for text in ("text", "second"):
        for number in range(20):
            owner = next(flink for flink in flinks if flink.owns(number))
            before = len(owner.values)
            owner.awaken(number, IDS[f"{text} {number}"], number)
            owner.run_until(lambda owner=owner, before=before: len(owner.values) > before, "the answer")
    given = sorted(value for flink in flinks for value in flink.values)
    assert given == sorted(
        [f"{text} {number}", number] for text in ("text", "second") for number in range(20)
    )


def test_l1_an_early_resolution_moves_with_its_key(open_flink: Open, options: Any) -> None:
    plan = plan_of(agent_of(approve), **options)
    flink = open_flink(plan)
    flink.process("k", "text")
    flink.process("k", "second")
    snapshot = flink.snapshot()
    flink.awaken("k", IDS["text"], 1)
    flink.run_until(lambda: len(flink.values) == 1, "the first answer")
    flink.close()
    # Restored to where the second input still waits behind the first one.
    flink = open_flink(plan, snapshot)
    flink.awaken("k", IDS["second"], 2)
    snapshot = flink.snapshot(2)
    flink.close()
    flinks = [open_flink(plan, snapshot, groups=groups) for groups in parts(8)]
    owner = next(flink for flink in flinks if flink.owns("k"))
    owner.awaken("k", IDS["text"], 1)
    owner.run_until_idle()
    assert owner.values[-1] == ["second", 2]


def test_s8_no_watermark_waits_for_a_resolution(open_flink: Open, options: Any) -> None:
    flink = open_flink(plan_of(agent_of(approve), **options))
    flink.process("k", "text")
    flink.watermark(5)
    assert flink.emitted == []
    flink.awaken("k", IDS["text"], "yes")
    flink.run_until(lambda: flink.emitted == [(["text", "yes"], None), 5], "the output, then the watermark")
    flink.awaken("k", IDS["text"], "again")
    flink.watermark(6)
    assert flink.emitted[-1] == 6
    flink.rt.finish()
    metrics = flink.host.metrics
    assert (metrics["durable.awakeablesResolved"], metrics["durable.awakeablesDropped"]) == (1, 1)


def test_k7_a_resolution_after_the_savepoint_of_a_stop_waits_for_its_end(
    open_flink: Open, options: Any
) -> None:
    flink = open_flink(plan_of(agent_of(approve), **options))
    flink.process("k", "text")
    flink.snapshot(1, STOP_SAVEPOINT)
    flink.awaken("k", IDS["text"], "yes")
    assert flink.values == []
    flink.rt.aborted(1)
    flink.run_until(lambda: flink.values == [["text", "yes"]], "the answer")


def test_a_resolution_that_cannot_be_read_fails_the_task(open_flink: Open, options: Any) -> None:
    flink = open_flink(plan_of(agent_of(approve), **options))
    flink.process("k", "text")
    flink._apply(flink.rt.awaken(b"k", 0, b"\x80no pickle", None))
    with pytest.raises(TaskFailedError, match="resolution of an awakeable cannot be unpickled"):
        flink.mail()


# ---- the end of the input


def end_input(flink: FakeFlink) -> None:
    flink._apply(flink.rt.end_input())


def test_a_drain_fails_with_the_ids_of_what_nothing_can_resolve(open_flink: Open, options: Any) -> None:
    flink = open_flink(plan_of(agent_of(approve), **options))
    for number in range(unresolved.SHOWN + 5):
        flink.process(number, f"text {number}")
    with pytest.raises(TaskFailedError, match="nothing can resolve 15 awakeables") as caught:
        end_input(flink)
    shown = [number for number in range(15) if IDS[f"text {number}"] in str(caught.value)]
    assert len(shown) == unresolved.SHOWN
    assert f"{IDS[f'text {shown[0]}']} of key {shown[0]}" in str(caught.value)
    assert "and 5 more" in str(caught.value)


def test_a_drain_waits_for_deadlines(open_flink: Open, options: Any) -> None:
    flink = open_flink(plan_of(agent_of(approve_in_time), **options))
    for number in range(3):
        flink.process(number, number)
    end_input(flink)
    flink.run_until_idle()
    assert flink.values == ["no answer"] * 3


def test_a_drain_fails_when_the_last_call_has_ended(
    open_flink: Open, options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when that is so soon after the last look that there is no other drain: it comes back by itself."""
    monkeypatch.setattr(unresolved, "CHECK_SECONDS", 0.2)
    flink = open_flink(plan_of(agent_of(approve_after_a_call), **options))
    flink.process("k", "text")
    end_input(flink)
    with pytest.raises(TaskFailedError, match="nothing can resolve 1 awakeables"):
        flink.run_until_idle()


def test_k1_a_drain_with_runs_that_wait_for_timers_does_not_poll(open_flink: Open, options: Any) -> None:
    async def sleeper(event: Any, ctx: Any) -> None:
        IDS[event.input], result = ctx.awakeable()
        await asyncio.wait_for(result, 3_600)

    flink = open_flink(plan_of(agent_of(sleeper), **options))
    flink.process("k", "text")
    end_input(flink)
    assert flink.rt._unresolved is not None
    assert not flink.rt._unresolved._comes_back
