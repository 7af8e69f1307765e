"""The entry points with the real engine, without a JVM: order, drains, snapshots, stops, failures."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.events import InputEvent, OutputEvent
from flink_agents_durable.engine.ports import SEQUENCE
from flink_agents_durable.runtime import drain
from flink_agents_durable.runtime import operator as operator_module
from flink_agents_durable.runtime.operator import (
    CHECKPOINT,
    MORE_WORK,
    SAVEPOINT,
    STOP_SAVEPOINT,
)
from flink_agents_durable.runtime.task_failure import MAX_TRACEBACK_CHARS, TaskFailedError
from tests.runtime.fake_flink import DEADLINE, FakeFlink, FakeHost, plan_of
from tests.runtime.harness import eventually


class World:
    """What durable functions reach outside: counts calls, and holds them until they are let go."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.release = threading.Event()
        self.inside = threading.Semaphore(0)

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]


WORLD = World()


@pytest.fixture(autouse=True)
def _world() -> Iterator[None]:
    WORLD.reset()
    yield
    WORLD.release.set()


async def echo(value: Any) -> Any:
    WORLD.calls.append(value)
    return value


def held(value: Any) -> Any:
    WORLD.calls.append(value)
    WORLD.inside.release()
    assert WORLD.release.wait(DEADLINE)
    return value


def failing(value: Any) -> Any:
    raise ValueError(f"no {value}")


def agent_of(function: Callable[..., Any]) -> Agent:
    return Agent().add_action("act", [InputEvent], function)


async def call_echo(event: Any, ctx: Any) -> None:
    ctx.send_event(OutputEvent(output=await ctx.durable_execute_async(echo, event.input)))


async def call_held_or_echo(event: Any, ctx: Any) -> None:
    """Inputs that are texts wait for the release."""
    function = held if isinstance(event.input, str) else echo
    ctx.send_event(OutputEvent(output=await ctx.durable_execute_async(function, event.input)))


async def call_both(event: Any, ctx: Any) -> None:
    first = await ctx.durable_execute_async(echo, event.input)
    ctx.send_event(OutputEvent(output=await ctx.durable_execute_async(held, first)))


def call_sync(event: Any, ctx: Any) -> None:
    ctx.send_event(OutputEvent(output=ctx.durable_execute(held, event.input)))


@pytest.fixture
def open_flink() -> Iterator[Callable[..., FakeFlink]]:
    opened: list[FakeFlink] = []

    def make(*args: Any, **kwargs: Any) -> FakeFlink:
        opened.append(FakeFlink(*args, **kwargs))
        return opened[-1]

    make.opened = opened  # type: ignore[attr-defined]
    yield make
    WORLD.release.set()
    for flink in opened:
        flink.close()


@pytest.fixture(params=["none", "sqlite"])
def store_options(request: pytest.FixtureRequest, tmp_path: Any) -> dict[str, Any]:
    return {"store__type": request.param, "store__sqlite__path": str(tmp_path)}


Open = Callable[..., FakeFlink]


# ---- inputs and outputs


def test_every_input_gives_its_output_with_its_timestamp(open_flink: Open, store_options: Any) -> None:
    flink = open_flink(plan_of(agent_of(call_echo), **store_options))
    for number in range(20):
        flink.process(number % 3, number, None if number % 2 else 1_000 + number)
    flink.run_until_idle()
    assert sorted(flink.outputs) == sorted((n, None if n % 2 else 1_000 + n) for n in range(20))
    assert (flink.live, flink.in_flight) == (0, 0)


def test_dead_letters_leave_beside_the_outputs_with_the_timestamp(open_flink: Open) -> None:
    async def picky(event: Any, ctx: Any) -> None:
        if event.input == "bad":
            raise ValueError("no")
        await call_echo(event, ctx)

    flink = open_flink(plan_of(agent_of(picky), action_failure="dead-letter"))
    flink.process("k", "bad", 5)
    flink.process("k", "good", 6)
    flink.run_until_idle()
    assert flink.outputs == [("good", 6)]
    ((letter, timestamp),) = flink.dead_letters
    assert (letter.key, letter.input, letter.error, timestamp) == ("k", "bad", "builtins.ValueError: no", 5)


def test_values_of_any_kind_arrive(open_flink: Open) -> None:
    values: list[Any] = [None, False, 0, "", b"", [], 2**80, {1, 2}, {"a": (1, 2)}]  # cases 31 and 36
    flink = open_flink(plan_of(agent_of(call_echo)))
    for value in values:
        flink.process("key", value)
    flink.run_until_idle()
    assert flink.values == values


def test_s8_k4_watermarks_and_status_never_overtake_inputs(open_flink: Open, store_options: Any) -> None:
    flink = open_flink(plan_of(agent_of(call_held_or_echo), **store_options))
    flink.process("a", "slow", 5)
    flink.watermark(10)
    flink.process("b", 1, 15)
    flink.status(False)
    flink.status(True)
    flink.watermark(20)
    flink.run_until(lambda: flink.values == [1])
    assert flink.emitted == [(1, 15)]
    WORLD.release.set()
    flink.run_until_idle()
    assert flink.emitted == [(1, 15), ("slow", 5), 10, True, 20]


def test_watermarks_pass_when_they_are_not_held(open_flink: Open) -> None:
    flink = open_flink(plan_of(agent_of(call_held_or_echo), watermark__hold=False))
    flink.process("a", "slow", 5)
    flink.watermark(10)
    flink.status(False)
    assert flink.emitted == [10, False]


def test_k4_restored_inputs_come_before_every_later_watermark(open_flink: Open, store_options: Any) -> None:
    plan = plan_of(agent_of(call_held_or_echo), **store_options)
    first = open_flink(plan)
    first.process("a", "running", 1)
    first.process("a", "queued", 2)
    assert WORLD.inside.acquire(timeout=DEADLINE)
    snapshot = first.snapshot()
    second = open_flink(plan, snapshot)
    assert second.live == 2
    second.watermark(10)
    WORLD.release.set()
    second.run_until_idle()
    assert second.emitted == [("running", 1), ("queued", 2), 10]


def test_end_of_input_drains_and_the_last_watermark_comes_last(open_flink: Open, store_options: Any) -> None:
    flink = open_flink(plan_of(agent_of(call_held_or_echo), **store_options))
    for number in range(50):
        flink.process(number, str(number))
    flink.watermark(2**63 - 1)
    flink._apply(flink.rt.end_input())
    WORLD.release.set()
    flink.run_until_idle()
    assert flink.emitted[-1] == 2**63 - 1
    assert len(flink.values) == 50
    flink.rt.finish()
    assert flink.rt.drain() is None


# ---- drains


def test_k10_a_drain_is_bounded_by_number(open_flink: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain, "DRAIN_SECONDS", 1_000.0)
    flink = open_flink(plan_of(agent_of(call_echo)))
    for number in range(2_500):
        flink.process(number, number)
    flink.rt._ports.flush_starts()  # as a mail does a millisecond later
    eventually(lambda: flink.rt._executor.completed == 2_500)
    live = []
    for _ in range(3):
        result = flink.rt.drain()
        assert result is not None
        live.append(result[1])
        assert bool(result[2] & MORE_WORK) == (result[1] > 0)
    assert live == [1_500, 500, 0]


def test_k10_a_drain_is_bounded_by_time(open_flink: Open) -> None:
    async def slow_step(event: Any, ctx: Any) -> None:
        await ctx.durable_execute_async(echo, event.input)
        end = time.monotonic() + 0.0005
        while time.monotonic() < end:
            pass

    flink = open_flink(plan_of(agent_of(slow_step)))
    for number in range(1_000):
        flink.process(number, number)
    flink.rt._ports.flush_starts()  # as a mail does a millisecond later
    eventually(lambda: flink.rt._executor.completed == 1_000)
    result = flink.rt.drain()
    assert result is not None
    assert result[1] >= 1_000 - 2 * drain.DRAIN_CHUNK
    assert result[2] & MORE_WORK
    flink._apply(result)
    flink.run_until_idle()


def test_nothing_polls_an_idle_operator_has_no_wake_ups(open_flink: Open, store_options: Any) -> None:
    flink = open_flink(plan_of(agent_of(call_held_or_echo), **store_options))
    flink.process("a", "waits")
    assert WORLD.inside.acquire(timeout=DEADLINE)
    threading.Event().wait(drain.DRAIN_SECONDS + 1.1)  # the flush of metrics may come once
    flink.mail()
    wakes = flink.host.wakes
    threading.Event().wait(0.5)
    assert flink.host.wakes == wakes


def test_k6_dirty_keys_are_written_early(open_flink: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator_module, "FLUSH_RECORDS", 50)
    flink = open_flink(plan_of(agent_of(call_echo)))
    for number in range(300):
        flink.process(number, number)
    flink.run_until_idle()
    assert flink.flushes >= 5
    _, updates = flink.rt.snapshot(1, CHECKPOINT)
    assert len(updates) < 2 * 50
    assert len(flink.host.state) + len(updates) // 2 >= 300


# ---- restarts


def test_s1_l2_finished_calls_do_not_run_again(open_flink: Open, store_options: Any) -> None:
    plan = plan_of(agent_of(call_both), **store_options)
    first = open_flink(plan)
    first.process("a", 1)
    first.run_until(lambda: WORLD.inside.acquire(blocking=False))
    snapshot = first.snapshot()
    second = open_flink(plan, snapshot)
    WORLD.release.set()
    second.run_until_idle()
    assert second.values == [1]
    assert WORLD.calls == [1, 1, 1], "echo once, held once in each attempt"


def test_case_43_a_failover_before_the_first_checkpoint_finds_its_log(
    open_flink: Open, tmp_path: Any
) -> None:
    plan = plan_of(agent_of(call_both), store__type="sqlite", store__sqlite__path=str(tmp_path))
    first = open_flink(plan)
    first.process("a", 1)
    first.run_until(lambda: WORLD.inside.acquire(blocking=False))
    second = open_flink(plan)
    second.process("a", 1)
    WORLD.release.set()
    second.run_until_idle()
    assert second.values == [1]
    assert WORLD.calls.count(1) == 3


@pytest.mark.parametrize("other", [{"job_id": "another"}, {"plan_id": "another"}])
def test_a_new_job_or_deployment_never_replays_anothers_records(
    open_flink: Open, tmp_path: Any, other: dict[str, str]
) -> None:
    options = {"store__type": "sqlite", "store__sqlite__path": str(tmp_path)}
    job = {"job_id": other.get("job_id", "job")}
    for plan_id, kwargs in (("plan", {}), (other.get("plan_id", "plan"), job)):
        flink = open_flink(plan_of(agent_of(call_echo), plan_id, **options), **kwargs)
        flink.process("a", 1)
        flink.run_until_idle()
        flink.close()
    assert WORLD.calls == [1, 1]


def test_a_restore_in_a_new_job_goes_on_with_its_log(open_flink: Open, tmp_path: Any) -> None:
    options = {"store__type": "sqlite", "store__sqlite__path": str(tmp_path)}
    first = open_flink(plan_of(agent_of(call_both), **options))
    snapshot = first.snapshot()
    first.process("a", 1)
    first.run_until(lambda: WORLD.inside.acquire(blocking=False))
    second = open_flink(plan_of(agent_of(call_both), "later", **options), snapshot, job_id="later")
    second.process("a", 1)
    WORLD.release.set()
    second.run_until_idle()
    assert WORLD.calls.count(1) == 3, "the first call was in the tail of the log"


def test_an_explicit_job_id_finds_the_log_without_a_checkpoint(open_flink: Open, tmp_path: Any) -> None:
    options = {"store__type": "sqlite", "store__sqlite__path": str(tmp_path), "job_id": "mine"}
    for number in range(2):
        flink = open_flink(plan_of(agent_of(call_echo), f"plan-{number}", **options), job_id=f"job-{number}")
        flink.process("a", 1)
        flink.run_until_idle()
        flink.close()
    assert WORLD.calls == [1]


def test_a_restore_with_another_explicit_id_is_a_fork(open_flink: Open, tmp_path: Any) -> None:
    """It neither reads the old log nor fences the job that writes it."""
    options = {"store__type": "sqlite", "store__sqlite__path": str(tmp_path)}
    old = open_flink(plan_of(agent_of(call_echo), job_id="old", **options))
    snapshot = old.snapshot()
    old.process("a", 1)
    old.run_until_idle()
    fork = open_flink(plan_of(agent_of(call_echo), job_id="new", **options), snapshot)
    fork.process("a", 1)
    fork.run_until_idle()
    assert WORLD.calls == [1, 1]
    old.process("a", 2)
    old.run_until_idle()
    assert old.values == [1, 2]


def test_s3_a_zombie_is_fenced_and_its_attempt_ends(open_flink: Open, tmp_path: Any) -> None:
    plan = plan_of(agent_of(call_echo), store__type="sqlite", store__sqlite__path=str(tmp_path))
    zombie = open_flink(plan)
    open_flink(plan)
    zombie.process("a", 1)
    with pytest.raises(TaskFailedError, match="Fenced"):
        zombie.run_until_idle()
    assert zombie.values == []


# ---- stop with savepoint


def test_k7_after_the_savepoint_of_a_stop_nothing_starts_and_nothing_is_emitted(
    open_flink: Open, store_options: Any
) -> None:
    plan = plan_of(agent_of(call_held_or_echo), call__max_concurrency=1, **store_options)
    flink = open_flink(plan)
    flink.process("a", "running", 1)
    flink.process("b", 2, 2)
    flink.run_until(lambda: WORLD.inside.acquire(blocking=False))
    flink.snapshot(7, STOP_SAVEPOINT)
    WORLD.release.set()
    eventually(lambda: flink.rt._executor.running == 0)
    flink.process("c", 3, 3)
    flink.watermark(10)
    flink.mail()
    assert flink.emitted == []
    assert WORLD.calls == ["running"]
    flink.rt.aborted(6)
    flink.mail()
    assert flink.emitted == []
    flink.rt.aborted(7)
    flink.run_until(lambda: len(flink.emitted) == 4)
    assert sorted(flink.outputs, key=str) == [("running", 1), (2, 2), (3, 3)] or flink.emitted[-1] == 10
    assert sorted(map(str, flink.values)) == ["2", "3", "running"]
    assert flink.emitted[-1] == 10


def test_k7_a_savepoint_that_is_no_stop_stops_nothing(open_flink: Open) -> None:
    flink = open_flink(plan_of(agent_of(call_echo)))
    flink.snapshot(1, SAVEPOINT)
    flink.process("a", 1)
    flink.run_until_idle()
    assert flink.values == [1]


# ---- failures


def test_an_uncaught_failure_reaches_java_as_a_formatted_traceback(
    open_flink: Open, store_options: Any
) -> None:
    async def act(event: Any, ctx: Any) -> None:
        await ctx.durable_execute_async(failing, event.input)

    flink = open_flink(plan_of(agent_of(act), **store_options))
    flink.process("a", "luck")
    with pytest.raises(TaskFailedError) as caught:
        flink.run_until_idle()
    text = caught.value.args[0]
    assert "ValueError: no luck" in text
    assert 'raise ValueError(f"no {value}")' in text
    assert "Traceback" in text


def test_a_method_with_several_arguments_never_raises(open_flink: Open) -> None:
    """pemja 0.5.7 crashes the JVM when one does."""

    def act(event: Any, ctx: Any) -> None:
        raise ValueError("no luck")

    flink = open_flink(plan_of(agent_of(act)))
    result = flink.rt.process(b"key", 1, pickle.dumps(("key", 1)), None, None)
    assert result == (0, 1, MORE_WORK), "the input is live, so that no watermark passes it"
    assert "no luck" in flink.rt.snapshot(1, CHECKPOINT)
    with pytest.raises(TaskFailedError, match="no luck"):
        flink.rt.drain()


def test_a_plan_or_state_that_cannot_be_read_fails_the_start(open_flink: Open) -> None:
    broken = operator_module.open_operator(FakeHost(), {"plan": b"not a pickle"})
    broken.restore_group(1, b"")
    broken.restore_key(b"key", 1, [])
    with pytest.raises(TaskFailedError, match="Traceback"):
        broken.start()
    assert broken.close()
    flink = open_flink(plan_of(agent_of(call_echo)))
    flink.rt.restore_group(3, b"not a blob")
    with pytest.raises(TaskFailedError, match="key group 3"):
        flink.rt.start()


def test_a_long_traceback_is_cut_in_the_middle(open_flink: Open) -> None:
    def act(event: Any, ctx: Any) -> None:
        raise ValueError("x" * 200_000)

    flink = open_flink(plan_of(agent_of(act)))
    flink.process("a", 1)
    with pytest.raises(TaskFailedError, match="characters left out") as caught:
        flink.mail()
    assert len(caught.value.args[0]) < MAX_TRACEBACK_CHARS + 100


def test_case_12_k5_an_interrupt_of_a_synchronous_call_ends_the_attempt(
    open_flink: Open, store_options: Any
) -> None:
    plan = plan_of(agent_of(call_sync), **store_options)
    first = open_flink(plan)
    snapshot = first.snapshot()
    first.host.interrupted.set()
    first.process("a", 1)
    assert first.host.woken.is_set(), "a drain is asked for, which raises"
    with pytest.raises(TaskFailedError, match="InterruptedException"):
        first.mail()
    WORLD.release.set()
    first.process("b", 2)
    with pytest.raises(TaskFailedError, match="InterruptedException"):
        first.watermark(1)
    second = open_flink(plan, snapshot)
    second.process("a", 1)
    second.run_until_idle()
    assert second.values == [1]
    assert WORLD.calls == [1, 1], "case 10: the interrupted call was not recorded"


def test_k5_a_synchronous_call_waits_interruptibly_for_its_record(open_flink: Open, tmp_path: Any) -> None:
    plan = plan_of(agent_of(call_sync), store__type="sqlite", store__sqlite__path=str(tmp_path))
    flink = open_flink(plan)
    timer = threading.Timer(0.05, WORLD.release.set)
    timer.start()
    for number in range(5):
        flink.process("a", number)
    flink.run_until_idle()
    assert flink.values == [0, 1, 2, 3, 4]
    assert WORLD.calls == [0, 1, 2, 3, 4]


class BrokenStore:
    """Its writer fails at the first append, as that of a full disk does."""

    name = "broken"
    durable = True
    max_record_bytes = None
    missing: dict[int, int] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.positions_asked: dict[int, Any] = {}

    def open(self, log_id: str, positions: Any, on_ack: Any, wait: Any = None) -> Iterator[Any]:
        self.positions_asked = dict(positions)
        self.on_ack = on_ack
        return iter(())

    def append(self, records: Any) -> None:
        def fail() -> None:
            self.failure = OSError("disk full")
            self.on_ack()

        threading.Thread(target=fail).start()

    def acknowledged(self) -> int:
        if self.failure is not None:
            raise self.failure
        return 0

    def wait_acknowledged(self, batches: int, wait: Any) -> None:
        while self.acknowledged() < batches:
            wait(0.1)

    def positions(self, batches: int) -> dict[int, int]:
        return dict.fromkeys(self.positions_asked, 0)

    def truncate(self, positions: Any) -> None: ...

    def close(self, timeout: float) -> bool:
        return True


@pytest.mark.parametrize("act", [call_echo, call_sync])
def test_a_failure_of_the_writer_always_surfaces(
    open_flink: Open, monkeypatch: pytest.MonkeyPatch, act: Callable[..., Any]
) -> None:
    WORLD.release.set()
    flink = open_flink(plan_of(agent_of(act)), store=BrokenStore(), monkeypatch=monkeypatch)

    def run() -> None:
        flink.process("a", 1)
        flink.run_until_idle()

    with pytest.raises(TaskFailedError, match="disk full"):
        run()


# ---- close


def test_i4_case_47_close_does_not_wait_for_calls_and_late_results_are_ignored(
    open_flink: Open, store_options: Any
) -> None:
    plan = plan_of(agent_of(call_held_or_echo), close_timeout=0.3, **store_options)
    flink = open_flink(plan)
    flink.process("a", "stuck")
    assert WORLD.inside.acquire(timeout=DEADLINE)
    snapshot = flink.snapshot()
    started = time.monotonic()
    assert not flink.close()
    assert time.monotonic() - started < 2.0
    wakes = flink.host.wakes
    WORLD.release.set()
    eventually(lambda: not flink.rt._executor._workers.busy)
    assert flink.host.wakes == wakes
    second = open_flink(plan, snapshot)
    second.run_until_idle()
    assert second.values == ["stuck"]
    assert WORLD.calls == ["stuck", "stuck"]


def test_k11_a_stuck_worker_keeps_no_host_alive(open_flink: Open) -> None:
    flink = open_flink(plan_of(agent_of(call_held_or_echo), close_timeout=0.1))
    flink.process("a", "stuck")
    assert WORLD.inside.acquire(timeout=DEADLINE)
    assert not flink.close()
    gone: weakref.ref[FakeHost] = weakref.ref(flink.host)
    rt = flink.rt
    flink.__dict__.pop("host")
    gc.collect()
    assert gone() is None
    assert rt.close() in (True, False)


def test_a_clean_close_says_so(open_flink: Open, store_options: Any) -> None:
    flink = open_flink(plan_of(agent_of(call_echo), **store_options))
    flink.process("a", 1)
    flink.run_until_idle()
    assert flink.close()


def test_close_after_a_start_that_failed(tmp_path: Any) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    plan = plan_of(agent_of(call_echo), store__type="sqlite", store__sqlite__path=str(blocked))
    before = threading.active_count()
    with pytest.raises(TaskFailedError, match="StoreUnavailableError"):
        FakeFlink(plan)
    eventually(lambda: threading.active_count() <= before)


def test_k11_references_that_pemja_keeps_to_methods_keep_no_operator_alive(open_flink: Open) -> None:
    """It never lets go of what it got for a name, so that this must be one object, empty after close."""
    flink = open_flink(plan_of(agent_of(call_echo)))
    kept = [getattr(flink.rt, name) for name in ("restore_group", "restore_key", "process", "snapshot")]
    assert all(getattr(flink.rt, name) in kept for name in ("restore_group", "process", "snapshot"))
    assert flink.close()
    gone = weakref.ref(flink.rt)
    flink.__dict__.pop("rt")
    open_flink.opened.clear()  # type: ignore[attr-defined]
    del flink
    gc.collect()
    assert gone() is None
    with pytest.raises(RuntimeError, match="closed"):
        kept[2](b"key", 1, b"", None)


# ---- timers and metrics


def test_p24_a_durable_timer_wakes_an_idle_operator(open_flink: Open, store_options: Any) -> None:
    async def act(event: Any, ctx: Any) -> None:
        await asyncio.sleep(event.input)
        ctx.send_event(OutputEvent(output=event.input))

    flink = open_flink(plan_of(agent_of(act), **store_options))
    for number, delay in enumerate((0.2, 0.05, 0.1)):
        flink.process(number, delay)
    flink.run_until_idle()
    assert flink.values == [0.05, 0.1, 0.2]


def test_metrics_are_flushed_once_a_second_without_further_input(open_flink: Open) -> None:
    async def act(event: Any, ctx: Any) -> None:
        await ctx.durable_execute_async(echo, event.input)
        ctx.agent_metric_group.get_counter("seen").inc()
        ctx.action_metric_group.get_sub_group("sub").get_gauge("last").update(event.input)

    flink = open_flink(plan_of(agent_of(act)))
    for number in range(3):
        flink.process("a", number)
    flink.run_until(lambda: flink.host.metrics.get("agent.seen") == 3)
    assert flink.host.metrics["agent.act.sub.last"] == 2
    assert flink.host.metrics["durable.callsExecuted"] == 3
    assert flink.host.metrics["durable.runs"] == 3


def test_metrics_of_a_replay_do_not_count_again(open_flink: Open) -> None:
    async def act(event: Any, ctx: Any) -> None:
        await ctx.durable_execute_async(echo, event.input)
        ctx.agent_metric_group.get_counter("seen").inc()
        await ctx.durable_execute_async(echo, event.input)
        await ctx.durable_execute_async(held, event.input)
        ctx.agent_metric_group.get_counter("done").inc()

    plan = plan_of(agent_of(act))
    first = open_flink(plan)
    first.process("a", 1)
    first.run_until(lambda: WORLD.inside.acquire(blocking=False))
    second = open_flink(plan, first.snapshot())
    WORLD.release.set()
    second.run_until_idle()
    second.rt.finish()
    assert second.host.metrics["agent.done"] == 1
    assert second.host.metrics.get("agent.seen", 0) == 0


def test_payloads_of_java_are_bytes_of_any_kind(open_flink: Open) -> None:
    flink = open_flink(plan_of(agent_of(call_echo)))
    flink._apply(flink.rt.process(bytearray(b"key"), 1, bytearray(pickle.dumps(("key", 1))), None, None))  # type: ignore[arg-type]
    flink.run_until_idle()
    assert flink.values == [1]


def test_p25_a_walk_over_all_keys_forgets_what_has_expired(
    open_flink: Open, store_options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State and floor are in one snapshot: a key that comes back gets new numbers, and with them new ids."""
    now = [1_000_000]
    monkeypatch.setattr(operator_module, "wall_clock", lambda: now[0])

    async def act(event: Any, ctx: Any) -> None:
        count = ctx.short_term_memory.get("count", 0)
        ctx.short_term_memory.set("count", count + 1)
        ctx.send_event(OutputEvent(output=(count, ctx.run_id)))

    plan = plan_of(agent_of(act), **store_options, short_term_memory__ttl="1 s")
    flink = open_flink(plan)
    assert flink.rt.sweep_interval() == 1_000
    for key in ("old", "old", "new"):
        now[0] += 400
        flink.process(key, 1)
    flink.run_until_idle()
    flink.snapshot()
    now[0] += 700
    assert flink.sweep() == 1
    assert flink.sweep() == 0
    snapshot = flink.snapshot(2)
    assert [SEQUENCE in {kind for kind, _ in known} for known in snapshot.state.values()].count(True) == 1
    flink.close()
    second = open_flink(plan, snapshot)
    second.process("old", 1)
    second.process("new", 1)
    second.run_until_idle()
    assert [count for count, _ in second.values] == [0, 1]
    assert not {run for _, run in second.values} & {run for _, run in flink.values}


def test_nothing_is_walked_over_without_a_time_to_live(open_flink: Open) -> None:
    assert open_flink(plan_of(agent_of(call_echo))).rt.sweep_interval() is None
