"""Watermarks and status behind the inputs before them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flink_agents_durable.runtime.watermarks import WatermarkGate


def test_s8_a_watermark_waits_for_the_inputs_before_it_only() -> None:
    gate = WatermarkGate()
    before = gate.admit()
    gate.watermark(10)
    after = gate.admit()
    gate.done(after)
    assert gate.take() == []
    gate.done(before)
    assert gate.take() == [10]
    assert gate.is_empty


def test_k4_status_is_held_in_order_with_watermarks() -> None:
    gate = WatermarkGate()
    first = gate.admit()
    gate.watermark(1)
    gate.status(False)
    second = gate.admit()
    gate.status(True)
    gate.watermark(2)
    gate.done(second)
    assert gate.take() == []
    gate.done(first)
    assert gate.take() == [1, True, 2], "an idle that an active follows at once says nothing"


def test_nothing_is_held_without_open_inputs() -> None:
    gate = WatermarkGate()
    gate.watermark(1)
    gate.status(False)
    assert gate.take() == [1, False]
    gate.done(gate.admit())
    gate.watermark(2)
    assert gate.take() == [2]


def test_a_watermark_of_one_or_zero_is_no_status() -> None:
    gate = WatermarkGate()
    gate.watermark(0)
    gate.status(True)
    gate.watermark(1)
    gate.status(False)
    assert [(type(item), item) for item in gate.take()] == [(int, 0), (bool, True), (int, 1), (bool, False)]


def test_hold_false_lets_everything_pass() -> None:
    gate = WatermarkGate(hold=False)
    segment = gate.admit()
    gate.watermark(1)
    gate.status(False)
    assert gate.take() == [1, False]
    gate.done(segment)
    assert gate.is_empty


def test_one_long_run_does_not_gather_watermarks() -> None:
    gate = WatermarkGate()
    long = gate.admit()
    for time in range(10_000):
        gate.watermark(time)
        gate.done(gate.admit())
    assert len(gate._segments) <= 3
    gate.done(long)
    assert gate.take() == [9_999]


steps = st.lists(st.sampled_from(["admit", "done", "watermark", "idle", "active", "take"]), max_size=60)


@given(steps, st.randoms(use_true_random=False))
def test_s8_no_item_overtakes_an_input_and_none_is_lost(actions: list[str], rng: Any) -> None:
    """Against a plain list of events: an emitted item has no open input before it."""
    gate = WatermarkGate()
    log: list[Any] = []  # inputs as [segment, open], items as themselves
    clock = 0
    last_watermark, last_status = None, None
    emitted: list[Any] = []
    for step in [*actions, *["done"] * 60, "take"]:
        if step == "admit":
            log.append([gate.admit(), True])
        elif step == "done":
            open_inputs = [entry for entry in log if isinstance(entry, list) and entry[1]]
            if open_inputs:
                entry = rng.choice(open_inputs)
                entry[1] = False
                gate.done(entry[0])
        elif step == "watermark":
            clock += 1
            last_watermark = clock + 1_000
            log.append(last_watermark)
            gate.watermark(last_watermark)
        elif step in ("idle", "active"):
            last_status = step == "active"
            log.append(last_status)
            gate.status(last_status)
        for item in gate.take():
            emitted.append(item)
            position = max(i for i, entry in enumerate(log) if entry is item or entry == item)
            if not isinstance(item, bool):
                assert not any(isinstance(entry, list) and entry[1] for entry in log[:position])
    watermarks = [item for item in emitted if not isinstance(item, bool)]
    assert watermarks == sorted(watermarks)
    assert watermarks[-1:] == ([] if last_watermark is None else [last_watermark])
    statuses = [item for item in emitted if isinstance(item, bool)]
    assert statuses[-1:] == ([] if last_status is None else [last_status])
    assert gate.is_empty
