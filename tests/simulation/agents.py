"""Agents for the simulator: each uses another part of what actions may do.

Values of inputs are texts; every output begins with the input and a tag, so that lost and doubled ones show.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from flink_agents_durable import Agent, Event, InputEvent, OutputEvent
from flink_agents_durable.testing.simulation import World


def out(ctx: Any, value: Any, tag: str, *more: Any) -> None:
    """Emit one tagged output."""
    ctx.send_event(OutputEvent([value, tag, list(more)]))


def sequence(world: World) -> Agent:
    """Calls one after the other, with the time in between."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        world.observe(ctx, "now", ctx.now())
        world.observe(ctx, "uuid", ctx.uuid4())
        out(ctx, v, "one", a)
        b = await ctx.durable_execute_async(world.call, f"b{v}")
        world.observe(ctx, "b", (b, ctx.now(), ctx.random().random()))
        out(ctx, v, "two", b)

    return Agent().add_action("act", [InputEvent], act)


def batch(world: World) -> Agent:
    """Gather, with a reconciler for a payment, then a call that depends on the results."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        outcomes = await ctx.gather(
            ctx.durable_execute_async(world.call, f"x{v}"),
            ctx.durable_execute_async(
                world.call, f"pay{v}", reconciler=lambda: (f"pay{v}", "reconciled")
            ),
            ctx.durable_execute_async(world.call, f"y{v}", 0.3),
        )
        seen = [o.value if o.is_success() else repr(o.error) for o in outcomes]
        world.observe(ctx, "batch", seen)
        c = await ctx.durable_execute_async(world.call, f"c{v}{seen[0][1]}")
        world.observe(ctx, "c", c)
        out(ctx, v, "one", seen, c)

    return Agent().add_action("act", [InputEvent], act)


def batch_timeout(world: World) -> Agent:
    """A batch that may time out."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        outcomes = await ctx.gather(
            *(ctx.durable_execute_async(world.call, f"t{i}{v}") for i in range(3)), timeout=2
        )
        seen = [o.value if o.is_success() else "late" for o in outcomes]
        world.observe(ctx, "batch", seen)
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        out(ctx, v, "one", seen, a)

    return Agent().add_action("act", [InputEvent], act)


def race(world: World) -> Agent:
    """First come, first served; what is left is cancelled."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        tasks = [asyncio.ensure_future(ctx.durable_execute_async(world.call, f"r{i}{v}")) for i in range(2)]
        sleep = asyncio.ensure_future(asyncio.sleep(1, "slept"))
        done, rest = await asyncio.wait([*tasks, sleep], return_when=asyncio.FIRST_COMPLETED)
        seen = sorted(repr(task.result()) for task in done)
        world.observe(ctx, "first", seen)
        for task in rest:
            task.cancel()
        b = await ctx.durable_execute_async(world.call, f"b{v}")
        world.observe(ctx, "b", (b, ctx.now()))
        out(ctx, v, "one", seen, b)

    return Agent().add_action("act", [InputEvent], act)


def wait_for(world: World) -> Agent:
    """`wait_for` and `as_completed`, with sleeps."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        try:
            a: Any = await asyncio.wait_for(ctx.durable_execute_async(world.call, f"a{v}"), 1)
        except asyncio.TimeoutError:
            a = "timeout"
        world.observe(ctx, "a", a)
        order = []
        for next_ in asyncio.as_completed([ctx.durable_execute_async(world.call, f"c{i}{v}") for i in range(3)]):
            order.append(await next_)
        world.observe(ctx, "order", order)
        await asyncio.sleep(3)
        world.observe(ctx, "time", ctx.now())
        out(ctx, v, "one", a, order)

    return Agent().add_action("act", [InputEvent], act)


def group(world: World) -> Agent:
    """Tasks in a group, with a queue between them."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        queue: asyncio.Queue[Any] = asyncio.Queue()

        async def produce(i: int) -> None:
            await queue.put(await ctx.durable_execute_async(world.call, f"p{i}{v}"))

        async def consume() -> list[Any]:
            return [await queue.get() for _ in range(3)]

        if sys.version_info >= (3, 11):
            async with asyncio.TaskGroup() as tasks:
                consumer = tasks.create_task(consume())
                for i in range(3):
                    tasks.create_task(produce(i))
            got = consumer.result()
        else:
            got, *_ = await asyncio.gather(consume(), *(produce(i) for i in range(3)))
        world.observe(ctx, "got", got)
        out(ctx, v, "one", got)

    return Agent().add_action("act", [InputEvent], act)


class Step(Event):
    EVENT_TYPE = "step"


def events(world: World) -> Agent:
    """Actions that trigger each other and meet in memory."""

    async def first(event: Any, ctx: Any) -> None:
        v = event.input
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        ctx.send_event(Step(attributes={"v": v, "a": a, "n": 1}))
        ctx.send_event(Step(attributes={"v": v, "a": a, "n": 2}))
        m = ctx.short_term_memory.get("m")
        world.observe(ctx, "first-m", m)
        b = await ctx.durable_execute_async(world.call, f"b{v}{m and m[0]}")
        world.observe(ctx, "first-b", b)
        ctx.short_term_memory.set("m", b)
        out(ctx, v, "first", b)

    async def second(event: Any, ctx: Any) -> None:
        v, n = event.get_attr("v"), event.get_attr("n")
        m = ctx.short_term_memory.get("m")
        world.observe(ctx, f"second-m{n}", m)
        c = await ctx.durable_execute_async(world.call, f"c{n}{v}{m and m[0]}")
        m = ctx.short_term_memory.get("m")
        world.observe(ctx, f"second-m2{n}", (c, m))
        ctx.short_term_memory.set("m", c)
        ctx.short_term_memory.set(f"by.{n}", c)
        out(ctx, v, f"second{n}", c)

    return Agent().add_action("first", [InputEvent], first).add_action("second", [Step], second)


def two_actions(world: World) -> Agent:
    """Two actions of one input that read each other's memory at different moments."""

    async def x(event: Any, ctx: Any) -> None:
        v = event.input
        outcomes = await ctx.gather(
            ctx.durable_execute_async(world.call, f"x0{v}"),
            ctx.durable_execute_async(world.call, f"pay{v}", reconciler=lambda: (f"pay{v}", "reconciled")),
        )
        world.observe(ctx, "gather", [o.value for o in outcomes])
        out(ctx, v, "x1")
        m = ctx.short_term_memory.get("m")
        world.observe(ctx, "m", m)
        b = await ctx.durable_execute_async(world.call, f"x2{v}{m}")
        world.observe(ctx, "x2", b)
        out(ctx, v, "x2", b, m)

    async def y(event: Any, ctx: Any) -> None:
        v = event.input
        try:
            got: Any = await asyncio.wait_for(ctx.durable_execute_async(world.call, f"y{v}", 0.3), 2)
        except asyncio.TimeoutError:
            got = "slept"
        ctx.short_term_memory.set("m", got)
        world.observe(ctx, "y", got)
        out(ctx, v, "y", got)

    return Agent().add_action("x", [InputEvent], x).add_action("y", [InputEvent], y)


def synchronous(world: World) -> Agent:
    """Synchronous calls, also while others are in flight."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        a = ctx.durable_execute(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        task = asyncio.ensure_future(ctx.durable_execute_async(world.call, f"t{v}"))
        await asyncio.sleep(0)
        b = ctx.durable_execute(world.call, f"pay{v}", reconciler=lambda: (f"pay{v}", "reconciled"))
        world.observe(ctx, "b", b)
        c = await ctx.durable_execute_async(world.call, f"c{v}")
        d = ctx.durable_execute(world.call, f"d{v}{c[1]}")
        world.observe(ctx, "d", (c, d, ctx.now()))
        out(ctx, v, "one", a, b, c, d, await task)

    def plain(event: Any, ctx: Any) -> None:
        out(ctx, event.input, "plain", ctx.durable_execute(world.call, f"e{event.input}"))

    return Agent().add_action("act", [InputEvent], act).add_action("plain", [InputEvent], plain)


def generator(world: World) -> Agent:
    """A generator action."""

    def act(event: Any, ctx: Any) -> Any:
        v = event.input
        a = yield ctx.durable_execute_async(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        try:
            b = yield ctx.durable_execute_async(world.call, f"b{v}", 0.5)
        except ConnectionError as error:
            b = str(error)
        world.observe(ctx, "b", b)
        out(ctx, v, "one", a, b)

    return Agent().add_action("act", [InputEvent], act)


def failing(world: World) -> Agent:
    """A failure that nothing catches: the task fails, the call is tried again (P14)."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        b = await ctx.durable_execute_async(world.call, f"b{v}", 0.4)
        c = await ctx.durable_execute_async(world.call, f"c{v}")
        out(ctx, v, "one", a, b, c)

    return Agent().add_action("act", [InputEvent], act)


# What these read from memory depends on the runs before: inputs of a key have to come back in order.
IN_ORDER = {"events", "two_actions"}

AGENTS: dict[str, tuple[Callable[[World], Agent], int]] = {
    # factory, and the outputs of one input
    "sequence": (sequence, 2),
    "batch": (batch, 1),
    "batch_timeout": (batch_timeout, 1),
    "race": (race, 1),
    "wait_for": (wait_for, 1),
    "group": (group, 1),
    "events": (events, 3),
    "two_actions": (two_actions, 3),
    "synchronous": (synchronous, 2),
    "generator": (generator, 1),
    "failing": (failing, 1),
}
