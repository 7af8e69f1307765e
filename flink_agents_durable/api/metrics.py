"""Metrics of agents and actions. Updates made while an action replays are not counted again."""

from __future__ import annotations

from abc import ABC, abstractmethod


class MetricGroup(ABC):
    """A named group of metrics; asking for a name twice gives the same metric."""

    @abstractmethod
    def get_sub_group(self, name: str) -> MetricGroup:
        """The group of this name below this one."""

    @abstractmethod
    def get_counter(self, name: str) -> Counter:
        """A count that goes up and down."""

    @abstractmethod
    def get_meter(self, name: str) -> Meter:
        """A rate of events."""

    @abstractmethod
    def get_gauge(self, name: str) -> Gauge:
        """A value that is replaced."""

    @abstractmethod
    def get_histogram(self, name: str, window_size: int = 100) -> Histogram:
        """A distribution of whole numbers; mean, maximum and minimum are over the last `window_size`."""


class Counter(ABC):
    """Counts since the task started."""

    @abstractmethod
    def inc(self, n: int = 1) -> None: ...

    @abstractmethod
    def dec(self, n: int = 1) -> None: ...

    @abstractmethod
    def get_count(self) -> int: ...


class Meter(ABC):
    """Events per second."""

    @abstractmethod
    def mark(self, n: int = 1) -> None: ...

    @abstractmethod
    def get_rate(self) -> float:
        """Events per second, over the last minute."""


class Gauge(ABC):
    """The last value, a number or a text."""

    @abstractmethod
    def update(self, value: float | str) -> None: ...

    @abstractmethod
    def get_value(self) -> float | str | None:
        """The last value; None before the first."""


class Histogram(ABC):
    """A distribution of whole numbers."""

    @abstractmethod
    def update(self, value: int) -> None: ...

    @abstractmethod
    def get_mean(self) -> float: ...

    @abstractmethod
    def get_max(self) -> int: ...

    @abstractmethod
    def get_min(self) -> int: ...
