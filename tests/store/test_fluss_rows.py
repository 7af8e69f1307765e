"""What counts in a bucket of the Fluss store, without a server."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from flink_agents_durable.store.fluss_hash import bucket_of, bucket_values
from flink_agents_durable.store.fluss_rows import CLAIM, CUT, RECORDS, Bucket, Stamp, read_stamp

LOG = bytes(16)


def stamp(
    epoch: int, number: int, kind: int = RECORDS, nonce: int = 0, after: int = 0, cut: int = 0
) -> Stamp:
    return Stamp(LOG, kind, epoch, nonce, number, after, cut)


def counted(rows: list[Stamp], start: int = 0) -> list[int]:
    bucket = Bucket()
    return [offset for offset, row in enumerate(rows) if offset >= start and bucket.counts(offset, row)]


def test_a_stamp_comes_back_and_foreign_rows_have_none() -> None:
    written = stamp(5, 3, CUT, 7, 11, 13)
    assert read_stamp(written.to_bytes()) == written
    for data in (None, b"", b"x", b"\xff" + written.to_bytes()[1:], written.to_bytes() + b"x"):
        assert read_stamp(data) is None


def test_p22_rows_behind_the_claim_of_a_later_attempt_are_void() -> None:
    rows = [stamp(1, 0, CLAIM), stamp(1, 1), stamp(2, 0, CLAIM), stamp(1, 2), stamp(2, 1), stamp(1, 3)]
    assert counted(rows) == [0, 1, 2, 4]


def test_k13_a_claim_that_comes_late_takes_nothing_over() -> None:
    rows = [stamp(2, 0, CLAIM), stamp(1, 0, CLAIM), stamp(1, 1), stamp(2, 1)]
    assert counted(rows) == [0, 3]


def test_k13_of_two_attempts_with_one_epoch_one_is_the_later() -> None:
    rows = [
        stamp(1, 0, CLAIM, nonce=5),
        stamp(1, 0, CLAIM, nonce=9),
        stamp(1, 1, nonce=5),
        stamp(1, 1, nonce=9),
    ]
    assert counted(rows) == [0, 1, 3]


def test_p20_a_row_that_is_sent_again_counts_once_and_in_its_order() -> None:
    rows = [
        stamp(1, 0, CLAIM),
        stamp(1, 2),
        stamp(1, 1),
        stamp(1, 1),
        stamp(1, 2),
        stamp(1, 0, CLAIM),
        stamp(1, 2),
    ]
    assert counted(rows) == [0, 2, 4]


def test_p22_a_zombie_cuts_nothing() -> None:
    bucket = Bucket()
    rows = [stamp(1, 0, CLAIM), stamp(1, 1), stamp(2, 0, CLAIM), stamp(1, 2, CUT, cut=2)]
    for offset, row in enumerate(rows):
        bucket.counts(offset, row)
    assert (bucket.cut, bucket.after) == (0, 2)
    assert bucket.counts(4, stamp(2, 1, CUT, cut=2))
    assert bucket.cut == 2


@pytest.mark.parametrize("buckets", [1, 4, 12, 128, 1000])
def test_each_bucket_has_a_value_that_leads_to_it(buckets: int) -> None:
    values = bucket_values(buckets)
    assert [bucket_of(value, buckets) for value in values] == list(range(buckets))
    assert max(values) < 20 * buckets


# -- a model: attempts that write, stall, and send again, on one bucket that takes everything ----------------


@dataclass
class Log:
    rows: list[tuple[Stamp, str]] = field(default_factory=list)

    def take(self, row: tuple[Stamp, str]) -> None:
        self.rows.append(row)


@dataclass
class Writer:
    """What the store does with one bucket, step by step; `sent` may arrive late, twice, out of order, or never."""

    log: Log
    name: str
    fences: bool = True
    bucket: Bucket = field(default_factory=Bucket)
    reached: int = 0
    attempt: tuple[int, int] | None = None
    sent: list[tuple[Stamp, str]] = field(default_factory=list)
    under_way: tuple[Stamp, str] | None = None
    acknowledged: list[str] = field(default_factory=list)
    tail: list[str] | None = None
    fenced: bool = False
    written: int = 0
    seen: list[str] = field(default_factory=list)

    def claim(self, chance: random.Random) -> None:
        self.read()
        self.attempt = self.bucket.owner[0] + 1, chance.getrandbits(63)
        self._send(Stamp(LOG, CLAIM, *self.attempt, 0, 0, 0), "")

    def write(self) -> None:
        assert self.attempt is not None
        self.written += 1
        row = Stamp(LOG, RECORDS, *self.attempt, self.bucket.number + 1, 0, 0)
        self._send(row, f"{self.name}{self.written}")

    def _send(self, row: Stamp, value: str) -> None:
        self.under_way = row, value
        self.sent.append(self.under_way)

    def deliver(self, chance: random.Random) -> None:
        self.log.take(chance.choice(self.sent))

    def read(self) -> None:
        while self.reached < len(self.log.rows) and not self.fenced:
            row, value = self.log.rows[self.reached]
            counts = self.bucket.counts(self.reached, row)
            self.reached += 1
            if counts and row.kind == RECORDS:
                self.seen.append(value)
            mine = self.under_way is not None and row == self.under_way[0]
            if self.attempt is not None and self.bucket.owner > self.attempt and self.fences:
                self.fenced = True
            elif mine and (counts or not self.fences):
                self.under_way = None
                if row.kind == CLAIM:
                    self.tail = list(self.seen)
                else:
                    self.acknowledged.append(value)


def run(seed: int, fences: bool = True) -> None:
    chance = random.Random(seed)
    log = Log()
    writers: list[Writer] = []
    for _ in range(chance.randrange(20, 120)):
        if not writers or (chance.random() < 0.1 and len(writers) < 6):
            writers.append(Writer(log, chr(ord("a") + len(writers)), fences))
            writers[-1].claim(chance)
        writer = chance.choice(writers)
        if writer.fenced:
            continue
        if writer.under_way is None:
            writer.write()
        if chance.random() < 0.6:
            writer.deliver(chance)
        if chance.random() < 0.6:
            writer.read()
    final = Writer(log, "?")
    final.read()
    attempts = {writer.name: writer.attempt or (0, 0) for writer in writers}
    for writer in writers:
        if writer.tail is None or writer.attempt is None:
            continue
        # P21, P22, S3: what it read when it opened is all that there is of earlier attempts, for ever.
        assert final.seen[: len(writer.tail)] == writer.tail, (seed, writer.name)
        for value in final.seen[len(writer.tail) :]:
            assert attempts[value[0]] >= writer.attempt, (seed, writer.name, value)
    # P3: what was acknowledged to anybody, ever, is in the log, once.
    for writer in writers:
        mine = [value for value in final.seen if value.startswith(writer.name)]
        assert mine == [f"{writer.name}{number}" for number in range(1, len(mine) + 1)], (seed, writer.name)
        assert writer.acknowledged == mine[: len(writer.acknowledged)], (seed, writer.name)


def run_many(fences: bool = True) -> None:
    for seed in range(3_000):
        run(seed, fences)


def test_p21_p22_k13_attempts_that_stall_repeat_and_take_over_from_each_other() -> None:
    run_many()


def test_the_model_finds_a_zombie_that_is_acknowledged_without_reading_who_owns() -> None:
    with pytest.raises(AssertionError):
        run_many(fences=False)
