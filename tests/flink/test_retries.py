"""P19, cases 25 and 33 in a job: a task that fails during a back-off waits only for the rest."""

from __future__ import annotations

from pathlib import Path

from tests.flink import failover_job
from tests.flink.retry_job import BACK_OFF, Persistent
from tests.flink.test_failover import NO_CHECKPOINT, SQLITE, Job, running

CLOCK = 0.002
"""The stamps are whole milliseconds of a clock that may be set meanwhile."""


def test_p19_cases_25_and_33_failover_during_a_back_off(tmp_path: Path) -> None:
    """Attempts go on with the count, the call is not reconciled, other keys are not held up."""
    job = Job(tmp_path)
    inputs = ["a 1", "sync 1", "fault in action"]
    client = failover_job.submit(str(tmp_path), "retried", inputs, {**SQLITE, **NO_CHECKPOINT}, Persistent)
    try:
        with running(job, client):
            job.eventually(lambda: len(job.lines("async")) == 1, "the first attempt")
            job.eventually(lambda: len(job.lines("sync")) == 3, "the attempts that the task waits for")
            job.open("first")
            job.eventually(lambda: len(job.lines("held")) == 1, "a call behind the record of the failure")
            job.open("fault")
            job.eventually(lambda: len(job.lines("held")) == 2, "the second attempt of the task")
            job.open("second")
    finally:
        for gate in ("first", "second", "fault"):
            job.open(gate)
    first, second, third = map(float, job.lines("async"))
    restarted = float(job.lines("held")[1])
    assert second - first >= BACK_OFF - 0.1
    assert second < restarted + BACK_OFF, "the wait did not begin again"
    assert third - second >= BACK_OFF - 0.1
    assert not job.lines("reconciled")
    begun, again, last = map(float, job.lines("sync"))
    assert again - begun >= 0.3 - CLOCK
    assert last - again >= 0.3 - CLOCK
    outputs = job.lines("outputs-retried-1") + job.lines("outputs-retried-2")
    assert sorted(set(outputs)) == ['"async after 3"', '"sync after 3"']
    assert job.lines("outputs-retried-2").count('"async after 3"') == 1
