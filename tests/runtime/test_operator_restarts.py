"""Many attempts of one job: random crashes and checkpoints, other parallelisms, truncation."""

from __future__ import annotations

import gc
import itertools
import os
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.events import InputEvent, OutputEvent
from flink_agents_durable.runtime.operator import CHECKPOINT, SAVEPOINT
from tests.runtime.fake_flink import DEADLINE, MAX_PARALLELISM, FakeFlink, Snapshot, merged, plan_of

CALLS: Counter[Any] = Counter()
GATE = threading.Event()


@pytest.fixture(autouse=True)
def _world() -> Iterator[None]:
    CALLS.clear()
    GATE.clear()
    yield
    GATE.set()


async def quick(value: Any) -> Any:
    CALLS[value] += 1
    return value


def slow(value: Any) -> Any:
    CALLS[value] += 1
    assert GATE.wait(DEADLINE)
    return value


async def steps(event: Any, ctx: Any) -> None:
    """Four calls, with the gate before the third."""
    number = event.input
    seen = [
        await ctx.durable_execute_async(quick, (number, 0)),
        await ctx.durable_execute_async(quick, (number, 1)),
        await ctx.durable_execute_async(slow, (number, 2)),
        await ctx.durable_execute_async(quick, (number, 3)),
    ]
    ctx.send_event(OutputEvent(output=(number, len(seen))))


AGENT = Agent().add_action("steps", [InputEvent], steps)


def parts(parallelism: int) -> list[range]:
    """Key groups by subtask, as Flink deals them out."""
    bounds = [(i * MAX_PARALLELISM + parallelism - 1) // parallelism for i in range(parallelism + 1)]
    return [range(low, high) for low, high in itertools.pairwise(bounds)]


@pytest.mark.parametrize("store", ["none", "sqlite"])
def test_s5_every_key_continues_at_another_parallelism(store: str, tmp_path: Any) -> None:
    """2 -> 3 -> 1, while every run waits in its third call."""
    plan = plan_of(AGENT, store__type=store, store__sqlite__path=str(tmp_path), close_timeout=0.2)
    snapshot: Snapshot | None = None
    opened: list[FakeFlink] = []
    for attempt, parallelism in enumerate((2, 3, 1), start=1):
        subtasks = [FakeFlink(plan, snapshot, groups=groups) for groups in parts(parallelism)]
        opened += subtasks
        if snapshot is None:
            for number in range(20):
                owner = next(s for s in subtasks if s.owns(number))
                owner.process(number, number)
        for subtask in subtasks:
            mine = [number for number in range(20) if subtask.owns(number)]
            subtask.run_until_seen(lambda m=mine, a=attempt: all(CALLS[(n, 2)] == a for n in m), "all wait")
        snapshot = merged(subtask.snapshot() for subtask in subtasks)
    GATE.set()
    opened[-1].run_until_idle()
    assert sorted(opened[-1].values) == [(number, 4) for number in range(20)]
    assert {CALLS[(number, step)] for number in range(20) for step in (0, 1, 3)} == {1}
    for flink in opened:
        flink.close()


@pytest.mark.parametrize("seed", range(6))
def test_no_recorded_call_runs_again_whatever_crashes(seed: int, tmp_path: Any) -> None:
    """Crashes at random points, restores from the last completed checkpoint, and replays the source."""
    GATE.set()
    rng = random.Random(seed)
    plan = plan_of(AGENT, store__type="sqlite", store__sqlite__path=str(tmp_path))
    inputs = 30
    checkpoint: tuple[Snapshot, int, list[Any]] | None = None
    finished: list[Any] = []
    acknowledged: set[Any] = set()
    for attempt in range(6):
        snapshot, position, committed = checkpoint if checkpoint is not None else (None, 0, [])
        before = Counter(CALLS)
        flink = FakeFlink(plan, snapshot)
        last = attempt == 5
        while position < inputs:
            flink.process(position % 4, position)
            position += 1
            if flink.host.woken.is_set():
                flink.mail()
            if rng.random() < 0.2:
                taken = flink.snapshot(position, CHECKPOINT)
                if rng.random() < 0.7:
                    flink.rt.completed(position)
                    checkpoint = taken, position, committed + flink.values
                else:
                    flink.rt.aborted(position)
            if not last and rng.random() < 0.08:
                break
        if last:
            flink.run_until_idle()
            finished = committed + flink.values
        repeated = {call for call in acknowledged if CALLS[call] > before[call]}
        assert not repeated, "a call whose outcome had been delivered ran again"
        acknowledged |= delivered_calls(flink)
        flink.close()
    assert sorted(finished) == [(number, 4) for number in range(inputs)]


def delivered_calls(flink: FakeFlink) -> set[Any]:
    """Calls of runs whose output came: all of them had been recorded."""
    return {(number, step) for number, _ in flink.values for step in range(4)}


class CuttingStore:
    """Only counts positions, and remembers to where it was cut."""

    name = "cutting"
    durable = False
    max_record_bytes = None
    missing: dict[int, int] = {}  # noqa: RUF012

    def __init__(self) -> None:
        self.cuts: list[int] = []
        self.position = 0

    def open(self, log_id: str, positions: Any, on_ack: Any, wait: Any = None) -> Iterator[Any]:
        self.groups = tuple(positions)
        return iter(())

    def acknowledged(self) -> int:
        return 0

    def positions(self, batches: int) -> dict[int, int]:
        self.position += 10
        return dict.fromkeys(self.groups, self.position)

    def truncate(self, positions: Any) -> None:
        self.cuts.append(positions[0])

    def close(self, timeout: float) -> bool:
        return True


def test_p23_s2_the_log_is_cut_to_what_the_retained_checkpoints_need(monkeypatch: pytest.MonkeyPatch) -> None:
    store = CuttingStore()
    flink = FakeFlink(plan_of(AGENT), store=store, monkeypatch=monkeypatch, num_retained=2)
    for id, kind in ((1, CHECKPOINT), (2, SAVEPOINT), (3, CHECKPOINT), (4, CHECKPOINT), (5, CHECKPOINT)):
        flink.snapshot(id, kind)
    flink.rt.completed(1)
    flink.rt.completed(2)
    assert store.cuts == []
    flink.rt.completed(3)
    assert store.cuts == [10]
    flink.rt.aborted(4)
    flink.rt.completed(5)
    assert store.cuts == [10, 30]
    assert flink.close()


def test_l6_k11_operators_that_come_and_go_leave_nothing_in_the_process(tmp_path: Any) -> None:
    """Each with a plan and a store of its own, as jobs that are submitted again and again to one TaskManager."""

    def life(number: int) -> None:
        plan = plan_of(
            AGENT, f"plan{number}", store__type="sqlite", store__sqlite__path=str(tmp_path / str(number))
        )
        flink = FakeFlink(plan)
        for key in range(20):
            flink.process(f"key{key}", (number, key))
        flink.run_until_idle()
        flink.snapshot()
        flink.close()

    def held() -> tuple[int, int, int]:
        gc.collect()
        return sys.getallocatedblocks(), len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

    GATE.set()
    for number in range(10):
        life(number)
    blocks, threads, files = held()
    CALLS.clear()
    for number in range(10, 40):
        life(number)
    CALLS.clear()
    more, threads_now, files_now = held()
    assert (threads_now, files_now) == (threads, files)
    # One of the some thousand objects of each life would be 30.
    assert more - blocks < 500
