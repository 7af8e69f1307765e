"""What must hold of the attempts of retried calls (P19)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flink_agents_durable.engine.attempts import decode_attempt
from flink_agents_durable.engine.records import ATTEMPT, CUT, OUTCOME, REOPEN, RESERVED, SYNC_OUTCOME, Record
from flink_agents_durable.engine.run import Slot

Complain = Callable[[str], None]


class AttemptCounts:
    """The failed attempts of each call that are durable, and which calls are known not to be in doubt."""

    def __init__(self) -> None:
        self._failed: dict[Any, tuple[int, int, int]] = {}  # call -> execution, slot, count
        self._clear: dict[Any, tuple[int, int]] = {}  # the last word on the call is a failed attempt
        self._most: dict[Any, int] = {}  # attempts that the policy allows

    def copy(self) -> AttemptCounts:
        """As it is now."""
        counts = AttemptCounts()
        counts._failed, counts._clear = dict(self._failed), dict(self._clear)
        counts._most = dict(self._most)
        return counts

    def starts(self, call: Any, slot: Slot, reconciler: bool, durable: bool, complain: Complain) -> None:
        """An attempt, or a reconciler, starts; `durable`: there is a store."""
        if reconciler and call in self._clear:
            complain(f"the call {call[1]} is reconciled although its last attempt had failed")
        policy = slot.spec.options.retry if slot.spec.options is not None else None
        if policy is None or slot.attempts is None:
            return
        self._most[call] = policy.max_attempts
        failed = self._failed.get(call, (0, 0, 0))[2]
        if not reconciler and failed >= policy.max_attempts:
            complain(f"the call {call[1]} has failed {failed} times and is tried once more")
        if durable and failed != slot.attempts.failed:
            complain(
                f"of the call {call[1]} {failed} failed attempts are durable, not {slot.attempts.failed}"
            )

    def appended(
        self, record: Record, call_of: Callable[[int], Any], ended: bool, complain: Complain
    ) -> None:
        """A record is durable; `call_of` gives the call of a slot of its execution, `ended` says whether that of
        this record has its outcome."""
        if record.kind == ATTEMPT:
            call, count = call_of(record.slot), decode_attempt(record).failed
            before = self._failed.get(call, (0, 0, 0))[2]
            if count != before + 1 and not (ended and count == before):
                complain(f"failed attempt {count} of {call[1]} follows failed attempt {before}")
        elif record.kind in (OUTCOME, SYNC_OUTCOME) and not record.ok:
            call = call_of(record.slot)
            failed, most = self._failed.get(call, (0, 0, 0))[2] + 1, self._most.get(call)
            if most is not None and failed < most and b"CallTimeoutError" not in record.payload:
                complain(f"the call {call[1]} fails for good in attempt {failed} of {most}")
        self.learn(record, call_of)
        if record.kind == REOPEN:
            for call, (execution, slot, _) in list(self._failed.items()):
                if execution == record.execution and slot in record.slots:
                    del self._failed[call]
        elif record.kind == CUT:
            for known in (self._failed, self._clear):
                for call in [call for call, of in known.items() if _is_cut(of, record)]:
                    del known[call]

    def learn(self, record: Record, call_of: Callable[[int], Any]) -> None:
        """What a record says, wherever it comes from."""
        if record.kind == ATTEMPT:
            call = call_of(record.slot)
            self._failed[call] = record.execution, record.slot, decode_attempt(record).failed
            self._clear[call] = record.execution, record.slot
        elif record.kind == RESERVED:
            for _, slot, *_ in record.reserved:
                self._clear.pop(call_of(slot), None)


def _is_cut(of: tuple[int, ...], record: Record) -> bool:
    return of[0] == record.execution and of[1] >= record.slot
