"""Which call may start: order, room, workers, named limits; without threads or clock."""

from __future__ import annotations

from flink_agents_durable.engine.ports import CallStart
from flink_agents_durable.runtime.admission import Admission, CallLimit, Entry


def entry(gate: Admission, id: int, limit: str | None = None, *, plain: bool = False) -> Entry:
    return Entry(CallStart(id, print, (), {}, None, "call", limit=limit), gate.lane(plain, limit))


def ids(entries: list[Entry]) -> list[int]:
    return [entry.call.id for entry in entries]


def admission(**limits: CallLimit) -> Admission:
    return Admission(max_concurrency=4, workers=2, limits=limits)


def test_f11_first_comes_first_within_the_room() -> None:
    gate = admission()
    entries = [entry(gate, id) for id in range(6)]
    for item in entries:
        gate.add(item)
    assert ids(gate.take(0.0)) == [0, 1, 2, 3]
    assert gate.take(0.0) == []
    gate.leave(entries[1])
    assert ids(gate.take(0.0)) == [4]
    assert (gate.running, gate.waiting) == (4, 1)


def test_calls_that_wait_for_a_worker_let_others_pass() -> None:
    gate = admission()
    entries = [entry(gate, id, plain=id < 3) for id in range(5)]
    for item in entries:
        gate.add(item)
    assert ids(gate.take(0.0)) == [0, 1, 3, 4]
    gate.leave(entries[3])
    assert gate.take(0.0) == []
    gate.leave_worker(entries[0])
    assert ids(gate.take(0.0)) == [2]
    gate.leave(entries[0])
    assert gate.workers_running == 2


def test_a_full_limit_holds_back_only_its_own() -> None:
    gate = admission(slow=CallLimit(max_concurrency=1))
    entries = [entry(gate, 0, "slow"), entry(gate, 1, "slow"), entry(gate, 2), entry(gate, 3, "other")]
    for item in entries:
        gate.add(item)
    assert ids(gate.take(0.0)) == [0, 2, 3]
    gate.leave(entries[0])
    assert ids(gate.take(0.0)) == [1]


def test_a_rate_admits_so_many_in_any_second_and_says_when_it_opens() -> None:
    gate = Admission(100, 100, {"api": CallLimit(per_second=2)})
    for id in range(5):
        gate.add(entry(gate, id, "api"))
    assert ids(gate.take(10.0)) == [0, 1]
    assert gate.opens_at() == 11.0
    assert gate.take(10.9) == []
    assert ids(gate.take(11.0)) == [2, 3]
    assert ids(gate.take(12.5)) == [4]
    assert gate.opens_at() is None


def test_a_rate_below_one_a_second() -> None:
    gate = Admission(100, 100, {"api": CallLimit(per_second=0.5)})
    for id in range(2):
        gate.add(entry(gate, id, "api"))
    assert ids(gate.take(0.0)) == [0]
    assert gate.opens_at() == 2.0


def test_dropped_calls_never_start_and_take_no_room() -> None:
    gate = admission()
    for id in range(6):
        gate.add(entry(gate, id))
    dropped = gate.drop(1)
    assert dropped is not None
    assert gate.drop(1) is None
    assert ids(gate.take(0.0)) == [0, 2, 3, 4]
    assert ids(gate.clear()) == [5]


def test_a_blocking_call_enters_at_once_only_when_nothing_waits() -> None:
    gate = admission(slow=CallLimit(max_concurrency=1, per_second=1))
    assert gate.enter_at_once(gate.lane(True, None), 0.0)
    assert gate.enter_at_once(gate.lane(True, "slow"), 0.0)
    assert not gate.enter_at_once(gate.lane(True, None), 0.0), "no worker is free"
    assert not gate.enter_at_once(gate.lane(False, "slow"), 5.0), "the limit is full"
    gate.add(entry(gate, 4, "slow"))
    assert not gate.enter_at_once(gate.lane(False, None), 0.0), "another waits"


def test_neighbours_that_differ_wait_in_lanes_of_their_own() -> None:
    gate = admission(slow=CallLimit(max_concurrency=1))
    limits = [None, None, "slow", "slow", None]
    calls = [
        CallStart(id, (max if id == 1 else print), (), {}, None, "call", limit=limit)
        for id, limit in enumerate(limits)
    ]
    gate.add_all(calls, lambda function: function is max)
    entries = gate.take(0.0)
    assert [(item.call.id, item.on_worker) for item in entries] == [
        (0, False),
        (1, True),
        (2, False),
        (4, False),
    ]
    assert (gate.running, gate.workers_running) == (4, 1)
    gate.leave_all([item for item in entries if not item.on_worker])
    assert (gate.running, gate.workers_running) == (1, 1)
    assert ids(gate.take(0.0)) == [3], "the limit has room again"
