"""A TaskManager is lost by SIGKILL, at every named moment and at random ones (S4)."""

from __future__ import annotations

import os
import random
import signal

import pytest

from tests.cluster import ledger
from tests.cluster.jobs import RETAINED, Orders, last_checkpoint
from tests.cluster.trigger_points import arm, is_armed, reached_by

OF_CALLS = [
    "call-done",  # after the call, before its record
    "effect-done",  # the same, with a reconciler
    "record-written",  # after the record, before anybody knows
    "call-begins",  # after the record and its acknowledgement, before the checkpoint
]
# Flink 2.3 completes no checkpoint any more when a TaskManager is lost while one pends and the source has just found a
# new file for it: these moments come when the files have been read.
OF_CHECKPOINTS = [
    "snapshot-begins",
    "snapshot-written",
    "checkpoint-completed",  # between the snapshot and its completion here
    "log-cut",
]
RECOVERY = ["recovery-begins", "recovered"]


def await_kill(orders: Orders, point: str) -> None:
    cluster = orders.cluster
    before = len(cluster.living_task_managers())
    cluster.eventually(lambda: not is_armed(orders.folder, point), f"a TaskManager at {point}")
    cluster.eventually(lambda: len(cluster.living_task_managers()) < before, f"its end at {point}")
    orders.kills += 1


def test_s4_r2_a_task_manager_dies_at_each_named_moment(orders: Orders) -> None:
    die_at_each(orders, OF_CALLS + OF_CHECKPOINTS)


def test_s4_r2_p21_with_the_records_in_kafka(orders_on_kafka: Orders) -> None:
    die_at_each(orders_on_kafka, ["effect-done", "record-written", "checkpoint-completed"])


@pytest.mark.slow
def test_s4_r2_p21_with_the_records_in_fluss(orders_on_fluss: Orders) -> None:
    die_at_each(orders_on_fluss, ["effect-done", "record-written", "checkpoint-completed"])


def die_at_each(orders: Orders, points: list[str]) -> None:
    orders.submit()
    for point in points:
        orders.cluster.replace_dead_task_managers()
        if point in OF_CALLS:
            arm(orders.folder, point)
        questions = orders.feed(point)
        if point in OF_CHECKPOINTS:
            orders.await_started(questions[:1])
            arm(orders.folder, point)
        await_kill(orders, point)
    orders.await_outputs()
    orders.check()
    assert ledger.lines(orders.folder, "reconciled"), "no call was in doubt"


@pytest.mark.parametrize("points", [["tail-read"], pytest.param(RECOVERY, marks=pytest.mark.slow)])
def test_s4_l1_a_task_manager_dies_while_it_recovers(orders: Orders, points: list[str]) -> None:
    """The first loss makes the job restart; during the restart the next ones go, until a fresh one is there."""
    orders.submit()
    orders.cluster.replace_dead_task_managers()
    orders.await_started(orders.feed("calm"))
    for point in points:
        orders.cluster.replace_dead_task_managers()
        orders.await_started(orders.feed(point)[:1])
        arm(orders.folder, point)
        arm(orders.folder, "call-done")
        await_kill(orders, "call-done")
        await_kill(orders, point)
    orders.cluster.replace_dead_task_managers()
    orders.await_outputs()
    orders.check()


@pytest.mark.parametrize("point", [pytest.param("call-done", marks=pytest.mark.slow), "record-written"])
def test_s3_s4_p22_a_task_manager_that_was_given_up_wakes_up_again(orders: Orders, point: str) -> None:
    """It stands still for longer than its heartbeat may, before or after a record, and another one takes over."""
    cluster = orders.cluster
    orders.submit()
    orders.feed("calm")
    orders.await_outputs()
    arm(orders.folder, point, signal.SIGSTOP)
    # One run only: the stop comes between two steps of it.
    orders.feed("zombie", keys=1, each=1)
    cluster.eventually(lambda: bool(reached_by(orders.folder, point, signal.SIGSTOP)), f"a stop at {point}")
    (zombie,) = reached_by(orders.folder, point, signal.SIGSTOP)
    try:
        orders.kills = 1
        orders.await_outputs()
        orders.check()
        before = len(ledger.starts(orders.folder))
    finally:
        os.kill(zombie, signal.SIGCONT)
    # It comes back to the cluster once its old tasks have ended.
    cluster.await_task_managers(cluster.task_managers)
    late = [s for s in ledger.starts(orders.folder)[before:] if s.question.startswith("zombie")]
    # A call without a reconciler needs no record before it starts, so that one may still run.
    assert len(late) <= 1
    assert {start.name for start in late} <= {"first"}
    orders.feed("afterwards")
    orders.await_outputs()
    orders.check(without=late)


def test_s1_s4_a_job_manager_is_lost_and_the_job_goes_on_from_its_last_checkpoint(orders: Orders) -> None:
    cluster = orders.cluster
    job_id = orders.submit(options=RETAINED)
    first = orders.feed("before")
    orders.await_started(first)
    cluster.await_checkpoint(job_id)
    cluster.kill_job_manager()
    checkpoint = last_checkpoint(cluster.folder, job_id)
    cluster.start_job_manager()
    cluster.await_task_managers(cluster.task_managers)
    orders.feed("after")
    orders.submit(options={**RETAINED, "execution.state-recovery.path": checkpoint.as_uri()})
    orders.kills = 1
    orders.await_outputs()
    orders.check()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_s4_task_managers_die_at_random_moments(orders: Orders, seed: int) -> None:
    random_moments = random.Random(seed)
    orders.submit()
    for number in range(8):
        orders.cluster.replace_dead_task_managers()
        before = len(ledger.starts(orders.folder))
        orders.feed(f"random{number}")
        # So many calls later, which is a moment of the job's own time.
        later = before + random_moments.randrange(1, 80)
        orders.cluster.eventually(
            lambda later=later: len(ledger.starts(orders.folder)) >= later, f"{later} calls"
        )
        victims = orders.cluster.living_task_managers()
        orders.cluster.kill_task_manager(random_moments.choice(victims).name)
        orders.kills += 1
    orders.cluster.replace_dead_task_managers()
    orders.await_outputs()
    orders.check()
