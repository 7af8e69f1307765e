"""Jobs with the Fluss store whose process is killed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flink.test_failover import (
    IN_FLIGHT,
    NOT_IN_FLIGHT,
    RETAINED,
    Job,
    _nothing_waits,
    eventually,
    expected_outputs,
    program,
)
from tests.store.fluss_server import DATABASE, FlussServer

__all__ = ["_nothing_waits"]


@pytest.fixture
def fluss(fluss_server: FlussServer) -> Iterator[dict[str, str]]:
    """Options of a store in a table of its own, as a user with a password."""
    table = f"agents_{uuid.uuid4().hex}"
    properties = fluss_server.secure_properties("agents")
    yield {
        "agents.store.type": "fluss",
        "agents.store.fluss.bootstrap-servers": fluss_server.secure_bootstrap,
        "agents.store.fluss.database": DATABASE,
        "agents.store.fluss.table": table,
        "agents.store.fluss.replication-factor": "1",
        **{f"agents.store.fluss.properties.{key}": value for key, value in properties.items()},
    }
    fluss_server.drop(table)


@pytest.mark.slow
def test_s4_s5_case22_a_killed_process_goes_on_at_another_parallelism(
    tmp_path: Path, fluss: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path / "job", seconds=120)
    job.folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # a killed process does not tidy up
    options = {job.folder: {**fluss, **RETAINED}}

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
    password = fluss["agents.store.fluss.properties.security.sasl.password"]
    for log in ("log-killed", "log-next"):
        assert password not in (tmp_path / log).read_text()
