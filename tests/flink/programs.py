"""Starts programs as users do: in a process of their own, with a bare PATH, nothing activated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

# A program that hangs is ended together with its JVM: they form one process group.
TIMEOUT_SECONDS = 180


def start_program(
    *arguments: str | Path, cwd: Path, output: int | IO[str] = subprocess.PIPE
) -> subprocess.Popen[str]:
    """The leader of a process group of its own, to which its JVM belongs."""
    # Not this process's environment: PyFlink leaves variables behind in it.
    kept = ("HOME", "JAVA_HOME", "LANG", "TMPDIR")
    environment = {key: os.environ[key] for key in kept if key in os.environ}
    environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        text=True,
        start_new_session=True,
    )


def run_program(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    process = start_program(*arguments, cwd=cwd)
    try:
        out, err = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
