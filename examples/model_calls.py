"""Who asked the model for what, and when: model calls, counted outside of the job that makes them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

ANSWERED = "answered"
CUT_OFF = "cut off"
FAILED = "failed"
IN_FLIGHT = "in flight"


@dataclass
class Call:
    """One request. `state` stands for all of its content: equal states are the same question again."""

    review: str
    state: str
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    outcome: str = IN_FLIGHT
    doomed: bool = False
    """It will never be answered: a failover comes first."""


@dataclass(frozen=True)
class Failover:
    """One failover that was forced."""

    kind: str
    at: float
    calls_in_flight: int
    finished: frozenset[str] = frozenset()
    """Reviews whose answers had been committed."""


class CallLog:
    """All calls, in the order in which they came. Used by the threads of the server."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.calls: list[Call] = []
        self.failovers: list[Failover] = []

    def notify(self) -> None:
        """Something that a call waits for has changed."""
        with self.changed:
            self.changed.notify_all()

    def begin(self, review: str, state: str) -> Call:
        """A request has come."""
        with self.changed:
            call = Call(review, state)
            self.calls.append(call)
            self.changed.notify_all()
            return call

    def end(self, call: Call, outcome: str) -> None:
        """A request is over."""
        with self.changed:
            call.outcome = outcome
            call.ended = time.monotonic()
            self.changed.notify_all()

    def in_flight(self) -> list[Call]:
        """Requests without an answer yet."""
        return [call for call in self.calls if call.outcome == IN_FLIGHT]

    def seen(self, state: str) -> int:
        """How often this very question was asked."""
        return sum(call.state == state for call in self.calls)

    def count(self, outcome: str) -> int:
        """Number of calls with this outcome."""
        return sum(call.outcome == outcome for call in self.calls)

    def failed_over(self, kind: str, calls_in_flight: int, finished: frozenset[str]) -> None:
        """A failover was forced now."""
        with self.changed:
            self.failovers.append(Failover(kind, time.monotonic(), calls_in_flight, finished))
            self.changed.notify_all()

    def answered_calls(self, review: str) -> int:
        """Model calls made for a review that were answered."""
        return sum(call.review == review and call.outcome == ANSWERED for call in self.calls)

    def repeated(self, review: str | None = None) -> int:
        """Questions that were asked again although an earlier request of the same content was answered."""
        return sum(
            (review is None or call.review == review)
            and any(
                earlier.state == call.state and earlier.ended is not None and earlier.ended < call.started
                for earlier in self.calls
                if earlier.outcome == ANSWERED
            )
            for call in self.calls
        )

    def asked_again(self) -> int:
        """Questions that were asked again because nobody had answered them."""
        asked = Counter(call.state for call in self.calls)
        return sum(asked.values()) - len(asked) - self.repeated()

    def replayed(self, review: str) -> int:
        """Answers that a run took from the journal: given before a failover, and needed again after it.

        A run whose answer was not committed before the failover starts again from its beginning, so it needs
        all of its model's answers; what it did not ask for again, it had.
        """
        mine = [call for call in self.calls if call.review == review]
        replayed = 0
        for failover in self.failovers:
            if review not in failover.finished:
                given = {
                    call.state for call in mine if call.outcome == ANSWERED and _ended(call) <= failover.at
                }
                asked_later = {call.state for call in mine if call.started > failover.at}
                replayed += len(given - asked_later)
        return replayed


def _ended(call: Call) -> float:
    return float("inf") if call.ended is None else call.ended
