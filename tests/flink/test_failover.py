"""Jobs that fail, are cancelled or killed in the middle of calls go on as if nothing had happened.

A call counts as recorded once a later call of its action has started: its record was durable before that.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyflink.common import JobClient

from tests.flink import failover_job
from tests.flink.failover_job import calls_of
from tests.flink.programs import start_program

INPUTS = ["a 1", "b 1", "a 2", "long 1", "c 1", "b 2"]
LIVE = ["a 1", "b 1", "long 1", "c 1"]
"""Those that do not wait for an earlier input of their key."""

NO_CHECKPOINT = {
    "execution.checkpointing.interval": "1 h",
    "execution.checkpointing.min-pause": "1 h",  # without it the first one comes at a random time
    "execution.checkpointing.checkpoints-after-tasks-finish": "false",
}
CHECKPOINTS = {"execution.checkpointing.interval": "300 ms"}
RETAINED = {
    **CHECKPOINTS,
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "execution.checkpointing.num-retained": "1000",
}
SQLITE, NONE = {"agents.store.type": "sqlite"}, {"agents.store.type": "none"}


def eventually(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


@dataclass
class Job:
    """What a test sees of a job: the files in its folder."""

    folder: Path
    has_ended: Callable[[], bool] = lambda: False

    def eventually(self, condition: Callable[[], bool], what: str) -> None:
        eventually(lambda: condition() or self.has_ended(), what)
        assert condition(), f"the job has ended before {what}"

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def calls(self) -> Counter[str]:
        return Counter(self.lines("calls"))

    def open(self, gate: str) -> None:
        (self.folder / f"gate-{gate}").touch()

    def await_calls(self, labels: list[str]) -> None:
        self.eventually(lambda: self.calls().keys() >= set(labels), f"calls {labels}, in {self.folder}")

    def await_live(self, gate: str) -> None:
        """Until every live input has its two calls at this gate in flight."""
        self.await_calls([label for question in LIVE for label in calls_of(question)[gate]])

    def checkpoints(self) -> dict[int, Path]:
        """Started ones, by number."""
        return {int(p.name[4:]): p for p in self.folder.glob("checkpoints/*/chk-*")}

    def await_checkpoint(self) -> Path:
        """A completed one that has started after this call."""
        before = max(self.checkpoints(), default=0)
        found: list[Path] = []

        def completed() -> bool:
            found[:] = [
                path
                for number, path in sorted(self.checkpoints().items())
                if number > before and (path / "_metadata").exists()
            ]
            return bool(found)

        self.eventually(completed, f"a checkpoint after number {before}")
        return found[0]

    def committed(self) -> list[str]:
        """What a transactional reader sees."""
        files = [path for path in self.folder.glob("sink/*/part-*") if not path.name.startswith(".")]
        return [line for path in files for line in path.read_text().splitlines()]


@contextlib.contextmanager
def running(job: Job, client: JobClient) -> Iterator[None]:
    """Until the job has ended by itself. If the test fails, the job does not outlive it."""
    result = client.get_job_execution_result()
    job.has_ended = result.done
    try:
        try:
            yield
        except AssertionError:
            if result.done():
                result.result()  # raises what the job ended with, which says more
            raise
        eventually(result.done, "the end of the job")
        result.result()
    finally:
        for gate in ("first", "second", "fault"):
            job.open(gate)
        if not result.done():
            client.cancel().result()
            eventually(result.done, "the end of the cancelled job")


def expected_outputs(*others: list[str]) -> list[str]:
    """Each input's outputs once, in the order of its key; with the answers of all its calls."""
    outputs: list[list[object]] = list(others)
    seen: dict[str, list[str]] = {}
    for question in INPUTS:
        seen.setdefault(question.split()[0], []).append(question)
        calls = calls_of(question)
        sides = [label for pair in zip(calls["first"], calls["second"], strict=True) for label in pair]
        answers = [f"answer to {label}" for label in [*calls["before"], *sides]]
        earlier = list(seen[question.split()[0]])
        outputs += [[question, "begun"], [question, "ended", earlier, answers]]
    return sorted(json.dumps(output) for output in outputs)


def executions(*gates: str, of: list[str]) -> list[str]:
    return [label for question in of for gate in gates for label in calls_of(question)[gate]]


def assert_once(job: Job, labels: list[str]) -> None:
    calls = job.calls()
    assert {label: calls[label] for label in labels} == dict.fromkeys(labels, 1)


def assert_twice_at_most_in_flight(job: Job, in_flight: list[str], others: list[str]) -> None:
    """Calls that were in flight when the job failed ran again, the others did not."""
    assert_once(job, others)
    calls = job.calls()
    assert {label: calls[label] for label in in_flight} == dict.fromkeys(in_flight, 2)
    assert calls.keys() == {*in_flight, *others}


IN_FLIGHT = executions("second", of=LIVE)
NOT_IN_FLIGHT = [
    *executions("before", "first", "second", of=[q for q in INPUTS if q not in LIVE]),
    *executions("before", "first", of=LIVE),
]


def test_case43_l1_l2_l3_l5_failure_before_the_first_checkpoint(tmp_path: Path) -> None:
    job = Job(tmp_path)
    inputs = [*INPUTS, "fault in action"]
    with running(job, failover_job.submit(str(tmp_path), "early", inputs, {**SQLITE, **NO_CHECKPOINT})):
        job.await_live("first")
        job.open("first")
        job.await_live("second")
        job.open("fault")
        job.eventually(lambda: job.calls()[IN_FLIGHT[0]] == 2, "the second attempt")
        job.open("second")
    assert not job.checkpoints()
    assert_twice_at_most_in_flight(job, IN_FLIGHT, [*NOT_IN_FLIGHT, "fault in action"])
    assert sorted(job.lines("outputs-early-2")) == expected_outputs(["fault in action"])
