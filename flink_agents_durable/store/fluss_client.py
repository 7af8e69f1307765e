"""How the Fluss store reaches its cluster: settings, connection, and the library that is installed apart."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.store.client_properties import redact, refuse_own

T = TypeVar("T")

INSTALL = "pip install --no-deps 'pyfluss>=1.0,<2'"
"""Without its dependencies: it names a pandas that Flink excludes, and needs it only for functions that the store
does not use; pyarrow, which it needs, comes with Flink."""

CONNECT_SECONDS = 5.0
"""Of one connection, also to a server whose machine is gone. Bounds the wait before another one is tried."""

REQUEST_SECONDS = 10.0
"""Of one request: the library itself waits without a limit for a server that stands still."""

FETCH_MILLIS = 5
"""How long a server may hold a fetch that finds nothing. It holds it that long although rows come meanwhile."""

SLICE_SECONDS = 0.2
"""Bounds how late an interruption of the task thread is seen."""

CLOSE_SECONDS = 1.0
"""For the library to end a connection. One to a server that stands still is left behind after it."""

OWN_PROPERTIES = frozenset(
    {
        "bootstrap.servers",
        "writer.acks",
        "writer.retries",
        "writer.enable-idempotence",
        "writer.batch-timeout-ms",
        "writer.buffer.wait-timeout-ms",
        "scanner.log.fetch.wait-max-time-ms",
        "scanner.log.fetch.min-bytes",
    }
)
"""What the store sets itself, because its guarantees or its speed depend on it."""

_SECRET = re.compile(r"password|secret|token|credential|jaas", re.IGNORECASE)


@dataclass(frozen=True)
class FlussSettings:
    """Where the log is. Its text shows no values of properties, among which are secrets."""

    bootstrap_servers: str
    database: str
    table: str
    buckets: int
    replication_factor: int | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    append_timeout: float = 30.0

    def __post_init__(self) -> None:
        refuse_own("fluss", OWN_PROPERTIES, self.properties)

    def __str__(self) -> str:
        return f"table {self.database}.{self.table} at {self.bootstrap_servers}"

    def redact(self, text: str) -> str:
        """The text without values that may be secrets."""
        return redact(text, self.properties, _SECRET)

    def config(self) -> Any:
        """Raises ConfigurationError for properties that the library does not take."""
        fluss = library()
        try:
            config = fluss.Config({**self.properties, "bootstrap.servers": self.bootstrap_servers})
        except (fluss.FlussError, TypeError, ValueError) as error:
            raise ConfigurationError(
                self.redact(
                    f"the action state store fluss cannot be set up: {error}. Remedy: see "
                    "agents.store.fluss.properties.*, which are properties of pyfluss"
                )
            ) from None
        config.writer_acks = "all"
        # What is not taken is sent again on another connection. An idempotent writer of pyfluss 1.0.0 that is closed
        # while rows wait for others of their bucket keeps a thread of its pool busy for good, until none is left for
        # any writer of the process; and a retry does not find a new leader (Fluss issue 4380).
        config.writer_enable_idempotence = False
        config.writer_retries = 0
        config.writer_batch_timeout_ms = 0  # the records of a moment are in one row already
        config.writer_buffer_wait_timeout_ms = int(REQUEST_SECONDS * 1000)
        config.connect_timeout_ms = int(CONNECT_SECONDS * 1000)
        config.scanner_log_fetch_wait_max_time_ms = FETCH_MILLIS
        config.scanner_log_fetch_min_bytes = 1
        return config


def library() -> Any:
    """The module fluss, or an error that says how to get it."""
    try:
        import fluss
    except ImportError as error:
        raise ConfigurationError(
            "the action state store fluss needs the package pyfluss, also on the task managers "
            f"({error}). Remedy: {INSTALL}"
        ) from error
    return fluss


class Loop:
    """An event loop for the library's coroutines, on whichever thread has the log at the time."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def run(self, coroutine: Coroutine[Any, Any, T], wait: Callable[[float], None] | None = None) -> T:
        """Block until it is done. `wait(0)` is called now and then; what it raises ends the coroutine."""
        if wait is None:
            return self._loop.run_until_complete(coroutine)
        task = self._loop.create_task(coroutine)
        try:
            while not task.done():
                self._loop.run_until_complete(asyncio.wait({task}, timeout=SLICE_SECONDS))
                wait(0)
        except BaseException:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                self._loop.run_until_complete(task)
            raise
        return task.result()

    def close(self) -> None:
        self._loop.close()


async def bounded(awaitable: Awaitable[T], seconds: float = REQUEST_SECONDS) -> T:
    """What the library does, for a bounded time. Raises TimeoutError of asyncio, or the library's FlussError."""
    return await asyncio.wait_for(awaitable, seconds)
