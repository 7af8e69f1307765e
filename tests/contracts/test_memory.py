"""Memory: what an execution reads and writes, over restarts, and beside other executions of its run (P16)."""

from __future__ import annotations

import asyncio
import datetime
import threading
from typing import Any

import pytest

from flink_agents_durable import (
    ActionFailedError,
    DurableSerializationError,
    Event,
    MemoryObject,
    RunnerContext,
)
from tests.contracts.functions import ask, check
from tests.contracts.kit import Attempts, Gate, agent_of, out, until, values


def counting(event: Any, ctx: RunnerContext) -> None:
    count = ctx.short_term_memory.get("count", 0) + 1
    ctx.short_term_memory.set("count", count)
    out(ctx, count)


def test_memory_stays_over_runs_and_restarts(attempts: Attempts) -> None:
    """Short-term memory belongs to the key."""
    first = attempts.start(agent_of(counting))
    for key in ("a", "b", "a"):
        first.process(key, 1)
    assert values(first) == [1, 1, 2]
    assert first.memory("a") == {"count": 2}
    second = attempts.start(agent_of(counting), checkpoint=first.checkpoint())
    assert second.memory("a") == {"count": 2}
    for key in ("a", "b", "c"):
        second.process(key, 1)
    assert values(second) == [3, 2, 1]


def test_memory_since_the_checkpoint_comes_back_with_the_input(attempts: Attempts) -> None:
    """Writes are not logged: the rolled back run is run again and writes them again."""
    first = attempts.start(agent_of(counting))
    first.process("a", 1)
    checkpoint = first.checkpoint()
    first.process("a", 2)
    assert first.memory("a") == {"count": 2}
    second = attempts.start(agent_of(counting), checkpoint=checkpoint)
    assert second.memory("a") == {"count": 1}
    second.process("a", 2)
    assert values(second) == [2]


def test_an_execution_reads_its_own_writes(attempts: Attempts) -> None:
    """Others see them when it has completed."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        memory = ctx.short_term_memory
        memory.set("a", 1)
        assert memory.get("a") == 1
        assert memory.is_exist("a")
        await ctx.durable_execute_async(ask, "wait")
        assert memory.get("a") == 1
        memory.remove("a")
        assert memory.get("a") is None
        assert not memory.is_exist("a")
        memory.set("b", 2)
        out(ctx, memory.get_field_names())

    gate = Gate()
    runner = attempts.start(agent_of(act), fakes={ask: gate})
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting("wait"))
    assert runner.memory("k") == {}
    gate.answer("wait")
    runner.run_until_idle()
    assert values(runner) == [["b"]]
    assert runner.memory("k") == {"b": 2}


def test_a_child_does_not_see_writes_of_its_unfinished_sender(attempts: Attempts) -> None:
    """Events are dispatched at once; the sender's writes come when it completes."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        ctx.short_term_memory.set("from sender", 1)
        ctx.send_event(Event("child"))
        await ctx.durable_execute_async(ask, "wait")

    def child(event: Any, ctx: RunnerContext) -> None:
        out(ctx, ctx.short_term_memory.get("from sender"))

    runner = attempts.start(agent_of(act, child=child))
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == [None]
    assert runner.memory("k") == {"from sender": 1}


def test_overlapping_executions_merge_by_path(attempts: Attempts) -> None:
    """The last to complete wins where both wrote, and both keep what only they wrote."""

    async def one(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, "one")
        ctx.short_term_memory.set("both", "one")
        ctx.short_term_memory.set("one", 1)

    async def two(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, "two")
        ctx.short_term_memory.set("both", "two")
        ctx.short_term_memory.set("two", 2)

    gate = Gate()
    runner = attempts.start(agent_of(one, two), fakes={ask: gate})
    runner.process("k", 1)
    until(runner, lambda: gate.is_waiting("one", "two"))
    gate.answer("two")
    until(runner, lambda: runner.memory("k"))
    gate.answer("one")
    runner.run_until_idle()
    assert runner.memory("k") == {"both": "one", "one": 1, "two": 2}


def test_p16_a_restarted_execution_reads_what_it_read(attempts: Attempts) -> None:
    """A sibling's later write is not there when the restarted execution reads again."""

    async def slow(event: Any, ctx: RunnerContext) -> None:
        before = ctx.short_term_memory.get("n", 0)
        first = await ctx.durable_execute_async(ask, f"slow {before}")
        middle = ctx.short_term_memory.get("n", 0)
        second = await ctx.durable_execute_async(check, f"slow {middle}")
        out(ctx, [before, first, middle, second, ctx.short_term_memory.get("n", 0)])

    async def sibling(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, "sibling")
        ctx.short_term_memory.set("n", 7)

    gate = Gate()
    agent = agent_of(slow, sibling)
    first = attempts.start(agent, fakes={ask: gate, check: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("slow 0", "sibling"))
    checkpoint_before = first.checkpoint()
    gate.answer("slow 0")
    until(first, lambda: gate.is_waiting("slow 0", "sibling"))
    gate.answer("sibling")
    until(first, lambda: first.memory("k"))
    checkpoint_after = first.checkpoint()
    for checkpoint in (checkpoint_before, checkpoint_after):
        runner = attempts.start(agent, checkpoint=checkpoint)
        runner.run_until_idle()
        assert values(runner) == [[0, "slow 0!", 0, "slow 0?", 7]]
        assert runner.stats.mismatches == 0
        assert [call.args for call in runner.calls] in ([("slow 0",)], [])


def test_sensory_memory_belongs_to_the_run(attempts: Attempts) -> None:
    """Gone when the run ends, kept in a checkpoint while it lasts, apart from short-term memory."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        assert ctx.sensory_memory.get("seen") is None
        ctx.sensory_memory.set("seen", event.input)
        ctx.short_term_memory.set("seen", "short term")
        ctx.send_event(Event("later"))

    async def later(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, "wait")
        out(ctx, [ctx.sensory_memory.get("seen"), ctx.short_term_memory.get("seen")])
        out(ctx, [ctx.sensory_memory.get_field_names(), ctx.short_term_memory.get_field_names()])

    gate = Gate()
    agent = agent_of(act, later=later)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("wait"))
    second = attempts.start(agent, checkpoint=first.checkpoint())
    second.run_until_idle()
    second.process("k", 2)
    second.run_until_idle()
    assert values(second) == [
        [1, "short term"],
        [["seen"], ["seen"]],
        [2, "short term"],
        [["seen"], ["seen"]],
    ]
    assert second.memory("k") == {"seen": "short term"}


def test_objects_and_paths(attempts: Attempts) -> None:
    """Dotted paths, nested objects, and what cannot be: a value in the place of an object."""

    def act(event: Any, ctx: RunnerContext) -> None:
        memory = ctx.short_term_memory
        user = memory.new_object("user")
        user.set("name", "a")
        user.set("address.city", "b")
        assert isinstance(memory.get("user"), MemoryObject)
        assert memory.get("user.address.city") == "b"
        assert memory.get("user").get("name") == "a"
        assert user.get_fields() == {"name": "a", "address": "NestedObject"}
        assert memory.get_field_names() == ["user"]
        assert memory.get_field_names("user") == ["address", "name"]
        with pytest.raises(ValueError, match="object"):
            memory.set("user", 1)
        memory.set("n", 1)
        with pytest.raises(ValueError, match="value"):
            memory.set("n.m", 1)
        with pytest.raises(ValueError, match="overwrite"):
            memory.new_object("n")
        memory.new_object("n", overwrite=True).set("m", 2)
        assert memory.get("n.m") == 2
        memory.remove("user")
        assert not memory.is_exist("user.address.city")
        assert memory.get("user", "gone") == "gone"
        memory.remove("not there")
        for bad in ("", 3, None, "a\x00b"):
            with pytest.raises(ValueError, match="path"):
                memory.get(bad)  # type: ignore[arg-type]
        out(ctx, memory.get_field_names())

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    assert values(runner) == [["n"]]
    assert runner.memory("k") == {"n.m": 2}


VALUES = [
    2**200,
    {1, 2, 3},
    {"nested": [(1, 2), {"x": None}]},
    datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc),
    b"\x00\xff",
    "\ud800",
    float("inf"),
    None,
    False,
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_of_every_kind_arrive_unchanged(attempts: Attempts, value: Any) -> None:
    """Case 36: as input, memory value, call result and output, on the first run and after a restore."""

    async def echo(what: Any) -> Any:
        return what

    async def act(event: Any, ctx: RunnerContext) -> None:
        old = ctx.short_term_memory.get("value", "none")
        ctx.short_term_memory.set("value", event.input)
        result = await ctx.durable_execute_async(ask, event.input)
        out(ctx, [old, event.input, ctx.short_term_memory.get("value"), result])

    first = attempts.start(agent_of(act), fakes={ask: echo})
    first.process("k", value)
    first.run_until_idle()
    second = attempts.start(agent_of(act), checkpoint=first.checkpoint(), fakes={ask: echo})
    second.process("k", value)
    second.run_until_idle()
    assert values(first) == [["none", value, value, value]]
    assert values(second) == [[value] * 4]
    assert all(type(one) is type(value) for one in values(second)[0])


def test_numpy_values_arrive_unchanged(attempts: Attempts) -> None:
    """Case 36: scalars keep their type, arrays their content."""
    numpy = pytest.importorskip("numpy")

    async def echo(what: Any) -> Any:
        return what

    async def act(event: Any, ctx: RunnerContext) -> None:
        ctx.short_term_memory.set("value", event.input)
        out(ctx, [event.input, await ctx.durable_execute_async(ask, event.input)])

    value = {"scalar": numpy.float32(1.5), "array": numpy.arange(4)}
    for _ in range(2):
        runner = attempts.start(agent_of(act), fakes={ask: echo})
        runner.process(numpy.int64(3), value)
        runner.run_until_idle()
        [(key, results)] = runner.outputs
        assert type(key) is numpy.int64
        for result in results:
            assert type(result["scalar"]) is numpy.float32
            assert result["array"].tolist() == [0, 1, 2, 3]


def test_get_gives_a_copy_and_set_keeps_one(attempts: Attempts) -> None:
    """What an action does to a value afterwards changes nothing in memory."""

    def act(event: Any, ctx: RunnerContext) -> None:
        value = [1]
        ctx.short_term_memory.set("list", value)
        value.append(2)
        got = ctx.short_term_memory.get("list")
        got.append(3)
        out(ctx, ctx.short_term_memory.get("list"))

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    assert values(runner) == [[1]]


def test_a_value_that_cannot_be_pickled_is_refused(attempts: Attempts) -> None:
    """At `set`, where the mistake is; what was there stays."""

    def act(event: Any, ctx: RunnerContext) -> None:
        ctx.short_term_memory.set("a", 1)
        with pytest.raises(DurableSerializationError, match="lock"):
            ctx.short_term_memory.set("a", threading.Lock())
        out(ctx, ctx.short_term_memory.get("a"))

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    assert values(runner) == [1]


def test_a_failed_action_leaves_no_writes(attempts: Attempts) -> None:
    """With `action-failure=skip` its writes are dropped with it; in a failed attempt everything is."""

    def act(event: Any, ctx: RunnerContext) -> None:
        ctx.short_term_memory.set("n", event.input)
        if event.input == 2:
            raise ValueError("on purpose")

    runner = attempts.start(agent_of(act), options={"agents.action-failure": "skip"})
    for value in (1, 2):
        runner.process("k", value)
    assert runner.memory("k") == {"n": 1}
    failing = attempts.start(agent_of(act))
    failing.process("k", 1)
    checkpoint = failing.checkpoint()
    with pytest.raises(ActionFailedError, match="on purpose"):
        failing.process("k", 2)
    restored = attempts.start(agent_of(act), checkpoint=checkpoint)
    assert restored.memory("k") == {"n": 1}


def test_memory_of_tasks_of_one_action(attempts: Attempts) -> None:
    """Tasks of one action share its view."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        async def add(name: str) -> None:
            await ctx.durable_execute_async(ask, name)
            ctx.short_term_memory.set("names", [*ctx.short_term_memory.get("names", []), name])

        await asyncio.gather(*(add(name) for name in "abc"))
        out(ctx, sorted(ctx.short_term_memory.get("names")))

    runner = attempts.start(agent_of(act))
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == [["a", "b", "c"]]


def test_removed_memory_stays_removed(attempts: Attempts) -> None:
    """Over a checkpoint as well."""

    def act(event: Any, ctx: RunnerContext) -> None:
        memory = ctx.short_term_memory
        if event.input == "set":
            memory.set("a.b", 1)
        elif event.input == "remove":
            memory.remove("a")
        out(ctx, memory.is_exist("a"))

    first = attempts.start(agent_of(act))
    first.process("k", "set")
    second = attempts.start(agent_of(act), checkpoint=first.checkpoint())
    second.process("k", "remove")
    third = attempts.start(agent_of(act), checkpoint=second.checkpoint())
    third.process("k", "look")
    assert [values(runner) for runner in (first, second, third)] == [[True], [False], [False]]
