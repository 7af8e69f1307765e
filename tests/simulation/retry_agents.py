"""Agents for the simulator whose calls are tried again (P19)."""

from __future__ import annotations

import asyncio
from typing import Any

from flink_agents_durable import Agent, CallOptions, InputEvent, RetryPolicy
from flink_agents_durable.testing.simulation import Result, World

POLICY = RetryPolicy(max_attempts=3, initial_interval=0.002, backoff_factor=2, max_interval=1)
"""Waits of one to four milliseconds: as long as other calls take here."""

RETRIED = CallOptions(retry=POLICY)
HURRIED = CallOptions(retry=POLICY, total_timeout=0.004)


def _ask(world: World, ctx: Any, label: str, fail: float, options: CallOptions, doubt: bool = False) -> Any:
    reconciler = (lambda: Result(label, 0)) if doubt else None
    return ctx.durable_execute_async(world.call, label, fail, options=options, reconciler=reconciler)


def retrying(world: World) -> Agent:
    """One after the other: awaited, with a reconciler, synchronous, both; failures of last attempts are caught."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        seen: list[Any] = []
        for place in range(4):
            label, doubt = f"r{place}{v}", place % 2 == 1
            try:
                if place < 2:
                    seen.append(await _ask(world, ctx, label, 0.6, RETRIED, doubt))
                else:
                    reconciler = (lambda label=label: Result(label, 0)) if doubt else None
                    call = ctx.durable_execute
                    seen.append(call(world.call, label, 0.6, options=RETRIED, reconciler=reconciler))
            except ConnectionError as error:
                seen.append(str(error))
            world.observe(ctx, label, (seen[-1], ctx.now()))
        world.emit(ctx, "one", v, seen)

    async def other(event: Any, ctx: Any) -> None:
        v = event.input
        for i in range(2):
            world.observe(ctx, f"o{i}", await ctx.durable_execute_async(world.call, f"o{i}{v}"))
        world.emit(ctx, "other", v)

    return Agent().add_action("act", [InputEvent], act).add_action("other", [InputEvent], other)


def retrying_batch(world: World) -> Agent:
    """In a batch with a time limit, with `total_timeout`, and cancelled in the middle of a wait."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        outcomes = await ctx.gather(
            _ask(world, ctx, f"x{v}", 0.6, RETRIED),
            _ask(world, ctx, f"pay{v}", 0.6, RETRIED, doubt=True),
            _ask(world, ctx, f"y{v}", 0.6, HURRIED, doubt=True),
            _ask(world, ctx, f"z{v}", 0.0, RETRIED),
            timeout=0.006,
        )
        seen = [o.value if o.is_success() else type(o.error).__name__ for o in outcomes]
        world.observe(ctx, "batch", (seen, ctx.now()))
        try:
            a: Any = await asyncio.wait_for(_ask(world, ctx, f"a{v}", 0.6, RETRIED), 0.003)
        except (asyncio.TimeoutError, ConnectionError) as error:
            a = type(error).__name__
        world.observe(ctx, "a", (a, ctx.now()))
        try:
            b: Any = await _ask(world, ctx, f"b{v}", 0.6, HURRIED)
        except (asyncio.TimeoutError, ConnectionError) as error:
            b = type(error).__name__
        world.observe(ctx, "b", (b, ctx.now()))
        world.emit(ctx, "one", v, seen, a, b)

    return Agent().add_action("act", [InputEvent], act)


def retrying_uncaught(world: World) -> Agent:
    """The failure of a last attempt fails the task; the call then starts with a fresh count (P14)."""

    async def act(event: Any, ctx: Any) -> None:
        v = event.input
        a = await _ask(world, ctx, f"a{v}", 0.6, RETRIED)
        world.observe(ctx, "a", a)
        outcomes = await ctx.gather(
            _ask(world, ctx, f"b{v}", 0.6, RETRIED, doubt=True), _ask(world, ctx, f"c{v}", 0.3, RETRIED)
        )
        b = [outcome.value for outcome in outcomes]
        d = await _ask(world, ctx, f"d{v}", 0.6, RETRIED, doubt=True)
        world.emit(ctx, "one", v, a, b, d)

    return Agent().add_action("act", [InputEvent], act)


def retrying_versions(world: World) -> Agent:
    """The code changes between attempts: another call has its own count (P13)."""

    async def act(event: Any, ctx: Any) -> None:
        v, version = event.input, world.version
        label = f"b{v}.{version}"
        b = await _ask(world, ctx, label, 0.4, RETRIED, doubt=True)
        world.check(ctx, b.label == label, f"{label} got the result of another version: {b}")
        c = await _ask(world, ctx, f"c{v}.{version}", 0.4, RETRIED)
        world.emit(ctx, "one", v, version, b, c)

    async def other(event: Any, ctx: Any) -> None:
        v = event.input
        for i in range(3):
            world.observe(ctx, f"o{i}", await ctx.durable_execute_async(world.call, f"o{i}{v}"))
        world.emit(ctx, "other", v)

    return Agent().add_action("act", [InputEvent], act).add_action("other", [InputEvent], other)
