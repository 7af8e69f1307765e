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
NOTHING_QUEUED: deque[QueuedInput] = deque()


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


class Execution(msgspec.Struct, eq=False):
    """One action working on one event of one run."""

    run: Run
    action: CompiledAction
    id: int
    trigger: bytes  # id of the event that triggered it
    event: Any
    event_payload: bytes  # empty: the input of the run
    driver: Driver | None = None
    slots: dict[int, Slot] = {}
    awakeables: dict[str, Slot | None] = {}  # by id: who waits; None: it is delivered
    next_slot: int = 0
    numbers: list[int] = []  # of its records in the journal
    recorded: Recorded | None = None
    given: list[tuple[Record, bool]] = []  # without a store: see reopening.py
    last_timer: int = -1  # slot of the timer or batch end that was delivered last
    reopened: dict[int, int] = {}  # slot -> time from which its deadline counts (P14)
    voids: list[tuple[int, int]] = []  # cuts: (slot, record number) (P13)
    dispatched: list[bytes] = []  # digests of the events it has sent (P15)
    undigested: list[Any] = []  # outputs of this step whose digests are not taken yet
    sends: int = 0
    suppress: int = 0  # sends up to this index were dispatched before the snapshot
    start_number: int = 0
    start_version: int = -1  # -1: not started yet
    start_time: int = 0
    version: int = 0
    time: int = 0
    writes: dict[str, bytes | None] = {}
    uses_memory: bool = False  # of its key, under a time to live (P25)


class Run(msgspec.Struct, eq=False):
    """Everything that one input causes."""

    key: KeyState
    key_object: Any
    id: bytes
    sequence: int
    digest: bytes
    payload: bytes
    timestamp: int | None
    segment: int
    memory: RunMemory
    number: int = 0  # last number given to a record
    applied: int = 0  # number of the last record applied on the task thread (P4)
    delivered: int = 0  # number of the last delivery
    start_time: int = 0
    time: int = 0  # of its last record: times never go back
    begun: bool = False
    executions: dict[int, Execution] = {}
    done: AbstractSet[int] = NONE_DONE
    starting: list[Execution] = []
    fresh: list[Slot] = []  # reserved by actions, not looked at by go_live yet
    replay: deque[Record] = NOTHING_TO_REPLAY
    records: dict[int, Recorded] = {}  # by execution, for those that the replay has still to start
    voids: dict[int, list[tuple[int, int]]] = {}  # and their cuts (P13)
    reopened: dict[tuple[int, int], int] = {}  # and the time of their reopening, by slot
    cuts: int = 0  # cut records that are not acknowledged (P13)
    open_calls: int = 0

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


class QueuedInput(msgspec.Struct, eq=False):
    """An input behind the live run of its key, with the tail records that it has claimed."""

    arrival: int
    sequence: int
    digest: bytes
    payload: bytes
    timestamp: int | None
    segment: int
    records: list[bytes]
    value: Any = None  # (key, value), or None after a restore
    run_id: bytes = b""  # of its records, which a fork keeps though its log has another id; else empty
    stored: bool = False


class Unclaimed:
    """Tail records of a run whose input has not come back (P6)."""

    __slots__ = ("digest", "records", "run_id")

    def __init__(self, digest: bytes, records: list[bytes], run_id: bytes) -> None:
        self.digest = digest
        self.records = records
        self.run_id = run_id


class KeyState(msgspec.Struct, eq=False):
    """One live key."""

    key: bytes
    group: int
    memory: KeyMemory
    sequence: int = 0  # the next sequence number that was never used
    run: Run | None = None
    queued: deque[QueuedInput] = NOTHING_QUEUED
    arrivals: int = 0
    unclaimed: dict[int, Unclaimed] = {}  # by sequence number (P6)
    early: dict[str, Resolution] = {}  # by awakeable id, until they are delivered
    early_changed: AbstractSet[str] = NONE_CHANGED
    received: int = 0  # inputs since the restore, while there are unclaimed records
    claim_limit: int = 0
    counted: int = 0  # what this key adds to Engine.in_flight
    dirty: bool = False
    journal_new: dict[int, Any] = {}  # records, encoded or (store `none`) as the tuples to encode
    journal_gone: list[int] = []
    queued_gone: list[int] = []
    queued_changed: list[QueuedInput] = []  # stored ones that got more tail records
    stored_active: bool = False
    stored_sequence: bytes = b""
    stored_unclaimed: AbstractSet[int] = NONE_DONE
    unclaimed_dirty: bool = False
    used: int = 0  # recorded time of the last use of its memory, if that has a time to live (P25)
