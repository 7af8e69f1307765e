"""Agents for the simulator: each uses another part of what actions may do.

Values of inputs are texts; every output begins with the input and a tag, so that lost and doubled ones show.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flink_agents_durable import Agent, Event, InputEvent
from flink_agents_durable.api.errors import CallTimeoutError, RecordTooLargeError
from flink_agents_durable.testing.simulation import Result, World
from tests.simulation.java_agents import (
    java_batch,
    java_events,
    java_failing,
    java_pinned,
    java_sequence,
    java_synchronous,
)
from tests.simulation.programs import generated
from tests.simulation.retry_agents import retrying, retrying_batch, retrying_uncaught, retrying_versions


def pay(world: World, ctx: Any, label: str) -> Any:
    """A call that must not be made twice."""
    return ctx.durable_execute_async(world.call, label, reconciler=lambda: Result(label, 0))


def sequence(world: World) -> Agent:
    """Calls one after the other, with the time in between."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        world.observe(ctx, "now", ctx.now())
        world.observe(ctx, "uuid", ctx.uuid4())
        world.emit(ctx, "one", v, a)
        b = await ctx.durable_execute_async(world.call, f"b{v}")
        world.observe(ctx, "b", (b, ctx.now(), ctx.random().random()))
        world.emit(ctx, "two", v, b)

    return Agent().add_action("act", [InputEvent], act)


def batch(world: World) -> Agent:
    """Gather, with a reconciler for a payment, then a call that depends on the results."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        outcomes = await ctx.gather(
            ctx.durable_execute_async(world.call, f"x{v}"),
            pay(world, ctx, f"pay{v}"),
            ctx.durable_execute_async(world.call, f"y{v}", 0.3),
        )
        seen = [o.value if o.is_success() else repr(o.error) for o in outcomes]
        world.observe(ctx, "batch", seen)
        c = await ctx.durable_execute_async(world.call, f"c{v}{seen[0][1]}")
        world.observe(ctx, "c", c)
        world.emit(ctx, "one", v, seen, c)

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
        world.emit(ctx, "one", v, seen, a)

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
        world.emit(ctx, "one", v, seen, b)

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
        for next_ in asyncio.as_completed(
            [ctx.durable_execute_async(world.call, f"c{i}{v}") for i in range(3)]
        ):
            order.append(await next_)
        world.observe(ctx, "order", order)
        await asyncio.sleep(3)
        world.observe(ctx, "time", ctx.now())
        world.emit(ctx, "one", v, a, order)

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
        world.emit(ctx, "one", v, got)

    return Agent().add_action("act", [InputEvent], act)


class Step(Event):
    EVENT_TYPE = "step"


def events(world: World) -> Agent:
    """Actions that trigger each other and meet in memory."""

    async def first(event: Any, ctx: Any) -> None:
        v = event.input
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        world.remember(ctx, "early", a)
        ctx.send_event(Step(attributes={"v": v, "a": a, "n": 1}))
        ctx.send_event(Step(attributes={"v": v, "a": a, "n": 2}))
        m = world.recall(ctx, "m")
        world.observe(ctx, "first-m", m)
        b = await ctx.durable_execute_async(world.call, f"b{v}{m and m[0]}")
        world.observe(ctx, "first-b", b)
        world.remember(ctx, "m", b)
        world.emit(ctx, "first", v, b)
        world.completes(ctx)

    async def second(event: Any, ctx: Any) -> None:
        v, n = event.get_attr("v"), event.get_attr("n")
        m = world.recall(ctx, "m")
        world.observe(ctx, f"second-m{n}", m)
        c = await ctx.durable_execute_async(world.call, f"c{n}{v}{m and m[0]}")
        m = world.recall(ctx, "m")
        world.observe(ctx, f"second-m2{n}", (c, m, world.recall(ctx, "early")))
        world.remember(ctx, "m", c)
        world.remember(ctx, f"by.{n}", c)
        world.emit(ctx, f"second{n}", v, c)
        world.completes(ctx)

    return Agent().add_action("first", [InputEvent], first).add_action("second", [Step], second)


def two_actions(world: World) -> Agent:
    """Two actions of one input that read each other's memory at different moments."""

    async def x(event: Any, ctx: Any) -> None:
        v = event.input
        outcomes = await ctx.gather(
            ctx.durable_execute_async(world.call, f"x0{v}"),
            pay(world, ctx, f"pay{v}"),
        )
        world.observe(ctx, "gather", [o.value for o in outcomes])
        world.emit(ctx, "x1", v)
        m = world.recall(ctx, "m")
        world.observe(ctx, "m", m)
        b = await ctx.durable_execute_async(world.call, f"x2{v}{m}")
        world.observe(ctx, "x2", b)
        world.emit(ctx, "x2", v, b, m)
        world.completes(ctx)

    async def y(event: Any, ctx: Any) -> None:
        v = event.input
        try:
            got: Any = await asyncio.wait_for(ctx.durable_execute_async(world.call, f"y{v}", 0.3), 2)
        except asyncio.TimeoutError:
            got = "slept"
        world.remember(ctx, "m", got)
        world.observe(ctx, "y", got)
        world.emit(ctx, "y", v, got)
        world.completes(ctx)

    return Agent().add_action("x", [InputEvent], x).add_action("y", [InputEvent], y)


def twins(world: World) -> Agent:
    """Two equal events are two executions (D4), each with a child of its own."""

    async def parent(event: Any, ctx: Any) -> None:
        v = event.input
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        for _ in range(2):
            ctx.send_event(Step(attributes={"v": v, "a": a}))
        b = await ctx.durable_execute_async(world.call, f"b{v}")
        world.emit(ctx, "parent", v, a, b)

    async def child(event: Any, ctx: Any) -> None:
        v, me = event.get_attr("v"), str(event.id)
        c = await ctx.durable_execute_async(world.call, f"c{v}{me}")
        d = await ctx.durable_execute_async(world.call, f"d{v}{me}")
        world.observe(ctx, f"child {me}", (c, d, event.get_attr("a")))
        world.emit(ctx, f"child {me}", v, c, d)

    return Agent().add_action("parent", [InputEvent], parent).add_action("child", [Step], child)


def synchronous(world: World) -> Agent:
    """Synchronous calls, also while others are in flight."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        a = ctx.durable_execute(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        task = asyncio.ensure_future(ctx.durable_execute_async(world.call, f"t{v}"))
        await asyncio.sleep(0)
        b = ctx.durable_execute(world.call, f"pay{v}", reconciler=lambda: Result(f"pay{v}", 0))
        world.observe(ctx, "b", b)
        c = await ctx.durable_execute_async(world.call, f"c{v}")
        d = ctx.durable_execute(world.call, f"d{v}{c[1]}")
        world.observe(ctx, "d", (c, d, ctx.now()))
        world.emit(ctx, "one", v, a, b, c, d, await task)

    def plain(event: Any, ctx: Any) -> None:
        world.emit(ctx, "plain", event.input, ctx.durable_execute(world.call, f"e{event.input}"))

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
        world.emit(ctx, "one", v, a, b)

    return Agent().add_action("act", [InputEvent], act)


def failing(world: World) -> Agent:
    """A failure that nothing catches: the task fails, the call is tried again (P14)."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        b = await ctx.durable_execute_async(world.call, f"b{v}", 0.4)
        c = await ctx.durable_execute_async(world.call, f"c{v}")
        world.emit(ctx, "one", v, a, b, c)

    return Agent().add_action("act", [InputEvent], act)


def late_timeout(world: World) -> Agent:
    """A time-out that the action raises when something else has come in between (P14)."""

    async def act(event: Any, ctx: Any) -> None:
        v, late = event.input, None
        try:
            await asyncio.wait_for(ctx.durable_execute_async(world.call, f"a{v}"), 1)
        except asyncio.TimeoutError as error:
            late = error
        world.observe(ctx, "late", late is not None)
        b = await ctx.durable_execute_async(world.call, f"b{v}")
        if late is not None:
            raise late
        world.emit(ctx, "one", v, b)

    return Agent().add_action("act", [InputEvent], act)


def versions(world: World) -> Agent:
    """The code changes between attempts: another call in the middle, and one after it that looks the same (P13)."""

    async def act(event: Any, ctx: Any) -> None:
        v, version = event.input, world.version
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        label = f"b{v}.{version}"
        b = await ctx.durable_execute_async(world.call, label)
        world.check(ctx, b.label == label, f"{label} got the result of another version: {b}")
        world.observe(ctx, f"b{version}", b)
        world.depends(ctx, f"b{v}", b.nonce)
        c = await ctx.durable_execute_async(world.call_after, f"c{v}", f"b{v}")
        world.observe(ctx, f"c{version}", c)
        world.check(ctx, c.parent == b.nonce, f"the call after {b} has a result of another time: {c}")
        world.emit(ctx, "one", v, version, b, c)

    async def other(event: Any, ctx: Any) -> None:
        v = event.input
        for i in range(3):
            world.observe(ctx, f"o{i}", await ctx.durable_execute_async(world.call, f"o{i}{v}"))
        world.emit(ctx, "other", v)

    return Agent().add_action("act", [InputEvent], act).add_action("other", [InputEvent], other)


def swallowing(world: World) -> Agent:
    """User code that catches whatever a synchronous call raises, and goes on."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        try:
            b: Any = ctx.durable_execute(world.call, f"b{v}", 0.2)
        except Exception as error:
            b = str(error)
        world.observe(ctx, "b", b)
        try:
            c: Any = await ctx.durable_execute_async(world.call, f"c{v}")
        except Exception as error:
            c = str(error)
        world.observe(ctx, "c", c)
        world.emit(ctx, "one", v, a, b, c)

    return Agent().add_action("act", [InputEvent], act)


def big_results(world: World) -> Agent:
    """Results that the store may refuse: a failure of the call, and it stays one (P20)."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        try:
            a: Any = await ctx.durable_execute_async(world.big, f"a{v}")
        except RecordTooLargeError:
            a = "too large"
        world.observe(ctx, "a", a)
        b = await ctx.durable_execute_async(world.call, f"b{v}{a}")
        world.observe(ctx, "b", b)
        world.emit(ctx, "one", v, a, b)

    return Agent().add_action("act", [InputEvent], act)


def sleeping(world: World) -> Agent:
    """Several timers at a time, the shorter one set later."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        order: list[str] = []

        async def nap(seconds: int) -> None:
            await asyncio.sleep(seconds)
            order.append(f"{seconds}")

        await asyncio.gather(nap(3), nap(1), nap(2))
        world.observe(ctx, "order", order)
        world.observe(ctx, "time", ctx.now())
        world.emit(ctx, "one", v, a, order)

    return Agent().add_action("act", [InputEvent], act)


def joined(world: World) -> Agent:
    """Children of a batch that are awaited by themselves as well, and a batch that is given up."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        x = ctx.durable_execute_async(world.call, f"x{v}")
        y = ctx.durable_execute_async(world.call, f"y{v}", 0.2)
        batch = asyncio.ensure_future(ctx.gather(x, y, timeout=2))
        await asyncio.sleep(0)
        got: list[Any] = []

        async def alone() -> None:
            try:
                got.append(await x)
            except CallTimeoutError:
                got.append("late")

        task = asyncio.ensure_future(alone())
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        if a.nonce % 2:
            batch.cancel()
        await task
        try:
            outcomes = [repr(o) for o in await batch]
        except asyncio.CancelledError:
            outcomes = []
        world.observe(ctx, "got", (got, outcomes, a))
        world.emit(ctx, "one", v, got, outcomes)

    return Agent().add_action("act", [InputEvent], act)


def giving_up(world: World) -> Agent:
    """A failure is final: a dead letter instead of the output, and the other action goes on (P14)."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        world.observe(ctx, "a", a)
        try:
            b = await ctx.durable_execute_async(world.call, f"b{v}", 0.5)
        except ConnectionError as error:
            world.give_up(ctx, "act", v, error)
            raise
        world.emit(ctx, "one", v, a, b)

    async def other(event: Any, ctx: Any) -> None:
        v = event.input
        c = await ctx.durable_execute_async(world.call, f"c{v}")
        d = await ctx.durable_execute_async(world.call, f"d{v}")
        world.emit(ctx, "other", v, c, d)

    agent = Agent().add_action("act", [InputEvent], act, on_failure="dead-letter")
    return agent.add_action("other", [InputEvent], other)


def forgetful(world: World) -> Agent:
    """Memory that expires while runs wait, fail and come back (P25)."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        if v.endswith("0"):  # without a call
            world.remember(ctx, "m", v)
            world.emit(ctx, "one", v)
            world.completes(ctx)
            return
        seen = world.recall(ctx, "m")  # it holds once something is recorded behind it
        a = await ctx.durable_execute_async(world.call, f"a{v}")
        again = world.recall(ctx, "m")
        world.check(ctx, again == seen, f"memory expired in the middle of a run: {seen} became {again}")
        world.observe(ctx, "a", (a, seen, ctx.run_id))
        world.remember(ctx, "m", v)
        world.emit(ctx, "one", v, seen, a)
        world.completes(ctx)

    return Agent().add_action("act", [InputEvent], act)


@dataclass(frozen=True)
class Simulated:
    """An agent for the simulator, and under which circumstances it makes sense."""

    make: Callable[[World], Agent]
    outputs: int
    """Of one input; -1: it depends."""
    ordered: bool = False
    """What it reads from memory depends on the runs before: inputs of a key have to come back in order."""
    versions: bool = False
    """It takes notice of `World.version`."""
    max_record_bytes: int | None = None
    durable: bool = False
    """It needs a store: without one, a failure that was recorded before a checkpoint and raised after it comes back."""
    memory_ttl: int | None = None
    """Of its memory, in units of the world's time."""
    lost_head: float = 0.0
    """How often the log loses its head too early."""
    fork: float = 0.0
    """How often it goes on in another log."""


AGENTS: dict[str, Simulated] = {
    "sequence": Simulated(sequence, 2),
    "batch": Simulated(batch, 1),
    "batch_timeout": Simulated(batch_timeout, 1),
    "race": Simulated(race, 1),
    "wait_for": Simulated(wait_for, 1),
    "group": Simulated(group, 1),
    "events": Simulated(events, 3, ordered=True),
    "two_actions": Simulated(two_actions, 3, ordered=True),
    "twins": Simulated(twins, 3),
    "synchronous": Simulated(synchronous, 2),
    "generator": Simulated(generator, 1),
    "failing": Simulated(failing, 1),
    "late_timeout": Simulated(late_timeout, 1, durable=True),
    "forgetful": Simulated(forgetful, 1, ordered=True, memory_ttl=2),
    "giving_up": Simulated(giving_up, 2),
    "versions": Simulated(versions, 2, versions=True),
    "lossy": Simulated(versions, 2, versions=True, lost_head=0.5),
    "forked": Simulated(sequence, 2, fork=0.4),
    "swallowing": Simulated(swallowing, 1),
    "big_results": Simulated(big_results, 1, max_record_bytes=4_000),
    "sleeping": Simulated(sleeping, 1),
    "joined": Simulated(joined, 1),
    "retrying": Simulated(retrying, 2),
    "retrying_batch": Simulated(retrying_batch, 1),
    "retrying_uncaught": Simulated(retrying_uncaught, 1),
    "retrying_versions": Simulated(retrying_versions, 2, versions=True),
    "java_sequence": Simulated(java_sequence, 2),
    "java_batch": Simulated(java_batch, 1),
    "java_synchronous": Simulated(java_synchronous, 2),
    "java_failing": Simulated(java_failing, 1),
    "java_events": Simulated(java_events, 3),
    "java_pinned": Simulated(java_pinned, 3),
    "generated": Simulated(generated, -1, ordered=True, durable=True),
}
