"""Agents for the simulator whose actions are "written in Java": their commands are played by scripts."""

from __future__ import annotations

from functools import partial
from typing import Any

from flink_agents_durable import Agent, Event, InputEvent, JavaFunction
from flink_agents_durable.testing.simulation import Result, World
from flink_agents_durable.testing.simulation.scripted_java import ScriptedCall, ScriptFailure


def call(world: World, label: str, fail: float = 0.0, *, paid: bool = False) -> ScriptedCall:
    """A call, or one that must not be made twice."""
    return ScriptedCall(label, partial(world.call, label, fail), partial(Result, label, 0) if paid else None)


def result(value: Any) -> Any:
    """What a call gave, as the invariants know it."""
    return "failed" if isinstance(value, ScriptFailure) else Result(*value)


def agent(world: World, **scripts: Any) -> Agent:
    world.scripts = {name: partial(script, world) for name, script in scripts.items()}
    made = Agent()
    for name in scripts:
        trigger = InputEvent if not name.startswith("on_") else name
        made.add_action(name, [trigger], JavaFunction("scripts", name))
    return made


def java_sequence(world: World) -> Agent:
    """Calls one after the other, memory, and the time in between."""

    def act(world: World, ctx: Any, v: str) -> Any:
        a = result((yield from ctx.call(call(world, f"a{v}"))))
        world.observe(ctx, "a", a)
        world.observe(ctx, "now", (yield from ctx.ask("now")))
        yield from ctx.ask("memory", "sensory", "set", "", "x", str(a))
        world.emit(ctx, "one", v, str(a))
        yield from ctx.sleep(2)
        b = result((yield from ctx.call(call(world, f"b{v}", paid=True))))
        world.observe(ctx, "b", (b, (yield from ctx.ask("now"))))
        world.observe(ctx, "x", (yield from ctx.ask("memory", "sensory", "get", "", "x")))
        world.emit(ctx, "two", v, str(b))

    return agent(world, act=act)


def java_batch(world: World) -> Agent:
    """A batch that may time out, with a payment in it, and a call that depends on it."""

    def act(world: World, ctx: Any, v: str) -> Any:
        calls = [call(world, f"x{v}"), call(world, f"pay{v}", paid=True), call(world, f"y{v}", 0.3)]
        seen = [result(value) for value in (yield from ctx.gather(calls, timeout=2))]
        own = all(r == "failed" or r.label == c.label for r, c in zip(seen, calls, strict=True))
        world.check(ctx, own, f"a batch is given outcomes in another order: {seen}")
        world.observe(ctx, "batch", seen)
        rest = yield from ctx.gather([call(world, f"z{i}{v}", paid=i == 1) for i in range(2)])
        world.observe(ctx, "rest", [result(value) for value in rest])
        c = result((yield from ctx.call(call(world, f"c{v}"))))
        world.observe(ctx, "c", c)
        world.emit(ctx, "one", v, str(seen), str(c))

    return agent(world, act=act)


def java_synchronous(world: World) -> Agent:
    """Calls that the whole task waits for, between others; and a second action beside it."""

    def act(world: World, ctx: Any, v: str) -> Any:
        a = result((yield from ctx.execute(call(world, f"a{v}"))))
        world.observe(ctx, "a", a)
        b = result((yield from ctx.call(call(world, f"b{v}"))))
        c = result((yield from ctx.execute(call(world, f"pay{v}", paid=True))))
        world.observe(ctx, "c", (b, c, (yield from ctx.ask("now"))))
        world.emit(ctx, "one", v, str(a), str(b), str(c))

    def plain(world: World, ctx: Any, v: str) -> Any:
        e = result((yield from ctx.execute(call(world, f"e{v}"))))
        world.emit(ctx, "plain", v, str(e))

    return agent(world, act=act, plain=plain)


def java_failing(world: World) -> Agent:
    """A failure that nothing catches, bare or as a cause (P14)."""

    def act(world: World, ctx: Any, v: str) -> Any:
        a = result((yield from ctx.call(call(world, f"a{v}"))))
        world.observe(ctx, "a", a)
        b = result((yield from ctx.call(call(world, f"b{v}", 0.4))))
        try:
            c = result((yield from ctx.call(call(world, f"c{v}", 0.2))))
        except ScriptFailure as failure:
            raise RuntimeError("wrapped") from failure
        world.emit(ctx, "one", v, str(a), str(b), str(c))

    return agent(world, act=act)


def java_events(world: World) -> Agent:
    """An action in Java triggers one in Python and one in Java; outputs of all come once."""

    def act(world: World, ctx: Any, v: str) -> Any:
        a = result((yield from ctx.call(call(world, f"a{v}"))))
        world.observe(ctx, "a", a)
        ctx.send_event(Event("on_more", {"v": v, "a": str(a)}))
        b = result((yield from ctx.call(call(world, f"b{v}"))))
        world.emit(ctx, "one", v, str(b))

    def on_more(world: World, ctx: Any, attributes: Any) -> Any:
        v = attributes["v"]
        c = result((yield from ctx.call(call(world, f"c{v}"))))
        world.observe(ctx, "c", c)
        world.emit(ctx, "two", v, attributes["a"], str(c))

    async def listen(event: Any, ctx: Any) -> None:
        v = event.get_attr("v")
        d = await ctx.durable_execute_async(world.call, f"d{v}")
        world.observe(ctx, "d", d)
        world.emit(ctx, "three", v, event.get_attr("a"), d)

    return agent(world, act=act, on_more=on_more).add_action("listen", "on_more", listen)


def java_pinned(world: World) -> Agent:
    """Every wait is in a frame that pins in this attempt and perhaps not in the next; others write to memory."""

    def turn(world: World, ctx: Any) -> None:
        ctx.pinned = world.random.random() < 0.5

    def observe(world: World, ctx: Any, place: str, value: Any) -> Any:
        written = yield from ctx.ask("memory", "sensory", "get", "", "x")
        world.observe(ctx, place, (value, written, (yield from ctx.ask("now"))))

    def act(world: World, ctx: Any, v: str) -> Any:
        turn(world, ctx)
        ctx.send_event(Event("on_more", {"v": v}))
        a = result((yield from ctx.call(call(world, f"a{v}", 0.2, paid=True))))
        yield from observe(world, ctx, "a", a)
        turn(world, ctx)
        calls = [call(world, f"x{v}"), call(world, f"pay{v}", paid=True), call(world, f"y{v}", 0.3)]
        batch = [result(value) for value in (yield from ctx.gather(calls, timeout=2))]
        yield from observe(world, ctx, "batch", batch)
        turn(world, ctx)
        yield from ctx.sleep(2)
        yield from observe(world, ctx, "slept", None)
        turn(world, ctx)
        rest = yield from ctx.gather([call(world, f"z{i}{v}") for i in range(2)])
        yield from observe(world, ctx, "rest", [result(value) for value in rest])
        turn(world, ctx)
        try:
            b = result((yield from ctx.call(call(world, f"b{v}", 0.3))))
        except ScriptFailure:
            b = "failed"
        yield from observe(world, ctx, "b", b)
        world.emit(ctx, "one", v, str(a), str(batch), str(b))

    def on_more(world: World, ctx: Any, attributes: Any) -> Any:
        v = attributes["v"]
        c = result((yield from ctx.call(call(world, f"c{v}"))))
        yield from ctx.ask("memory", "sensory", "set", "", "x", str(c))
        world.emit(ctx, "two", v, str(c))

    async def listen(event: Any, ctx: Any) -> None:
        v = event.get_attr("v")
        d = await ctx.durable_execute_async(world.call, f"d{v}")
        world.observe(ctx, "d", (d, ctx.sensory_memory.get("x"), ctx.now()))
        ctx.sensory_memory.set("x", d)
        world.emit(ctx, "three", v, d)

    world.pins = True
    return agent(world, act=act, on_more=on_more).add_action("listen", "on_more", listen)
