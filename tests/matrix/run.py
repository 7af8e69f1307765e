"""Runs the matrix: real jobs with a store of a cluster, one for each way to lose them.

Results are kept after each job; a cell that has one is not run again. The table goes to docs/matrix.md.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.cluster.standalone import ROOT, ClusterError, StandaloneCluster
from tests.engine.exceptions.server import failing_server
from tests.matrix import job
from tests.matrix.agent import DOUBT, FAULT, OUTPUT
from tests.matrix.cells import FAILOVERS, Cell, matrix, sample
from tests.matrix.journal import Slots, slots_of
from tests.matrix.stores import Store, own_store
from tests.matrix.table import write_table
from tests.matrix.verdict import Ledger, problems
from tests.soak.notes import lines

PARALLELISM, MAX_PARALLELISM = 2, 4
WAIT_SECONDS = 300.0
"""Far above what a recovery takes on an idle machine, which is some seconds: after it the job hangs."""

SETTINGS = {
    # No checkpoint but those that are asked for: the journal is all there is, and it is not truncated.
    "execution.checkpointing.interval": "10 h",
    "execution.checkpointing.min-pause": "10 h",
    "execution.checkpointing.checkpoints-after-tasks-finish": "false",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "pipeline.max-parallelism": str(MAX_PARALLELISM),
    # On a busy machine processes do not answer for seconds; those that are killed are noticed at once all the same.
    "heartbeat.timeout": "20s",
    "pekko.ask.timeout": "30s",
}


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def throwers_jar(folder: Path) -> Path:
    """The class by which durable functions call Java, of the tests of the bridge."""
    classes = ROOT / "java-bridge" / "target" / "test-classes"
    found = sorted(classes.glob("org/flinkagents/durable/Throwers*.class"))
    if not found:
        command = ["mvn", "-B", "-q", "-f", str(ROOT / "java-bridge" / "pom.xml"), "test-compile"]
        subprocess.run(command, check=True, timeout=600)
        found = sorted(classes.glob("org/flinkagents/durable/Throwers*.class"))
    jar = folder / "throwers.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for file in found:
            archive.write(file, str(file.relative_to(classes)))
    return jar


@dataclasses.dataclass
class Job:
    """A job of the matrix and its ledger."""

    cluster: StandaloneCluster
    store: Store
    url: str
    folder: Path
    failover: str
    job_id: str = ""

    @property
    def journal(self) -> str:
        return f"journal-{self.folder.name}"

    def outputs(self) -> list[str]:
        """Names of cells, as often as they were put out, by the logs of the TaskManagers."""
        logs = [path.read_text() for path in (self.cluster.folder / "log").glob("taskmanager-*.out")]
        found = [line.partition(OUTPUT)[2] for log in logs for line in log.splitlines()]
        return [name for name in found if name]

    def slots(self, names: Sequence[str]) -> dict[str, Slots]:
        return slots_of(self.store.read(self.journal, MAX_PARALLELISM), names)

    def submit(self, checkpoint: str | None = None) -> None:
        options = {
            **self.store.options(self.journal),
            # Held functions are abandoned when an attempt ends; this is how long it waits for them.
            "agents.close-timeout": "500 ms",
        }
        if checkpoint:
            options["execution.state-recovery.path"] = checkpoint
        spec = job.Spec(str(self.folder), self.url, PARALLELISM, options)
        printed = self.cluster.python_run(Path(job.__file__), json.dumps(dataclasses.asdict(spec)))
        answers = [line for line in printed.splitlines() if line.startswith("{")]
        if not answers:
            raise ClusterError(f"no job was submitted:\n{printed[-5000:]}")
        self.job_id = json.loads(answers[-1])["job"]

    def feed(self, names: Sequence[str]) -> None:
        """In one file, at once."""
        inputs = self.folder / "inputs"
        number = len(list(inputs.iterdir()))
        hidden = inputs / f".{number}"
        hidden.write_text("".join(f"{name}\n" for name in names))
        os.rename(hidden, inputs / str(number))

    def await_held(self, cells: Sequence[Cell], life: int = 1) -> None:
        """Until each of them waits in its call in doubt, or after a loss in the reconciler of it."""

        def held() -> bool:
            calls = lines(self.folder, "calls")
            missing = [cell for cell in cells if not self.is_held(cell, calls, life)]
            return not missing

        self.eventually(held, f"calls of {len(cells)} cells that wait")

    def is_held(self, cell: Cell, calls: Sequence[Sequence[str]], life: int) -> bool:
        members = {"gather": ["before", "", "after"]}.get(cell.form, [""])
        for member in members:
            wanted = 1 if cell.reconciler and not member else life
            if sum(call == [cell.name, DOUBT, member] for call in calls) < wanted:
                return False
        return life == 1 or not cell.reconciler or [cell.name, DOUBT] in lines(self.folder, "reconciled")

    def checkpoint(self) -> str:
        """Asked for, when nothing has been fed yet: what comes later is in the journal alone."""
        self.eventually(lambda: self.cluster.is_running(self.job_id), "a job that runs")
        self.cluster.post(f"/jobs/{self.job_id}/checkpoints", {"checkpointType": "FULL"})
        self.eventually(
            lambda: self.cluster.completed_checkpoint(self.job_id) is not None, "a completed checkpoint"
        )
        found = self.cluster.completed_checkpoint(self.job_id)
        assert found is not None
        return found[1]

    def lose(self, checkpoint: str) -> None:
        """Once, in the way that is the job's."""
        if self.failover == "exception":
            self.feed([FAULT])
        elif self.failover == "cancel":
            self.cluster.cancel(self.job_id)
            self.submit(checkpoint)
        else:
            self.cluster.kill_task_manager()
            self.cluster.replace_dead_task_managers()

    def eventually(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                with contextlib.suppress(Exception):
                    what += f"; the last failures of the job:\n{self.cluster.failure_of(self.job_id)[:6000]}"
                raise ClusterError(f"not within {WAIT_SECONDS} s: {what}")
            time.sleep(0.3)


def run_job(running: Job, cells: Sequence[Cell]) -> dict[str, list[str]]:
    """The problems of each cell."""
    (running.folder / "inputs").mkdir(parents=True)
    running.submit()
    checkpoint = running.checkpoint() if running.failover == "cancel" else ""
    interruptions = [cell for cell in cells if cell.is_interruption]
    others = [cell for cell in cells if not cell.is_interruption]
    for number, cell in enumerate(interruptions):  # each of them ends an attempt of the job
        running.feed([cell.name])
        running.await_held([cell])
        say(f"{cell.name}: interrupted, and goes on ({number + 1} of {len(interruptions)})")
    running.feed([cell.name for cell in others])
    running.await_held(others)
    names = [cell.name for cell in cells]
    while_held = running.slots(names)
    say(f"{len(cells)} cells hold their calls; now: {FAILOVERS[running.failover]}")
    running.lose(checkpoint)
    running.await_held(others, life=2)
    (running.folder / "open").touch()

    def complete() -> bool:
        return set(running.outputs()) >= set(names)

    running.eventually(complete, f"outputs of {len(cells)} cells")
    running.cluster.cancel(running.job_id)
    at_the_end = running.slots(names)
    ledger = Ledger.read(running.folder, running.outputs())
    return {cell.name: problems(cell, ledger, while_held[cell.name], at_the_end[cell.name]) for cell in cells}


@contextlib.contextmanager
def world(folder: Path, store: Store) -> Iterator[Callable[[str], Job]]:
    """Cluster and failing server, for jobs one after the other."""
    cluster = StandaloneCluster(folder / "cluster", task_managers=1, slots=2 * PARALLELISM, settings=SETTINGS)
    (cluster.folder / "lib").mkdir(parents=True)
    throwers_jar(cluster.folder / "lib")
    with failing_server() as url:
        try:
            cluster.start()
            yield lambda failover: Job(cluster, store, url, folder / failover, failover)
        finally:
            cluster.stop()


def run(
    cells: Sequence[Cell], folder: Path, store: Store, results: Path | None = None
) -> dict[str, list[str]]:
    """All cells that have no result yet; the problems of each, those of earlier runs too."""
    known = dict(lines(results.parent, results.name)) if results else {}
    left = [cell for cell in cells if cell.name not in known]
    say(f"{len(cells)} cells, of which {len(cells) - len(left)} have a result")
    if not left:
        return known
    with world(folder, store) as job_of:
        for failover in FAILOVERS:
            mine = [cell for cell in left if cell.failover == failover]
            if not mine:
                continue
            found = run_job(job_of(failover), mine)
            known |= found
            if results:
                with results.open("a") as file:
                    file.writelines(json.dumps([name, wrong]) + "\n" for name, wrong in found.items())
            say(f"{failover}: {sum(not wrong for wrong in found.values())} of {len(found)} cells are right")
    return known


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    parser = argparse.ArgumentParser(prog="tools/matrix", description=__doc__)
    parser.add_argument("--sample", action="store_true", help="a few cells, no table")
    parser.add_argument("--store", choices=["kafka", "fluss"], default="kafka")
    parser.add_argument("--failover", choices=list(FAILOVERS), help="only the job that is lost so; no table")
    parser.add_argument("--results", type=Path, help="results so far")
    parser.add_argument("--fresh", action="store_true", help="forget the results so far")
    parser.add_argument("--folder", type=Path, help="kept afterwards; otherwise all is removed")
    options = parser.parse_args()
    cells = sample() if options.sample else matrix()
    if options.failover:
        cells = [cell for cell in cells if cell.failover == options.failover]
    known = options.results or ROOT / ".cache" / ("matrix" if options.store == "kafka" else "matrix-fluss")
    results = None if options.sample else known.resolve()
    if results:
        results.parent.mkdir(parents=True, exist_ok=True)
        if options.fresh:
            results.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="matrix-") as folder:
        place = options.folder.resolve() if options.folder else Path(folder)
        with own_store(options.store, place / options.store) as store:
            found = run(cells, place, store, results)
    bad = {name: wrong for name, wrong in found.items() if wrong}
    for name, wrong in bad.items():
        print(f"{name}: {'; '.join(wrong)}")
    if not options.sample and not options.failover:
        page = "matrix.md" if options.store == "kafka" else f"matrix-{options.store}.md"
        write_table(ROOT / "docs" / page, found, options.store)
    say(f"{len(found) - len(bad)} of {len(found)} cells are right")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
