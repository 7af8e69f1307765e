"""Awakeables: an action waits for what comes from outside, through every failure, and gets it once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from flink_agents_durable import (
    ActionFailedError,
    Agent,
    AwakeableFailedError,
    DurableExecutionError,
    Event,
    InputEvent,
    RecordTooLargeError,
    RunnerContext,
    awakeable_failure,
    awakeable_result,
)
from flink_agents_durable.engine.awakeables import make_id, read_id
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.testing import LocalRunner
from flink_agents_durable.testing.keyed_state import KeyedState
from tests.contracts.kit import Attempts, WatchedStore, agent_of, out, values

STORES = ["none", "sqlite"]


def got(runner: LocalRunner) -> list[Any]:
    """What was emitted once nothing moves any more."""
    runner.run_until_idle()
    return values(runner)


class Ids:
    """What actions tell the world of their awakeables."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, id: str) -> None:
        self.seen.append(id)

    @property
    def last(self) -> str:
        return self.seen[-1]


def approval(ids: Ids) -> Any:
    async def approve(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        out(ctx, [event.input, await result])

    return agent_of(approve)


# --- ids


def test_p2_an_id_is_printable_and_the_same_on_every_attempt(attempts: Attempts) -> None:
    ids = Ids()
    for _ in range(3):
        runner = attempts.start(approval(ids))
        runner.process("k", 1)
    assert len(set(ids.seen)) == 1
    assert ids.last.isascii()
    assert ids.last.isprintable()
    assert len(ids.last) == 36


def test_p2_ids_differ_by_key_run_execution_and_index() -> None:
    seen: list[str] = []

    async def two(event: InputEvent, ctx: RunnerContext) -> None:
        seen.extend(ctx.awakeable()[0] for _ in range(2))

    async def other(event: InputEvent, ctx: RunnerContext) -> None:
        seen.append(ctx.awakeable()[0])

    with LocalRunner(agent_of(two, other)) as runner:
        for key in ("a", "b"):
            for value in (1, 1):
                runner.process(key, value)
    assert len(seen) == len(set(seen)) == 12


@pytest.mark.parametrize("key", ["k", 1, None, ("a", 2), "x" * 10_000])
def test_an_id_says_of_which_key_and_run_it_is(key: Any) -> None:
    known = read_id(make_id(encode_key(key), 2**40 - 1, 2**64 - 1, 2**32 - 1))
    assert known is not None
    assert known[1:] == (2**40 - 1, 2**64 - 1, 2**32 - 1)
    assert known.is_of(encode_key(key))
    assert not known.is_of(encode_key("another"))


@pytest.mark.parametrize(
    "text", ["", "awk_", "awk_" + "*" * 32, "awk_" + "é" * 32, "xyz_" + "A" * 32, "A" * 36]
)
def test_what_is_no_id_is_known_as_such(text: str) -> None:
    assert read_id(text) is None


# --- waiting


def test_a_result_and_a_failure_reach_the_action() -> None:
    ids = Ids()

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        try:
            out(ctx, await result)
        except AwakeableFailedError as error:
            out(ctx, f"failed: {error}")

    with LocalRunner(agent_of(ask)) as runner:
        runner.process("a", 1)
        runner.resolve(ids.last, {"ok": True})
        runner.process("a", 2)
        runner.fail(ids.last, "rejected by Eve")
        assert got(runner) == [{"ok": True}, "failed: rejected by Eve"]
        assert runner.idle


@pytest.mark.parametrize("value", [None, False, 0, "", b"", []])
def test_case_31_an_empty_answer_is_an_answer(value: Any) -> None:
    ids = Ids()
    with LocalRunner(approval(ids)) as runner:
        runner.process("k", 1)
        runner.resolve(ids.last, value)
        assert got(runner) == [[1, value]]


def test_f3_awaiting_again_gives_the_same() -> None:
    ids = Ids()

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        first = await result
        out(ctx, [first, await result, await asyncio.wait_for(result, 5), *await asyncio.gather(result)])

    with LocalRunner(agent_of(ask)) as runner:
        runner.process("k", 1)
        runner.resolve(ids.last, "yes")
        runner.run_until_idle()
        assert got(runner) == [["yes"] * 4]


def test_f12_awakeables_in_gather_tasks_and_timeouts() -> None:
    ids = Ids()

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        pairs = [ctx.awakeable() for _ in range(4)]
        for id, _ in pairs:
            ids(id)
        (_, one), (_, two), (_, three), (_, four) = pairs
        task = asyncio.create_task(three)
        joined = asyncio.create_task(three)
        got = await asyncio.gather(one, two, task, joined, asyncio.wait_for(four, 100))
        out(ctx, got)

    with LocalRunner(agent_of(ask)) as runner:
        runner.process("k", 1)
        for place in (3, 2, 0, 1):
            runner.resolve(ids.seen[place], place)
        assert got(runner) == [[0, 1, 2, 2, 3]]


def test_f1_an_awakeable_that_is_never_awaited_leaves_no_trace(attempts: Attempts) -> None:
    ids = Ids()

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        ids(ctx.awakeable()[0])
        out(ctx, "done")

    runner = attempts.start(agent_of(ask))
    runner.process("k", 1)
    runner.resolve(ids.last, "late", key="k")
    assert got(runner) == ["done"]
    assert runner.idle
    assert runner.stats.awakeables_dropped == 1
    assert KeyedState.from_checkpoint(runner.checkpoint())[0].entries() == 0


async def ask_with_deadline(event: InputEvent, ctx: RunnerContext) -> None:
    id, result = ctx.awakeable()
    out(ctx, id)
    try:
        out(ctx, await asyncio.wait_for(result, 60))
    except asyncio.TimeoutError:
        out(ctx, "no answer")


def test_p11_a_deadline_is_a_durable_timer(attempts: Attempts) -> None:
    first = attempts.start(agent_of(ask_with_deadline))
    first.process("k", 1)
    first.advance(40)
    second = attempts.start(agent_of(ask_with_deadline), checkpoint=first.checkpoint(), time=first.time)
    second.advance(19)
    assert got(second) == []
    second.advance(1)
    assert got(second) == ["no answer"]
    assert second.idle


def test_d5_an_answer_after_the_deadline_is_dropped_on_every_attempt(attempts: Attempts) -> None:
    agent = agent_of(ask_with_deadline)
    first = attempts.start(agent)
    first.process("k", 1)
    checkpoint = first.checkpoint()
    id = got(first)[0]
    first.advance(60)
    first.resolve(id, "late", key="k")
    assert first.stats.awakeables_dropped == 1
    second = attempts.start(agent, checkpoint=checkpoint, time=first.time)
    second.resolve(id, "late", key="k")
    assert got(second) == ["no answer"]


def test_a_wait_that_is_given_up_may_begin_again(attempts: Attempts) -> None:
    """A reminder: what comes between two waits is there for the second one."""

    async def remind(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        out(ctx, id)
        for _ in range(3):
            try:
                out(ctx, await asyncio.wait_for(result, 60))
                return
            except asyncio.TimeoutError:
                out(ctx, "reminder")
                await asyncio.sleep(10)

    agent = agent_of(remind)
    first = attempts.start(agent)
    first.process("k", 1)
    first.advance(65)
    id = got(first)[0]
    first.resolve(id, "yes")  # while nobody waits
    assert got(first) == [id, "reminder"]
    checkpoint = first.checkpoint()
    first.advance(5)
    assert got(first) == [id, "reminder", "yes"]
    assert first.idle
    second = attempts.start(agent, checkpoint=checkpoint, time=first.time)
    assert got(second) == ["yes"]
    assert second.idle


# --- resolutions that come early, late, twice, or to the wrong place


def test_an_early_resolution_waits_for_its_awakeable() -> None:
    ids = Ids()
    with LocalRunner(approval(ids)) as probe:
        probe.process("k", 1)
        probe.process("k", 2)
        probe.resolve(ids.last, 0)
        probe.process("k", 2)
    first, second = ids.seen[:2]
    with LocalRunner(approval(Ids())) as runner:
        runner.resolve(second, "two", key="k")
        runner.resolve(first, "one", key="k")
        runner.process("k", 1)
        runner.process("k", 2)
        assert got(runner) == [[1, "one"], [2, "two"]]
        assert runner.stats.awakeables_dropped == 0


@pytest.mark.parametrize("store", STORES)
def test_p6_an_early_resolution_is_in_the_snapshot(attempts: Attempts, store: str) -> None:
    """Its input, and the run behind which it waits, have not come back yet."""
    ids = Ids()
    probe = attempts.start(approval(ids))
    probe.process("k", 1)
    if store == "none":
        attempts.store = None
    runner = attempts.start(approval(Ids()))
    runner.resolve(ids.last, "early", key="k")
    for _ in range(3):
        runner = attempts.start(approval(Ids()), checkpoint=runner.checkpoint())
    runner.process("k", 1)
    assert got(runner) == [[1, "early"]]
    assert KeyedState.from_checkpoint(runner.checkpoint())[0].entries() == 0


def test_the_first_resolution_wins() -> None:
    ids = Ids()

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        out(ctx, await result)
        await asyncio.sleep(10)
        out(ctx, await result)

    with LocalRunner(agent_of(ask)) as runner:
        runner.process("k", 1)
        runner.resolve(ids.last, "first")
        runner.resolve(ids.last, "second")
        runner.fail(ids.last, "third")
        runner.advance(10)
        runner.resolve(ids.last, "fourth", key="k")
        assert got(runner) == ["first", "first"]
        assert runner.stats.awakeables_dropped == 3
        assert runner.stats.awakeables_resolved == 1


def test_unknown_resolutions_are_dropped_counted_and_leave_nothing(caplog: pytest.LogCaptureFixture) -> None:
    ids = Ids()
    with LocalRunner(approval(ids)) as runner:
        runner.process("k", 1)
        runner.resolve("no id", 1, key="k")
        runner.resolve(ids.last, 1, key="another key")
        runner.resolve(make_id(encode_key("k"), 0, 4711, 1), 1, key="k")  # of no action; dropped with its run
        runner.resolve(ids.last, "yes")
        assert got(runner) == [[1, "yes"]]
        assert runner.stats.awakeables_dropped == 3
        state = KeyedState.from_checkpoint(runner.checkpoint())[0]
        assert state.entries() == 0
        assert list(state._keys) == [encode_key("k")]
        assert runner._engine.keys == {}
    assert len([r for r in caplog.records if "is dropped" in r.message]) == 3


def test_l6_a_resolution_of_an_idle_key_leaves_no_key_in_memory() -> None:
    ids = Ids()
    with LocalRunner(approval(ids)) as runner:
        runner.process("k", 1)
        runner.resolve(ids.last, "yes")
        runner.checkpoint()
        runner.resolve(ids.last, "again", key="k")
        assert runner._engine.keys == {}
        assert runner._engine.dirty == {}


# --- failures


@pytest.mark.parametrize("store", STORES)
def test_l1_a_run_waits_through_any_number_of_restarts(attempts: Attempts, store: str) -> None:
    ids = Ids()
    if store == "none":
        attempts.store = None
    runner = attempts.start(approval(ids))
    for key in ("a", "b"):
        runner.process(key, key)
    for _ in range(4):
        runner = attempts.start(approval(ids), checkpoint=runner.checkpoint())
        assert got(runner) == []
    for id in dict.fromkeys(ids.seen):
        runner.resolve(id, "yes")
    assert sorted(got(runner)) == [["a", "yes"], ["b", "yes"]]


def test_p3_a_resolution_is_delivered_only_when_its_record_is_durable(tmp_path: Path) -> None:
    ids = Ids()
    store = WatchedStore(tmp_path)
    attempts = Attempts(tmp_path)
    attempts.store = store
    try:
        first = attempts.start(approval(ids))
        first.process("k", 1)
        store.hold()
        first.resolve(ids.last, "yes")
        first.resolve(ids.last, "another")  # while the first is on its way
        assert values(first) == []
        checkpoint = first.checkpoint()  # it has the resolution, though its record counts not yet
        store.release()
        first.run_until_idle()
        assert got(first) == [[1, "yes"]]
        for state in (checkpoint, None):
            again = attempts.start(approval(ids), checkpoint=state)
            if state is None:
                again.process("k", 1)
            again.run_until_idle()
            assert got(again) == [[1, "yes"]]
    finally:
        attempts.close()


def test_p4_a_resolution_whose_record_was_lost_is_in_the_snapshot(attempts: Attempts, tmp_path: Path) -> None:
    """The source does not bring it again: it was consumed before the checkpoint."""
    ids = Ids()
    attempts.store = store = WatchedStore(tmp_path / "lost")
    first = attempts.start(approval(ids))
    first.process("k", 1)
    store.hold()
    first.resolve(ids.last, "yes")
    checkpoint = first.checkpoint()
    attempts.store = WatchedStore(tmp_path / "without the record")
    again = attempts.start(approval(ids), checkpoint=checkpoint)
    again.run_until_idle()
    assert got(again) == [[1, "yes"]]
    store.release()


def test_p1_a_replay_gives_the_same_answer_and_a_second_one_from_the_source_changes_nothing(
    attempts: Attempts,
) -> None:
    ids = Ids()

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        out(ctx, await result)
        await asyncio.sleep(10)
        out(ctx, await result)

    agent = agent_of(ask)
    first = attempts.start(agent)
    first.process("k", 1)
    first.resolve(ids.last, "yes")
    first.run_until_idle()
    second = attempts.start(agent)  # from the log alone: the source begins anew
    second.resolve(ids.last, "yes", key="k")
    second.process("k", 1)
    second.resolve(ids.last, "no")
    second.run_until_idle(advance_timers=True)
    assert got(second) == ["yes", "yes"]
    assert second.stats.awakeables_dropped == 1
    assert KeyedState.from_checkpoint(second.checkpoint())[0].entries() == 0


def test_p7_a_resolved_run_is_claimed_by_its_input(attempts: Attempts) -> None:
    """Inputs come back in another order: each has its own answer."""
    ids = Ids()
    first = attempts.start(approval(ids))
    first.process("k", 1)
    first.resolve(ids.last, "one")
    first.run_until_idle()
    first.process("k", 2)
    first.resolve(ids.last, "two")
    first.run_until_idle()
    second = attempts.start(approval(Ids()))
    second.process("k", 2)
    second.process("k", 1)
    assert got(second) == [[2, "two"], [1, "one"]]


def test_p13_a_mismatch_keeps_the_answer_for_the_new_code(attempts: Attempts) -> None:
    """Nobody is asked again: the answer was given once, and its stream may have gone on."""
    ids = Ids()

    async def old(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        await result
        await asyncio.sleep(10)

    async def new(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        await asyncio.sleep(5)
        out(ctx, await result)

    agents = [Agent().add_action("ask", [InputEvent], function) for function in (old, new)]
    first = attempts.start(agents[0])
    first.process("k", 1)
    first.resolve(ids.last, "yes")
    first.run_until_idle()
    checkpoint = first.checkpoint()
    changed = attempts.start(agents[1], checkpoint=checkpoint)
    changed.run_until_idle()
    assert changed.stats.mismatches == 1
    later = changed.checkpoint()
    for state in (later, checkpoint, None):  # with the answer in the state, and with the cut in the tail
        again = attempts.start(agents[1], checkpoint=state)
        if state is None:
            again.process("k", 1)
        again.run_until_idle(advance_timers=True)
        assert again.stats.mismatches == 0
        assert got(again) == ["yes"]
        assert again.idle


def test_p14_a_deadline_that_nothing_caught_gives_the_wait_another_chance(attempts: Attempts) -> None:
    ids = Ids()

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        out(ctx, await asyncio.wait_for(result, 60))

    agent = agent_of(ask)
    first = attempts.start(agent)
    first.process("k", 1)
    with pytest.raises(ActionFailedError):
        first.run_until_idle(advance_timers=True)
    second = attempts.start(agent, time=first.time)
    second.process("k", 1)
    second.resolve(ids.last, "yes")
    second.run_until_idle()
    assert got(second) == ["yes"]


def test_a_failure_is_final_and_skip_takes_it(attempts: Attempts) -> None:
    ids = Ids()

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        out(ctx, await result)

    agent = agent_of(ask)
    first = attempts.start(agent)
    first.process("k", 1)
    with pytest.raises(ActionFailedError, match="not by me"):  # noqa: PT012 - by its acknowledgement
        first.fail(ids.last, "not by me")
        first.run_until_idle()
    second = attempts.start(agent)
    with pytest.raises(ActionFailedError, match="not by me"):
        second.process("k", 1)
    third = attempts.start(agent, options={"agents.action-failure": "skip"})
    third.process("k", 1)
    assert third.idle
    assert got(third) == []


def test_p20_a_value_that_the_store_does_not_take_fails_the_wait(tmp_path: Path) -> None:
    ids = Ids()

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        try:
            out(ctx, await result)
        except RecordTooLargeError as error:
            out(ctx, str(error))

    attempts = Attempts(tmp_path)
    attempts.store = WatchedStore(tmp_path, max_record_bytes=1_000)
    try:
        for _ in range(2):
            runner = attempts.start(agent_of(ask))
            runner.process("k", 1)
            if not runner.idle:
                runner.resolve(ids.last, "x" * 2_000)
            runner.run_until_idle()
            (text,) = got(runner)
            assert ids.last in text
            assert "takes 1000" in text
    finally:
        attempts.close()


@pytest.mark.parametrize(("value", "seen"), [({"a": (1, b"x")}, {"a": (1, b"x")}), (object, "DurableSeri")])
def test_values_are_recorded_as_agents_payload_says(attempts: Attempts, value: Any, seen: Any) -> None:
    """What comes over the network is pickled; what is recorded of it is not, where the option says so."""
    ids = Ids()

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        try:
            out(ctx, await result)
        except DurableExecutionError as error:
            out(ctx, type(error).__name__[:11])

    for _ in range(2):
        runner = attempts.start(agent_of(ask), options={"agents.payload": "json"})
        runner.process("k", 1)
        runner.run_until_idle()
        if not runner.idle:
            runner.resolve(ids.last, value)
        assert got(runner) == [seen]


def test_p14_without_a_store_another_failure_keeps_the_answer(attempts: Attempts) -> None:
    """The execution starts again in place (P14), with the answer that it had."""
    ids = Ids()
    tried: list[int] = []

    def flaky() -> str:
        tried.append(1)
        if len(tried) == 1:
            raise ConnectionError("down")
        return "done"

    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        answer = await result
        try:
            await ctx.durable_execute_async(flaky)
        except ConnectionError:
            await asyncio.sleep(10)
            raise
        out(ctx, answer)

    attempts.store = None
    agent = agent_of(ask)
    first = attempts.start(agent)
    first.process("k", 1)
    first.resolve(ids.last, "yes")
    first.run_until_idle()
    second = attempts.start(agent, checkpoint=first.checkpoint())
    second.run_until_idle(advance_timers=True)
    assert got(second) == ["yes"]
    assert len(tried) == 2


def test_l3_a_child_action_waits_beside_its_sibling(attempts: Attempts) -> None:
    ids = Ids()

    async def send(event: InputEvent, ctx: RunnerContext) -> None:
        for number in range(2):
            ctx.send_event(Event("ask", {"number": number}))

    async def ask(event: Event, ctx: RunnerContext) -> None:
        id, result = ctx.awakeable()
        ids(id)
        out(ctx, [event.get_attr("number"), await result])

    agent = agent_of(send, ask=ask)
    first = attempts.start(agent)
    first.process("k", 1)
    one, two = ids.seen
    first.resolve(two, "two")
    first.run_until_idle()
    assert got(first) == [[1, "two"]]
    second = attempts.start(agent)
    second.process("k", 1)
    second.resolve(two, "again")  # its action has ended, its run has not
    assert second.stats.awakeables_dropped == 1
    second.resolve(one, "one")
    assert got(second) == [[1, "two"], [0, "one"]]
    assert second.idle


def test_public_functions_make_resolutions() -> None:
    result = awakeable_result("k", "awk_1", 5)
    assert (result.key, result.id, result.value, result.failure) == ("k", "awk_1", 5, None)
    failure = awakeable_failure("k", "awk_1", "no")
    assert (failure.value, failure.failure) == (None, "no")
    with pytest.raises(TypeError, match="id of an awakeable"):
        awakeable_result("k", 5, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="message"):
        awakeable_failure("k", "awk_1", ValueError())  # type: ignore[arg-type]


def test_ctx_awakeable_belongs_to_the_action() -> None:
    async def ask(event: InputEvent, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(lambda: ctx.awakeable())
        except DurableExecutionError as error:
            out(ctx, str(error))

    with LocalRunner(agent_of(ask)) as runner:
        runner.process("k", 1)
        runner.run_until_idle()
        assert "ctx.awakeable" in got(runner)[0]
