"""Metrics collected in Python and handed to Flink in few calls."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from flink_agents_durable.api.metrics import Counter, Gauge, Histogram, Meter, MetricGroup

COUNTER, GAUGE, METER, HISTOGRAM = "c", "g", "m", "h"

RATE_WINDOW_SECONDS = 60.0
"""What `Meter.get_rate` looks back on; Flink's own meters do the same."""
MAX_HISTOGRAM_BACKLOG = 10_000
"""Bounds the memory of a histogram between two flushes; older values are dropped first."""

C = TypeVar("C", "_Count", "_Value", "_Events", "_Samples")
IsReplaying = Callable[[], bool]


def _never() -> bool:
    return False


class _Count:
    """The total of a counter. Java takes totals, so that a lost update is made good by the next."""

    kind = COUNTER

    def __init__(self) -> None:
        self.total = 0

    def take(self) -> list[Any]:
        return [self.total]


class _Value:
    """The last value of a gauge."""

    kind = GAUGE

    def __init__(self) -> None:
        self.last: float | str | None = None

    def take(self) -> list[Any]:
        return [self.last]


class _Events:
    """Events of a meter: those not flushed yet, and the recent ones for the rate."""

    kind = METER

    def __init__(self) -> None:
        self.pending = 0
        self.recent: deque[tuple[float, int]] = deque(maxlen=MAX_HISTOGRAM_BACKLOG)

    def take(self) -> list[Any]:
        pending, self.pending = self.pending, 0
        return [pending] if pending else []


class _Samples:
    """Values of a histogram: those not flushed yet, and a window."""

    kind = HISTOGRAM

    def __init__(self) -> None:
        self.pending: deque[int] = deque(maxlen=MAX_HISTOGRAM_BACKLOG)
        self.window: deque[int] = deque(maxlen=100)

    def take(self) -> list[Any]:
        taken = list(self.pending)
        self.pending.clear()
        return taken


_Cell = _Count | _Value | _Events | _Samples


class MetricRegistry:
    """All metrics of one subtask. Updates from any thread, `take` on the task thread."""

    def __init__(self) -> None:
        self._cells: dict[str, _Cell] = {}
        self._dirty: dict[str, _Cell] = {}
        self._lock = threading.Lock()

    def group(self, *path: str, is_replaying: IsReplaying = _never) -> MetricGroup:
        """A group whose updates do not count while `is_replaying`."""
        return _Group(self, tuple(_part(part) for part in path), is_replaying)

    def set_counter(self, path: str, total: int) -> None:
        """Report a count that is kept elsewhere."""
        cell = self.cell(path, _Count)
        if cell.total != total:
            self.change(path, cell, lambda: setattr(cell, "total", total))

    def set_gauge(self, path: str, value: float | str) -> None:
        """Report a value that is kept elsewhere."""
        cell = self.cell(path, _Value)
        if cell.last != value:
            self.change(path, cell, lambda: setattr(cell, "last", value))

    @property
    def is_dirty(self) -> bool:
        return bool(self._dirty)

    def take(self) -> list[Any]:
        """What changed since the last time, flat: path, kind, value, path, ..."""
        with self._lock:
            dirty, self._dirty = self._dirty, {}
            flat: list[Any] = []
            for path, cell in dirty.items():
                for value in cell.take():
                    flat += (path, cell.kind, value)
        return flat

    def cell(self, path: str, kind: type[C]) -> C:
        with self._lock:
            cell = self._cells.get(path)
            if cell is None:
                cell = self._cells[path] = kind()
        if not isinstance(cell, kind):
            raise ValueError(f"the metric {path!r} exists already as another kind of metric")
        return cell

    def change(self, path: str, cell: _Cell, change: Callable[[], object]) -> None:
        with self._lock:
            change()
            self._dirty[path] = cell


def _part(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise ValueError(f"the name of a metric or of its group is a text that is not empty, not {name!r}")
    return name.replace(".", "_")  # the dot separates groups on the way to Flink


class _Group(MetricGroup):
    def __init__(self, registry: MetricRegistry, path: tuple[str, ...], is_replaying: IsReplaying) -> None:
        self._registry = registry
        self._path = path
        self._is_replaying = is_replaying

    def get_sub_group(self, name: str) -> MetricGroup:
        return _Group(self._registry, (*self._path, _part(name)), self._is_replaying)

    def get_counter(self, name: str) -> Counter:
        return _CounterView(self, name, _Count)

    def get_meter(self, name: str) -> Meter:
        return _MeterView(self, name, _Events)

    def get_gauge(self, name: str) -> Gauge:
        return _GaugeView(self, name, _Value)

    def get_histogram(self, name: str, window_size: int = 100) -> Histogram:
        view = _HistogramView(self, name, _Samples)
        view.resize(window_size)
        return view


class _View:
    """A metric as one execution sees it: what it does during its replay was counted before."""

    def __init__(self, group: _Group, name: str, kind: type[C]) -> None:
        self._registry = group._registry
        self._name = ".".join((*group._path, _part(name)))
        self._is_replaying = group._is_replaying
        self._cell: Any = self._registry.cell(self._name, kind)

    def _change(self, change: Callable[[], object]) -> None:
        if not self._is_replaying():
            self._registry.change(self._name, self._cell, change)


class _CounterView(_View, Counter):
    def inc(self, n: int = 1) -> None:
        def add() -> None:
            self._cell.total += n

        self._change(add)

    def dec(self, n: int = 1) -> None:
        self.inc(-n)

    def get_count(self) -> int:
        return int(self._cell.total)


class _MeterView(_View, Meter):
    def mark(self, n: int = 1) -> None:
        def add() -> None:
            self._cell.pending += n
            self._cell.recent.append((time.monotonic(), n))

        self._change(add)

    def get_rate(self) -> float:
        since = time.monotonic() - RATE_WINDOW_SECONDS
        recent: list[tuple[float, int]] = list(self._cell.recent)
        return sum(n for when, n in recent if when >= since) / RATE_WINDOW_SECONDS


class _GaugeView(_View, Gauge):
    def update(self, value: float | str) -> None:
        # What Java cannot hold (a large int, an object) goes as text; a bool is a number to users of charts.
        if isinstance(value, bool) or (isinstance(value, int) and not -(2**63) <= value < 2**63):
            value = float(value) if isinstance(value, bool) else str(value)
        elif not isinstance(value, (int, float, str)):
            value = str(value)
        self._change(lambda: setattr(self._cell, "last", value))

    def get_value(self) -> float | str | None:
        last: float | str | None = self._cell.last
        return last


class _HistogramView(_View, Histogram):
    def resize(self, window_size: int) -> None:
        if self._cell.window.maxlen != window_size:
            self._cell.window = deque(self._cell.window, maxlen=max(1, window_size))

    def update(self, value: int) -> None:
        def add() -> None:
            self._cell.pending.append(int(value))
            self._cell.window.append(int(value))

        self._change(add)

    def get_mean(self) -> float:
        window = list(self._cell.window)
        return sum(window) / len(window) if window else 0.0

    def get_max(self) -> int:
        return max(self._cell.window, default=0)

    def get_min(self) -> int:
        return min(self._cell.window, default=0)
