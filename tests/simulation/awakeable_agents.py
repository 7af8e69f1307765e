"""Agents for the simulator that wait for awakeables."""

from __future__ import annotations

import asyncio
from typing import Any

from flink_agents_durable import Agent, Event, InputEvent
from flink_agents_durable.testing.simulation.awakeables import AwakeableWorld


def approval(world: AwakeableWorld) -> Agent:
    """Asked before a call, awaited after it: the answer may be there before anybody waits."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        id, answer = ctx.awakeable()
        world.ask(ctx, id)
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        got = await answer
        world.answered(ctx, "answer", id, got)
        b = await ctx.durable_execute_async(world.call, f"b{v}")
        world.observe(ctx, "b", (b, ctx.now(), await answer))
        world.emit(ctx, "one", v, a, b)

    return Agent().add_action("act", [InputEvent], act)


def at_once(world: AwakeableWorld) -> Agent:
    """Nothing but awakeables: the first record of the run is that of an answer."""

    async def act(event: Any, ctx: Any) -> None:
        pairs = [ctx.awakeable() for _ in range(2)]
        for id, _ in pairs:
            world.ask(ctx, id)
        got = await asyncio.gather(*(answer for _, answer in pairs))
        for place, (id, _) in enumerate(pairs):
            world.answered(ctx, f"answer {place}", id, got[place])
        world.emit(ctx, "one", event.input)

    return Agent().add_action("act", [InputEvent], act)


def reminders(world: AwakeableWorld) -> Agent:
    """Waits that are given up and begin again, beside a call; at last it waits without a deadline."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        id, answer = ctx.awakeable()
        world.ask(ctx, id)
        got: Any = None
        for attempt in range(3):
            try:
                got = await asyncio.wait_for(answer, 0.002)
                break
            except asyncio.TimeoutError:
                world.observe(ctx, f"reminder {attempt}", ctx.now())
                await ctx.durable_execute_async(world.call, f"r{attempt}{v}")
        got = await answer if got is None else got
        world.answered(ctx, "answer", id, got)
        world.emit(ctx, "one", v)

    return Agent().add_action("act", [InputEvent], act)


def uncaught(world: AwakeableWorld) -> Agent:
    """A call behind the answer fails for good: the answer outlives it (P14)."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        id, answer = ctx.awakeable()
        world.ask(ctx, id)
        world.answered(ctx, "answer", id, await answer)
        a = await ctx.durable_execute_async(world.call, f"a{v}", 0.4)
        world.observe(ctx, "a", a)
        world.emit(ctx, "one", v, a)

    return Agent().add_action("act", [InputEvent], act)


class Ask(Event):
    EVENT_TYPE = "ask"


def children(world: AwakeableWorld) -> Agent:
    """Two executions of a run wait for an answer each."""

    async def act(event: Any, ctx: Any) -> None:
        a = await ctx.durable_execute_async(world.call, f"a{event.input}")
        for number in range(2):
            ctx.send_event(Ask(attributes={"v": event.input, "number": number, "a": a}))

    async def ask(event: Any, ctx: Any) -> None:
        number = event.get_attr("number")
        id, answer = ctx.awakeable()
        world.ask(ctx, id)
        world.answered(ctx, f"answer {number}", id, await answer)
        world.emit(ctx, f"child {number}", event.get_attr("v"))

    return Agent().add_action("act", [InputEvent], act).add_action("ask", [Ask], ask)


def versions(world: AwakeableWorld) -> Agent:
    """The second version calls before it waits: the answer that the first one had is not lost (P13)."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        id, answer = ctx.awakeable()
        world.ask(ctx, id)
        if world.version == 2:
            await ctx.durable_execute_async(world.call, f"new{v}")
        got = await answer
        world.check(ctx, got in world._given[id], f"{got!r} for {id}")
        a = await ctx.durable_execute_async(world.call, f"a{v}{world.version}")
        world.emit(ctx, f"one of {world.version}", v, a)

    return Agent().add_action("act", [InputEvent], act)


AGENTS = {
    "approval": (approval, 1),
    "at_once": (at_once, 1),
    "reminders": (reminders, 1),
    "uncaught": (uncaught, 1),
    "children": (children, 2),
    "versions": (versions, -1),
}
"""Each with the number of outputs of an input; -1: it depends on the version."""
