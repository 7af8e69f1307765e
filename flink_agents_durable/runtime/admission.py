"""Which call may start now: the pure part of the executor. No threads, no clock."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions
from flink_agents_durable.engine.ports import CallStart


@dataclass(frozen=True)
class CallLimit:
    """`agents.limits.<name>.max-concurrency` and `.per-second`, of one subtask."""

    max_concurrency: int | None = None
    per_second: float | None = None


def limits_of(config: AgentConfiguration) -> dict[str, CallLimit]:
    """The limits of a configuration, by name."""
    most, rate = config.under(AgentOptions.LIMIT_MAX_CONCURRENCY), config.under(AgentOptions.LIMIT_PER_SECOND)
    return {name: CallLimit(most.get(name), rate.get(name)) for name in {**most, **rate}}


class Entry(msgspec.Struct, eq=False):
    """A call inside the executor, from its start until nothing of it runs any more."""

    call: CallStart
    lane: Lane
    on_report: Callable[[int, object], None] | None = None
    """Takes the outcome of a blocking call; None: the outcome goes to the completions."""
    reported: bool = False
    """The outcome is out (also: cancelled). What still runs of the call is ignored."""
    task: Any = None
    timer: Any = None

    @property
    def on_worker(self) -> bool:
        """An admitted call that holds a worker."""
        return self.lane.plain


class _LimitState:
    """Counts one named limit. At most `burst` starts in any window, exactly, by the last start times."""

    __slots__ = ("_burst", "_max", "_paused_until", "_starts", "_window", "running")

    def __init__(self, limit: CallLimit) -> None:
        self.running = 0
        self._max = limit.max_concurrency if limit.max_concurrency is not None else math.inf
        rate = limit.per_second
        self._burst = 0 if rate is None else max(1, int(rate))
        self._window = 0.0 if rate is None else self._burst / rate
        self._starts: deque[float] = deque(maxlen=self._burst)
        self._paused_until = -math.inf

    def has_room(self) -> bool:
        return self.running < self._max

    def opens_at(self) -> float:
        """The time from which the rate, and the server, allow the next start."""
        if self._burst == 0 or len(self._starts) < self._burst:
            return self._paused_until
        return max(self._paused_until, self._starts[0] + self._window)

    def pause_until(self, when: float) -> None:
        self._paused_until = max(self._paused_until, when)

    def enter(self, now: float) -> None:
        self.running += 1
        if self._burst:
            self._starts.append(now)


class Lane:
    """A queue of calls that wait for the same things: a worker or none, a named limit or none."""

    __slots__ = ("ids", "limit", "plain")

    def __init__(self, plain: bool, limit: _LimitState | None) -> None:
        self.plain = plain
        self.limit = limit
        self.ids: deque[int] = deque()


class Admission:
    """First in, first out, over `max_concurrency`, the workers, and the named limits (F11).

    A call that waits for its limit or for a worker does not hold back calls that need neither. A call leaves
    when nothing of it runs any more, which after a timeout may be later than its outcome.
    """

    def __init__(self, max_concurrency: int, workers: int, limits: Mapping[str, CallLimit]) -> None:
        self._max = max_concurrency
        self._workers = workers
        self._limits = {name: _LimitState(limit) for name, limit in limits.items()}
        self._lanes: dict[tuple[bool, str | None], Lane] = {}
        self._waiting: dict[int, Entry] = {}
        self.running = 0
        self.workers_running = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, entry: Entry) -> None:
        """Queue a call behind those that wait for the same."""
        self._waiting[entry.call.id] = entry
        entry.lane.ids.append(entry.call.id)

    def add_all(self, calls: Sequence[CallStart], is_plain: Callable[[object], bool]) -> None:
        """Queue calls; neighbours often call the same function."""
        waiting = self._waiting
        known: CallStart | None = None
        for call in calls:
            if known is None or call.function is not known.function or call.limit != known.limit:
                known = call
                lane = self.lane(is_plain(call.function), call.limit)
                queue = lane.ids.append
            waiting[call.id] = Entry(call, lane)
            queue(call.id)

    def drop(self, id: int) -> Entry | None:
        """Forget a call that has not started."""
        return self._waiting.pop(id, None)

    def clear(self) -> list[Entry]:
        """Forget all calls that have not started."""
        dropped = list(self._waiting.values())
        self._waiting.clear()
        return dropped

    def enter_at_once(self, lane: Lane, now: float) -> bool:
        """Admit a call past the queues, if nothing waits and there is room."""
        if self._waiting or self.running >= self._max or not self._has_room(lane):
            return False
        if lane.limit is not None and lane.limit.opens_at() > now:
            return False
        self._enter(lane, now)
        return True

    def take(self, now: float) -> list[Entry]:
        """The calls that may start now, admitted, oldest first."""
        ready: list[Entry] = []
        waiting = self._waiting
        while waiting and self.running < self._max:
            lane, alone = self._next_lane(now)
            if lane is None:
                break
            if alone and lane.limit is None:
                self._take_run(lane, ready)
                continue
            ready.append(waiting.pop(lane.ids.popleft()))
            self._enter(lane, now)
        return ready

    def take_while(self, wanted: Callable[[CallStart], bool], now: float) -> tuple[list[Entry], bool]:
        """As `take`, up to the first call that is not wanted. Also: whether one of those that stay might start."""
        ready: list[Entry] = []
        waiting = self._waiting
        while waiting and self.running < self._max:
            lane, _ = self._next_lane(now)
            if lane is None:
                return ready, self.opens_at() is not None
            if not wanted(waiting[lane.ids[0]].call):
                return ready, True
            ready.append(waiting.pop(lane.ids.popleft()))
            self._enter(lane, now)
        return ready, False

    def _take_run(self, lane: Lane, ready: list[Entry]) -> None:
        """The usual case, fast: nothing waits in another lane, so order is that of the queue."""
        room = self._max - self.running
        if lane.plain:
            room = min(room, self._workers - self.workers_running)
        taken = len(ready)
        ids, waiting = lane.ids, self._waiting
        if room >= len(waiting):
            ready.extend(waiting.values())
            waiting.clear()
            ids.clear()
        while room and ids:
            entry = waiting.pop(ids.popleft(), None)
            if entry is not None:
                ready.append(entry)
                room -= 1
        taken = len(ready) - taken
        self.running += taken
        if lane.plain:
            self.workers_running += taken

    def pause(self, entry: Entry, until: float) -> None:
        """The server asks that no call of this one's limit starts before then."""
        limit = entry.lane.limit
        if limit is not None:
            limit.pause_until(until)

    def opens_at(self) -> float | None:
        """When a rate allows the next waiting call; None when time alone changes nothing."""
        if self.running >= self._max:
            return None
        times = [
            lane.limit.opens_at()
            for lane in self._lanes.values()
            if lane.limit is not None and self._head(lane) is not None and self._has_room(lane)
        ]
        return min(times, default=None)

    def leave(self, entry: Entry) -> None:
        """Nothing of this call runs any more."""
        lane = entry.lane
        self.running -= 1
        if lane.limit is not None:
            lane.limit.running -= 1
        if lane.plain:
            self.workers_running -= 1

    def leave_all(self, entries: Sequence[Entry]) -> None:
        """Nothing of these calls runs any more; none of them is on a worker."""
        self.running -= len(entries)
        for entry in entries:
            limit = entry.lane.limit
            if limit is not None:
                limit.running -= 1

    def leave_worker(self, entry: Entry) -> None:
        """The call goes on without its worker: its function returned an awaitable."""
        lane = entry.lane
        if lane.plain:
            self.workers_running -= 1
            entry.lane = self.lane(False, entry.call.limit)

    def lane(self, plain: bool, limit: str | None) -> Lane:
        """The queue of calls that need a worker or none, and this limit or none."""
        lane = self._lanes.get((plain, limit))
        if lane is None:
            lane = Lane(plain, None if limit is None else self._limits.get(limit))
            self._lanes[(plain, limit)] = lane
        return lane

    def _head(self, lane: Lane) -> int | None:
        ids = lane.ids
        while ids:
            if ids[0] in self._waiting:
                return ids[0]
            ids.popleft()  # dropped while it waited
        return None

    def _has_room(self, lane: Lane) -> bool:
        if lane.plain and self.workers_running >= self._workers:
            return False
        return lane.limit is None or lane.limit.has_room()

    def _next_lane(self, now: float) -> tuple[Lane | None, bool]:
        """The lane whose head came first among those that may start one, and whether no other lane waits.

        Ids grow in start order.
        """
        best: Lane | None = None
        best_id = 0
        filled = 0
        for lane in self._lanes.values():
            head = self._head(lane)
            if head is None:
                continue
            filled += 1
            if (best is not None and head > best_id) or not self._has_room(lane):
                continue
            if lane.limit is not None and lane.limit.opens_at() > now:
                continue
            best, best_id = lane, head
        return best, filled == 1

    def _enter(self, lane: Lane, now: float) -> None:
        self.running += 1
        if lane.plain:
            self.workers_running += 1
        if lane.limit is not None:
            lane.limit.enter(now)
