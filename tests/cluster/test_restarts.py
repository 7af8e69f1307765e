"""Jobs come and go in one TaskManager, and nothing of them stays (L6, K11, S10)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import pytest

from tests.cluster.jobs import CLUSTER_SETTINGS, Client, Orders, sqlite
from tests.cluster.standalone import StandaloneCluster

ROUNDS = 20
METRICS = ("ClassLoader.ClassesLoaded", "ClassLoader.ClassesUnloaded", "Memory.Metaspace.Used")
WARM = 6
"""Rounds in which pools, caches and code that is compiled reach their size."""


@dataclass(frozen=True)
class Usage:
    """What a TaskManager holds while no job runs in it."""

    threads: int
    files: int
    classes: int
    metaspace_kb: int
    resident_mb: int


def usage(cluster: StandaloneCluster) -> Usage:
    (member,) = cluster.living_task_managers()
    jcmd = shutil.which("jcmd")
    if jcmd:
        subprocess.run([jcmd, str(member.pid), "GC.run"], check=True, capture_output=True)
    (registered,) = cluster.registered_task_managers()
    names = [f"Status.JVM.{name}" for name in METRICS]
    values = cluster.get(f"/taskmanagers/{registered['id']}/metrics?get={','.join(names)}")
    loaded, unloaded, metaspace = (int(next(v["value"] for v in values if v["id"] == name)) for name in names)
    process = Path("/proc", str(member.pid))
    pages = int((process / "statm").read_text().split()[1])
    return Usage(
        threads=len(os.listdir(process / "task")),
        files=len(os.listdir(process / "fd")),
        classes=loaded - unloaded,
        metaspace_kb=metaspace // 1024,
        resident_mb=pages * os.sysconf("SC_PAGE_SIZE") >> 20,
    )


@pytest.fixture
def single(tmp_path: Path) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(
        tmp_path / "cluster",
        task_managers=1,
        slots=8,
        settings={**CLUSTER_SETTINGS, "metrics.fetcher.update-interval": "100"},
    )
    cluster.start()
    yield cluster
    cluster.stop()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_l6_k11_s10_a_job_that_is_cancelled_and_resubmitted_leaves_nothing(
    single: StandaloneCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two agents a job, and another job beside it that runs on all the time."""
    client = Client(single)
    beside = Orders(single, client, tmp_path / "beside", sqlite(tmp_path / "beside"))
    beside.submit(name="beside")
    history: list[Usage] = []
    try:
        for number in range(ROUNDS):
            folder = tmp_path / f"job{number}"
            orders = Orders(single, client, folder, sqlite(folder))
            orders.submit(relays=1)
            orders.feed("inputs", keys=4, each=1)
            beside.feed(f"round{number}", keys=1, each=1)
            orders.await_outputs()
            orders.check()
            orders.feed("in flight", keys=4, each=2)  # cancelled in the middle
            orders.await_started(orders.questions[-8:-4])
            orders.end()
            history.append(usage(single))
        beside.await_outputs()
        beside.check()
    finally:
        client.close()
        with capsys.disabled():
            names = [field.name for field in fields(Usage)]
            print("\n| round | " + " | ".join(names) + " |\n" + "| --- " * (len(names) + 1) + "|")
            for number, each in enumerate(history, 1):
                print(f"| {number} | " + " | ".join(map(str, astuple(each))) + " |")
    first, last = history[WARM - 1], history[-1]
    rounds = ROUNDS - WARM
    assert last.threads <= first.threads + 5
    assert last.files <= first.files + 5
    # Two class loaders of ours that stay would be some hundred classes a round.
    assert last.classes - first.classes <= 20 * rounds
    assert last.metaspace_kb - first.metaspace_kb <= 200 * rounds
