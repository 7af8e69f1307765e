"""The call executor: runs durable functions off the task thread and hands their outcomes back."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from functools import partial
from types import CoroutineType
from typing import Any

from flink_agents_durable.api.errors import CallTimeoutError
from flink_agents_durable.api.java import JavaFunction
from flink_agents_durable.api.retry_after import busy_server_seconds
from flink_agents_durable.engine.java_port import JavaCall
from flink_agents_durable.engine.ports import FAILED, INTERRUPTED, SUCCEEDED, CallStart, Completion
from flink_agents_durable.runtime.admission import Admission, CallLimit, Entry
from flink_agents_durable.runtime.eager import eager_spawner
from flink_agents_durable.runtime.functions import as_coroutine, is_plain
from flink_agents_durable.runtime.java_bridge import JavaCalls
from flink_agents_durable.runtime.loop_thread import LoopThread, Notifier
from flink_agents_durable.runtime.outcomes import (
    AWAIT,
    OutcomeBox,
    context_of,
    outcome_of,
    run_outside_loop,
    run_plain,
)
from flink_agents_durable.runtime.workers import WorkerPool

MAX_PAUSE_SECONDS = 300.0
"""Bounds how long one answer of a server, which may be wrong, holds back the calls of a limit."""

JAVA_FUNCTIONS = frozenset({JavaCall, JavaFunction})

JAVA_COMPLETIONS = 128
"""How many outcomes are fetched from Java while a synchronous call waits."""

_NEVER_RECORDED = (KeyboardInterrupt, SystemExit, GeneratorExit)


def _nothing() -> None:
    return None


def _starts_in_java(call: CallStart) -> bool:
    """Whether starting this call takes nothing but Java: no timer of the loop."""
    return type(call.function) in JAVA_FUNCTIONS and call.timeout is None


class CallExecutor:
    """Runs `async def` functions on the loop thread and plain ones on workers.

    All methods but those marked otherwise are called on the task thread. Completions wait in a queue until
    `drain`; `on_complete` tells that there are some: on the loop thread only, once for any number of them.
    A call in here is an integer and a function; nothing of it leads back to the engine or to Java (K11).
    """

    def __init__(
        self,
        *,
        workers: int = 128,
        max_concurrency: int = 10_000,
        on_complete: Callable[[], None],
        is_interruption: Callable[[BaseException], bool],
        signal: Callable[[], None] = _nothing,
        limits: Mapping[str, CallLimit] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`clock` is the time of the limits in seconds, where that is not the time of the world: then whoever
        moves it calls `start_held`."""
        self._on_complete = on_complete
        self._is_interruption = is_interruption
        self._signal = signal
        self._lock = threading.Lock()  # guards the admission and `Entry.reported`
        self._admission = Admission(max_concurrency, workers, limits or {})
        self._running: dict[int, Entry] = {}  # started, and something of it still runs
        self._cancels: deque[int] = deque()
        self._stale_timers: deque[asyncio.TimerHandle] = deque()
        self._completed: deque[Completion] = deque()
        self._woken = False
        self._closed = False
        self._paused = False
        self._clock = clock or time.monotonic
        self._has_timers = clock is None
        self._rate_timer: asyncio.TimerHandle | None = None
        self.abandoned_workers = 0
        """Workers inside a function whose call timed out or was cancelled."""
        self.thread = LoopThread()
        self.loop = self.thread.loop
        self._workers = WorkerPool()
        self._java: JavaCalls | None = None
        self._spawn = eager_spawner(self.loop)
        self._pump = Notifier(self.thread, self._run_pump)

    # ---- task thread

    def use_java(self, java: JavaCalls) -> None:
        """From now on calls of Java actions, and those of Java methods, run in Java."""
        self._java = java

    @property
    def completed(self) -> int:
        """How many completions wait for `drain`, at least."""
        return len(self._completed) + (self._java is not None and self._java.has_more)

    @property
    def running(self) -> int:
        return self._admission.running

    @property
    def waiting(self) -> int:
        """Calls that have not started: for a free place, a worker, or their limit."""
        return self._admission.waiting

    def start(self, calls: Sequence[CallStart]) -> None:
        """Start calls, first in, first out, as there is room (F11). One hop to the loop thread for all."""
        if self._java is not None:
            self._start_some_in_java(calls, self._java)
            return
        with self._lock:
            self._admission.add_all(calls, is_plain)
        self._pump.notify()

    def _start_some_in_java(self, calls: Sequence[CallStart], java: JavaCalls) -> None:
        """Java calls start past the loop thread, while there is room and none waits; the others are queued."""
        others: list[CallStart] = []
        admitted: list[CallStart] = []
        now = self._clock()
        with self._lock:
            for call in calls:
                lane = self._admission.lane(True, call.limit)
                if _starts_in_java(call) and not self._paused and self._admission.enter_at_once(lane, now):
                    self._running[call.id] = Entry(call, lane)
                    admitted.append(call)
                else:
                    others.append(call)
            self._admission.add_all(others, is_plain)
        if admitted:
            java.start(admitted)
        if others:
            self._start_waiting_java(java)

    def _start_waiting_java(self, java: JavaCalls) -> None:
        """Start the Java calls that are at the head of the queues; the loop thread does that for other calls."""
        if self._closed or self._paused:
            return
        with self._lock:
            ready, more = self._admission.take_while(_starts_in_java, self._clock())
            for entry in ready:
                self._running[entry.call.id] = entry
        if ready:
            java.start([entry.call for entry in ready])
        if more:
            self._pump.notify()

    def cancel(self, ids: Sequence[int]) -> None:
        """Nobody wants these outcomes any more.

        What has not started never does, coroutines are cancelled, a worker goes on with its result ignored.
        """
        with self._lock:
            started = [id for id in ids if self._admission.drop(id) is None]
        if started:
            self._cancels.extend(started)
            self._pump.notify()

    def opens_at(self) -> float | None:
        """When a limit lets the next call start; None when time alone changes nothing. From any thread."""
        with self._lock:
            return self._admission.opens_at()

    def start_held(self, timeout: float) -> None:
        """The clock has moved: start what may start, and return when it has, in bounded time."""
        done = threading.Event()
        if self.thread.post(self._run_pump) and self.thread.post(done.set):
            done.wait(timeout)

    def pause(self) -> None:
        """Start nothing new until `resume`; what runs goes on (K7)."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._pump.notify()

    def drain(self, limit: int) -> list[Completion]:
        """Take at most `limit` completions, in the order in which they came."""
        self._woken = False  # before looking: what comes after this wakes again
        if self._java is not None:
            self._take_java(self._java, limit)
        completed = self._completed
        taken: list[Completion] = []
        while completed and len(taken) < limit:
            completion = completed.popleft()
            taken.append(completion if completion[1] == SUCCEEDED else self._judge(completion))
        return taken

    def _take_java(self, java: JavaCalls, limit: int) -> None:
        """Java workers never enter Python: their outcomes are fetched, on the task thread. As `_ended`, for many."""
        ended = []
        for id, status, value in java.take(limit):
            entry = self._running.pop(id, None)
            if entry is not None:
                ended.append((entry, status, value))
        with self._lock:
            wanted = [outcome for outcome in ended if not self._leave(outcome[0])]
        for entry, status, value in wanted:
            self._deliver(entry, status, value)
        timers = [entry.timer for entry, _, _ in ended if entry.timer is not None]
        if timers:
            self._stale_timers.extend(timers)
            self._pump.notify()
        if self._admission.waiting:
            self._start_waiting_java(java)

    def run_blocking(
        self, call: CallStart, wait: Callable[[], None] | None = None, here: bool = False
    ) -> Completion:
        """Run one call while the action waits (K5).

        First on a Python lock, then in `wait`, again and again: a short wait that `signal` ends and that an
        interruption ends with an error, which then is the outcome, as is a CallTimeoutError. Without `wait`: on
        the lock. `here`: the calling thread may block, so that a plain function whose time nobody limits
        needs no worker.
        """
        box = OutcomeBox(self._post_signal)
        plain = is_plain(call.function)
        with self._lock:
            lane = self._admission.lane(plain, call.limit)
            entry = Entry(call, lane, box.put)
            at_once = plain and self._admission.enter_at_once(lane, self._clock())
            if not at_once:
                self._admission.add(entry)
        if at_once and here and call.timeout is None and type(call.function) not in JAVA_FUNCTIONS:
            self._running[call.id] = entry
            self._worker_ended(entry, run_outside_loop(call))
        elif at_once:
            self._begin_plain(entry)
        else:
            self._pump.notify()
        try:
            if type(call.function) in JAVA_FUNCTIONS and self._java is not None and wait is not None:
                # There as a whole: Java wakes the task thread, and nobody else.
                fetch = partial(self._take_java, self._java, JAVA_COMPLETIONS)
                status, value = self._java.on_task_thread(box.take_from, wait, fetch)
            else:
                status, value = box.take(wait)
        except CallTimeoutError as late:
            self.cancel([call.id])
            return call.id, FAILED, late
        except BaseException as interruption:  # of the waiting task thread itself (I2)
            self.cancel([call.id])
            return call.id, INTERRUPTED, interruption
        return self._judge((call.id, status, value))

    def close(self, timeout: float) -> bool:
        """Abandon all calls; nothing of them is reported any more (I4).

        Bounded. True when no thread is inside user code; otherwise the interpreter must not be closed (S10).
        """
        deadline = time.monotonic() + timeout
        self._closed = True
        self._on_complete = self._signal = _nothing  # a stuck worker must not keep the host alive (K11)
        self._is_interruption = lambda error: False
        with self._lock:
            self._admission.clear()
        loop_ended = self.thread.close(timeout)
        workers_ended = self._workers.close(max(0.0, deadline - time.monotonic()))
        self._completed.clear()
        return loop_ended and workers_ended

    def _post_signal(self) -> None:
        self.thread.post(self._signal)

    def _judge(self, completion: Completion) -> Completion:
        """Tell failures from interruptions. On the task thread, which may ask Java."""
        id, status, value = completion
        if (
            status == FAILED
            and isinstance(value, BaseException)
            and (isinstance(value, _NEVER_RECORDED) or self._is_interruption(value))
        ):
            return id, INTERRUPTED, value
        return completion

    # ---- loop thread

    def _run_pump(self) -> None:
        """Start what may start, then cancel: a cancel is never older than the start of its call."""
        self._start_ready()
        while self._cancels:
            entry = self._running.get(self._cancels.popleft())
            if entry is not None:
                self._give_up(entry)
        while self._stale_timers:
            self._stale_timers.popleft().cancel()
        if self._completed and not self._woken:
            self._woken = True
            self._on_complete()

    def _start_ready(self) -> None:
        while True:
            with self._lock:
                ready = [] if self._closed or self._paused else self._admission.take(self._clock())
            if not ready:
                break
            ended = [entry for entry in ready if self._begin(entry)]
            if ended:
                with self._lock:
                    self._admission.leave_all(ended)
        if self._admission.waiting and self._has_timers:
            self._arm_rate_timer()

    def _arm_rate_timer(self) -> None:
        """Wake for the limit that opens first, which may come to wait after one that opens much later."""
        opens_at = self.opens_at()
        if opens_at is None or self._closed or self._paused:
            return
        if self._rate_timer is not None:
            if self._rate_timer.when() <= opens_at:
                return
            self._rate_timer.cancel()
        self._rate_timer = self.thread.call_at(opens_at, self._rate_opens)  # both tell the monotonic time

    def _rate_opens(self) -> None:
        self._rate_timer = None
        self._run_pump()

    def _begin(self, entry: Entry) -> bool:
        """Start an admitted call; True when it has ended already."""
        if entry.lane.plain:
            self._begin_plain(entry)
            return False
        call = entry.call
        started = self.loop.time() if call.timeout is not None else 0.0
        context = (
            Context() if call.context is None else call.context.copy()
        )  # as `context_of`, without the hop
        try:
            made = context.run(call.function, *call.args, **call.kwargs)
            coroutine = made if type(made) is CoroutineType else as_coroutine(made)
            task = self._spawn(coroutine, context, call.name)
        except BaseException as error:
            self._deliver(entry, FAILED, error)
            return True
        if task.done():
            status, value = outcome_of(call, task)
            if status == SUCCEEDED and entry.on_report is None and not self._closed:  # as `_deliver` does
                self._completed.append((call.id, SUCCEEDED, value))
                return True
            if status == FAILED:
                self._obey(entry, value)
            self._deliver(entry, status, value)
            return True
        self._running[call.id] = entry
        self._follow(entry, task)
        if call.timeout is not None:
            self._arm_timeout(entry, started)
        return False

    def _follow(self, entry: Entry, task: asyncio.Task[Any]) -> None:
        entry.task = task
        task.add_done_callback(lambda task: self._task_ended(entry, task), context=self.thread.context)

    def _task_ended(self, entry: Entry, task: asyncio.Task[Any]) -> None:
        status, value = outcome_of(entry.call, task)
        entry.task = None
        self._ended(entry, status, value)

    def _continue(self, entry: Entry, value: object) -> None:
        """A plain function returned an awaitable: go on with it here."""
        if entry.reported or self._closed:
            if inspect.iscoroutine(value):
                value.close()
            self._ended(entry, FAILED, None)
            return
        try:
            task = self._spawn(as_coroutine(value), context_of(entry.call), entry.call.name)
        except BaseException as error:
            self._ended(entry, FAILED, error)
            return
        if task.done():
            self._ended(entry, *outcome_of(entry.call, task))
        else:
            self._follow(entry, task)

    def _arm_timeout(self, entry: Entry, started: float) -> None:
        """A timeout counts from the moment when the call really started."""
        timeout = entry.call.timeout
        assert timeout is not None
        with self._lock:
            if not entry.reported:
                entry.timer = self.thread.call_at(started + timeout, self._time_out, entry)

    def _time_out(self, entry: Entry) -> None:
        """Report now, whatever the call makes of its cancel; a late answer is ignored (case 34)."""
        call = entry.call
        if self._give_up(entry):
            error = CallTimeoutError(f"the durable call {call.name} did not finish within {call.timeout:g} s")
            self._deliver(entry, FAILED, error)
            self._pump.notify()

    def _give_up(self, entry: Entry) -> bool:
        """Ignore what a running call will report; False when it has reported."""
        with self._lock:
            if entry.reported:
                return False
            entry.reported = True
            if entry.on_worker:
                self.abandoned_workers += 1
        if entry.task is not None:
            entry.task.cancel()
        return True

    # ---- task thread and loop thread

    def _begin_plain(self, entry: Entry) -> None:
        call = entry.call
        self._running[call.id] = entry
        if call.timeout is not None:
            started = time.monotonic()  # the clock of the loop
            if self.thread.is_current():
                self._arm_timeout(entry, started)
            else:
                self.thread.post(self._arm_timeout, entry, started)
        if self._java is not None and type(call.function) in JAVA_FUNCTIONS:
            self._java.start([call])
            return
        self._workers.submit(partial(run_plain, call), partial(self._worker_ended, entry))

    # ---- workers and loop thread

    def _worker_ended(self, entry: Entry, outcome: tuple[int, object]) -> None:
        status, value = outcome
        if status == AWAIT:
            with self._lock:
                self._admission.leave_worker(entry)
                if entry.reported:
                    self.abandoned_workers -= 1
            if not self.thread.post(self._continue, entry, value) and inspect.iscoroutine(value):
                value.close()
            if self._admission.waiting:
                self._pump.notify()  # for the worker that is free now
            return
        self._ended(entry, status, value)

    def _ended(self, entry: Entry, status: int, value: object) -> None:
        """Nothing of the call runs any more: free its place, then report, unless it was given up.

        The pump runs in a later turn of the loop, so that calls which end in one turn share one wake-up.
        """
        if status == FAILED:
            self._obey(entry, value)
        with self._lock:
            given_up = self._leave(entry)
        self._running.pop(entry.call.id, None)
        if entry.timer is not None:
            self._stale_timers.append(entry.timer)
        if entry.on_report is not None:
            if entry.timer is not None or self._admission.waiting:
                self._pump.notify()
            if not given_up:
                entry.on_report(status, value)
            return
        if not given_up:
            self._deliver(entry, status, value)
        self._pump.notify()

    def _leave(self, entry: Entry) -> bool:
        """Free the place of a call that has ended, under the lock. Whether it was given up before."""
        given_up = entry.reported
        entry.reported = True
        if given_up and entry.on_worker:
            self.abandoned_workers -= 1
        self._admission.leave(entry)
        return given_up

    def _obey(self, entry: Entry, error: object) -> None:
        """A busy server says when it wants to be asked again: until then its limit starts nothing."""
        if entry.lane.limit is not None and isinstance(error, BaseException):
            seconds = busy_server_seconds(error)
            if seconds:
                with self._lock:
                    self._admission.pause(entry, self._clock() + min(seconds, MAX_PAUSE_SECONDS))

    def _deliver(self, entry: Entry, status: int, value: object) -> None:
        if entry.on_report is not None:
            entry.on_report(status, value)
        elif not self._closed:
            self._completed.append((entry.call.id, status, value))
