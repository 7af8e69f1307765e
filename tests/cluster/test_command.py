"""`tools/cluster`, as people use it; and that nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cluster.standalone import CLIENT_SECONDS, ROOT, job_id_of

FOLDER = ROOT / ".cluster"
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def run(*command: str, **variables: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    result = subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def tool(command: str) -> str:
    return run(sys.executable, "tools/cluster.py", command)


@pytest.fixture
def _nothing_is_up() -> Iterator[None]:
    if FOLDER.exists():
        pytest.skip("a cluster of this checkout is up")
    yield
    tool("down")


@pytest.mark.usefixtures("_nothing_is_up")
def test_up_submit_kill_and_down() -> None:
    said = tool("up")
    exported = next(line for line in said.splitlines() if "export" in line).split()[1:]
    variables = dict(pair.split("=") for pair in exported)
    out = run(sys.executable, "examples/quickstart.py", SUBMIT_ARGS="remote -d", **variables)
    job_id = job_id_of(out)
    tool("kill-taskmanager")
    shown = tool("status")
    assert {line.split(":")[0] for line in shown.splitlines()} >= {
        "jobmanager",
        "taskmanager-2",
        "taskmanager-3",
        f"job {job_id} quickstart",
    }
    assert tool("down") == "3 processes are stopped\n"
    assert not FOLDER.exists()
    assert tool("status") == "no cluster is up\n"
