"""Which call may start: order, room, workers, named limits; without threads or clock."""

from __future__ import annotations

from flink_agents_durable.engine.ports import CallStart
from flink_agents_durable.runtime.admission import Admission, CallLimit, Entry


def entry(id: int, limit: str | None = None) -> Entry:
    return Entry(CallStart(id, print, (), {}, None, "call", limit=limit))


def ids(entries: list[Entry]) -> list[int]:
    return [entry.call.id for entry in entries]


def admission(**limits: CallLimit) -> Admission:
    return Admission(max_concurrency=4, workers=2, limits=limits)


def test_f11_first_comes_first_within_the_room() -> None:
    gate = admission()
    entries = [entry(id) for id in range(6)]
    for item in entries:
        gate.add(item, plain=False)
    assert ids(gate.take(0.0)) == [0, 1, 2, 3]
    assert gate.take(0.0) == []
    gate.leave(entries[1])
    assert ids(gate.take(0.0)) == [4]
    assert (gate.running, gate.waiting) == (4, 1)


def test_calls_that_wait_for_a_worker_let_others_pass() -> None:
    gate = admission()
    entries = [entry(id) for id in range(5)]
    for item in entries:
        gate.add(item, plain=item.call.id < 3)
    assert ids(gate.take(0.0)) == [0, 1, 3, 4]
    gate.leave(entries[3])
    assert gate.take(0.0) == []
    gate.leave_worker(entries[0])
    assert ids(gate.take(0.0)) == [2]
    gate.leave(entries[0])
    assert gate.workers_running == 2


def test_a_full_limit_holds_back_only_its_own() -> None:
    gate = admission(slow=CallLimit(max_concurrency=1))
    entries = [entry(0, "slow"), entry(1, "slow"), entry(2), entry(3, "other")]
    for item in entries:
        gate.add(item, plain=False)
    assert ids(gate.take(0.0)) == [0, 2, 3]
    gate.leave(entries[0])
    assert ids(gate.take(0.0)) == [1]


def test_a_rate_admits_so_many_in_any_second_and_says_when_it_opens() -> None:
    gate = Admission(100, 100, {"api": CallLimit(per_second=2)})
    for id in range(5):
        item = entry(id, "api")
        gate.add(item, plain=False)
    assert ids(gate.take(10.0)) == [0, 1]
    assert gate.opens_at() == 11.0
    assert gate.take(10.9) == []
    assert ids(gate.take(11.0)) == [2, 3]
    assert ids(gate.take(12.5)) == [4]
    assert gate.opens_at() is None


def test_a_rate_below_one_a_second() -> None:
    gate = Admission(100, 100, {"api": CallLimit(per_second=0.5)})
    for id in range(2):
        gate.add(entry(id, "api"), plain=False)
    assert ids(gate.take(0.0)) == [0]
    assert gate.opens_at() == 2.0


def test_dropped_calls_never_start_and_take_no_room() -> None:
    gate = admission()
    for id in range(6):
        gate.add(entry(id), plain=False)
    dropped = gate.drop(1)
    assert dropped is not None
    assert gate.drop(1) is None
    assert ids(gate.take(0.0)) == [0, 2, 3, 4]
    assert ids(gate.clear()) == [5]


def test_a_blocking_call_enters_at_once_only_when_nothing_waits() -> None:
    gate = admission(slow=CallLimit(max_concurrency=1, per_second=1))
    assert gate.enter_at_once(entry(0), True, 0.0)
    assert gate.enter_at_once(entry(1, "slow"), True, 0.0)
    assert not gate.enter_at_once(entry(2), True, 0.0), "no worker is free"
    assert not gate.enter_at_once(entry(3, "slow"), False, 5.0), "the limit is full"
    gate.add(entry(4, "slow"), plain=False)
    assert not gate.enter_at_once(entry(5), False, 0.0), "another waits"
