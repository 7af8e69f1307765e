"""The bounded pool of worker threads that run plain durable functions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Work = tuple[Callable[[], Any], Callable[[Any], None]]
"""What a worker runs, and what takes its result. Neither raises."""


class WorkerPool:
    """Daemon threads, started as needed and kept.

    The pool is not bounded itself: the admission hands over a call only while a worker is free, so that a
    call that is handed over has really started, for its timeout and for its cancel.
    """

    def __init__(self, name: str = "durable-worker") -> None:
        self._name = name
        self._lock = threading.Lock()
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._closed = False

    @property
    def busy(self) -> int:
        """How many workers are inside a function."""
        return self._busy

    def submit(self, run: Callable[[], Any], report: Callable[[Any], None]) -> None:
        """Run `run` on a worker, then give its result to `report`. Neither may raise."""
        with self._lock:
            if self._closed:
                return
            self._busy += 1
            if self._busy > len(self._threads):
                self._start_thread()
        self._work.put((run, report))

    def close(self, timeout: float) -> bool:
        """Let idle workers end. Bounded; False when a worker is still inside a function (case 39)."""
        deadline = time.monotonic() + timeout
        with self._lock:
            self._closed = True
            threads = self._threads
            self._threads = []
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _start_thread(self) -> None:
        number = len(self._threads) + 1
        thread = threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True)
        thread.start()
        self._threads.append(thread)

    def _run(self) -> None:
        take = self._work.get
        while (work := take()) is not None:
            run, report = work
            result = [run()]
            # Before the report: who hears of the end may submit at once, and must find this worker free.
            with self._lock:
                self._busy -= 1
            # An idle worker keeps nothing of a call alive. The report comes last: the task thread that it
            # wakes needs the interpreter lock, which `take` gives up.
            del work, run
            report(result.pop())
            del report
