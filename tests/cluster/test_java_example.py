"""The Maven project that Java users copy: built, run on this machine, and submitted to a cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flink_agents_durable.flink.jar import bridge_jar
from tests.cluster.standalone import ROOT, StandaloneCluster, job_id_of
from tests.java_sources import EXAMPLE

MAVEN_SECONDS = 600
"""The first time Maven loads some hundred jars."""
EXPECTED = [
    "anna: positive, review 1: a great book (fr)",
    "bob: negative, review 1: I fell asleep (fr)",
    "anna: negative, review 2: not as good as the first (fr)",
]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * MAVEN_SECONDS)]


def maven(folder: Path, *arguments: str) -> str:
    result = subprocess.run(
        ["mvn", "--batch-mode", "--quiet", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=MAVEN_SECONDS,
        check=False,
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-5000:]
    return result.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A copy that is built, and the option with the version under which the bridge is installed for it."""
    folder = tmp_path_factory.mktemp("java") / "project"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("target", ".*"))
    version = f"0.1.0-test-{os.getpid()}"
    coordinates = ("-DgroupId=org.flinkagents", "-DartifactId=flink-agents-durable-bridge", "-Dpackaging=jar")
    install = "org.apache.maven.plugins:maven-install-plugin:3.1.4:install-file"
    maven(folder, install, f"-Dfile={bridge_jar()}", f"-Dversion={version}", *coordinates)
    option = f"-Ddurable.version={version}"
    try:
        maven(folder, "package", option)
        yield folder, option
    finally:
        installed = Path.home() / ".m2/repository/org/flinkagents/flink-agents-durable-bridge"
        shutil.rmtree(installed / version, ignore_errors=True)
        if not any(path.is_dir() for path in installed.iterdir()):
            shutil.rmtree(installed)  # nothing was there before


def test_it_runs_on_this_machine(project: tuple[Path, str]) -> None:
    folder, option = project
    out = maven(folder, "exec:exec", option, f"-Dpython={sys.executable}")
    for line in EXPECTED:
        assert line in out


def test_it_runs_on_a_cluster_without_a_python_program(
    project: tuple[Path, str], cluster: StandaloneCluster
) -> None:
    jar = project[0] / "target" / "durable-reviews-1.0.jar"
    job_id = job_id_of(cluster.flink("run", "-d", str(jar)))
    cluster.await_state(job_id, "FINISHED")
    printed = "".join(
        member.log.read_text() for name, member in cluster.members.items() if name.startswith("taskmanager")
    )
    for line in EXPECTED:
        assert line in printed
