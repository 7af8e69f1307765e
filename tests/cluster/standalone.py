"""A standalone Flink cluster from the apache-flink package: one JobManager and some TaskManagers as processes.

Everything it writes is in one folder, so that clusters run beside each other and leave nothing behind.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyflink
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
FLINK = Path(pyflink.__file__).parent

START_SECONDS = 120
"""A JVM that is not there after so long does not come; about 8 s on an idle machine, many on a busy one."""
STOP_SECONDS = 20
"""What does not end by SIGTERM is killed, so that a hanging worker does not outlive its test."""
CLIENT_SECONDS = 180
"""Bounds a client that hangs at submit."""

FIRST_WITHOUT_SECURITY_MANAGER = 24

SETTINGS = {
    # A killed process is noticed by its connection, at once; one that stands still after 8 s instead of 50 s, which
    # a busy machine does not reach.
    "heartbeat.interval": "500ms",
    "heartbeat.timeout": "8s",
    "heartbeat.rpc-failure-threshold": "1",
    # A job survives as many kills as a test likes, and waits for slots instead of failing for want of them.
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "100ms",
    "restart-strategy.fixed-delay.attempts": "2147483647",
    "resourcemanager.standalone.start-up-time": "3600000",
    "slot.request.timeout": "60s",
    "pekko.ask.timeout": "10s",
    "pekko.startup-timeout": "60s",  # a JVM that starts on a busy machine
    # Processes that come back find each other at once.
    "cluster.registration.initial-timeout": "100ms",
    "cluster.registration.max-timeout": "1s",
    "cluster.registration.error-delay": "500ms",
    "cluster.registration.refused-registration-delay": "500ms",
    "cluster.evenly-spread-out-slots": "true",
    "execution.checkpointing.interval": "500ms",
    # The classes of pemja hold the interpreter of the process: a second job must not load them again.
    "classloader.parent-first-patterns.additional": "pemja.",
    "jobmanager.memory.process.size": "1024m",
    "taskmanager.memory.process.size": "1400m",
    "taskmanager.memory.managed.size": "64m",
    "taskmanager.memory.network.min": "32m",
    "taskmanager.memory.network.max": "32m",
    "taskmanager.memory.jvm-metaspace.size": "384m",
    "taskmanager.memory.framework.off-heap.size": "64m",
    "state.backend.type": "hashmap",
    "rest.flamegraph.enabled": "false",
}


ENDED = ("CANCELED", "FINISHED", "FAILED")


class ClusterError(RuntimeError):
    """The cluster, or a client, did not do what it was asked to; with the end of its log."""


@dataclass
class Member:
    """One process of the cluster."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    ended: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    def lives(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """SIGKILL, with the processes that it has started (PyFlink's workers in process mode)."""
        if not self.ended:  # afterwards its number may belong to somebody else
            self.ended = True
            kill_group(self.pid)
            self.process.wait()

    def stop(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_SECONDS)
        self.kill()

    def tail(self, lines: int = 60) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


@dataclass
class StandaloneCluster:
    """`host`: an address of the loopback network; one other than 127.0.0.1 passes for another machine."""

    folder: Path
    task_managers: int = 2
    slots: int = 2
    settings: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    python: str = sys.executable
    """The Python of clients."""
    worker_python: str | None = None
    """The first Python on the PATH of the TaskManagers, with nothing else than what is installed there; by default
    that of clients."""
    java_home: str | None = None
    python_path: str = str(ROOT)
    """From where clients import beside what is installed."""
    members: dict[str, Member] = field(default_factory=dict)
    _started: int = 0

    # ---- life

    def start(self) -> StandaloneCluster:
        """Write the configuration, start all processes, and wait until all slots are there."""
        try:
            self._write_configuration()
            self.start_job_manager()
            for _ in range(self.task_managers):
                self.start_task_manager()
            self.await_task_managers(self.task_managers)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        living = [member for member in self.members.values() if not member.ended]
        for member in living:
            member.process.terminate()
        for member in living:
            member.stop()
        self.members.clear()

    def start_job_manager(self) -> Member:
        """Not waited for: the TaskManagers look for it until it is there."""
        return self._launch("jobmanager", "jobmanager.sh")

    def kill_job_manager(self) -> None:
        self.members.pop("jobmanager").kill()

    def start_task_manager(self, number: int | None = None) -> Member:
        """Not waited for. Each has a number of its own."""
        self._started = number or self._started + 1
        return self._launch(f"taskmanager-{self._started}", "taskmanager.sh")

    def await_task_managers(self, number: int) -> None:
        """Until so many are registered with the JobManager."""

        def registered() -> bool:
            for member in self.members.values():
                if not member.lives() and not member.ended:
                    raise ClusterError(f"{member.name} has ended by itself:\n{member.tail()}")
            return len(self.registered_task_managers()) == number

        self.eventually(
            registered,
            f"{number} registered TaskManagers",
            START_SECONDS,
        )

    def registered_task_managers(self) -> list[dict[str, Any]]:
        answer = self.try_get("/taskmanagers")
        return [] if answer is None else list(answer["taskmanagers"])

    def living_task_managers(self) -> list[Member]:
        """Reaps those that have ended, with what they had started."""
        found = [m for name, m in self.members.items() if name.startswith("taskmanager") and not m.ended]
        for member in found:
            if not member.lives():
                member.kill()
        return [member for member in found if not member.ended]

    def kill_task_manager(self, name: str | None = None) -> Member:
        """SIGKILL to the named TaskManager, or to the oldest one that lives."""
        member = self.members[name] if name else self.living_task_managers()[0]
        member.kill()
        return member

    def replace_dead_task_managers(self) -> None:
        """Start a new one for each that was killed, once the JobManager misses it, and wait until all are there."""
        living = len(self.living_task_managers())
        self.await_task_managers(living)
        for _ in range(self.task_managers - living):
            self.start_task_manager()
        self.await_task_managers(self.task_managers)

    # ---- jobs

    def client_environment(self, python: str | None = None) -> dict[str, str]:
        """Environment variables of a client: nothing of this process but its home, and the cluster's folders."""
        kept = ("HOME", "JAVA_HOME", "LANG", "TMPDIR")
        environment = {key: os.environ[key] for key in kept if key in os.environ}
        if self.python_path:
            environment["PYTHONPATH"] = self.python_path
        if self.java_home:
            environment["JAVA_HOME"] = self.java_home
        folder = os.path.dirname(python or self.python)
        environment["PATH"] = f"{folder}:/usr/local/bin:/usr/bin:/bin"
        environment["FLINK_CONF_DIR"] = str(self.folder / "conf")
        environment["FLINK_LIB_DIR"] = str(self.folder / "lib")
        environment["FLINK_LOG_DIR"] = str(self.folder / "log")
        environment["FLINK_PID_DIR"] = str(self.folder / "pid")
        if self.java_home and java_release(self.java_home) >= FIRST_WITHOUT_SECURITY_MANAGER:
            # Flink's scripts add an option that this Java refuses, unless they are given all options.
            environment["FLINK_ENV_JAVA_OPTS"] = self.configuration()["env.java.opts.all"]
        return environment

    def flink(self, *arguments: str, python: str | None = None, check: bool = True) -> str:
        """Run Flink's own command line; its output."""
        command = [str(FLINK / "bin" / "flink"), *arguments]
        return self._client(command, self.client_environment(python), check)

    def flink_run(self, program: Path | str, *arguments: str, options: Mapping[str, str] = {}) -> str:
        """`flink run -d -py`; the job's id."""
        settings = [f"-D{key}={value}" for key, value in options.items()]
        python = ["-pyclientexec", self.python]
        out = self.flink("run", "-d", *settings, *python, "-py", str(program), *arguments)
        return job_id_of(out)

    def python_run(
        self, program: Path | str, *arguments: str, python: str | None = None, check: bool = True
    ) -> str:
        """The program as users start it, submitting to this cluster; what it printed."""
        environment = {**self.client_environment(python), "SUBMIT_ARGS": "remote -d"}
        return self._client([python or self.python, str(program), *arguments], environment, check)

    def _client(self, command: Sequence[str], environment: Mapping[str, str], check: bool) -> str:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            out, _ = process.communicate(timeout=CLIENT_SECONDS)
        except subprocess.TimeoutExpired as error:
            kill_group(process.pid)
            out, _ = process.communicate()
            raise ClusterError(f"{command} did not end within {CLIENT_SECONDS} s:\n{out[-5000:]}") from error
        finally:
            kill_group(process.pid)
        if check and process.returncode != 0:
            raise ClusterError(f"{command} ended with {process.returncode}:\n{out[-8000:]}")
        return out

    # ---- REST

    def get(self, path: str) -> Any:
        return self._request("GET", path)

    def try_get(self, path: str) -> Any:
        """None while the JobManager does not answer."""
        try:
            return self.get(path)
        except (OSError, http.client.HTTPException):
            return None

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._request("POST", path, body)

    def state_of(self, job_id: str) -> str:
        answer = self.try_get(f"/jobs/{job_id}")
        return "UNKNOWN" if answer is None else str(answer["state"])

    def is_running(self, job_id: str) -> bool:
        """Whether all of its tasks run."""
        answer = self.try_get(f"/jobs/{job_id}")
        if answer is None or answer["state"] != "RUNNING":
            return False
        return all(vertex["status"] == "RUNNING" for vertex in answer["vertices"])

    def failure_of(self, job_id: str) -> str:
        answer = self.get(f"/jobs/{job_id}/exceptions?maxExceptions=5")
        entries = answer.get("exceptionHistory", {}).get("entries", [])
        return "\n".join(entry["stacktrace"] for entry in entries)

    def completed_checkpoint(self, job_id: str) -> tuple[int, str] | None:
        """Number and path of the latest one."""
        answer = self.try_get(f"/jobs/{job_id}/checkpoints")
        latest = (answer or {}).get("latest", {}).get("completed")
        return None if latest is None else (int(latest["id"]), str(latest["external_path"]))

    def await_checkpoint(self, job_id: str) -> str:
        """The path of a completed checkpoint that was taken after this call: the second one from now."""
        before = (self.completed_checkpoint(job_id) or (0, ""))[0]
        self.eventually(
            lambda: (self.completed_checkpoint(job_id) or (0, ""))[0] > before + 1,
            f"a checkpoint of job {job_id} after number {before}",
        )
        checkpoint = self.completed_checkpoint(job_id)
        assert checkpoint is not None
        return checkpoint[1]

    def cancel(self, job_id: str) -> None:
        self._request("PATCH", f"/jobs/{job_id}?mode=cancel")
        self.await_state(job_id, "CANCELED")

    def end(self, job_id: str) -> None:
        """Cancel a job of which nothing is wanted any more, if it has not ended."""
        if self.state_of(job_id) not in ENDED:
            self.cancel(job_id)

    def await_state(self, job_id: str, state: str, seconds: float = 60) -> None:
        self.eventually(lambda: self.state_of(job_id) == state, f"job {job_id} {state}", seconds)

    def savepoint(self, job_id: str, folder: Path, *, stop: bool = False) -> str:
        """Take a savepoint, and with `stop` end the job by it; its path."""
        path = "stop" if stop else "savepoints"
        request = {"targetDirectory": folder.as_uri()} | ({} if stop else {"cancel-job": False})
        trigger = self.post(f"/jobs/{job_id}/{path}", request)["request-id"]
        answer: dict[str, Any] = {}

        def completed() -> bool:
            answer.update(self.get(f"/jobs/{job_id}/savepoints/{trigger}"))
            return bool(answer["status"]["id"] == "COMPLETED")

        self.eventually(completed, f"a savepoint of job {job_id}")
        operation = answer["operation"]
        if "location" not in operation:
            raise ClusterError(f"the savepoint of job {job_id} failed: {json.dumps(operation)[:5000]}")
        if stop:
            self.await_state(job_id, "FINISHED")
        return str(operation["location"])

    def eventually(self, condition: Callable[[], bool], what: str, seconds: float = 90) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= deadline:
                logs = "\n".join(f"== {m.name}\n{m.tail()}" for m in self.members.values())
                raise ClusterError(f"{what}: not within {seconds} s\n{logs}"[-20_000:])
            time.sleep(0.05)

    # ---- inside

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://{self.host}:{self.rest_port}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.loads(response.read() or b"null")

    @property
    def rest_port(self) -> int:
        return int(self.configuration()["rest.port"])

    def configuration(self) -> dict[str, str]:
        return dict(YAML(typ="safe").load((self.folder / "conf" / "config.yaml").read_text()))

    def _write_configuration(self) -> None:
        for name in ("conf", "lib", "log", "pid", "tmp", "checkpoints", "savepoints", "plugins"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        for source in (FLINK / "conf").glob("log4j*.properties"):
            shutil.copy(source, self.folder / "conf")
        for jar in [*(FLINK / "lib").glob("*.jar"), *(FLINK / "opt").glob("flink-python-*.jar")]:
            link = self.folder / "lib" / jar.name
            if not link.exists():
                link.symlink_to(jar)
        stock = YAML(typ="safe").load((FLINK / "conf" / "config.yaml").read_text())
        rpc, rest = free_ports(self.host, 2)
        settings = {
            **SETTINGS,
            "env.java.opts.all": f"{stock['env']['java']['opts']['all']} -XX:TieredStopAtLevel=1",
            "jobmanager.rpc.address": self.host,
            "jobmanager.rpc.port": str(rpc),
            "jobmanager.bind-host": self.host,
            "rest.address": self.host,
            "rest.bind-address": self.host,
            "rest.port": str(rest),
            "taskmanager.host": self.host,
            "taskmanager.bind-host": self.host,
            "taskmanager.numberOfTaskSlots": str(self.slots),
            "io.tmp.dirs": str(self.folder / "tmp"),
            "execution.checkpointing.dir": (self.folder / "checkpoints").as_uri(),
            "execution.checkpointing.savepoint-dir": (self.folder / "savepoints").as_uri(),
            **self.settings,
        }
        if self.java_home:
            settings["env.java.home"] = self.java_home
        lines = [f"{key}: {json.dumps(value)}\n" for key, value in settings.items()]
        (self.folder / "conf" / "config.yaml").write_text("".join(lines))

    def _launch(self, name: str, script: str) -> Member:
        log = self.folder / "log" / f"{name}.out"
        environment = {**self.client_environment(self.worker_python), "FLINK_IDENT_STRING": name}
        if self.worker_python:
            environment.pop("PYTHONPATH", None)
        with open(log, "ab") as output:
            process = subprocess.Popen(
                [str(FLINK / "bin" / script), "start-foreground"],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # not stopped by the terminal's Ctrl-C, and killed with its children
            )
        member = self.members[name] = Member(name, process, log)
        return member


def job_id_of(output: str) -> str:
    for line in output.splitlines():
        if "JobID" in line:
            return line.rsplit("JobID", 1)[1].strip()
    raise ClusterError(f"no job was submitted:\n{output[-8000:]}")


def java_release(home: str) -> int:
    """The feature number in the file that every Java since 9 has in its home."""
    lines = Path(home, "release").read_text().splitlines()
    (version,) = (line.split('"')[1] for line in lines if line.startswith("JAVA_VERSION="))
    return int(version.split(".")[0])


def free_ports(host: str, number: int) -> list[int]:
    """Below the range from which the system gives ports away: nobody takes them before the cluster does."""
    found: list[int] = []
    while len(found) < number:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind((host, port))
            found.append(port)
    return found


def kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
