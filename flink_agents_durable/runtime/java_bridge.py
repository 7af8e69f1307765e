"""Java actions and their durable calls, as the operator's Java side runs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from flink_agents_durable.api.java import JavaCallError, JavaFunction
from flink_agents_durable.engine.java_errors import throwables
from flink_agents_durable.engine.java_messages import decode_failure, decode_flat, decode_value, encode
from flink_agents_durable.engine.java_port import JavaCall, JavaInterruptedError
from flink_agents_durable.engine.ports import FAILED, INTERRUPTED, CallStart, Completion
from flink_agents_durable.runtime.host import HostLink
from flink_agents_durable.runtime.lasting_method import LastingMethod


class JavaBridge:
    """Implements `JavaPort` over the host's `JavaActions`. Used on the task thread alone."""

    def __init__(self, link: HostLink, workers: int) -> None:
        self._link = link
        self.on_task_thread = link.on_task_thread
        self._workers = workers
        self.on_first_use: Callable[[], None] = _nothing
        self._actions: Any = None
        self._handles = 0
        self._serve: Callable[[bytes], bytes] | None = None
        self.serve = LastingMethod(self._answer)

    def prepare(self) -> None:
        """Java's side is made when the first action or call needs it: agents without any cost nothing."""
        if self._actions is None:
            self._actions = self._link.java_actions(self._workers)
            self.on_task_thread(self._actions.serveBy, self)
            self.on_first_use()

    def new_handle(self) -> int:
        self.prepare()
        self._handles += 1
        return self._handles

    def start(self, handle: int, message: bytes, serve: Callable[[bytes], bytes]) -> bytes:
        self._serve = serve
        return bytes(self.on_task_thread(self._actions.start, handle, message))

    def step(self, handle: int, answer: bytes, serve: Callable[[bytes], bytes]) -> bytes:
        self._serve = serve
        return bytes(self.on_task_thread(self._actions.step, handle, answer))

    def _answer(self, message: bytes) -> bytes:
        """Called by Java from inside `start` or `step`; other executions may take steps meanwhile."""
        serve = self._serve
        assert serve is not None
        try:
            return serve(bytes(message))
        finally:
            self._serve = serve

    def call(self, handle: int, number: int, reconcile: bool) -> JavaCall:
        return JavaCall(handle, number, reconcile)

    def start_calls(self, message: bytes) -> None:
        self.on_task_thread(self._actions.startCalls, message)

    def take_completions(self, limit: int) -> bytes:
        return bytes(self.on_task_thread(self._actions.takeCompletions, limit))

    def interrupt(self, handle: int, error: BaseException) -> bool:
        if isinstance(error, JavaInterruptedError):
            self.on_task_thread(self._actions.interruptBy, handle, error.call)
            return True
        for throwable in throwables(error):
            self.on_task_thread(self._actions.interruptByTask, handle, throwable)
            return True
        return False

    def abandon(self, handle: int) -> None:
        if self._actions is not None:
            self.on_task_thread(self._actions.abandon, handle)

    def release(self, handle: int) -> None:
        if self._actions is not None:
            self.on_task_thread(self._actions.release, handle)

    def close(self) -> None:
        """Let go of Java, which closes its side with its operator (K11)."""
        self.serve.release()
        self._actions = None
        self._serve = None


class JavaCalls:
    """Durable calls that Java's workers run."""

    def __init__(self, bridge: JavaBridge) -> None:
        self._bridge = bridge
        self.on_task_thread = bridge.on_task_thread
        self._lock = threading.Lock()  # guards the count, as two threads start calls
        self._running = 0
        self._of_python: set[int] = set()  # calls that actions in Python made
        self.has_more = False
        """Whether outcomes may wait in Java whose wake-up has come already."""

    def start(self, calls: Sequence[CallStart]) -> None:
        """Start calls in one crossing, on the task thread or the loop thread."""
        message: list[Any] = []
        for call in calls:
            function: Any = call.function
            if type(function) is JavaFunction:
                self._of_python.add(call.id)
                message += (call.id, function.class_name, function.method, call.args)
            else:
                message += (call.id, function.handle, function.number, function.reconcile)
        with self._lock:
            self._running += len(calls)  # before any of them can end
        self._bridge.start_calls(encode(message))

    def take(self, limit: int) -> list[Completion]:
        """At most so many outcomes, on the task thread."""
        self.has_more = False
        if not self._running:
            return []
        flat = decode_flat(self._bridge.take_completions(limit))
        taken = [self._completion(*flat[place : place + 3]) for place in range(0, len(flat), 3)]
        with self._lock:
            self._running -= len(taken)
        self.has_more = len(taken) == limit
        return taken

    def _completion(self, id: int, status: int, payload: bytes) -> Completion:
        of_python = id in self._of_python
        if of_python:
            self._of_python.discard(id)
        if status == FAILED:
            return id, status, JavaCallError(decode_failure(payload))
        if status == INTERRUPTED:
            return id, status, JavaInterruptedError(id)
        return id, status, decode_value(payload) if of_python else payload


def _nothing() -> None: ...
