"""P19, case 25: attempts are counted once, and go on after a failure where they were."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flink_agents_durable import ActionFailedError, CallOptions, RetryPolicy, RunnerContext
from flink_agents_durable.api.errors import AttemptEndedError
from flink_agents_durable.engine.records import REOPEN
from flink_agents_durable.testing import LocalRunner, check_replay
from tests.contracts.functions import ask, never
from tests.contracts.kit import Attempts, Gate, WatchedStore, agent_of, called, out, until, values
from tests.contracts.retries import (
    AWAITED,
    KINDS,
    STEADY,
    Server,
    ask_again,
    asking,
    failed_attempts,
    idle,
    records,
    run,
)


@pytest.mark.parametrize("from_checkpoint", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_p19_a_restart_during_the_back_off_waits_only_for_the_rest(
    attempts: Attempts, kind: str, from_checkpoint: bool
) -> None:
    """Then the next attempt runs, and nothing is reconciled: the call is not in doubt."""
    server = Server(failures=2)
    agent = asking(kind, CallOptions(retry=STEADY), server.found)
    if kind == "synchronous":
        if from_checkpoint:
            pytest.skip("a synchronous call holds its checkpoints")
        first = attempts.start(agent, fakes={ask: server})
        with dying_in_back_off(first, 2), pytest.raises((Died, AttemptEndedError)):
            first.process("k", 1)
        checkpoint = None
    else:
        first = attempts.start(agent, fakes={ask: server})
        first.process("k", 1)
        first.run_until_idle()
        first.advance(60)
        first.run_until_idle()
        checkpoint = first.checkpoint() if from_checkpoint else None
    start = 1_700_000_000
    assert server.reached == 2
    second = attempts.start(agent, checkpoint=checkpoint, fakes={ask: server}, time=start + 60 + 100)
    if checkpoint is None:
        second.process("k", 1)
    if kind != "synchronous":
        second.run_until_idle()
        assert server.reached == 2, "20 of the 120 seconds are left"
        second.advance(19.9)
        assert server.reached == 2
        second.advance(0.1)
        second.run_until_idle()
    assert second.time == start + 60 + 120
    assert values(second) == ["a!"]
    assert (server.reached, server.reconciled) == (3, 0)
    assert second.stats.calls_retried == 0


class Died(BaseException):
    """The process is gone."""


def dying_in_back_off(runner: LocalRunner, times: int) -> Any:
    """The process dies in this back-off of a synchronous call."""
    ports = runner._ports
    left = [times]
    original = ports.wait_until

    def wait_until(when: int) -> None:
        left[0] -= 1
        if not left[0]:
            raise Died
        original(when)

    context = pytest.MonkeyPatch.context()

    class Patched:
        def __enter__(self) -> None:
            context.__enter__().setattr(ports, "wait_until", wait_until)

        def __exit__(self, *error: object) -> None:
            context.__exit__(*error)

    return Patched()


class DyingStore(WatchedStore):
    """Takes so many records, then the process dies with the next batch."""

    left = 1_000

    def append(self, records: Any) -> None:
        if len(records) > self.left:
            raise Died
        self.left -= len(records)
        super().append(records)


@pytest.mark.parametrize("with_reconciler", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_case_25_attempts_are_counted_once_wherever_the_process_dies(
    attempts: Attempts, kind: str, with_reconciler: bool
) -> None:
    """Before each record in turn: an attempt counts when its record is durable, and only then."""
    point = 0
    while True:
        store = attempts.store = DyingStore(attempts.folder / str(point))
        server = Server(failures=1_000)
        agent = asking(kind, CallOptions(retry=STEADY), server.found if with_reconciler else None)
        first = attempts.start(agent, fakes={ask: server})
        store = store._attempts[-1]
        store.left = point
        try:
            run(first)
            died = False
        except (Died, AttemptEndedError):
            died = True
        counted = len(failed_attempts(store))
        in_doubt = server.reached > counted and died
        second = attempts.start(agent, fakes={ask: server}, time=first.time)
        run(second)
        reconciled = in_doubt and with_reconciler
        assert server.reconciled == reconciled
        if reconciled:
            assert values(second) == ["found"]
        else:
            assert [number for number, _ in failed_attempts(store)][:3] == [1, 2, 3]
            assert server.reached == 4 + in_doubt, "those whose failure was recorded, and the one that died"
            assert values(second) == [f"ConnectionError: refused {server.reached}"]
        if not died:
            assert point >= 5
            return
        point += 1


@pytest.mark.parametrize("kind", AWAITED)
def test_case_25_a_kill_during_an_attempt_is_not_counted(attempts: Attempts, kind: str) -> None:
    """However often the process dies in the second of two attempts, it is made again."""
    options = CallOptions(retry=RetryPolicy(max_attempts=2, jitter=False))
    gate = Gate()
    first = attempts.start(asking(kind, options), fakes={ask: Server(failures=1)})
    first.process("k", 1)
    first.run_until_idle()
    first.advance(0.5)
    time = first.time
    for _ in range(4):
        runner = attempts.start(asking(kind, options), fakes={ask: gate}, time=time)
        runner.process("k", 1)
        runner.advance(0.5)
        until(runner, lambda: gate.is_waiting("a"))
        gate._waiting.clear()
        time = runner.time
    last = attempts.start(asking(kind, options), fakes={ask: ask}, time=time)
    run(last)
    assert values(last) == ["a!"]


@pytest.mark.parametrize("kind", AWAITED)
def test_p19_the_doubt_is_per_attempt(attempts: Attempts, kind: str) -> None:
    """A crash in the second attempt is reconciled, although the first one had failed."""
    server, gate = Server(failures=1), Gate()
    agent = asking(kind, CallOptions(retry=STEADY), server.found)
    first = attempts.start(agent, fakes={ask: server})
    first.process("k", 1)
    first.run_until_idle()
    second = attempts.start(agent, fakes={ask: gate}, time=first.time + 60)
    second.process("k", 1)
    until(second, lambda: gate.is_waiting("a"))
    third = attempts.start(agent, fakes={ask: never}, time=second.time)
    run(third)
    assert values(third) == ["found"]
    assert server.reconciled == 1


@pytest.mark.parametrize("kind", AWAITED)
def test_r2_what_a_reconciler_raises_is_not_tried_again(attempts: Attempts, kind: str) -> None:
    """It is the outcome, whatever the policy says."""
    server, gate = Server(failures=0), Gate()
    agent = asking(kind, CallOptions(retry=STEADY), server.missing)
    first = attempts.start(agent, fakes={ask: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("a"))
    second = attempts.start(agent, fakes={ask: never})
    run(second)
    assert values(second) == ["LookupError: no such payment"]
    assert server.reconciled == 1


@pytest.mark.parametrize("kind", AWAITED)
def test_p10_each_attempt_of_a_reconcilable_call_is_pending_before_it_starts(
    attempts: Attempts, kind: str
) -> None:
    """The second one waits for its own reservation."""
    store = attempts.store = WatchedStore(attempts.folder)
    server = Server(failures=1)
    runner = attempts.start(asking(kind, CallOptions(retry=STEADY), server.found), fakes={ask: server})
    runner.process("k", 1)
    runner.run_until_idle()
    store._attempts[-1].hold()
    before = len(store.batches)
    runner._engine.fire_timers(runner._time + 60_000)
    until(runner, lambda: len(store.batches) > before and store.settled)
    runner.advance(0)
    assert server.reached == 1
    store._attempts[-1].release()
    runner.run_until_idle()
    assert server.reached == 2
    assert values(runner) == ["a!"]


def test_p19_the_back_off_begins_when_its_record_is_durable(attempts: Attempts) -> None:
    """Before that the next attempt does not start, however late it is."""
    store = attempts.store = WatchedStore(attempts.folder)
    server = Server(failures=1)
    runner = attempts.start(asking("async", CallOptions(retry=STEADY)), fakes={ask: server})
    store = store._attempts[-1]
    store.hold()
    runner.process("k", 1)
    until(runner, lambda: server.reached == 1 and len(store.batches) == 2)
    runner._engine.fire_timers(runner._time + 100_000)
    until(runner, lambda: store.settled)
    assert server.reached == 1
    assert runner._ports.timer is None
    store.release()
    until(runner, lambda: runner._ports.timer is not None)
    idle(runner)
    assert values(runner) == ["a!"]


def test_p13_a_mismatch_voids_the_attempts_of_its_slot(attempts: Attempts) -> None:
    """Another call has its own count; so has the first one when it comes back."""

    def agent(what: str) -> Any:
        async def act(event: Any, ctx: RunnerContext) -> None:
            try:
                out(ctx, await ask_again(ctx, "async", CallOptions(retry=STEADY), what))
            except ConnectionError as error:
                out(ctx, str(error))

        return agent_of(act)

    store = attempts.store = WatchedStore(attempts.folder)
    server = Server(failures=1_000)
    time = 1_700_000_000.0
    for what, mismatches in (("a", 0), ("b", 1), ("a", 1)):
        runner = attempts.start(agent(what), fakes={ask: server}, time=time)
        runner.process("k", 1)
        runner.run_until_idle()
        assert runner.stats.mismatches == mismatches
        time = runner.time
    idle(runner)
    assert failed_attempts(store) == [(1, 60), (1, 60), (1, 60), (2, 120), (3, 240)]
    assert values(runner) == ["refused 6"]
    again = attempts.start(agent("a"), fakes={ask: never})
    run(again)
    assert again.stats.mismatches == 0


def test_p13_a_mismatch_voids_the_attempts_of_later_slots(attempts: Attempts) -> None:
    """They may depend on what came before: their calls begin with a fresh count."""

    def agent(what: str) -> Any:
        async def act(event: Any, ctx: RunnerContext) -> None:
            options = CallOptions(retry=STEADY)
            calls = [ctx.durable_execute_async(ask, name, options=options) for name in (what, "later")]
            await ctx.gather(*calls)

        return agent_of(act)

    store = attempts.store = WatchedStore(attempts.folder)
    for what in ("a", "b"):
        runner = attempts.start(agent(what), fakes={ask: Server(failures=1_000)})
        runner.process("k", 1)
        runner.run_until_idle()
        assert sorted(called(runner)) == [what, "later"]
    assert failed_attempts(store) == [(1, 60)] * 4


def test_p13_attempts_that_a_cut_voids_stay_void_in_a_checkpoint(attempts: Attempts) -> None:
    """A snapshot behind the cut holds nothing of them."""

    def agent(what: str) -> Any:
        return asking_for(what)

    def asking_for(what: str) -> Any:
        async def act(event: Any, ctx: RunnerContext) -> None:
            out(ctx, await ask_again(ctx, "async", CallOptions(retry=STEADY), what))

        return agent_of(act)

    first = attempts.start(agent("a"), fakes={ask: Server(failures=9)})
    first.process("k", 1)
    first.run_until_idle()
    first.advance(60)
    first.run_until_idle()
    gate = Gate()
    second = attempts.start(agent("b"), fakes={ask: gate}, time=first.time)
    second.process("k", 1)
    until(second, lambda: gate.is_waiting("b"))
    checkpoint = second.checkpoint()
    server = Server(failures=3)
    third = attempts.start(agent("b"), checkpoint=checkpoint, fakes={ask: server}, time=second.time)
    idle(third)
    assert third.stats.mismatches == 0
    assert (server.reached, values(third)) == (4, ["b!"])


@pytest.mark.parametrize("with_reconciler", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_case_44_p14_a_call_whose_last_failure_nothing_caught_starts_with_a_fresh_count(
    attempts: Attempts, kind: str, with_reconciler: bool
) -> None:
    """Case 44: the task fails, then the call is made again, and not reconciled: its last attempt had failed."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        reconciler = server.missing if with_reconciler else None
        out(ctx, await ask_again(ctx, kind, options, reconciler=reconciler))

    options = CallOptions(retry=RetryPolicy(max_attempts=2, jitter=False))
    store = attempts.store = WatchedStore(attempts.folder)
    server = Server(failures=3)
    first = attempts.start(agent_of(act), fakes={ask: server})
    with pytest.raises(ActionFailedError, match="refused 2"):
        run(first)
    assert [record.kind for record in records(store)][-1] == REOPEN
    second = attempts.start(agent_of(act), fakes={ask: server}, time=first.time)
    run(second)
    assert values(second) == ["a!"]
    assert (server.reached, server.reconciled) == (4, 0)


def test_p14_without_a_store_a_restored_count_starts_anew_once(storeless: Attempts) -> None:
    """An execution that fails by what came from the checkpoint starts again in place, once."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        outcome = (await ctx.gather(ctx.durable_execute_async(ask, "a", options=options)))[0]
        await asyncio.sleep(10)
        out(ctx, outcome.value)

    options = CallOptions(retry=RetryPolicy(max_attempts=2, jitter=False))
    server = Server(failures=1_000)
    first = storeless.start(agent_of(act), fakes={ask: server})
    first.process("k", 1)
    first.run_until_idle()
    first.advance(1)
    first.run_until_idle()
    assert server.reached == 2
    second = storeless.start(agent_of(act), checkpoint=first.checkpoint(), fakes={ask: server})
    with pytest.raises(ActionFailedError, match="refused 4"):
        idle(second)
    assert server.reached == 4


def test_p14_without_a_store_a_failure_of_this_attempt_fails_the_task(storeless: Attempts) -> None:
    """Though its back-off came from the checkpoint: else it would be tried for ever in place."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ask_again(ctx, "async", CallOptions(retry=RetryPolicy(max_attempts=3, jitter=False))))

    server = Server(failures=1_000)
    first = storeless.start(agent_of(act), fakes={ask: server})
    first.process("k", 1)
    first.run_until_idle()
    second = storeless.start(agent_of(act), checkpoint=first.checkpoint(), fakes={ask: server})
    with pytest.raises(ActionFailedError, match="refused 3"):
        idle(second)


@pytest.mark.parametrize("kind", AWAITED)
def test_l2_without_a_store_a_checkpoint_keeps_the_attempts(storeless: Attempts, kind: str) -> None:
    """Count and rest of the wait are in it."""
    server = Server(failures=2)
    agent = asking(kind, CallOptions(retry=RetryPolicy(max_attempts=3, initial_interval=60, jitter=False)))
    first = storeless.start(agent, fakes={ask: server})
    first.process("k", 1)
    first.run_until_idle()
    checkpoint = first.checkpoint()
    second = storeless.start(agent, checkpoint=checkpoint, fakes={ask: server}, time=first.time + 50)
    second.run_until_idle()
    assert server.reached == 1
    second.advance(10)
    second.run_until_idle()
    assert server.reached == 2
    idle(second)
    assert values(second) == ["a!"]


def test_the_journal_of_a_call_that_is_tried_for_ever_stays_small(attempts: Attempts) -> None:
    """The keyed state holds the last failed attempt only, also after a restore."""
    server = Server(failures=60)
    policy = RetryPolicy(max_attempts=1_000, initial_interval=1, backoff_factor=1, jitter=False)
    agent = asking("async", CallOptions(retry=policy), server.found)
    runner = attempts.start(agent, fakes={ask: server})
    runner.process("k", 1)
    for _ in range(2):
        for _ in range(20):
            runner.run_until_idle()
            runner.advance(1)
            runner.run_until_idle()
        checkpoint = runner.checkpoint()
        assert runner._ports.state.entries() <= 8
        runner = attempts.start(agent, checkpoint=checkpoint, fakes={ask: server}, time=runner.time)
    idle(runner)
    assert (server.reached, values(runner)) == (61, ["a!"])
    runner.checkpoint()
    assert runner._ports.state.entries() == 0


@pytest.mark.parametrize("with_reconciler", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_check_replay_knows_attempts(kind: str, with_reconciler: bool) -> None:
    """Every crash point of a retried call, from the log and from a checkpoint."""
    server = Server(failures=2)
    agent = asking(kind, CallOptions(retry=STEADY), server.found if with_reconciler else None)
    report = check_replay(agent, [("k", 1)], fakes={ask: server})
    assert (report.calls, report.outputs) == (1, 1)


def test_a_policy_that_the_code_dropped_leaves_the_count_without_effect(attempts: Attempts) -> None:
    """The next attempt runs at once, and its failure is final."""
    server = Server(failures=2)
    first = attempts.start(asking("async", CallOptions(retry=STEADY)), fakes={ask: server})
    first.process("k", 1)
    first.run_until_idle()

    async def act(event: Any, ctx: RunnerContext) -> None:
        with pytest.raises(ConnectionError, match="refused 2"):
            await ctx.durable_execute_async(ask, "a")
        out(ctx, called(second))

    second = attempts.start(agent_of(act), fakes={ask: server})
    second.process("k", 1)
    second.run_until_idle()
    assert values(second) == [["a"]]
