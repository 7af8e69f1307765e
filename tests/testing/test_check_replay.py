"""`check_replay`: agents that do the same after a crash pass, others are told what differs."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from flink_agents_durable import (
    Agent,
    AwakeableFailedError,
    InputEvent,
    OutputEvent,
    awakeable_failure,
    awakeable_result,
)
from flink_agents_durable.testing import ReplayDifferenceError, check_replay


def ask(question: str) -> str:
    return f"answer to {question}"


async def ask_async(question: str) -> str:
    await asyncio.sleep(0)
    return f"answer to {question}"


def agent_of(act: Any) -> Agent:
    return Agent().add_action("act", [InputEvent], act)


def test_an_agent_that_replays_passes() -> None:
    async def act(event: Any, ctx: Any) -> None:
        first = await ctx.durable_execute_async(ask_async, event.input)
        outcomes = await ctx.gather(
            *(ctx.durable_execute_async(ask, f"{first}{i}") for i in range(3)), timeout=5
        )
        await asyncio.sleep(10)
        ctx.short_term_memory.set("last", first)
        sync = ctx.durable_execute(ask, "sync")
        ctx.send_event(
            OutputEvent([first, [o.value for o in outcomes], sync, str(ctx.now()), str(ctx.uuid4())])
        )

    report = check_replay(agent_of(act), [("a", "x"), ("b", "y"), ("a", "z")])
    assert report.calls == 15
    assert report.outputs == 3
    assert report.crash_points > 30


def test_another_argument_after_the_crash_is_named_with_its_line() -> None:
    counter = itertools.count()

    async def act(event: Any, ctx: Any) -> None:
        await ctx.durable_execute_async(ask, "first")
        await ctx.durable_execute_async(ask, f"number {next(counter)}")  # not the same on replay
        ctx.send_event(OutputEvent("done"))

    with pytest.raises(
        ReplayDifferenceError, match=r"(?s)'act'.*test_check_replay.py:\d+.*number 1.*number 0"
    ):
        check_replay(agent_of(act), [("a", "x")])


def test_another_output_is_shown() -> None:
    counter = itertools.count()

    async def act(event: Any, ctx: Any) -> None:
        await ctx.durable_execute_async(ask, "first")
        ctx.send_event(OutputEvent(f"number {next(counter)}"))

    with pytest.raises(
        ReplayDifferenceError,
        match=r"output 1 of action 'act' for key 'a' was 'number 0' \(at .*test_check_replay.py:\d+: .*send_event.*\)"
        r" .* is 'number \d' \(at",
    ):
        check_replay(agent_of(act), [("a", "x")])


def test_an_output_that_is_missing_after_the_crash_is_named() -> None:
    counter = itertools.count()

    def act(event: Any, ctx: Any) -> None:
        ctx.durable_execute(ask, "first")
        if next(counter) == 0:
            ctx.send_event(OutputEvent(None))  # None is an output too

    with pytest.raises(
        ReplayDifferenceError, match=r"was None \(at .*without the crash, and is nothing after it"
    ):
        check_replay(agent_of(act), [("a", "x")])


def test_a_dead_letter_that_differs_is_named() -> None:
    counter = itertools.count()

    def act(event: Any, ctx: Any) -> None:
        ctx.durable_execute(ask, "first")
        raise ValueError(f"number {next(counter)}")

    with pytest.raises(ReplayDifferenceError, match=r"number 0.* \(a dead letter\) without .* number \d"):
        check_replay(agent_of(act), [("a", "x")], options={"agents.action-failure": "dead-letter"})


def test_outputs_of_two_actions_at_once_may_change_their_order() -> None:
    def act(name: str, delay: float) -> Any:
        async def acted(event: Any, ctx: Any) -> None:
            await asyncio.sleep(delay)
            await ctx.durable_execute_async(ask, name)
            ctx.send_event(OutputEvent(name))

        return acted

    agent = (
        Agent()
        .add_action("left", [InputEvent], act("left", 1))
        .add_action("right", [InputEvent], act("right", 1))
    )
    assert check_replay(agent, [("a", "x"), ("a", "y")]).outputs == 4


def test_a_failure_of_the_agent_itself_comes_out() -> None:
    async def act(event: Any, ctx: Any) -> None:
        raise ValueError("wrong")

    with pytest.raises(Exception, match="wrong"):
        check_replay(agent_of(act), [("a", "x")])


def test_calls_are_made_once() -> None:
    """Only the run without a crash makes calls for real."""
    made: list[str] = []

    def call(what: str) -> str:
        made.append(what)
        return what

    async def act(event: Any, ctx: Any) -> None:
        ctx.send_event(OutputEvent(await ctx.durable_execute_async(call, event.input)))

    check_replay(agent_of(act), [("a", "x")])
    assert made == ["x"]


def test_awakeables_are_resolved_the_same_in_every_attempt() -> None:
    asked: list[tuple[Any, str]] = []

    async def act(event: Any, ctx: Any) -> None:
        _, approval = ctx.awakeable()
        _, second = ctx.awakeable()
        _, nobody = ctx.awakeable()
        answer = await approval
        first = await ctx.durable_execute_async(ask, answer)
        try:
            refusal = await second
        except AwakeableFailedError as error:
            refusal = str(error)
        try:
            late = await asyncio.wait_for(nobody, 60)
        except asyncio.TimeoutError:
            late = "nobody"
        ctx.send_event(OutputEvent([first, refusal, late]))

    def resolve(key: Any, id: str) -> Any:
        asked.append((key, id))
        number = sum(other == key for other, _ in asked)
        return [awakeable_result(key, id, "yes"), awakeable_failure(key, id, "no"), None][number - 1]

    report = check_replay(agent_of(act), [("a", "x"), ("b", "y")], awakeables=resolve)
    assert len(asked) == 6
    assert (report.calls, report.outputs) == (2, 2)
    assert report.crash_points == 2 * (2 * 5 + 1)


def test_an_awakeable_that_differs_after_the_crash_is_named() -> None:
    counter = itertools.count()

    async def act(event: Any, ctx: Any) -> None:
        for _ in range(next(counter)):
            ctx.awakeable()
        _, approval = ctx.awakeable()
        await approval
        await ctx.durable_execute_async(ask, "x")

    with pytest.raises(ReplayDifferenceError, match=r"recorded was awakeable awk_.* asks for awakeable awk_"):
        check_replay(agent_of(act), [("a", "x")], awakeables=lambda key, id: awakeable_result(key, id, 1))
