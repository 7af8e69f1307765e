"""S1, S2, S3, S6 and P3 to P8, as far as attempts in one process show them."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from flink_agents_durable import AttemptEndedError, RunnerContext
from tests.contracts.functions import ask, compute, never
from tests.contracts.kit import Attempts, Gate, WatchedStore, agent_of, called, out, until, values


def calls_of(*names: str) -> Any:
    """An agent that makes these calls one after the other."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, [await ctx.durable_execute_async(ask, f"{event.input}{name}") for name in names])

    return agent_of(act)


def answer_all(runner: Any, gate: Gate, *names: str) -> None:
    for name in names:
        until(runner, lambda name=name: gate.is_waiting(name))
        gate.answer(name)


@pytest.mark.parametrize("complete", [True, False])
def test_s1_an_execution_that_spans_a_checkpoint(attempts: Attempts, complete: bool) -> None:
    """It keeps what it finished before it, out of the state, and after it, out of the log."""
    gate = Gate()
    agent = calls_of(*"abcd")
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", "x")
    answer_all(first, gate, "xa", "xb")
    until(first, lambda: gate.is_waiting("xc"))
    checkpoint = first.checkpoint()
    if complete:
        first.complete_checkpoint(checkpoint)
    gate.answer("xc")
    until(first, lambda: gate.is_waiting("xd"))
    second = attempts.start(agent, checkpoint=checkpoint)
    second.run_until_idle()
    assert called(second) == ["xd"]
    assert values(second) == [["xa!", "xb!", "xc!", "xd!"]]


def test_s1_over_many_attempts_and_checkpoints(attempts: Attempts) -> None:
    """Each attempt makes one more call, with a checkpoint before or after it; none is made twice."""
    names = [str(number) for number in range(8)]
    agent = calls_of(*names)
    checkpoint = None
    made: list[str] = []
    for number, name in enumerate(names):
        gate = Gate()
        runner = attempts.start(agent, checkpoint=checkpoint, fakes={ask: gate})
        if checkpoint is None:
            runner.process("k", "x")
        until(runner, lambda name=name, gate=gate: gate.is_waiting(f"x{name}"))  # type: ignore[misc]
        if number % 3 == 0:
            checkpoint = runner.checkpoint()
            runner.complete_checkpoint(checkpoint)
        gate.answer(f"x{name}")
        if number < len(names) - 1:
            until(runner, lambda number=number, gate=gate: gate.is_waiting(f"x{number + 1}"))  # type: ignore[misc]
        else:
            runner.run_until_idle()
            assert values(runner) == [[f"x{name}!" for name in names]]
        if number % 3 == 1:
            checkpoint = runner.checkpoint()
        made += gate.started[: 1 if number < len(names) - 1 else None]
    assert made == [f"x{name}" for name in names]


def test_s1_inputs_queued_in_a_checkpoint_keep_their_records(attempts: Attempts) -> None:
    """Two inputs wait behind a run; all of it goes on from the checkpoint and the log."""
    gate = Gate()
    agent = calls_of("a", "b")
    first = attempts.start(agent, fakes={ask: gate})
    for value in "xyz":
        first.process("k", value)
    until(first, lambda: gate.is_waiting("xa"))
    checkpoint = first.checkpoint()
    answer_all(first, gate, "xa", "xb", "ya")
    until(first, lambda: gate.is_waiting("yb"))
    second = attempts.start(agent, checkpoint=checkpoint)
    second.run_until_idle()
    assert called(second) == ["yb", "za", "zb"]
    assert values(second) == [["xa!", "xb!"], ["ya!", "yb!"], ["za!", "zb!"]]


def log_size(attempts: Attempts, agent: Any, checkpoint: bytes | None = None) -> int:
    """How many records a new attempt from a checkpoint reads out of the log."""
    store = attempts.store
    counting = Counting(store)
    attempts.store = counting
    try:
        attempts.start(agent, checkpoint=checkpoint).crash()
    finally:
        attempts.store = store
    return counting.read[-1]


class Counting(WatchedStore):
    """A store that counts the records which it hands out when it is opened."""

    def __init__(self, store: Any) -> None:
        super().__init__(store.folder)
        self.read: list[int] = []

    def open(self, log_id: str, positions: Any, on_ack: Any) -> Any:
        records = list(super().open(log_id, positions, on_ack))
        self.read.append(len(records))
        return iter(records)


def test_s2_only_a_completed_checkpoint_cuts_the_log(attempts: Attempts) -> None:
    """P23: a checkpoint that was taken and not completed cuts nothing; a completed one cuts what it holds."""
    agent = calls_of(*"abc")
    runner = attempts.start(agent)
    runner.process("k", "x")
    runner.run_until_idle()
    checkpoint = runner.checkpoint()
    before = log_size(attempts, agent)
    assert before >= 4
    runner = attempts.start(agent, checkpoint=checkpoint)
    checkpoint = runner.checkpoint()
    assert log_size(attempts, agent) == before
    runner = attempts.start(agent, checkpoint=checkpoint)
    runner.complete_checkpoint(checkpoint)
    runner.close()
    assert log_size(attempts, agent) == 0


def test_s2_records_after_the_checkpoint_stay(attempts: Attempts) -> None:
    """A cut drops what lies before the checkpoint and nothing of what came since."""
    gate = Gate()
    agent = calls_of(*"abc")
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", "x")
    answer_all(first, gate, "xa")
    until(first, lambda: gate.is_waiting("xb"))
    checkpoint = first.checkpoint()
    gate.answer("xb")
    until(first, lambda: gate.is_waiting("xc"))
    first.complete_checkpoint(checkpoint)
    first.close()
    second = attempts.start(agent, checkpoint=checkpoint)
    second.run_until_idle()
    assert called(second) == ["xc"]
    assert values(second) == [["xa!", "xb!", "xc!"]]


def test_s2_a_restore_from_an_older_state_says_what_is_missing(
    attempts: Attempts, caplog: pytest.LogCaptureFixture
) -> None:
    """It goes on from the gap-free part, calls whose records were cut run again, and the log says so."""
    gate = Gate()
    agent = calls_of(*"abc")
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", "x")
    answer_all(first, gate, "xa")
    until(first, lambda: gate.is_waiting("xb"))
    old = first.checkpoint()
    gate.answer("xb")
    until(first, lambda: gate.is_waiting("xc"))
    first.complete_checkpoint(first.checkpoint())
    first.close()
    with caplog.at_level(logging.WARNING):
        second = attempts.start(agent, checkpoint=old)
    second.run_until_idle()
    assert values(second) == [["xa!", "xb!", "xc!"]]
    assert called(second) == ["xb", "xc"]
    assert any("lost" in record.getMessage() for record in caplog.records)


def test_case_23_s3_a_zombie_cannot_add_to_the_journal(attempts: Attempts) -> None:
    """Case 23, P21, P22: its result is void, its attempt ends, the successor makes the call itself."""
    gate = Gate()
    agent = calls_of("a", "b")
    zombie = attempts.start(agent, fakes={ask: gate})
    zombie.process("k", "x")
    until(zombie, lambda: gate.is_waiting("xa"))
    successor = attempts.start(agent, together=True)
    gate.answer("xa", "from the zombie")
    with pytest.raises(BaseException, match=r"(?s).*") as caught:
        zombie.run_until_idle()
    assert not isinstance(caught.value, TimeoutError)
    assert values(zombie) == []
    successor.process("k", "x")
    successor.run_until_idle()
    assert values(successor) == [["xa!", "xb!"]]
    third = attempts.start(agent, fakes={ask: never})
    third.process("k", "x")
    third.run_until_idle()
    assert values(third) == [["xa!", "xb!"]]


@pytest.mark.parametrize("kind", ["reconciler", "gather", "synchronous"])
def test_s3_a_zombie_starts_no_reconcilable_call(attempts: Attempts, kind: str) -> None:
    """Its reservation is never acknowledged, so the payment is not made by both."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        if kind == "synchronous":
            out(ctx, ctx.durable_execute(ask, "pay", reconciler=never))
        elif kind == "reconciler":
            out(ctx, await ctx.durable_execute_async(ask, "pay", reconciler=never))
        else:
            [outcome] = await ctx.gather(ctx.durable_execute_async(ask, "pay", reconciler=never))
            out(ctx, outcome.value)

    zombie = attempts.start(agent_of(act))
    successor = attempts.start(agent_of(act), together=True)
    with pytest.raises(BaseException, match=r"(?s).*"):
        _process(zombie)
    assert zombie.calls == []
    with pytest.raises((AttemptEndedError, RuntimeError, Exception)):
        _process(zombie)
    successor.process("k", 1)
    successor.run_until_idle()
    assert values(successor) == ["pay!"]


def _process(runner: Any) -> None:
    runner.process("k", 1)
    runner.run_until_idle()


def test_s3_a_zombies_checkpoint_cut_does_not_take_the_successors_records(attempts: Attempts) -> None:
    """A late notification in the old attempt drops nothing that the new one wrote."""
    gate = Gate()
    agent = calls_of("a", "b")
    zombie = attempts.start(agent)
    checkpoint = zombie.checkpoint()
    successor = attempts.start(agent, together=True, fakes={ask: gate})
    successor.process("k", "x")
    answer_all(successor, gate, "xa")
    until(successor, lambda: gate.is_waiting("xb"))
    zombie.complete_checkpoint(checkpoint)
    zombie.close()
    third = attempts.start(agent)
    third.process("k", "x")
    third.run_until_idle()
    assert called(third) == ["xb"]


def test_s6_inputs_in_another_order_do_not_get_each_others_results(attempts: Attempts) -> None:
    """P7: an input claims the records of its own value; a new one gets none."""
    agent = calls_of("a", "b")
    first = attempts.start(agent)
    for value in "xyz":
        first.process("k", value)
    first.run_until_idle()
    second = attempts.start(agent)
    for value in ("z", "new", "x", "y"):
        second.process("k", value)
    second.run_until_idle()
    assert called(second) == ["newa", "newb"]
    assert values(second) == [[f"{value}a!", f"{value}b!"] for value in ("z", "new", "x", "y")]


def test_s6_equal_inputs_claim_one_journal_each(attempts: Attempts) -> None:
    """Two inputs of one value are two runs: the second does not get the first one's results."""
    numbers = iter(range(10))

    async def count(what: Any) -> int:
        return next(numbers)

    agent = calls_of("a")
    first = attempts.start(agent, fakes={ask: count})
    first.process("k", "x")
    first.process("k", "x")
    first.run_until_idle()
    assert values(first) == [[0], [1]]
    second = attempts.start(agent, fakes={ask: count})
    for _ in range(3):
        second.process("k", "x")
    second.run_until_idle()
    assert values(second) == [[0], [1], [2]]


def test_p6_records_wait_over_a_checkpoint_for_their_input(attempts: Attempts) -> None:
    """The input comes back only after the next checkpoint cut the log: its records are in the state."""
    gate = Gate()
    agent = calls_of("a", "b")
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", "x")
    answer_all(first, gate, "xa")
    until(first, lambda: gate.is_waiting("xb"))
    second = attempts.start(agent)
    checkpoint = second.checkpoint()
    second.complete_checkpoint(checkpoint)
    second.close()
    third = attempts.start(agent, checkpoint=checkpoint)
    third.process("k", "x")
    third.run_until_idle()
    assert called(third) == ["xb"]


def test_s7_a_crash_before_the_acknowledgement_loses_only_that_call(attempts: Attempts) -> None:
    """P3: what the action had not seen may be lost; it is never half applied."""
    store = attempts.store = WatchedStore(attempts.folder)
    gate = Gate()
    agent = calls_of("a", "b")
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", "x")
    answer_all(first, gate, "xa")
    until(first, lambda: gate.is_waiting("xb"))
    store.hold()
    gate.answer("xb")
    until(first, lambda: first.stats.calls_executed == 2)
    checkpoint = first.checkpoint()
    store.release()
    second = attempts.start(agent, checkpoint=checkpoint, fakes={ask: never})
    second.run_until_idle()
    assert values(second) == [["xa!", "xb!"]]


def test_a_new_job_does_not_replay_the_records_of_another(attempts: Attempts) -> None:
    """Whose log is it: another job id on the same folder is another log."""
    agent = calls_of("a")
    first = attempts.start(agent)
    first.process("k", "x")
    first.run_until_idle()
    other = attempts.start(agent, job_id="other")
    other.process("k", "x")
    other.run_until_idle()
    assert called(other) == ["xa"]
    explicit = attempts.start(agent, job_id="third", options={"agents.job-id": "local"}, fakes={ask: never})
    explicit.process("k", "x")
    explicit.run_until_idle()
    assert values(explicit) == [["xa!"]]


def test_case_49_a_hundred_plain_functions_wait_at_a_time(attempts: Attempts) -> None:
    """Case 49: with default options each has a worker; the last one to arrive lets all of them go."""
    barrier = threading.Barrier(100, timeout=20)

    async def act(event: Any, ctx: RunnerContext) -> None:
        outcomes = await ctx.gather(*(ctx.durable_execute_async(compute, number) for number in range(100)))
        out(ctx, all(outcome.is_success() for outcome in outcomes))

    def meet(number: int) -> None:
        barrier.wait()

    runner = attempts.start(agent_of(act), fakes={compute: meet})
    runner.process("k", 1)
    runner.run_until_idle()
    assert values(runner) == [True]


def test_a_checkpoint_while_a_record_is_on_its_way(attempts: Attempts) -> None:
    """P4: the position of the checkpoint is that of the last applied record, so the later one is read."""
    store = attempts.store = WatchedStore(attempts.folder)
    gate = Gate()
    agent = calls_of("a", "b")
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", "x")
    until(first, lambda: gate.is_waiting("xa"))
    store.hold()
    gate.answer("xa")
    until(first, lambda: first.stats.calls_executed == 1 and store.settled)
    checkpoint = first.checkpoint()
    store.release()
    until(first, lambda: gate.is_waiting("xb"))
    first.complete_checkpoint(checkpoint)
    first.close()
    second = attempts.start(agent, checkpoint=checkpoint)
    second.run_until_idle()
    assert called(second) == ["xb"]
    assert values(second) == [["xa!", "xb!"]]


def test_case_47_a_new_attempt_does_not_wait_for_calls_of_the_old_one(attempts: Attempts) -> None:
    """Case 47: the task fails while another call has long to go; the restart is at once."""
    gate = Gate()
    agent = calls_of("a")
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k1", "x")
    first.process("k2", "y")
    until(first, lambda: gate.is_waiting("xa", "ya"))
    gate.fail("xa", ConnectionError("down"))
    with pytest.raises(Exception, match="down"):
        first.run_until_idle()
    second = attempts.start(agent)
    second.process("k1", "x")
    second.process("k2", "y")
    second.run_until_idle(timeout=20)
    assert sorted(values(second)) == [["xa!"], ["ya!"]]
