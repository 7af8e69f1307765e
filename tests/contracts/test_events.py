"""Events: what triggers what, ids, and P15: what was dispatched before the snapshot is not dispatched again."""

from __future__ import annotations

import logging
import uuid
from typing import Any

import pytest

from flink_agents_durable import Agent, Event, EventType, InputEvent, OutputEvent, RunnerContext, action
from tests.contracts.functions import ask, check
from tests.contracts.kit import Attempts, Gate, agent_of, out, until, values


class Draft(Event):
    """A user event by class."""

    def __init__(self, text: str) -> None:
        super().__init__(attributes={"text": text})


def test_events_trigger_by_class_and_by_type(attempts: Attempts) -> None:
    """Several triggers for one action, several actions for one event, and events that nobody waits for."""

    class Chain(Agent):
        @action(InputEvent)
        def begin(self, event: Any, ctx: RunnerContext) -> None:
            ctx.send_event(Draft("a"))
            ctx.send_event(Event("other", {"text": "b"}))
            ctx.send_event(Event("nobody waits for this"))

        @action(Draft, "other")
        def both(self, event: Any, ctx: RunnerContext) -> None:
            out(ctx, ["both", event.get_attr("text"), type(event).__name__])

        @action(Draft)
        def drafts(self, event: Any, ctx: RunnerContext) -> None:
            out(ctx, ["drafts", Draft.from_event(event).get_attr("text")])

    runner = attempts.start(Chain())
    runner.process("k", 1)
    assert sorted(values(runner)) == [["both", "a", "Draft"], ["both", "b", "Event"], ["drafts", "a"]]


def test_event_types() -> None:
    assert EventType.InputEvent == InputEvent.EVENT_TYPE
    assert EventType.OutputEvent == OutputEvent.EVENT_TYPE
    assert Draft.EVENT_TYPE.endswith("test_events.Draft")
    event = InputEvent(3)
    assert (event.input, event.type, event.get_attr("input")) == (3, EventType.InputEvent, 3)
    assert InputEvent.from_event(event) is event
    view = OutputEvent.from_event(Event(EventType.OutputEvent, {"output": 5}))
    assert isinstance(view, OutputEvent)
    assert view.output == 5
    with pytest.raises(TypeError, match="InputEvent"):
        InputEvent.from_event(OutputEvent(1))
    with pytest.raises(ValueError, match="type"):
        Event()


def test_ids_are_fixed_when_made_and_the_same_on_replay(attempts: Attempts) -> None:
    """Inside an action an id derives from the execution; it is kept when the event is sent."""
    made: list[Any] = []
    received: list[Any] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        one, two = Event("step", {"n": 1}), Event("step", {"n": 1})
        made.append((one.id, two.id, event.id))
        ctx.send_event(two)
        ctx.send_event(one)
        await ctx.durable_execute_async(check, "end")

    async def step(event: Any, ctx: RunnerContext) -> None:
        received.append(event.id)
        await ctx.durable_execute_async(ask, "step")

    gate = Gate()
    agent = agent_of(act, step=step)
    first = attempts.start(agent, fakes={ask: gate, check: gate})
    first.process("k", 1)
    until(first, lambda: gate.waiting.count("step") == 2)
    second = attempts.start(agent, checkpoint=first.checkpoint())
    second.run_until_idle()
    assert made[0] == made[1]
    assert len(set(made[0])) == 3
    assert all(isinstance(id, uuid.UUID) for id in made[0])
    assert received[:2] == [made[0][1], made[0][0]]
    assert sorted(map(str, received[2:])) == sorted(map(str, received[:2]))
    assert Event("a").id != Event("a").id


@pytest.mark.parametrize("strict", [True, False])
def test_what_is_set_after_sending_has_no_effect(attempts: Attempts, strict: bool) -> None:
    """On the sent event, neither on the first run nor after a restore."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        sent = Event("step", {"list": [1]})
        ctx.send_event(sent)
        sent.set_attr("late", True)
        sent.get_attr("list").append(2)

    def step(event: Any, ctx: RunnerContext) -> None:
        out(ctx, [event.get_attr("late"), event.get_attr("list")])

    runner = attempts.start(agent_of(act, step=step), options={"agents.strict-values": strict})
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == [[None, [1]]]


@pytest.mark.parametrize("strict", [True, False])
def test_actions_of_one_event_do_not_share_changes(attempts: Attempts, strict: bool) -> None:
    """What one action does to its event the other does not see, as after a restore."""

    def one(event: Any, ctx: RunnerContext) -> None:
        out(ctx, event.get_attr("seen"))
        event.set_attr("seen", True)

    def two(event: Any, ctx: RunnerContext) -> None:
        out(ctx, event.get_attr("seen"))
        event.set_attr("seen", True)

    def act(event: Any, ctx: RunnerContext) -> None:
        ctx.send_event(Event("step"))

    agent = agent_of(act)
    agent.add_action("one", ["step"], one)
    agent.add_action("two", ["step"], two)
    runner = attempts.start(agent, options={"agents.strict-values": strict})
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == [None, None]


@pytest.mark.parametrize("strict", [True, False])
def test_an_output_is_what_it_was_when_it_was_sent(attempts: Attempts, strict: bool) -> None:
    """What the action does to the value afterwards does not reach the output."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        value = [1]
        ctx.send_event(OutputEvent(value))
        await ctx.durable_execute_async(ask, "a")
        value.append(2)

    runner = attempts.start(agent_of(act), options={"agents.strict-values": strict})
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == [[1]]


def test_a_value_sent_many_times_is_emitted_as_it_was_each_time(attempts: Attempts) -> None:
    """One dict that the action goes on filling, within one step."""

    def act(event: Any, ctx: RunnerContext) -> None:
        total = {"n": 0}
        for n in range(3):
            total["n"] = n
            out(ctx, total)
            ctx.send_event(Event("step", {"total": total}))

    def step(event: Any, ctx: RunnerContext) -> None:
        out(ctx, ["step", event.get_attr("total")["n"]])

    runner = attempts.start(agent_of(act, step=step))
    runner.process("k", 1)
    assert values(runner) == [{"n": n} for n in range(3)] + [["step", n] for n in range(3)]


def test_p15_a_value_that_changes_after_it_was_sent_is_not_sent_again(attempts: Attempts) -> None:
    """What is compared after a restore is what was sent, not what became of it."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        total = {"n": 0}
        out(ctx, total)
        total["n"] = 1
        await ctx.durable_execute_async(ask, "a")
        total["n"] = 2
        out(ctx, total)
        await ctx.durable_execute_async(ask, "b")

    gate = Gate()
    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a"))
    gate.answer("a")
    until(first, lambda: gate.is_waiting("b"))
    second = attempts.start(agent_of(act), checkpoint=first.checkpoint())
    second.run_until_idle()
    assert values(first) == [{"n": 0}, {"n": 2}]
    assert values(second) == []


def test_actions_of_one_input_do_not_share_it(attempts: Attempts) -> None:
    """What one action does to the input the other does not see."""

    def one(event: Any, ctx: RunnerContext) -> None:
        event.input.append("one")
        event.set_attr("seen", True)

    def two(event: Any, ctx: RunnerContext) -> None:
        out(ctx, [event.input, event.get_attr("seen"), event.source_timestamp])

    runner = attempts.start(agent_of(one, two))
    runner.process("k", [1], timestamp=5)
    assert values(runner) == [[[1], None, 5]]


def test_source_timestamps_are_kept(attempts: Attempts) -> None:
    """S8: outputs carry the timestamp of their input, none if it had none; events know it."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, "a")
        ctx.send_event(Event("step"))

    def step(event: Any, ctx: RunnerContext) -> None:
        out(ctx, event.source_timestamp)

    runner = attempts.start(agent_of(act, step=step))
    runner.process("a", 1, timestamp=123)
    runner.process("b", 1)
    runner.run_until_idle()
    assert sorted(zip(map(str, values(runner)), map(str, runner.timestamps), strict=True)) == [
        ("123", "123"),
        ("None", "None"),
    ]


def test_the_input_event_knows_the_source_timestamp(attempts: Attempts) -> None:
    """S8: the action that an input triggers sees its timestamp, after a restore too."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        await ctx.durable_execute_async(ask, "a")
        out(ctx, event.source_timestamp)

    gate = Gate()
    agent = agent_of(act)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", 1, timestamp=123)
    until(first, lambda: gate.is_waiting("a"))
    checkpoint = first.checkpoint()
    gate.answer("a")
    first.run_until_idle()
    second = attempts.start(agent, checkpoint=checkpoint)
    second.run_until_idle()
    assert values(first) == values(second) == [123]


def test_p15_another_event_than_before_dispatches_from_there(
    attempts: Attempts, caplog: pytest.LogCaptureFixture
) -> None:
    """An equal event is suppressed after a restore; from the first different one on all are dispatched."""

    def agent(*texts: str) -> Agent:
        async def act(event: Any, ctx: RunnerContext) -> None:
            for text in texts:
                out(ctx, text)
            await ctx.durable_execute_async(ask, "a")
            out(ctx, "end")

        return agent_of(act)

    gate = Gate()
    first = attempts.start(agent("a", "b", "c"), fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a"))
    checkpoint = first.checkpoint()
    same = attempts.start(agent("a", "b", "c"), checkpoint=checkpoint)
    same.run_until_idle()
    assert values(same) == ["end"]
    with caplog.at_level(logging.WARNING):
        changed = attempts.start(agent("a", "x", "c"), checkpoint=checkpoint)
        changed.run_until_idle()
    assert values(changed) == ["x", "c", "end"]
    assert sum("another event" in record.getMessage() for record in caplog.records) == 1


def test_events_of_a_child_that_completed_are_not_dispatched_again(attempts: Attempts) -> None:
    """The parent restarts, its event is suppressed, and the child that had ended does not run again."""
    runs: list[str] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        ctx.send_event(Event("child"))
        await ctx.durable_execute_async(ask, "a")
        ctx.send_event(Event("child"))
        await ctx.durable_execute_async(ask, "b")

    async def child(event: Any, ctx: RunnerContext) -> None:
        runs.append(str(event.id))
        out(ctx, await ctx.durable_execute_async(check, "child"))

    gate = Gate()
    agent = agent_of(act, child=child)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: values(first) == ["child?"])
    checkpoint = first.checkpoint()
    gate.answer("a")
    until(first, lambda: gate.is_waiting("b") and len(values(first)) == 2)
    second = attempts.start(agent, checkpoint=checkpoint)
    second.run_until_idle()
    assert values(second) == ["child?"]
    assert [call.args[0] for call in second.calls] == ["b"]
    assert len(set(runs)) == 2
    assert runs[1:] == [runs[1]] * 2


def test_a_chain_of_events_over_a_crash(attempts: Attempts) -> None:
    """A long chain of executions: each with a call, crashed at every step, ends with one output each."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        ctx.send_event(Event("step", {"n": 1}))

    async def step(event: Any, ctx: RunnerContext) -> None:
        n = event.get_attr("n")
        out(ctx, await ctx.durable_execute_async(ask, n))
        if n < 5:
            ctx.send_event(Event("step", {"n": n + 1}))

    agent = agent_of(act, step=step)
    made: list[int] = []
    emitted: list[str] = []
    checkpoint = None
    for n in range(1, 6):
        gate = Gate()
        runner = attempts.start(agent, checkpoint=checkpoint, fakes={ask: gate})
        if checkpoint is None:
            runner.process("k", 1)
        until(runner, lambda n=n, gate=gate: gate.is_waiting(n))  # type: ignore[misc]
        gate.answer(n)
        until(runner, lambda n=n, runner=runner: f"{n}!" in values(runner))  # type: ignore[misc]
        checkpoint = runner.checkpoint()
        emitted += values(runner)
        made += gate.started[:1]
    assert made == [1, 2, 3, 4, 5]
    assert emitted == [f"{n}!" for n in range(1, 6)]
