"""Ways to a cluster on other machines: its workers run what is installed there, or what the job brings along.

The cluster listens at an address that does not pass for this machine, so that nothing here is taken for granted.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.standalone import ROOT, StandaloneCluster, job_id_of

QUICKSTART = ROOT / "examples" / "quickstart.py"
OWN_PACKAGES = next(path for path in sys.path if path.endswith("site-packages"))
pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with apache-flink and without this package."""
    return make_environment(tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory, bare: Path) -> Iterator[StandaloneCluster]:
    """Its TaskManager has the bare Python first on PATH."""
    cluster = StandaloneCluster(
        tmp_path_factory.mktemp("remote"),
        task_managers=1,
        host="127.0.0.2",
        settings={"restart-strategy.type": "none"},
        worker_python=str(bare),
    )
    cluster.start()
    yield cluster
    cluster.stop()


def make_environment(folder: Path) -> Path:
    """A virtual environment that sees the packages of this one, but not its editable installations."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "shared.pth").write_text(OWN_PACKAGES + "\n")
    return folder / "bin" / "python"


def outcome(cluster: StandaloneCluster, job_id: str) -> str:
    cluster.eventually(lambda: cluster.state_of(job_id) in ("FINISHED", "FAILED"), "the end of the job")
    return cluster.state_of(job_id)


def printed(cluster: StandaloneCluster) -> str:
    (member,) = cluster.living_task_managers()
    return member.log.read_text()


def test_a_worker_without_the_package_says_which_python_and_what_to_install(
    remote: StandaloneCluster, bare: Path
) -> None:
    out = remote.python_run(QUICKSTART)
    job_id = job_id_of(out)
    assert outcome(remote, job_id) == "FAILED"
    failure = remote.failure_of(job_id)
    assert "No module named 'flink_agents_durable'" in failure
    assert f"{bare} -m pip install flink-agents-durable, on every machine" in failure


@pytest.mark.parametrize("how", ["flink run", pytest.param("from Python", marks=pytest.mark.slow)])
def test_the_package_is_installed_on_the_workers(remote: StandaloneCluster, how: str) -> None:
    before = printed(remote).count("anna: positive")
    if how == "flink run":
        job_id = remote.flink_run(QUICKSTART, options={"python.executable": sys.executable})
    else:
        settings = remote.folder / "conf" / "config.yaml"
        settings.write_text(settings.read_text() + f"\npython.executable: {sys.executable}\n")
        job_id = job_id_of(remote.python_run(QUICKSTART))
    assert outcome(remote, job_id) == "FINISHED", remote.failure_of(job_id)
    assert printed(remote).count("anna: positive") == before + 1


def test_the_job_brings_its_environment(remote: StandaloneCluster, tmp_path: Path) -> None:
    """By `-pyarch`: a virtual environment with the wheel, jar included."""
    python = make_environment(tmp_path / "venv")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--quiet",
        "--wheel-dir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(build, check=True, stdin=subprocess.DEVNULL)
    (wheel,) = tmp_path.glob("*.whl")
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(packages),
        str(wheel),
    ]
    subprocess.run(install, check=True, stdin=subprocess.DEVNULL)
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        for path in sorted((tmp_path / "venv").iterdir()):
            file.add(path, arcname=path.name)
    before = printed(remote).count("bob: negative")
    out = remote.flink(
        *("run", "-d", "-pyarch", str(archive), "-pyexec", "environment.tar.gz/bin/python"),
        *("-pyclientexec", str(python), "-py", str(QUICKSTART)),
        python=str(python),
    )
    job_id = job_id_of(out)
    assert outcome(remote, job_id) == "FINISHED", remote.failure_of(job_id)
    assert printed(remote).count("bob: negative") == before + 1
