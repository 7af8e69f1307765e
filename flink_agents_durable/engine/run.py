"""Runs, executions and slots: the state of the engine. Transitions are in the modules beside this one."""

from __future__ import annotations

from collections import deque
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from flink_agents_durable.engine.memory import KeyMemory, RunMemory
from flink_agents_durable.engine.records import Record, Reservation

if TYPE_CHECKING:
    from flink_agents_durable.engine.attempts import Attempts
    from flink_agents_durable.engine.commands import Driver
    from flink_agents_durable.engine.plan import CompiledAction

# States of a slot. A slot that has its outcome is no longer in its execution's table.
NEW = 0  # reserved by the action, nothing started
REPLAYED = 1  # its recorded outcome waits for its turn
RESERVING = 2  # its PENDING record is on its way to the store
WAITING = 3  # held back by `call.parallelism`
RUNNING = 4  # the call runs, the timer is armed
RECORDED = 5  # its outcome is numbered and on its way to the store
GONE = 6  # cancelled or expired: a late outcome is ignored
BACKOFF = 7  # an attempt failed; the next one waits for its time (P19)

CALL_SLOT = 0
TIMER_SLOT = 1
BATCH_SLOT = 2
AWAKEABLE_SLOT = 3


# Shared by all that have none, because there is one of each for every input, and an empty deque takes 600 bytes.
NONE_DONE: AbstractSet[int] = frozenset()
NONE_CHANGED: AbstractSet[str] = frozenset()
NOTHING_TO_REPLAY: deque[Record] = deque()
NOTHING_GIVEN: list[tuple[Record, bool]] = []
NOTHING_QUEUED: deque[QueuedInput] = deque()
NO_AWAKEABLES: dict[str, Slot | None] = {}
NOTHING_EARLY: dict[str, Resolution] = {}


class Resolution(NamedTuple):
    """A resolution of an awakeable that is not delivered: the run that it is for, and what its record holds."""

    sequence: int
    ok: bool
    payload: bytes


class Batch:
    """The calls of one gather."""

    __slots__ = ("running", "slots", "waiting")

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self.waiting: deque[Slot] = deque()
        self.running = 0


class Slot(msgspec.Struct, eq=False):
    """The place of a durable call, a timer, the end of a batch or an awakeable in its execution's journal."""

    execution: Execution
    index: int
    kind: int
    spec: Any
    state: int = NEW
    batch: Batch | None = None
    deadline: int = 0
    pending: bool = False  # a PENDING record of an earlier attempt: the call is in doubt
    call: int = 0
    attempts: Attempts | None = None  # of calls with a retry policy or a `total_timeout`


class Recorded:
    """What the journal knows of one execution, for its replay."""

    __slots__ = ("attempts", "numbers", "outcomes", "pending")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.outcomes: dict[int, Record] = {}
        self.pending: dict[int, Reservation] = {}
        self.attempts: dict[int, Record] = {}  # the last failed one of each slot (P19)


class Execution:
    """One action working on one event of one run."""

    __slots__ = (
        "action",
        "awakeables",
        "dispatched",
        "driver",
        "event",
        "event_payload",
        "given",
        "id",
        "last_timer",
        "next_slot",
        "numbers",
        "recorded",
        "reopened",
        "run",
        "sends",
        "slots",
        "start_number",
        "start_time",
        "start_version",
        "suppress",
        "time",
        "trigger",
        "undigested",
        "uses_memory",
        "version",
        "voids",
        "writes",
    )

    def __init__(
        self, run: Run, action: CompiledAction, id: int, trigger: bytes, event: Any, payload: bytes
    ) -> None:
        self.run = run
        self.action = action
        self.id = id
        self.trigger = trigger  # id of the event that triggered it
        self.event = event
        self.event_payload = payload  # empty: the input of the run
        self.driver: Driver | None = None
        self.slots: dict[int, Slot] = {}
        self.awakeables: dict[str, Slot | None] = NO_AWAKEABLES  # by id: who waits; None: it is delivered
        self.next_slot = 0
        self.numbers: list[int] = []  # of its records in the journal
        self.recorded: Recorded | None = None
        self.given: list[tuple[Record, bool]] = NOTHING_GIVEN  # without a store: see reopening.py
        self.last_timer = -1  # slot of the timer or batch end that was delivered last
        self.reopened: dict[int, int] = {}  # slot -> time from which its deadline counts (P14)
        self.voids: list[tuple[int, int]] = []  # cuts: (slot, record number) (P13)
        self.dispatched: list[bytes] = []  # digests of the events it has sent (P15)
        self.undigested: list[Any] = []  # outputs of this step whose digests are not taken yet
        self.sends = 0
        self.suppress = 0  # sends up to this index were dispatched before the snapshot
        self.start_number = 0
        self.start_version = -1  # -1: not started yet
        self.start_time = 0
        self.version = 0
        self.time = 0
        self.writes: dict[str, bytes | None] = {}
        self.uses_memory = False  # of its key, under a time to live (P25)


class Run:
    """Everything that one input causes."""

    __slots__ = (
        "applied",
        "begun",
        "cuts",
        "delivered",
        "digest",
        "done",
        "executions",
        "fresh",
        "id",
        "key",
        "key_object",
        "memory",
        "number",
        "open_calls",
        "payload",
        "records",
        "reopened",
        "replay",
        "segment",
        "sequence",
        "start_time",
        "starting",
        "time",
        "timestamp",
        "voids",
    )

    def __init__(
        self, key: KeyState, key_object: Any, queued: QueuedInput, id: bytes, memory: RunMemory
    ) -> None:
        self.key = key
        self.key_object = key_object
        self.id = id
        self.sequence = queued.sequence
        self.digest = queued.digest
        self.payload = queued.payload
        self.timestamp = queued.timestamp
        self.segment = queued.segment
        self.memory = memory
        self.number = 0  # last number given to a record
        self.applied = 0  # number of the last record applied on the task thread (P4)
        self.delivered = 0  # number of the last delivery
        self.start_time = 0
        self.time = 0  # of its last record: times never go back
        self.begun = False
        self.executions: dict[int, Execution] = {}
        self.done: AbstractSet[int] = NONE_DONE
        self.starting: list[Execution] = []
        self.fresh: list[Slot] = []  # reserved by actions, not looked at by go_live yet
        self.replay: deque[Record] = NOTHING_TO_REPLAY
        self.records: dict[int, Recorded] = {}  # by execution, for those that the replay has still to start
        self.voids: dict[int, list[tuple[int, int]]] = {}  # and their cuts
        self.reopened: dict[tuple[int, int], int] = {}  # and the time of their reopening, by slot
        self.cuts = 0  # cut records that are not acknowledged (P13)
        self.open_calls = 0

    def mark_done(self, execution: int) -> None:
        """Remember an execution that has ended, for records of it that come later."""
        if isinstance(self.done, set):
            self.done.add(execution)
        else:
            self.done = {execution}


def drop_numbers(run: Run, numbers: list[int]) -> None:
    """Records that the next snapshot need not hold any more."""
    ks = run.key
    for number in numbers:
        if ks.journal_new.pop(number, None) is None:
            ks.journal_gone.append(number)


class QueuedInput:
    """An input behind the live run of its key, with the tail records that it has claimed."""

    __slots__ = (
        "arrival",
        "digest",
        "payload",
        "records",
        "run_id",
        "segment",
        "sequence",
        "stored",
        "timestamp",
        "value",
    )

    def __init__(
        self,
        arrival: int,
        sequence: int,
        digest: bytes,
        payload: bytes,
        timestamp: int | None,
        segment: int,
        records: list[bytes],
        value: Any = None,
        run_id: bytes = b"",
    ) -> None:
        self.arrival = arrival
        self.sequence = sequence
        self.digest = digest
        self.payload = payload
        self.timestamp = timestamp
        self.segment = segment
        self.records = records
        self.value = value  # (key, value), or None after a restore
        self.run_id = run_id  # of its records, which a fork keeps though its log has another id; else empty
        self.stored = False


class Unclaimed:
    """Tail records of a run whose input has not come back (P6)."""

    __slots__ = ("digest", "records", "run_id")

    def __init__(self, digest: bytes, records: list[bytes], run_id: bytes) -> None:
        self.digest = digest
        self.records = records
        self.run_id = run_id


class KeyState:
    """One live key."""

    __slots__ = (
        "arrivals",
        "claim_limit",
        "counted",
        "dirty",
        "early",
        "early_changed",
        "group",
        "journal_gone",
        "journal_new",
        "key",
        "memory",
        "queued",
        "queued_changed",
        "queued_gone",
        "received",
        "run",
        "sequence",
        "stored_active",
        "stored_sequence",
        "stored_unclaimed",
        "unclaimed",
        "unclaimed_dirty",
        "used",
    )

    def __init__(self, key: bytes, group: int, memory: KeyMemory) -> None:
        self.key = key
        self.group = group
        self.memory = memory
        self.sequence = 0  # the next sequence number that was never used
        self.run: Run | None = None
        self.queued: deque[QueuedInput] = NOTHING_QUEUED
        self.arrivals = 0
        self.unclaimed: dict[int, Unclaimed] = {}  # by sequence number (P6)
        self.early: dict[str, Resolution] = NOTHING_EARLY  # by awakeable id, until they are delivered
        self.early_changed: AbstractSet[str] = NONE_CHANGED
        self.received = 0  # inputs since the restore, while there are unclaimed records
        self.claim_limit = 0
        self.counted = 0  # what this key adds to Engine.in_flight
        self.dirty = False
        self.journal_new: dict[int, Any] = {}  # records, encoded or (store `none`) as the tuples to encode
        self.journal_gone: list[int] = []
        self.queued_gone: list[int] = []
        self.queued_changed: list[QueuedInput] = []  # stored ones that got more tail records
        self.stored_active = False
        self.stored_sequence = b""
        self.stored_unclaimed: AbstractSet[int] = NONE_DONE
        self.unclaimed_dirty = False
        self.used = 0  # recorded time of the last use of its memory, if that has a time to live (P25)
