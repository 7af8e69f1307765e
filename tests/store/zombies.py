"""Attempts of a distributed store that do not know yet that others have taken over their key groups."""

from __future__ import annotations

import contextlib
import threading

from flink_agents_durable.api.errors import DurableExecutionError, StoreUnavailableError
from flink_agents_durable.store import Record, StoreFencedError
from tests.store.conformance import DEADLINE, Attempt, Attempts, eventually, of

GROUPS = range(12)


class Zombie:
    """Appends to all its key groups, without a break, until the store refuses."""

    def __init__(self, attempt: Attempt, name: str) -> None:
        self.attempt = attempt
        self.sent: list[Record] = []
        self.acknowledged = 0
        self.failure: DurableExecutionError | None = None
        self._name = name.encode()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        groups = self.attempt.groups
        try:
            while True:
                record = (groups[len(self.sent) % len(groups)], b"%b:%d" % (self._name, len(self.sent)))
                self.sent.append(record)
                self.attempt.append(record)
                if len(self.sent) - self.acknowledged >= 50:
                    self.attempt.wait(1)
                self.acknowledged = self.attempt.store.acknowledged()
        except DurableExecutionError as failure:
            self.failure = failure

    def await_acknowledged(self, count: int, seconds: float = DEADLINE) -> None:
        eventually(lambda: self.acknowledged >= count or not self._thread.is_alive(), seconds)

    def end(self) -> DurableExecutionError | None:
        self._thread.join(2 * DEADLINE)
        assert not self._thread.is_alive()
        return self.failure

    def check(self, tails: dict[int, list[bytes]]) -> None:
        """All that it was told is durable is in the tail of its groups, in order, and nothing invented."""
        for group in self.attempt.groups:
            mine = [data for data in tails[group] if data.startswith(self._name + b":")]
            sent = of(group, self.sent)
            assert mine == sent[: len(mine)]
            assert len(mine) >= len(of(group, self.sent[: self.acknowledged]))


def shares(parallelism: int) -> list[range]:
    size = len(GROUPS) // parallelism
    return [range(start, start + size) for start in range(0, len(GROUPS), size)]


def open_all(attempts: Attempts, owned: list[range], *, rivals: bool = False) -> list[Attempt]:
    """As the subtasks of a job do: at once. Rivals may keep each other from it until their time is over."""
    opened: list[Attempt] = []

    def open_one(groups: range) -> None:
        with contextlib.suppress(*((StoreUnavailableError, StoreFencedError) if rivals else ())):
            opened.append(attempts(groups))

    threads = [threading.Thread(target=open_one, args=(groups,)) for groups in owned]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * DEADLINE)
    assert not any(thread.is_alive() for thread in threads)
    assert rivals or len(opened) == len(owned)
    return opened


def tails_of(owners: list[Attempt]) -> dict[int, list[bytes]]:
    return {group: of(group, owner.tail) for owner in owners for group in owner.groups}


def check_zombies_that_write_without_a_break(attempts: Attempts, before: int, after: int) -> None:
    """Nothing of them is read later that the new owners have not read, and nothing acknowledged is missed."""
    zombies = [Zombie(attempt, f"z{n}") for n, attempt in enumerate(open_all(attempts, shares(before)))]
    for zombie in zombies:
        zombie.await_acknowledged(100)
    owners = open_all(attempts, shares(after))
    tails = tails_of(owners)
    for zombie in zombies:
        assert isinstance(zombie.end(), StoreFencedError)
        zombie.check(tails)
    for owner in owners:
        owner.write((owner.groups[0], b"owner"))
        owner.close()
    later = attempts.read(GROUPS)
    for group in GROUPS:
        assert [data for data in of(group, later) if data != b"owner"] == tails[group]
