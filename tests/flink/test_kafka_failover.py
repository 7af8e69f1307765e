"""Jobs with the Kafka store that fail in the middle of calls, or whose process is killed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flink import failover_job
from tests.flink.test_failover import (
    IN_FLIGHT,
    INPUTS,
    NO_CHECKPOINT,
    NOT_IN_FLIGHT,
    RETAINED,
    Job,
    _nothing_waits,
    eventually,
    expected_outputs,
    program,
    running,
)
from tests.store.kafka_broker import KafkaBroker

__all__ = ["_nothing_waits"]


@pytest.fixture
def kafka(kafka_broker: KafkaBroker) -> Iterator[dict[str, str]]:
    """Options of a store in a topic of its own, over TLS, as a user with a password."""
    topic = f"agents-{uuid.uuid4().hex}"
    kafka_broker.grant("agents", "agents-")
    properties = kafka_broker.secure_properties("agents")
    yield {
        "agents.store.type": "kafka",
        "agents.store.kafka.bootstrap-servers": kafka_broker.secure_bootstrap,
        "agents.store.kafka.topic": topic,
        **{f"agents.store.kafka.properties.{key}": value for key, value in properties.items()},
    }
    kafka_broker.delete(topic)


def test_case43_l2_failure_before_the_first_checkpoint(tmp_path: Path, kafka: dict[str, str]) -> None:
    job = Job(tmp_path, seconds=120)
    inputs = [*INPUTS, "fault in action"]
    with running(job, failover_job.submit(str(tmp_path), "early", inputs, {**kafka, **NO_CHECKPOINT})):
        job.await_live("first")
        job.open("first")
        job.await_live("second")
        job.open("fault")
        job.eventually(lambda: job.calls()[IN_FLIGHT[0]] == 2, "the second attempt")
        job.open("second")
    assert job.calls() == {
        **dict.fromkeys([*NOT_IN_FLIGHT, "fault in action"], 1),
        **dict.fromkeys(IN_FLIGHT, 2),
    }
    assert sorted(job.lines("outputs-early-2")) == expected_outputs(["fault in action"])


def test_s4_s5_case22_a_killed_process_goes_on_at_another_parallelism(
    tmp_path: Path, kafka: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path / "job", seconds=120)
    job.folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a killed process does not tidy up
    options = {job.folder: {**kafka, **RETAINED}}

    with program(tmp_path, "killed", options) as process:
        job.has_ended = lambda: process.poll() is not None
        job.await_live("first")
        checkpoint = job.await_checkpoint()
        job.open("first")
        job.await_live("second")

    job.open("second")
    options[job.folder] |= {
        "execution.state-recovery.path": checkpoint.as_uri(),
        "parallelism.default": "3",
    }
    with program(tmp_path, "next", options) as process:
        eventually(lambda: process.poll() is not None, "the end of the job", seconds=240)
        assert process.returncode == 0, (tmp_path / "log-next").read_text()[-5000:]

    assert job.calls() == {**dict.fromkeys(NOT_IN_FLIGHT, 1), **dict.fromkeys(IN_FLIGHT, 2)}
    assert sorted(job.committed()) == expected_outputs()
    for log in ("log-killed", "log-next"):
        password = kafka["agents.store.kafka.properties.sasl.password"]
        assert password not in (tmp_path / log).read_text()
