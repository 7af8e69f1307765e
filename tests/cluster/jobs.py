"""Jobs on the cluster, as tests see them: inputs go in, files and answers come out."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import job as program
from tests.cluster import ledger
from tests.cluster.standalone import STOP_SECONDS, ClusterError, StandaloneCluster, kill_group
from tests.cluster.trigger_points import disarm

PROGRAM = Path(program.__file__)
NUM_RETAINED = "execution.checkpointing.num-retained"
MANY = "200"
"""More than a test completes between the checkpoint that it takes note of and the restore from it."""
# How many are kept is a setting of the JobManager; of a job's it only reaches the tasks, who cut the log by it.
CLUSTER_SETTINGS = {NUM_RETAINED: MANY}
ONE_RETAINED = {NUM_RETAINED: "1"}
RETAINED = {
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    NUM_RETAINED: MANY,
}


def sqlite(folder: Path) -> dict[str, str]:
    """A folder that all TaskManagers of this machine share."""
    return {"agents.store.type": "sqlite", "agents.store.sqlite.path": str(folder / "store")}


def kafka(bootstrap: str, folder: Path) -> dict[str, str]:
    """A topic of its own for the job in this folder."""
    return {
        "agents.store.type": "kafka",
        "agents.store.kafka.bootstrap-servers": bootstrap,
        "agents.store.kafka.topic": folder.name,
        "agents.store.kafka.replication-factor": "1",
    }


class Client:
    """A program that submits to the cluster, started once, as its JVM takes longer than the rest of a test."""

    def __init__(self, cluster: StandaloneCluster) -> None:
        self._process = subprocess.Popen(
            [cluster.python, str(PROGRAM)],
            env={**cluster.client_environment(), "SUBMIT_ARGS": "remote -d"},
            cwd=cluster.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def submit(self, spec: program.Spec) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(dataclasses.asdict(spec)) + "\n")
        self._process.stdin.flush()
        printed = []
        for line in self._process.stdout:
            printed.append(line)
            if line.startswith("{"):
                answer = json.loads(line)
                if "job" in answer:
                    return str(answer["job"])
                raise ClusterError(answer["error"])
        raise ClusterError("the client has ended:\n" + "".join(printed))

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        kill_group(self._process.pid)
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()


@dataclass
class Orders:
    """A job of `tests/cluster/job.py` and its inputs so far."""

    cluster: StandaloneCluster
    client: Client
    folder: Path
    store: dict[str, str]
    questions: list[str] = field(default_factory=list)
    job_id: str = ""
    kills: int = 0

    def submit(self, **spec: object) -> str:
        (self.folder / "inputs").mkdir(parents=True, exist_ok=True)
        options = {**self.store, **ONE_RETAINED, **dict(spec.pop("options", {}))}  # type: ignore[call-overload]
        fields = program.Spec(folder=str(self.folder), options=options, **spec)  # type: ignore[arg-type]
        self.job_id = self.client.submit(fields)
        return self.job_id

    def feed(self, batch: str, keys: int = 6, each: int = 2) -> list[str]:
        """New inputs: of new keys, so that the order in which files are read does not matter."""
        new = [f"{batch}-{key} {number}" for number in range(each) for key in range(keys)]
        self.questions += new
        hidden = self.folder / "inputs" / f".{batch}"
        hidden.write_text("".join(f"{question}\n" for question in new))
        os.rename(hidden, hidden.with_name(batch))
        return new

    def await_started(self, questions: list[str]) -> None:
        self.cluster.eventually(
            lambda: {start.question for start in ledger.starts(self.folder)} >= set(questions),
            f"calls of {questions}",
        )

    def await_outputs(self, seconds: float = 120) -> None:
        """Until every input has an output that was committed."""
        wanted = set(self.questions)

        def complete() -> bool:
            assert self.cluster.state_of(self.job_id) != "FAILED", self.cluster.failure_of(self.job_id)
            return {str(output[0]) for output in ledger.committed(self.folder)} >= wanted

        self.cluster.eventually(complete, f"outputs of {len(wanted)} inputs in {self.folder}", seconds)

    def check(self, without: Sequence[ledger.Start] = ()) -> None:
        """Each output once, no recorded call again but these, each effect once."""
        assert sorted(ledger.committed(self.folder)) == program.expected_outputs(self.questions)
        lives = 1 + self.kills
        starts = [start for start in ledger.starts(self.folder) if start not in without]
        ledger.assert_no_recorded_call_ran_again(starts, self.questions, program.PHASES, lives)
        effects = [f"{question}: {name}" for question in self.questions for name in program.EFFECTS]
        ledger.assert_each_effect_once(self.folder, effects)

    def end(self) -> None:
        disarm(self.folder)
        if self.job_id:
            self.cluster.end(self.job_id)


def last_checkpoint(folder: Path, job_id: str) -> Path:
    """The newest completed one of a job, as somebody finds it who has only the files."""
    paths = [path.parent for path in folder.glob(f"checkpoints/{job_id}/chk-*/_metadata")]
    return max(paths, key=lambda path: int(path.name[4:]))
