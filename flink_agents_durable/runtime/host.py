"""The way to Java: one object that holds the host and lets go of it."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from flink_agents_durable.engine.interruption import is_interruption
from flink_agents_durable.engine.ports import StateEntry
from flink_agents_durable.runtime.action_thread import ActionThread

R = TypeVar("R")

_log = logging.getLogger(__name__)

MAX_WAIT_SECONDS = 0.1
"""Bounds one wait in Java, should a signal ever be lost."""


class Host(Protocol):
    """What the Java operator hands in. Names are those of its methods."""

    def wake(self) -> None: ...
    def signal(self) -> None: ...
    def awaitSignal(self, millis: int) -> object: ...
    def loadKey(self, key: bytes) -> Sequence[Any] | None: ...
    def loadMemory(self, key: bytes) -> Sequence[Any] | None: ...
    def isInterruption(self, throwable: object) -> bool: ...
    def updateMetrics(self, flat: Any) -> None: ...
    def javaActions(self, workers: int) -> Any: ...


class HostLink:
    """Calls, executor and store know this link only, so that what is stuck keeps no operator alive (K11)."""

    def __init__(self, host: Host) -> None:
        self._host: Host | None = host
        self.actions: ActionThread | None = None
        """Where actions run, if not on the task thread."""

    def release(self) -> None:
        self._host = None

    # ---- loop thread only: a Python thread that calls Java stays attached to the JVM for good

    def wake(self) -> None:
        """Ask for a `drain`. After the mailbox closed nobody needs it."""
        host = self._host
        if host is not None:
            try:
                host.wake()
            except Exception:
                _log.debug("a wake-up after the mailbox closed", exc_info=True)

    def signal(self) -> None:
        """End the wait of the task thread, or its next one."""
        host = self._host
        if host is not None:
            with contextlib.suppress(Exception):
                host.signal()
        if self.actions is not None:
            self.actions.signal()

    # ---- where actions run: the task thread, or one for which it waits

    def on_task_thread(self, act: Callable[..., R], *args: Any) -> R:
        """Java's state and its continuations keep to the task thread."""
        actions = self.actions
        if actions is None or not actions.is_current():
            return act(*args)
        result: R = actions.ask(partial(act, *args))
        return result

    def wait(self, seconds: float = MAX_WAIT_SECONDS) -> None:
        """Wait for a signal, a short time; an interrupt of the task ends it with an error (K5)."""
        seconds = min(seconds, MAX_WAIT_SECONDS)
        if self.actions is not None and self.actions.is_current():
            self.actions.wait(seconds)
        else:
            self._open().awaitSignal(max(1, int(seconds * 1_000)))

    def load_key(self, key: bytes) -> list[StateEntry]:
        return entries(self.on_task_thread(self._open().loadKey, key))

    def load_memory(self, key: bytes) -> list[tuple[str, bytes]]:
        flat = self.on_task_thread(self._open().loadMemory, key)
        if flat is None:
            return []
        return [(flat[i], bytes(flat[i + 1])) for i in range(0, len(flat), 2)]

    def is_interruption(self, error: BaseException) -> bool:
        """Keeps I1: Java is asked for the throwables inside the exception."""
        host = self._host
        return self.on_task_thread(is_interruption, error, None if host is None else host.isInterruption)

    def update_metrics(self, flat: list[Any]) -> None:
        self.on_task_thread(self._open().updateMetrics, tuple(flat))

    def java_actions(self, workers: int) -> Any:
        """The Java side of actions written in Java, made when it is first asked for."""
        return self.on_task_thread(self._open().javaActions, workers)

    def _open(self) -> Host:
        if self._host is None:
            raise RuntimeError("the operator is closed")
        return self._host


def entries(flat: Sequence[Any] | None) -> list[StateEntry]:
    """Keyed state as it crosses from Java: state, subkey, value, state, ..."""
    if flat is None:
        return []
    return [(flat[i], flat[i + 1], bytes(flat[i + 2])) for i in range(0, len(flat), 3)]


def flattened(updates: Sequence[tuple[bytes, Sequence[StateEntry]]]) -> tuple[Any, ...]:
    """Updates as they cross to Java: key, flat entries, key, ..."""
    flat: list[Any] = []
    for key, changed in updates:
        flat.append(key)
        flat.append(tuple(chain.from_iterable(changed)))
    return tuple(flat)
