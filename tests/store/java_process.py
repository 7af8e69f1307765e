"""Servers of Java in processes of their own: fetched once from Maven, killed at will, never left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

START_SECONDS = 120.0
"""Far above what a start takes, which is 2 to 6 seconds, on a machine that is busy."""

QUICK_START = ("-XX:TieredStopAtLevel=1",)
"""For a server that lives for seconds. One that is to be fast goes without."""


class JavaProcess:
    """It ends with this process, also when that is killed."""

    def __init__(self, arguments: Sequence[str], folder: Path, log: Path) -> None:
        java = str(Path(os.environ["JAVA_HOME"], "bin", "java")) if "JAVA_HOME" in os.environ else "java"
        command = [java, "-XX:+UseSerialGC", *arguments]
        with open(log, "ab") as output:
            self._process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        # Its input ends with this process, however that ends.
        script = f"cat >/dev/null; kill -9 {self._process.pid}"
        self._watcher = subprocess.Popen(
            ["sh", "-c", script], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def wait(self) -> None:
        """Until it has ended by itself."""
        self._process.wait(START_SECONDS)
        self._stop_watching()

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._stop_watching()
        self._process.kill()
        self._process.wait(START_SECONDS)

    def pause(self) -> None:
        """Connections stay open and nothing answers."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def _stop_watching(self) -> None:
        self._watcher.kill()
        self._watcher.communicate()


def libraries(cache: Path, pom: str) -> Path:
    """The jars of a server, from the cache; fetched there the first time."""
    jars = cache / "libs"
    if not jars.exists():
        part = cache / f"part-{os.getpid()}"
        part.mkdir(parents=True, exist_ok=True)
        (part / "pom.xml").write_text(pom)
        command = ["mvn", "-B", "-q", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*command, "-DoutputDirectory=libs"], cwd=part, check=True, timeout=600)
        try:
            (part / "libs").rename(jars)
        except OSError:
            assert jars.exists()  # somebody else was faster
        shutil.rmtree(part)
    return jars


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in sockets]
    for server in sockets:
        server.close()
    return ports
