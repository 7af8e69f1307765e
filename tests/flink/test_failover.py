"""Jobs that fail, are cancelled or killed in the middle of calls go on as if nothing had happened.

A call counts as recorded once a later call of its action has started: its record was durable before that.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyflink.common import JobClient

from flink_agents_durable.store.signing import MARKER, read_keys
from tests.flink import failover_job
from tests.flink.failover_job import calls_of
from tests.flink.programs import start_program
from tests.runtime.slow_server import SlowServer

INPUTS = ["a 1", "b 1", "long 1", "a 2", "c 1", "b 2"]
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
    seconds: float = 60

    def eventually(self, condition: Callable[[], bool], what: str) -> None:
        eventually(lambda: condition() or self.has_ended(), what, self.seconds)
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
def running(job: Job, client: JobClient, ends_with: str = "") -> Iterator[None]:
    """Until the job has ended, with an error if one is named. If the test fails, the job does not outlive it."""
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
        with pytest.raises(Py4JJavaError, match=ends_with) if ends_with else contextlib.nullcontext():
            result.result()
    finally:
        if not result.done():
            client.cancel().result()
            eventually(result.done, "the end of the cancelled job")


@pytest.fixture(autouse=True)
def _nothing_waits(tmp_path: Path) -> Iterator[None]:
    """Calls of a test that failed go on, wherever they are."""
    yield
    for inputs in [*tmp_path.glob("inputs"), *tmp_path.glob("*/inputs")]:
        for gate in ("first", "second", "fault"):
            Job(inputs.parent).open(gate)


def expected_outputs(*others: list[object]) -> list[str]:
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


IN_FLIGHT = executions("second", of=LIVE)
NOT_IN_FLIGHT = [
    *executions("before", "first", "second", of=[q for q in INPUTS if q not in LIVE]),
    *executions("before", "first", of=LIVE),
]


def stored_in(folder: Path) -> bytes:
    """All records of the only log in a folder, as the database holds them."""
    (database,) = folder.glob("*.db")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        return b"".join(row[0] for row in connection.execute("SELECT records FROM log"))


@pytest.mark.parametrize("form", ["pickle", "signed-json"])
def test_case_43_l1_l2_l3_l5_failure_before_the_first_checkpoint(tmp_path: Path, form: str) -> None:
    job = Job(tmp_path)
    inputs = [*INPUTS, "fault in action"]
    options = {**SQLITE, **NO_CHECKPOINT, "agents.store.sqlite.path": str(tmp_path / "store")}
    if form == "signed-json":
        keys = tmp_path / "keys"
        keys.write_text("secret of this job " + "1" * 32)
        options |= {"agents.payload": "json", "agents.store.signing-key-file": str(keys)}
    with running(job, failover_job.submit(str(tmp_path), "early", inputs, options)):
        job.await_live("first")
        job.open("first")
        job.await_live("second")
        job.open("fault")
        job.eventually(lambda: job.calls()[IN_FLIGHT[0]] == 2, "the second attempt")
        job.open("second")
    assert not job.checkpoints()
    assert job.calls() == {
        **dict.fromkeys([*NOT_IN_FLIGHT, "fault in action"], 1),
        **dict.fromkeys(IN_FLIGHT, 2),
    }
    assert sorted(job.lines("outputs-early-2")) == expected_outputs(["fault in action"])
    stored = stored_in(tmp_path / "store")
    assert (b"\x80\x05\x95" in stored) == (form == "pickle")  # the beginning of a pickle
    if form == "signed-json":
        (key,) = read_keys(str(tmp_path / "keys"), "any")
        assert MARKER + key.id in stored


@pytest.mark.parametrize("store", [SQLITE, NONE], ids=["sqlite", "none"])
def test_case_41_s1_l2_l5_failure_after_a_checkpoint_in_the_middle_of_actions(
    tmp_path: Path, store: dict[str, str]
) -> None:
    """Without a store only what came after the checkpoint may run again."""
    job = Job(tmp_path)
    inputs = [*INPUTS, "fault in sink"]
    with running(job, failover_job.submit(str(tmp_path), "late", inputs, {**store, **CHECKPOINTS})):
        job.await_live("first")
        job.await_checkpoint()
        job.open("first")
        job.await_live("second")
        job.open("fault")
        job.eventually(lambda: job.calls()[IN_FLIGHT[0]] == 2, "the second attempt")
        job.open("second")
    after = [] if store is SQLITE else [*executions("first", of=LIVE), "fault in sink"]
    calls = job.calls()
    assert max([calls.pop(label) for label in after], default=1) <= 2
    once = {*NOT_IN_FLIGHT, "fault in sink"} - {*after}
    assert calls == {**dict.fromkeys(once, 1), **dict.fromkeys(IN_FLIGHT, 2)}
    assert sorted(job.committed()) == expected_outputs(["fault in sink"])


def test_s4_cases_22_and_43_a_killed_process_goes_on_in_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs: one restored from a checkpoint, one that finds its log without one by `agents.job-id`."""
    restored, found = Job(tmp_path / "restored"), Job(tmp_path / "found")
    options = {
        restored.folder: {**SQLITE, **RETAINED},
        found.folder: {**SQLITE, **NO_CHECKPOINT, "agents.job-id": "conversations"},
    }
    for folder in options:
        folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a killed process does not tidy up

    with program(tmp_path, "killed", options) as process:
        for job in (restored, found):
            job.has_ended = lambda: process.poll() is not None
            job.await_live("first")
        checkpoint = restored.await_checkpoint()
        for job in (restored, found):
            job.open("first")
            job.await_live("second")
        assert process.poll() is None

    for job in (restored, found):
        job.open("second")
    options[restored.folder]["execution.state-recovery.path"] = checkpoint.as_uri()
    with program(tmp_path, "next", options) as process:
        eventually(lambda: process.poll() is not None, "the end of the jobs", seconds=120)
        assert process.returncode == 0, (tmp_path / "log-next").read_text()[-5000:]

    for job in (restored, found):
        assert job.calls() == {**dict.fromkeys(NOT_IN_FLIGHT, 1), **dict.fromkeys(IN_FLIGHT, 2)}
    assert sorted(restored.committed()) == expected_outputs()
    assert sorted(found.lines("outputs-next-1")) == expected_outputs()


@contextlib.contextmanager
def program(folder: Path, name: str, jobs: dict[Path, dict[str, str]]) -> Iterator[subprocess.Popen[str]]:
    """A process with jobs, killed at the end together with its JVM."""
    arguments = [
        {"folder": str(path), "name": name, "inputs": INPUTS, "options": options}
        for path, options in jobs.items()
    ]
    with open(folder / f"log-{name}", "w") as log:
        process = start_program(failover_job.__file__, json.dumps(arguments), cwd=folder, output=log)
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            eventually(lambda: not group_lives(process.pid), "the end of the JVM")


def group_lives(leader: int) -> bool:
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return False
    return True


def test_case_39_s10_i4_cancel_while_plain_calls_block_for_ever(tmp_path: Path) -> None:
    """The next job runs beside the threads that still block, whose late results nobody records.

    One is a worker, one the thread of the actions of a subtask, which begins after its first synchronous call.
    """
    job = Job(tmp_path)
    options = {
        **SQLITE,
        **NO_CHECKPOINT,
        "agents.job-id": "stuck",
        "agents.close-timeout": "1 s",
    }
    blocking, inputs = ["async 1", "sync 1"], ["async 1", "sync begin", "sync 1"]
    client = failover_job.submit(str(tmp_path), "cancelled", inputs, options, failover_job.Stuck)
    with running(job, client, ends_with="Job was cancelled"):
        job.await_calls(inputs)
        client.cancel().result()
        eventually(job.has_ended, "the end of the cancelled job", seconds=10)

    client = failover_job.submit(str(tmp_path), "next", inputs, options, failover_job.Stuck)
    with running(job, client):
        twice = {**dict.fromkeys(blocking, 2), "sync begin": 1}
        job.eventually(lambda: job.calls() == twice, "the second run of the calls that blocked")
        job.open("second")
    assert sorted(job.lines("outputs-next-1")) == sorted(f'"answer to {question}"' for question in inputs)


def test_case_10_i4_requests_under_way_when_the_job_is_cancelled(tmp_path: Path) -> None:
    """Each is made again by the next job; what the server answers to the cancelled one goes nowhere."""
    server, job = SlowServer(), Job(tmp_path)
    paths = ["/plain", "/async", "/sync"]
    inputs = [f"{path[1:]} {server.url}{path}" for path in paths]
    options = {**SQLITE, **NO_CHECKPOINT, "agents.job-id": "fetching", "agents.close-timeout": "1 s"}
    try:
        client = failover_job.submit(str(tmp_path), "cancelled", inputs, options, failover_job.Fetching)
        with running(job, client, ends_with="Job was cancelled"):
            job.eventually(lambda: server.requests == dict.fromkeys(paths, 1), "the requests")
            client.cancel().result()
            eventually(job.has_ended, "the end of the cancelled job")

        client = failover_job.submit(str(tmp_path), "next", inputs, options, failover_job.Fetching)
        with running(job, client):
            job.eventually(lambda: server.requests == dict.fromkeys(paths, 2), "the requests of the next job")
            server.let_go.set()
    finally:
        server.close()
    assert sorted(job.lines("outputs-next-1")) == sorted(f'"answer to {path}"' for path in paths)
    assert job.lines("outputs-cancelled-1") == []
    assert server.requests == dict.fromkeys(paths, 2)
