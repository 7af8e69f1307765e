"""What the contract tests share: attempts of one job, calls that end on command, a store that is watched."""

from __future__ import annotations

import asyncio
import copy
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from flink_agents_durable import Agent, OutputEvent, RunnerContext, SqliteActionStateStore
from flink_agents_durable.testing import LocalRunner

DEADLINE = 20.0
"""Seconds after which a test gives up waiting: a loaded machine is slow, a lost wake-up hangs for ever."""


def agent_of(*actions: Callable[..., Any], on: Any = None, **more: Callable[..., Any]) -> Agent:
    """An agent of plain functions `(event, ctx)`, all triggered by the input unless `on` says otherwise."""
    from flink_agents_durable import InputEvent

    agent = Agent()
    for function in actions:
        agent.add_action(function.__name__, [on or InputEvent], function)
    for trigger, function in more.items():
        agent.add_action(function.__name__, [trigger], function)
    return agent


def out(ctx: RunnerContext, value: Any) -> None:
    """Emit a record."""
    ctx.send_event(OutputEvent(value))


def values(runner: LocalRunner) -> list[Any]:
    """What was emitted, without keys."""
    return [value for _, value in runner.outputs]


def called(runner: LocalRunner) -> list[Any]:
    """First arguments of the calls that were executed by this attempt."""
    return [call.args[0] for call in runner.calls]


def until(runner: LocalRunner, condition: Callable[[], Any]) -> None:
    """Let the runner go on until the condition holds, while calls are in flight."""
    pause = threading.Event()
    deadline = time.monotonic() + DEADLINE
    while True:
        runner.advance(0)
        if condition():
            return
        if time.monotonic() > deadline:
            raise TimeoutError("the condition did not come true")
        pause.wait(0.001)


class Gate:
    """An async function whose calls stay in flight until the test ends them; give it as a fake."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: dict[Any, list[tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]]]] = {}
        self.started: list[Any] = []
        self.cancelled: list[Any] = []
        self.most = 0

    async def __call__(self, name: Any = None) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        with self._changed:
            self._waiting.setdefault(name, []).append((loop, future))
            self.started.append(name)
            self.most = max(self.most, sum(map(len, self._waiting.values())))
            self._changed.notify_all()
        try:
            return await future
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise

    def is_waiting(self, *names: Any) -> bool:
        """Whether calls with these arguments are in flight."""
        return all(self._waiting.get(name) for name in names)

    @property
    def waiting(self) -> list[Any]:
        """Arguments of the calls that are in flight, in the order of their start."""
        return [name for name, calls in self._waiting.items() for _ in calls]

    def answer(self, name: Any, value: Any = None) -> None:
        """End a call with a result; by default its argument with an exclamation mark."""
        loop, future = self._take(name)
        result = f"{name}!" if value is None else value
        loop.call_soon_threadsafe(lambda: future.done() or future.set_result(result))

    def fail(self, name: Any, error: BaseException) -> None:
        """End a call with an exception."""
        loop, future = self._take(name)
        loop.call_soon_threadsafe(lambda: future.done() or future.set_exception(error))

    def late_answer(self, name: Any, value: Any) -> None:
        """As `answer`, of a call that may have been abandoned with its loop."""
        loop, future = self._take(name)
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: future.done() or future.set_result(value))

    def _take(self, name: Any) -> tuple[asyncio.AbstractEventLoop, asyncio.Future[Any]]:
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting.get(name), DEADLINE):
                raise TimeoutError(f"no call with {name!r} is in flight")
            calls = self._waiting[name]
            taken = calls.pop(0)
            if not calls:
                del self._waiting[name]
            return taken


class WatchedStore:
    """A store that notes batches, and that can hold back acknowledgements or refuse large records."""

    name = "watched"
    durable = True

    def __init__(self, path: Path, max_record_bytes: int | None = None) -> None:
        self._inner = SqliteActionStateStore(path, synchronous="OFF")
        self.max_record_bytes = max_record_bytes
        self.batches: list[list[bytes]] = []
        self.held = threading.Event()
        self._wake: list[Callable[[], None]] = []
        self._release_at: list[int] = []
        self._attempts: list[WatchedStore] = []
        self._appended = 0

    def __copy__(self) -> WatchedStore:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._inner = copy.copy(self._inner)
        return other

    @property
    def bytes(self) -> int:
        """Bytes of all records that were appended."""
        return sum(len(record) for batch in self.batches for record in batch)

    def open(
        self, log_id: str, positions: Mapping[int, int | None], on_ack: Callable[[], None]
    ) -> Iterator[tuple[int, bytes]]:
        self._wake.append(on_ack)
        self._attempts.append(self)
        return self._inner.open(log_id, positions, on_ack)

    def append(self, records: Sequence[tuple[int, bytes]]) -> None:
        self.batches.append([record for _, record in records])
        self._inner.append(records)
        self._appended += 1
        if self._release_at and len(self.batches) >= self._release_at[0]:
            self._release_at.clear()
            self.release()

    def acknowledged(self) -> int:
        return 0 if self.held.is_set() else self._inner.acknowledged()

    def hold(self) -> None:
        """Hold back acknowledgements."""
        self.held.set()

    def release_at_batch(self, number: int) -> None:
        """Let acknowledgements through again when so many batches have been appended."""
        self._release_at.append(number)

    @property
    def settled(self) -> bool:
        """Whether all that the latest attempt appended is durable."""
        return bool(self._attempts) and self._attempts[-1].is_durable()

    def is_durable(self) -> bool:
        """Whether all that this attempt appended is durable."""
        return self._inner.acknowledged() == self._appended

    def release(self) -> None:
        """Let acknowledgements through again."""
        self.held.clear()
        for wake in self._wake:
            wake()

    def wait_acknowledged(self, batches: int, wait: Callable[[float], None]) -> None:
        self._inner.wait_acknowledged(batches, wait)

    def positions(self, batches: int) -> Mapping[int, int]:
        return self._inner.positions(batches)

    def truncate(self, positions: Mapping[int, int]) -> None:
        self._inner.truncate(positions)

    def close(self, timeout: float) -> bool:
        return self._inner.close(timeout)


class Attempts:
    """The attempts of one job: each crashes the one before it, as SIGKILL does, and finds its store's log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store: Any = SqliteActionStateStore(folder / "log", synchronous="OFF")
        self.options: dict[str, object] = {}
        """Of every attempt, beside what the attempt itself is given."""
        self._runners: list[LocalRunner] = []

    def start(
        self,
        agent: Agent,
        *,
        checkpoint: bytes | None = None,
        fakes: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
        options: Mapping[Any, object] | None = None,
        together: bool = False,
        **more: Any,
    ) -> LocalRunner:
        """A new attempt; `together` leaves the one before it alive, as a zombie is."""
        if self._runners and not together:
            self._runners[-1].crash()
        runner = LocalRunner.restore(
            agent,
            checkpoint,
            store=self.store,
            fakes=fakes or {},
            options={**self.options, **(options or {})},
            **more,
        )
        self._runners.append(runner)
        return runner

    def close(self) -> None:
        for runner in self._runners:
            runner.close()
