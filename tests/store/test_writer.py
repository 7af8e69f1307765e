"""The writer thread, with a log whose commits the test holds back and lets go."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping, Sequence

import pytest

from flink_agents_durable.store import Record, StoreFencedError, UnknownFateError
from flink_agents_durable.store.writer import GroupCommitWriter
from tests.store.conformance import DEADLINE


class FakeLog:
    """Keeps what is committed. With `hold`, each commit waits for one `let_go`."""

    def __init__(self, hold: bool = False) -> None:
        self.give_up_at = self.upkeep_at = float("inf")
        self.commits: list[list[Record]] = []
        self.events: list[str] = []
        self.to_drop = 0
        self.failure: BaseException | None = None
        self.closed = threading.Event()
        self.begun = threading.Semaphore(0)
        self._gate = threading.Semaphore(0) if hold else None

    def let_go(self) -> None:
        assert self._gate is not None
        self._gate.release()

    def commit(self, records: Sequence[Record]) -> int:
        self.begun.release()
        if self._gate is not None:
            assert self._gate.acquire(timeout=DEADLINE)
        if self.failure is not None:
            raise self.failure
        self.commits.append(list(records))
        self.events.append("commit")
        return 100 + len(self.commits)

    def cut(self, positions: Mapping[int, int]) -> None:
        self.events.append(f"cut {dict(positions)}")

    def drop_some(self) -> bool:
        self.events.append("drop")
        self.to_drop -= 1
        return self.to_drop > 0

    def upkeep(self) -> None:
        self.events.append("upkeep")
        self.upkeep_at = float("inf")

    def close(self) -> None:
        self.closed.set()


class Signal:
    """`on_ack` and the sticky wait that belongs to it."""

    def __init__(self) -> None:
        self.calls = 0
        self._event = threading.Event()

    def __call__(self) -> None:
        self.calls += 1
        self._event.set()

    def wait(self, seconds: float) -> None:
        assert self._event.wait(DEADLINE), "a wake-up was lost"
        self._event.clear()


def test_batches_that_come_during_a_commit_share_the_next_one() -> None:
    log, signal = FakeLog(hold=True), Signal()
    writer = GroupCommitWriter(log, 100, signal, "test", max)
    writer.append([(0, b"0")])
    assert log.begun.acquire(timeout=DEADLINE)
    for number in range(1, 6):
        writer.append([(0, b"%d" % number)])
    log.let_go()
    log.let_go()
    writer.wait_acknowledged(6, signal.wait)
    assert [len(commit) for commit in log.commits] == [1, 5]
    assert writer.acknowledged() == 6
    assert writer.close(DEADLINE)


def test_p4_a_commit_counts_when_all_its_batches_are_applied() -> None:
    log, signal = FakeLog(hold=True), Signal()
    writer = GroupCommitWriter(log, 100, signal, "test", max)
    writer.append([(0, b"0")])
    assert log.begun.acquire(timeout=DEADLINE)
    for number in range(1, 4):
        writer.append([(0, b"%d" % number)])
    log.let_go()
    log.let_go()
    writer.wait_acknowledged(4, signal.wait)
    assert [writer.position(batches) for batches in range(5)] == [100, 101, 101, 101, 102]
    assert writer.close(DEADLINE)


def truncated_during_a_commit() -> tuple[FakeLog, Signal, GroupCommitWriter[int]]:
    """There are three pieces to drop, and the commit is still held."""
    log, signal = FakeLog(hold=True), Signal()
    log.to_drop = 3
    writer = GroupCommitWriter(log, 0, signal, "test", max)
    writer.append([(0, b"a")])
    assert log.begun.acquire(timeout=DEADLINE)
    writer.truncate({0: 7})
    return log, signal, writer


def test_p23_truncation_goes_on_between_appends() -> None:
    log, signal, writer = truncated_during_a_commit()
    writer.append([(0, b"b")])
    log.let_go()
    log.let_go()
    writer.wait_acknowledged(2, signal.wait)
    writer.append([(0, b"c")])
    log.let_go()
    writer.wait_acknowledged(3, signal.wait)
    deadline = time.monotonic() + DEADLINE
    while log.events.count("drop") < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert log.events[:3] == ["commit", "commit", "cut {0: 7}"]
    assert log.events.count("drop") == 3
    assert writer.close(DEADLINE)


def test_p23_what_was_cut_just_before_the_close_is_dropped_as_far_as_one_piece_goes() -> None:
    log, _, writer = truncated_during_a_commit()
    closing = threading.Thread(target=writer.close, args=(DEADLINE,))
    closing.start()
    deadline = time.monotonic() + DEADLINE
    while writer._inbox.qsize() < 2 and time.monotonic() < deadline:
        time.sleep(0.001)  # until the cut and the close are there to be taken together
    log.let_go()
    closing.join(DEADLINE)
    assert log.closed.is_set()
    assert log.events == ["commit", "cut {0: 7}", "drop"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (StoreFencedError("fenced"), StoreFencedError),
        (OSError("disk on fire"), UnknownFateError),
        (SystemExit(1), UnknownFateError),
    ],
)
def test_p20_a_failure_of_the_writer_surfaces_everywhere(
    failure: BaseException, expected: type[Exception]
) -> None:
    log, signal = FakeLog(), Signal()
    log.failure = failure
    writer = GroupCommitWriter(log, 0, signal, "test", max)
    writer.append([(0, b"x")])
    with pytest.raises(expected, match=str(failure)):
        writer.wait_acknowledged(1, signal.wait)
    with pytest.raises(expected):
        writer.acknowledged()
    with pytest.raises(expected):
        writer.append([(0, b"y")])
    assert signal.calls >= 1
    assert writer.close(DEADLINE)
    assert log.closed.is_set()
    assert log.commits == []


def test_the_task_thread_can_leave_a_wait_and_come_back() -> None:
    log, signal = FakeLog(hold=True), Signal()
    writer = GroupCommitWriter(log, 0, signal, "test", max)
    writer.append([(0, b"x")])

    def interrupted(seconds: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        writer.wait_acknowledged(1, interrupted)
    log.let_go()
    writer.wait_acknowledged(1, signal.wait)
    assert writer.close(DEADLINE)


def test_s10_close_is_bounded_while_a_commit_hangs() -> None:
    log = FakeLog(hold=True)
    writer = GroupCommitWriter(log, 0, Signal(), "test", max)
    writer.append([(0, b"x")])
    assert log.begun.acquire(timeout=DEADLINE)
    begin = time.monotonic()
    assert not writer.close(0.2)
    assert time.monotonic() - begin < 5
    assert log.give_up_at <= time.monotonic()
    log.let_go()
    assert log.closed.wait(DEADLINE)


@pytest.mark.parametrize("seed", range(4))
def test_no_wake_up_is_lost(seed: int) -> None:
    """Appends and waits in all rhythms: blocked at once, late, in bursts."""
    log, signal = FakeLog(), Signal()
    writer = GroupCommitWriter(log, 0, signal, "test", max)
    choose = random.Random(seed)
    sent = 0
    for _ in range(3_000):
        for _ in range(choose.choice((1, 1, 1, 2, 10))):
            writer.append([(0, b"%d" % sent)])
            sent += 1
        if choose.random() < 0.2:
            time.sleep(0)
        if choose.random() < 0.7:
            writer.wait_acknowledged(choose.choice((sent, max(0, sent - 1))), signal.wait)
    writer.wait_acknowledged(sent, signal.wait)
    assert writer.close(DEADLINE)
    assert [data for commit in log.commits for _, data in commit] == [
        b"%d" % number for number in range(sent)
    ]
