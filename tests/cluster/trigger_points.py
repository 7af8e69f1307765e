"""Named moments at which a TaskManager is lost: it kills or stops itself there, once, when a test has armed it.

A test arms a moment by a file in the folder of the job; the first process that takes the file away sends itself
the signal. What is wrapped here stays what it is otherwise.
"""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

_folders: tuple[str, ...] = ()  # replaced, never changed: other threads go through it
_wrapped: set[str] = set()

BEFORE, AFTER = "before", "after"


def _methods() -> dict[str, tuple[type, str, str]]:
    """Only here, as the test's own process does not need the runtime."""
    from flink_agents_durable.engine.engine import Engine
    from flink_agents_durable.runtime.operator import AgentOperator
    from flink_agents_durable.store.writer import GroupCommitWriter

    return {
        "record-written": (GroupCommitWriter, "_commit", AFTER),
        "snapshot-begins": (AgentOperator, "_write_snapshot", BEFORE),
        "snapshot-written": (AgentOperator, "_write_snapshot", AFTER),
        "checkpoint-completed": (AgentOperator, "completed", BEFORE),
        "log-cut": (AgentOperator, "completed", AFTER),
        "recovery-begins": (AgentOperator, "start", BEFORE),
        "tail-read": (Engine, "resume", BEFORE),
        "recovered": (AgentOperator, "start", AFTER),
    }


CALLS = ("call-begins", "call-done", "effect-done")
"""Moments in the durable functions of the test's job: before a call leaves its trace, and after it."""


def watch(folder: str) -> None:
    """Called where an agent arrives in a TaskManager."""
    global _folders
    if folder not in _folders:
        _folders = (*_folders, folder)
    for point, (cls, name, side) in _methods().items():
        if point not in _wrapped:
            _wrapped.add(point)
            setattr(cls, name, _with_trigger(getattr(cls, name), point, side))


def _with_trigger(method: Callable[..., Any], point: str, side: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if side == BEFORE:
            pass_point(point)
        result = method(*args, **kwargs)
        if side == AFTER:
            pass_point(point)
        return result

    return wrapped


def pass_point(point: str) -> None:
    for folder in _folders:
        for number in (signal.SIGKILL, signal.SIGSTOP):
            file = _file(folder, point, number)
            if os.path.exists(file):
                _take(file, number)


def _take(file: Path, number: signal.Signals) -> None:
    try:
        os.rename(file, f"{file}-reached-by-{os.getpid()}")
    except FileNotFoundError:
        return  # another thread or process did
    os.kill(os.getpid(), number)


def arm(folder: Path, point: str, number: signal.Signals = signal.SIGKILL) -> None:
    _file(folder, point, number).touch()


def is_armed(folder: Path, point: str, number: signal.Signals = signal.SIGKILL) -> bool:
    return _file(folder, point, number).exists()


def reached_by(folder: Path, point: str, number: signal.Signals) -> list[int]:
    """The processes that sent themselves the signal there."""
    name = _file(folder, point, number).name
    return [int(path.name.rsplit("-", 1)[1]) for path in folder.glob(f"{name}-reached-by-*")]


def disarm(folder: Path) -> None:
    for file in folder.glob("SIG*-at-*"):
        file.unlink(missing_ok=True)


def _file(folder: str | Path, point: str, number: signal.Signals) -> Path:
    return Path(folder, f"{number.name}-at-{point}")
