"""What every durable action state store has to do, whatever is behind it.

A module of tests subclasses `StoreConformance` and gives it a fixture `make`: a function that returns a new,
unopened handle on one and the same backend.
"""

from __future__ import annotations

import logging
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping

import pytest

from flink_agents_durable.api.errors import DurableExecutionError
from flink_agents_durable.store import (
    NOTHING_TO_READ,
    ActionStateStore,
    Record,
    StoreFencedError,
)

Make = Callable[[], ActionStateStore]
Positions = Mapping[int, "int | None"]

DEADLINE = 30.0
"""Seconds after which a test gives up; far above what a slow machine needs."""

STRANGE_LOG_IDS = [
    "a/b",
    "a_b",
    "A/B",
    "../a",
    "a\x00b",
    "a\nb",
    "",
    " ",
    "ä",
    "\ud800",
    "a" * 10_000,
    "a" * 9_999 + "b",
]

KILLED_WRITER = """
import os, pickle, sys, threading
store = pickle.loads(bytes.fromhex(sys.argv[1]))
progress = threading.Event()
assert list(store.open("log", dict.fromkeys(range(4)), progress.set)) == []
sent = told = 0
while True:
    for _ in range(50):
        store.append([(sent % 4, b"%d" % sent)])
        sent += 1
    progress.wait(10)
    progress.clear()
    done = store.acknowledged()
    if done > told:
        told = done
        os.write(1, b"%d\\n" % done)
"""


class Attempt:
    """One opened store, as a task attempt uses it."""

    def __init__(self, store: ActionStateStore, positions: Positions, log_id: str = "log") -> None:
        self.store = store
        self.groups = tuple(positions)
        self.sent = 0
        self.acks = 0
        self._progress = threading.Event()
        self.tail = list(store.open(log_id, positions, self._on_ack))

    def _on_ack(self) -> None:
        self.acks += 1
        self._progress.set()

    def wait(self, seconds: float) -> None:
        self._progress.wait(seconds)
        self._progress.clear()

    def append(self, *records: Record) -> None:
        self.store.append(records)
        self.sent += 1

    def write(self, *records: Record) -> None:
        self.append(*records)
        self.flush()

    def flush(self) -> None:
        self.store.wait_acknowledged(self.sent, self.wait)

    def end(self) -> Mapping[int, int]:
        self.flush()
        return self.store.positions(self.sent)

    def until_failure(self) -> DurableExecutionError:
        """Wait for the failure of the writer, which `on_ack` reports."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            try:
                self.store.acknowledged()
            except DurableExecutionError as failure:
                return failure
            self.wait(0.1)
        raise AssertionError("the writer did not fail")

    def close(self) -> None:
        assert self.store.close(DEADLINE)


class Attempts:
    """Opens attempts on one backend and closes them at the end of the test."""

    def __init__(self, make: Make) -> None:
        self.make = make
        self._all: list[Attempt] = []

    def __call__(self, positions: Positions | Iterable[int], log_id: str = "log") -> Attempt:
        """Open; groups without positions are read from the beginning."""
        if not isinstance(positions, Mapping):
            positions = dict.fromkeys(positions)
        attempt = Attempt(self.make(), positions, log_id)
        self._all.append(attempt)
        return attempt

    def read(self, positions: Positions | Iterable[int], log_id: str = "log") -> list[Record]:
        attempt = self(positions, log_id)
        attempt.close()
        return attempt.tail

    def close(self) -> None:
        for attempt in self._all:
            attempt.store.close(DEADLINE)


def eventually(condition: Callable[[], bool], seconds: float = DEADLINE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def numbered(count: int, groups: int, start: int = 0) -> list[Record]:
    return [(number % groups, b"%d" % number) for number in range(start, start + count)]


def of(group: int, records: Iterable[Record]) -> list[bytes]:
    return [data for owner, data in records if owner == group]


class StoreConformance:
    """See the module."""

    @pytest.fixture
    def attempts(self, make: Make):
        opened = Attempts(make)
        yield opened
        opened.close()

    # -- appending and reading -------------------------------------------------------------------------------

    def test_a_new_log_is_empty(self, attempts: Attempts) -> None:
        attempt = attempts(range(3))
        assert attempt.tail == []
        assert set(attempt.store.positions(0)) == {0, 1, 2}
        assert attempt.store.acknowledged() == 0
        assert not attempt.store.missing

    def test_records_come_back_in_order(self, attempts: Attempts) -> None:
        attempt = attempts(range(4))
        records = numbered(500, 4)
        for start in range(0, 500, 7):
            attempt.append(*records[start : start + 7])
        attempt.flush()
        attempt.close()
        tail = attempts.read(range(4))
        assert sorted(tail) == sorted(records)
        for group in range(4):
            assert of(group, tail) == of(group, records)

    def test_empty_records_and_empty_batches(self, attempts: Attempts) -> None:
        attempt = attempts([0])
        attempt.write()
        attempt.write((0, b""))
        attempt.write()
        assert attempt.store.acknowledged() == 3
        attempt.close()
        assert attempts.read([0]) == [(0, b"")]

    def test_one_commit_acknowledges_all_that_was_handed_over_meanwhile(self, attempts: Attempts) -> None:
        attempt = attempts([0])
        for record in numbered(2_000, 1):
            attempt.append(record)
        attempt.flush()
        assert attempt.store.acknowledged() == 2_000
        assert 1 <= attempt.acks < 1_000

    def test_case_45_a_thousand_results_of_one_kilobyte(self, attempts: Attempts) -> None:
        attempt = attempts([5])
        bodies = [b"%4d" % number + bytes(1_020) for number in range(1_000)]
        for body in bodies:
            attempt.write((5, body))
        attempt.close()
        assert of(5, attempts.read([5])) == bodies

    @pytest.mark.parametrize("size", [70_000, 5_000_000])
    def test_big_records(self, attempts: Attempts, size: int) -> None:
        attempt = attempts(range(2))
        if attempt.store.max_record_bytes is not None:
            size = min(size, attempt.store.max_record_bytes)
        records = [(number % 2, bytes([number]) * size) for number in range(4)]
        attempt.append(*records)
        attempt.append((0, b"small"))
        attempt.flush()
        attempt.close()
        tail = attempts.read(range(2))
        assert of(0, tail) == [*of(0, records), b"small"]
        assert of(1, tail) == of(1, records)

    def test_another_log_id_sees_nothing(self, attempts: Attempts) -> None:
        writers = {log_id: attempts([0], log_id) for log_id in STRANGE_LOG_IDS}
        for number, (log_id, attempt) in enumerate(writers.items()):
            assert attempt.tail == [], log_id
            attempt.write((0, b"%d" % number))
            attempt.close()
        for number, log_id in enumerate(writers):
            assert attempts.read([0], log_id) == [(0, b"%d" % number)]

    def test_a_store_that_was_not_opened_pickles(self, make: Make) -> None:
        store = pickle.loads(pickle.dumps(make()))
        attempt = Attempt(store, {0: None})
        attempt.write((0, b"x"))
        attempt.close()

    # -- positions -------------------------------------------------------------------------------------------

    def test_p4_a_position_covers_only_applied_batches(self, attempts: Attempts) -> None:
        attempt = attempts(range(3))
        for record in numbered(300, 3):
            attempt.append(record)
        attempt.flush()
        positions = [dict(attempt.store.positions(batches)) for batches in range(301)]
        attempt.close()
        for batches in (0, 1, 2, 57, 150, 299, 300):
            tail = attempts.read(positions[batches])
            for group in range(3):
                unapplied = of(group, numbered(300 - batches, 3, start=batches))
                got = of(group, tail)
                assert got[len(got) - len(unapplied) :] == unapplied
        assert attempts.read(positions[300]) == []

    def test_p4_a_position_is_not_the_end_of_the_log(self, attempts: Attempts) -> None:
        attempt = attempts([0])
        attempt.write((0, b"applied"))
        position = attempt.store.positions(1)
        attempt.write((0, b"acknowledged, not applied"))
        assert attempt.store.positions(1) == position
        attempt.close()
        assert attempts.read(position) == [(0, b"acknowledged, not applied")]

    def test_restart_reads_exactly_the_tail(self, attempts: Attempts) -> None:
        positions: Positions = dict.fromkeys(range(2))
        for number in range(5):
            attempt = attempts(positions)
            assert attempt.tail == ([(0, b"tail %d" % (number - 1))] if number else [])
            attempt.write((0, b"%d" % number), (1, b"%d" % number))
            positions = attempt.end()
            attempt.write((0, b"tail %d" % number))
            attempt.close()

    def test_every_group_has_a_position_of_its_own(self, attempts: Attempts) -> None:
        attempt = attempts(range(3))
        ends = []
        for number in range(4):
            attempt.write(*((group, b"%d" % number) for group in range(3)))
            ends.append(attempt.end())
        attempt.close()
        tail = attempts.read({0: ends[0][0], 1: None, 2: ends[2][2]})
        assert [of(group, tail) for group in range(3)] == [
            [b"1", b"2", b"3"],
            [b"0", b"1", b"2", b"3"],
            [b"3"],
        ]

    def test_a_group_with_nothing_to_read_goes_on_at_the_end(self, attempts: Attempts) -> None:
        attempt = attempts(range(2))
        attempt.write((0, b"old"), (1, b"old"))
        attempt.close()
        successor = attempts({0: NOTHING_TO_READ, 1: None})
        assert successor.tail == [(1, b"old")]
        position = successor.store.positions(0)
        successor.write((0, b"new"))
        successor.close()
        assert attempts.read(position) == [(0, b"new")]

    def test_case_43_without_a_checkpoint_everything_is_read(self, attempts: Attempts) -> None:
        first = attempts(range(2))
        first.write((0, b"a"), (1, b"b"))
        second = attempts(range(2))  # a crash: nobody closed the first
        assert sorted(second.tail) == [(0, b"a"), (1, b"b")]
        second.write((0, b"c"))
        assert of(0, attempts.read(range(2))) == [b"a", b"c"]

    def test_nothing_is_written_before_the_tail_is_read(self, make: Make, attempts: Attempts) -> None:
        attempts([0]).write((0, b"a"))
        store = make()
        tail = store.open("log", {0: None}, lambda: None)
        with pytest.raises(RuntimeError):
            store.append([(0, b"b")])
        assert list(tail) == [(0, b"a")]
        store.append([(0, b"b")])
        assert store.close(DEADLINE)

    # -- ownership -------------------------------------------------------------------------------------------

    def test_s5_other_parallelism_reads_each_record_once(self, attempts: Attempts) -> None:
        """2 -> 3 -> 1, with rows that hold groups of several later owners."""
        positions: dict[int, int | None] = dict.fromkeys(range(12))
        expected: dict[int, list[bytes]] = {group: [] for group in range(12)}
        number = 0
        for parallelism in (2, 3, 1, 3, 2):
            share = 12 // parallelism
            owned = [range(start, start + share) for start in range(0, 12, share)]
            opened = [attempts({group: positions[group] for group in groups}) for groups in owned]
            for attempt in opened:
                assert {group for group, _ in attempt.tail} <= set(attempt.groups)
                for group in attempt.groups:
                    assert of(group, attempt.tail) == expected[group], (parallelism, group)
            for attempt in opened:
                positions.update(attempt.end())
                tail = [(group, b"%d" % (number := number + 1)) for group in attempt.groups]
                expected.update({group: [data] for group, data in tail})
                attempt.write(*tail)
        assert number == 60

    def test_siblings_do_not_fence_each_other(self, attempts: Attempts) -> None:
        opened = [attempts(range(start, start + 3)) for start in (0, 3, 6)]
        for number in range(20):
            for attempt in opened:
                attempt.append((attempt.groups[0], b"%d" % number))
        for attempt in opened:
            attempt.flush()
            attempt.close()
        tail = attempts.read(range(9))
        for group in (0, 3, 6):
            assert of(group, tail) == [b"%d" % number for number in range(20)]

    def test_siblings_open_at_once(self, attempts: Attempts) -> None:
        starts = range(0, 12, 3)
        barrier = threading.Barrier(len(starts))
        opened: list[Attempt] = []

        def run(start: int) -> None:
            barrier.wait(DEADLINE)
            attempt = attempts(range(start, start + 3))
            attempt.write((start, b"x"))
            opened.append(attempt)

        threads = [threading.Thread(target=run, args=(start,)) for start in starts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        assert len(opened) == len(starts)

    # -- fencing ---------------------------------------------------------------------------------------------

    def test_p22_a_zombie_is_not_acknowledged(self, attempts: Attempts) -> None:
        zombie = attempts(range(4))
        zombie.write((0, b"before"))
        owner = attempts(range(4))
        assert owner.tail == [(0, b"before")]
        zombie.append((0, b"after"))
        assert isinstance(zombie.until_failure(), StoreFencedError)
        with pytest.raises(StoreFencedError):
            zombie.store.append([(0, b"more")])
        with pytest.raises(StoreFencedError):
            zombie.flush()
        owner.write((0, b"owner"))
        owner.close()
        assert attempts.read(range(4)) == [(0, b"before"), (0, b"owner")]

    @pytest.mark.parametrize("taken", [range(3), range(3, 6), range(2, 4), range(9)])
    def test_s3_losing_some_groups_ends_the_whole_attempt(self, attempts: Attempts, taken: range) -> None:
        zombie = attempts(range(1, 5))
        attempts(taken)
        with pytest.raises(StoreFencedError):
            zombie.write((1, b"x"))
        with pytest.raises(StoreFencedError):
            zombie.write((4, b"x"))

    def test_s3_one_owner_fences_all_whose_groups_it_takes(self, attempts: Attempts) -> None:
        zombies = [attempts(range(start, start + 2)) for start in (0, 2, 4)]
        bystander = attempts(range(6, 8))
        attempts(range(1, 6))
        for zombie in zombies:
            with pytest.raises(StoreFencedError):
                zombie.write((zombie.groups[0], b"x"))
        bystander.write((6, b"x"))

    def test_p21_a_zombie_that_writes_without_a_break(self, attempts: Attempts) -> None:
        """All that a zombie was told is durable is in what its successor reads, and nothing comes after."""
        zombie = attempts(range(4))
        for generation in range(8):
            writer = _ContinuousWriter(zombie, b"%d" % generation)
            eventually(lambda writer=writer: writer.acknowledged > 3)  # type: ignore[misc]
            owner = attempts(range(4))
            assert isinstance(writer.failure(), StoreFencedError)
            mine = [data for _, data in owner.tail if data.startswith(b"%d:" % generation)]
            assert mine == writer.sent[: len(mine)]
            assert len(mine) >= writer.acknowledged
            assert len(attempts.read(owner.end())) == 0
            zombie = attempts(range(4))

    def test_k13_of_two_that_open_at_once_one_stays(self, attempts: Attempts) -> None:
        for _ in range(5):
            barrier = threading.Barrier(2)
            opened: list[Attempt] = []
            results: list[str] = []

            def run(barrier: threading.Barrier = barrier, opened: list[Attempt] = opened) -> None:
                barrier.wait(DEADLINE)
                opened.append(attempts(range(4)))

            threads = [threading.Thread(target=run) for _ in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE)
            for attempt in opened:
                try:
                    attempt.write((0, b"x"))
                    results.append("owner")
                except StoreFencedError:
                    results.append("fenced")
            assert sorted(results) == ["fenced", "owner"]

    def test_p23_a_zombie_truncates_nothing(self, attempts: Attempts) -> None:
        zombie = attempts(range(2))
        zombie.write((0, b"a"), (1, b"b"))
        end = zombie.end()
        owner = attempts(range(2))
        zombie.store.truncate(end)
        with pytest.raises(StoreFencedError):  # and thus the truncation has been tried
            zombie.write((0, b"c"))
        assert sorted(owner.tail) == [(0, b"a"), (1, b"b")]
        assert sorted(attempts.read(range(2))) == [(0, b"a"), (1, b"b")]

    # -- truncation ------------------------------------------------------------------------------------------

    def test_p23_truncation_keeps_what_lies_after_the_position(self, attempts: Attempts) -> None:
        attempt = attempts(range(2))
        attempt.write((0, b"old"), (1, b"old"))
        position = attempt.end()
        attempt.write((0, b"new"))
        attempt.store.truncate(position)
        attempt.store.truncate(position)  # repeatable
        attempt.write((1, b"new"))
        attempt.close()
        successor = attempts(position)
        assert successor.tail == [(0, b"new"), (1, b"new")]
        assert not successor.store.missing

    def test_s2_a_restore_below_the_head_is_reported(
        self, attempts: Attempts, caplog: pytest.LogCaptureFixture
    ) -> None:
        attempt = attempts(range(2))
        attempt.write((0, b"applied"), (1, b"applied"))
        old = attempt.end()
        attempt.write((0, b"cut"))
        attempt.write((0, b"cut"))
        attempt.store.truncate(attempt.end())
        attempt.write((0, b"kept"))
        attempt.close()

        def reopen() -> Attempt:
            successor = attempts(old)
            successor.close()
            return successor

        eventually(lambda: reopen().tail == [(0, b"kept")])
        with caplog.at_level(logging.WARNING):
            successor = reopen()
        assert set(successor.store.missing) == {0}  # group 1 had nothing that could be cut
        assert successor.store.missing[0] >= 1
        assert any("key groups" in message for message in caplog.messages)

    def test_s2_from_the_beginning_of_a_cut_log_is_reported(self, attempts: Attempts) -> None:
        attempt = attempts([3])
        attempt.write((3, b"cut"))
        attempt.store.truncate(attempt.end())
        attempt.close()
        assert set(attempts([3]).store.missing) == {3}

    def test_p23_positions_go_on_after_everything_was_cut(self, attempts: Attempts) -> None:
        positions: Positions = {0: None}
        for number in range(4):
            attempt = attempts(positions)
            assert attempt.tail == []
            attempt.write((0, b"%d" % number))
            end = attempt.end()
            assert end[0] > (positions[0] or 0)
            positions = end
            attempt.store.truncate(end)
            attempt.close()

    def test_p23_a_record_shared_by_owners_is_kept_for_the_other(self, attempts: Attempts) -> None:
        whole = attempts(range(4))
        whole.write(*((group, b"shared") for group in range(4)))
        end = whole.end()
        whole.close()
        left = attempts({0: end[0], 1: end[1]})
        left.store.truncate(left.end())
        for _ in range(3):
            left.write((0, b"new"))  # truncation goes on between appends
        left.close()
        right = attempts({2: None, 3: None})
        assert right.tail == [(2, b"shared"), (3, b"shared")]
        right.store.truncate(right.end())
        right.close()
        assert not attempts(end).store.missing

    def test_s2_the_log_stays_bounded_while_it_is_cut(self, attempts: Attempts) -> None:
        """Also with records that were written together and now have different owners."""
        attempt = attempts(range(8))
        for _ in range(50):
            attempt.write(*((group, b"old") for group in range(1, 7)))
        attempt.close()

        def cut_by(groups: range) -> None:
            part = attempts(groups)
            part.store.truncate(part.store.positions(0))
            for _ in range(10):
                part.write((groups[0], b"new"))  # truncation goes on between appends
            part.close()

        def left() -> int:
            for groups in (range(3), range(3, 8)):
                cut_by(groups)
            return sum(data == b"old" for _, data in attempts.read(range(8)))

        eventually(lambda: left() == 0)

    # -- failures and close ----------------------------------------------------------------------------------

    def test_what_the_wait_raises_comes_out_and_the_store_goes_on(self, attempts: Attempts) -> None:
        attempt = attempts([0])

        def interrupted(seconds: float) -> None:
            raise InterruptedError

        raised = False
        for number in range(2_000):
            attempt.append((0, b"%d" % number + bytes(10_000)))
            try:
                attempt.store.wait_acknowledged(attempt.sent, interrupted)
            except InterruptedError:
                raised = True
                break
        attempt.flush()
        attempt.close()
        assert len(attempts.read([0])) == attempt.sent
        if not raised:
            pytest.skip("every append was acknowledged within the short wait")

    def test_waiting_for_a_batch_that_was_never_sent_is_an_error(self, attempts: Attempts) -> None:
        attempt = attempts([0])
        with pytest.raises(ValueError, match="waiting for batch 1"):
            attempt.store.wait_acknowledged(1, attempt.wait)

    def test_a_failing_on_ack_surfaces(self, make: Make) -> None:
        store = make()

        def broken() -> None:
            raise KeyError("broken")

        list(store.open("log", {0: None}, broken))
        store.append([(0, b"x")])
        with pytest.raises(DurableExecutionError, match="broken"):
            _poll_until_raised(store)
        assert store.close(DEADLINE)

    def test_close_writes_what_was_handed_over(self, attempts: Attempts) -> None:
        attempt = attempts(range(4))
        records = numbered(400, 4)
        for record in records:
            attempt.append(record)
        attempt.close()
        assert sorted(attempts.read(range(4))) == sorted(records)

    def test_close_is_final_and_repeatable(self, attempts: Attempts) -> None:
        attempt = attempts([0])
        attempt.write((0, b"x"))
        attempt.close()
        attempt.close()
        with pytest.raises(RuntimeError):
            attempt.store.append([(0, b"y")])

    def test_close_before_open(self, make: Make) -> None:
        assert make().close(1)

    def test_close_before_the_tail_is_read(self, make: Make, attempts: Attempts) -> None:
        attempts([0]).write((0, b"x"))
        store = make()
        store.open("log", {0: None}, lambda: None)
        assert store.close(1)

    def test_case_22_sigkill_of_a_writer_loses_nothing_acknowledged(
        self, make: Make, attempts: Attempts
    ) -> None:
        """And a sibling that shares its log goes on."""
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED_WRITER, pickle.dumps(make()).hex()], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        sibling = attempts(range(4, 8))
        acknowledged = 0
        while acknowledged < 2_000:
            sibling.write((4, b"%d" % sibling.sent))
            line = process.stdout.readline()
            assert line, "the writer ended by itself"
            acknowledged = int(line)
        process.send_signal(signal.SIGKILL)
        sibling.write((4, b"%d" % sibling.sent))
        rest = process.stdout.read().split(b"\n")
        process.wait(DEADLINE)
        process.stdout.close()
        acknowledged = max([acknowledged, *(int(line) for line in rest[:-1])])
        sibling.write((4, b"%d" % sibling.sent))
        tail = attempts.read(range(4))
        assert len(tail) >= acknowledged
        for group in range(4):
            got = of(group, tail)
            assert got == [b"%d" % number for number in range(group, group + 4 * len(got), 4)]
        sibling.close()
        assert of(4, attempts.read(range(4, 8))) == [b"%d" % number for number in range(sibling.sent)]


class _ContinuousWriter:
    """Appends to an attempt from a thread of its own until the store refuses."""

    def __init__(self, attempt: Attempt, prefix: bytes) -> None:
        self.sent: list[bytes] = []
        self.acknowledged = 0
        self._attempt = attempt
        self._prefix = prefix
        self._failure: DurableExecutionError | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def failure(self) -> DurableExecutionError | None:
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()
        return self._failure

    def _run(self) -> None:
        try:
            while True:
                body = self._prefix + b":%d" % len(self.sent)
                self.sent.append(body)
                self._attempt.append((0, body))
                if len(self.sent) % 5 == 0:
                    self._attempt.wait(1)
                self.acknowledged = self._attempt.store.acknowledged()
        except DurableExecutionError as failure:
            self._failure = failure


def _poll_until_raised(store: ActionStateStore) -> None:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        store.acknowledged()
        time.sleep(0.005)
