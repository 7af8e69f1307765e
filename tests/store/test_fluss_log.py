"""What an attempt concludes from the rows of its buckets, without a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flink_agents_durable.store import NOTHING_TO_READ, UnknownFateError
from flink_agents_durable.store.fluss_client import FlussSettings
from flink_agents_durable.store.fluss_log import WINDOW_BYTES, FlussLog, _windows
from flink_agents_durable.store.fluss_rows import CLAIM, CUT, RECORDS, Stamp
from flink_agents_durable.store.values import digest, values_of

Opened = tuple[FlussLog, dict[int, int]]
"""A log, and from where it reads its buckets."""
Make = Callable[..., Opened]


@pytest.fixture
def opened() -> Iterator[Make]:
    made: list[FlussLog] = []

    def opened(position: int | None, head: int = 0, end: int = 20) -> Opened:
        made.append(FlussLog(FlussSettings("h:1", "d", "t", 4), "log", {0: position}))
        return made[-1], made[-1]._starts({0: head}, {0: end})

    yield opened
    for log in made:
        log.close()


def stamp(number: int, kind: int = RECORDS, after: int = 0, cut: int = 0, name: str = "log") -> bytes:
    return Stamp(digest(name), kind, 1, 7, number, after, cut).to_bytes()


def take(log: FlussLog, offset: int, data: bytes, value: str = "x") -> bool:
    return log._take((0, offset, data, values_of([value.encode()], 1_000)[0])) is not None


@pytest.mark.parametrize(
    ("position", "start", "missing"),
    [(None, 10, {}), (5, 10, {}), (10, 10, {}), (11, 10, {}), (15, 14, {}), (20, 19, {}), (21, 10, {0: 11})],
)
def test_s2_reading_begins_at_the_row_before_the_position(
    opened: Make, position: int | None, start: int, missing: dict[int, int]
) -> None:
    """Or at the first that is left; a position that the table never reached is not its own."""
    log, starts = opened(position, head=10)
    assert starts == {0: start}
    assert log.missing == missing


@pytest.mark.parametrize(("after", "missing"), [(9, {0: 4}), (6, {0: 1}), (5, {}), (0, {})])
def test_s2_p23_rows_that_are_too_old_to_be_left_are_missed_if_they_held_records(
    opened: Make, after: int, missing: dict[int, int]
) -> None:
    """What is left tells, in each row, how far the records before it went."""
    log, _ = opened(5, head=10)
    assert not take(log, 10, stamp(4, name="another log"))
    assert take(log, 11, stamp(8, after=after))
    assert log.missing == missing
    assert list(log.tail()) == [(0, b"x")]


def test_p23_what_is_cut_is_not_read_and_missed_only_behind_the_position(opened: Make) -> None:
    log, _ = opened(2, head=0)
    for offset, value in ((1, "a"), (2, "b"), (3, "c")):
        assert take(log, offset, stamp(offset, after=offset), value)
    assert take(log, 4, stamp(4, CUT, after=4, cut=2))
    assert log.missing == {}
    assert take(log, 5, stamp(5, CUT, after=4, cut=3))
    assert log.missing == {0: 1}
    assert list(log.tail()) == [(0, b"c")]


def test_a_group_with_nothing_to_read_learns_who_owns_it_all_the_same(opened: Make) -> None:
    log, starts = opened(NOTHING_TO_READ, head=0)
    assert starts == {0: 0}
    assert take(log, 0, stamp(0, CLAIM))
    assert take(log, 1, stamp(1))
    assert list(log.tail()) == []
    assert log._buckets[0].owner == (1, 7)


def test_p3_a_row_that_was_read_and_is_another_one_now_ends_the_attempt(opened: Make) -> None:
    """A server that was killed has forgotten it, and put others in its place."""
    log, _ = opened(None, head=0)
    assert take(log, 0, stamp(0, CLAIM))
    assert take(log, 1, stamp(1))
    assert not take(log, 1, stamp(1))  # read again after the connection was replaced
    with pytest.raises(UnknownFateError, match=r"has lost rows.*replication factor of 3"):
        take(log, 1, stamp(2))


def test_one_append_is_bounded_in_bytes() -> None:
    values = [(number, bytes(WINDOW_BYTES // 3)) for number in range(7)]
    assert [len(window) for window in _windows(values)] == [3, 3, 1]
    assert list(_windows([])) == []
    assert [len(window) for window in _windows([(0, bytes(2 * WINDOW_BYTES)), (0, b"")])] == [1, 1]
