"""Metrics: collected once, handed over flat, silent during replay."""

from __future__ import annotations

import threading

import pytest

from flink_agents_durable.runtime.metrics import MetricRegistry


def test_counters_are_totals_meters_increments_histograms_values() -> None:
    registry = MetricRegistry()
    group = registry.group("agent")
    group.get_counter("count").inc(3)
    group.get_counter("count").dec()
    group.get_meter("rate").mark()
    group.get_meter("rate").mark(4)
    group.get_histogram("size").update(7)
    group.get_histogram("size").update(9)
    group.get_gauge("last").update(1.5)
    flat = registry.take()
    assert sorted(zip(flat[::3], flat[1::3], flat[2::3], strict=True)) == [
        ("agent.count", "c", 2),
        ("agent.last", "g", 1.5),
        ("agent.rate", "m", 5),
        ("agent.size", "h", 7),
        ("agent.size", "h", 9),
    ]
    assert registry.take() == []
    group.get_counter("count").inc()
    assert registry.take() == ["agent.count", "c", 3]


def test_updates_of_a_replay_do_not_count() -> None:
    registry = MetricRegistry()
    replaying = True
    group = registry.group("agent", is_replaying=lambda: replaying)
    counter = group.get_sub_group("sub").get_counter("count")
    counter.inc()
    group.get_histogram("size").update(1)
    assert not registry.is_dirty
    replaying = False
    counter.inc()
    assert registry.take() == ["agent.sub.count", "c", 1]


def test_values_can_be_read_back() -> None:
    group = MetricRegistry().group("agent")
    histogram = group.get_histogram("size", window_size=2)
    assert (histogram.get_mean(), histogram.get_min(), histogram.get_max()) == (0.0, 0, 0)
    for value in (100, 1, 3):
        histogram.update(value)
    assert (histogram.get_mean(), histogram.get_min(), histogram.get_max()) == (2.0, 1, 3)
    meter = group.get_meter("rate")
    meter.mark(60)
    assert meter.get_rate() == pytest.approx(1.0)
    assert group.get_gauge("last").get_value() is None
    counter = group.get_counter("count")
    counter.inc(5)
    assert counter.get_count() == 5


def test_gauges_hold_what_java_can_hold() -> None:
    registry = MetricRegistry()
    gauge = registry.group("agent").get_gauge("last")
    for value, expected in ((2**63, str(2**63)), (True, 1.0), ("text", "text"), (-5, -5), ([1], "[1]")):
        gauge.update(value)  # type: ignore[arg-type]
        assert registry.take()[-1] == expected


def test_a_dot_in_a_name_makes_no_group() -> None:
    registry = MetricRegistry()
    registry.group("agent").get_sub_group("gpt-4.1").get_counter("tokens").inc()
    assert registry.take()[0] == "agent.gpt-4_1.tokens"


def test_one_name_is_one_kind_and_names_are_texts() -> None:
    group = MetricRegistry().group("agent")
    group.get_counter("x")
    with pytest.raises(ValueError, match=r"agent\.x"):
        group.get_gauge("x")
    for name in ("", None):
        with pytest.raises(ValueError, match="not empty"):
            group.get_counter(name)  # type: ignore[arg-type]


def test_updates_from_many_threads_all_count() -> None:
    registry = MetricRegistry()
    counter = registry.group("agent").get_counter("count")

    def work() -> None:
        for _ in range(2_000):
            counter.inc()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.get_count() == 8_000


def test_a_histogram_that_nobody_flushes_stays_bounded() -> None:
    registry = MetricRegistry()
    histogram = registry.group("agent").get_histogram("size")
    for value in range(20_000):
        histogram.update(value)
    assert len(registry.take()) == 3 * 10_000
