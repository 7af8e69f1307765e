"""Everything that a soak runs on, each part a process of its own: broker, cluster, model server, job."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.cluster.standalone import ROOT, ClusterError, StandaloneCluster, free_ports
from tests.soak import job
from tests.soak.notes import lines
from tests.soak.verdict import Output
from tests.store.fluss_server import FlussServer
from tests.store.kafka_broker import KafkaBroker

CONNECTOR = "5.0.0-2.2"
"""Flink's Kafka connector. The newest one; it works with Flink 2.3."""

INPUTS, OUTPUTS, STORE = "questions", "answers", "journal"
INPUT_PARTITIONS = 4
MAX_PARALLELISM = 16
"""As many partitions has the topic of the store."""

RECOVERY_SECONDS = 240.0
"""Far above what a recovery takes, about 10 s on an idle machine: after it the job hangs."""
SEND_SECONDS = 300.0
"""Above the longest time for which the broker is away."""

LATEST_CALLS = 30
"""About what is made in two seconds: by all TaskManagers that run a part of the job."""
ANSWER_SECONDS = 120.0
"""Of a broker that has just come back, to a reader."""

SETTINGS = {
    # Each checkpoint makes a transactional producer for each subtask of the sink.
    "execution.checkpointing.interval": "2s",
    # On a busy machine processes do not answer for seconds; those that are killed are noticed at once all the same.
    "heartbeat.timeout": "15s",
    "pekko.ask.timeout": "30s",
    "pipeline.max-parallelism": str(MAX_PARALLELISM),
}


def connector_jar() -> Path:
    """Fetched from Maven the first time."""
    folder = ROOT / ".cache" / "flink"
    jar = folder / f"flink-sql-connector-kafka-{CONNECTOR}.jar"
    if not jar.exists():
        artifact = f"org.apache.flink:flink-sql-connector-kafka:{CONNECTOR}"
        command = ["mvn", "-B", "-q", "dependency:copy", f"-Dartifact={artifact}"]
        subprocess.run([*command, f"-DoutputDirectory={folder}"], cwd=ROOT, check=True, timeout=600)
    return jar


class ModelServer:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/"
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Not waited for: its clients try again."""
        command = [sys.executable, "-m", "tests.soak.model_server", str(self._port)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@dataclasses.dataclass
class World:
    folder: Path
    store: str
    broker: KafkaBroker
    cluster: StandaloneCluster
    model: ModelServer
    fluss: FlussServer | None = None
    job_id: str = ""
    parallelism: int = 2

    # ---- the job

    def submit(self, savepoint: str | None = None) -> None:
        options = {"execution.state-recovery.path": savepoint} if savepoint else {}
        spec = job.Spec(
            str(self.folder),
            self.broker.bootstrap,
            INPUTS,
            OUTPUTS,
            self.model.url,
            self.parallelism,
            str(connector_jar()),
            {**self.store_options(), **options},
        )
        printed = self.cluster.python_run(Path(job.__file__), json.dumps(dataclasses.asdict(spec)))
        answers = [line for line in printed.splitlines() if line.startswith("{")]
        if not answers:
            raise ClusterError(f"no job was submitted:\n{printed[-5000:]}")
        self.job_id = json.loads(answers[-1])["job"]

    def store_options(self) -> dict[str, str]:
        if self.store == "sqlite":
            return {"agents.store.type": "sqlite", "agents.store.sqlite.path": str(self.folder / "store")}
        if self.fluss is not None:
            return self.fluss.options(STORE)
        return {
            "agents.store.type": "kafka",
            "agents.store.kafka.bootstrap-servers": self.broker.bootstrap,
            "agents.store.kafka.topic": STORE,
        }

    def rescale(self, parallelism: int) -> None:
        """Stop with a savepoint and go on at another parallelism."""
        savepoint = self.cluster.savepoint(self.job_id, self.folder / "savepoints", stop=True)
        self.parallelism = parallelism
        self.submit(savepoint)

    def await_progress(self) -> None:
        """Until checkpoints that begin after this complete, and calls that begin after this have been made."""
        cluster = self.cluster
        checkpoint = (cluster.completed_checkpoint(self.job_id) or (0, ""))[0]
        made = self._size_of_ledger()

        def progressed() -> bool:
            if cluster.state_of(self.job_id) == "FAILED":
                raise ClusterError(f"the job has failed:\n{cluster.failure_of(self.job_id)}")
            now = (cluster.completed_checkpoint(self.job_id) or (0, ""))[0]
            return now > checkpoint + 1 and self._size_of_ledger() > made

        self.eventually(progressed, "progress of the job")

    def working_processes(self) -> set[int]:
        """Those that made the latest calls."""
        return {fields[-1] for fields in lines(self.folder, "starts")[-LATEST_CALLS:]}

    def _size_of_ledger(self) -> int:
        ledger = self.folder / "starts"
        return ledger.stat().st_size if ledger.exists() else 0

    def eventually(self, condition: Callable[[], bool], what: str, seconds: float = RECOVERY_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                with contextlib.suppress(Exception):
                    what += f"; the last failures of the job:\n{self.cluster.failure_of(self.job_id)[:6000]}"
                raise ClusterError(f"not within {seconds} s: {what}")
            time.sleep(0.5)

    # ---- topics

    def producer(self) -> Producer:
        """In order, once, and over the death of the broker."""
        return Producer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": int(SEND_SECONDS * 1000),
                "log_level": 0,
            }
        )

    def read_outputs(self) -> list[Output]:
        """What a transactional reader sees now, from the first output on."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "verdict",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(OUTPUTS, 0, 0)])
        outputs = []
        try:
            while True:
                message = consumer.poll(ANSWER_SECONDS)
                if message is None:
                    raise ClusterError("the broker does not answer a reader of the outputs")
                error = message.error()
                if error is None:
                    outputs.append(Output(*json.loads(message.value())))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return outputs
        finally:
            consumer.close()


@contextlib.contextmanager
def running_world(folder: Path, store: str) -> Iterator[World]:
    """All parts started, the job submitted. Nothing outlives it."""
    cluster = StandaloneCluster(folder / "cluster", task_managers=2, slots=4, settings=SETTINGS)
    # There it is seen by clients and cluster alike, and loaded once in each process.
    (cluster.folder / "lib").mkdir(parents=True)
    jar = connector_jar()
    (cluster.folder / "lib" / jar.name).symlink_to(jar)
    broker = KafkaBroker(folder / "kafka")
    model = ModelServer(free_ports("127.0.0.1", 1)[0])
    # Three, so that one can be killed: with one replica it would forget what it had acknowledged.
    fluss = FlussServer(folder / "fluss", tablets=3) if store == "fluss" else None
    try:
        broker.start()
        if fluss is not None:
            fluss.start()
        topics = [NewTopic(INPUTS, INPUT_PARTITIONS, 1), NewTopic(OUTPUTS, 1, 1)]
        for made in broker.admin().create_topics(topics).values():
            made.result()
        model.start()
        cluster.start()
        world = World(folder, store, broker, cluster, model, fluss)
        world.submit()
        yield world
    finally:
        cluster.stop()
        model.kill()
        broker.kill()
        if fluss is not None:
            fluss.kill()
