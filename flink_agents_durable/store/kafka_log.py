"""One attempt's side of the log in a Kafka topic: claim it, read its tail, append, rotate, truncate.

Every append goes into one long-lived transaction, whose messages count as soon as they are delivered; readers
read uncommitted. What a transaction is for here is its fence: once somebody else has initialised the same
transactional id, the broker takes nothing more from this attempt (P22).

The id is made of log and key groups. An attempt with the same groups is thus fenced by initialising the own id,
one with other groups (another parallelism) by initialising its id, which is found in the partitions: every
message names the key groups of its writer, and every attempt writes a claim into each of its partitions before
it reads its end. So that the last claimant is always found, a position lies directly behind a message of the
attempt that reports it, and truncation keeps that message.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any

import msgspec

from flink_agents_durable.api.errors import ConfigurationError, UnreadableRecordError
from flink_agents_durable.store.kafka_client import Clients, library
from flink_agents_durable.store.kafka_errors import (
    append_failed,
    error_of,
    is_fenced,
    is_hopeless,
    timed_out,
)
from flink_agents_durable.store.kafka_messages import (
    CLAIM,
    RECORDS,
    RESERVED_BYTES,
    Stamp,
    read_stamp,
)
from flink_agents_durable.store.kafka_reader import PartitionReader
from flink_agents_durable.store.kafka_topic import REQUEST_SECONDS, ensure_topic
from flink_agents_durable.store.protocol import NOTHING_TO_READ, Record
from flink_agents_durable.store.values import by_group, claim_value, digest, records_of, values_of

_logger = logging.getLogger(__name__)

SLICE_SECONDS = 0.5
"""Of one blocking call of the library. Bounds how late an interruption, or the end of a time limit, is seen."""

FLUSH_SECONDS = 0.1
"""Of one `flush`. The library cuts longer ones into slices of 200 ms, and begins the next one with the exception of
a fatal error pending: Python code that it calls then fails in strange ways."""

FEW_MESSAGES, REPORT_SECONDS = 4, 0.003
"""The reports of more messages than a few are fetched together every so often. Each is a call into Python, for
which the library takes the interpreter lock: one by one, as the broker answers, every one of them would wait
for the task thread to give it up, which takes up to 5 ms."""

ROTATIONS_PER_TIMEOUT = 5
"""A transaction is replaced after this part of the time after which the broker would end it."""

CLOSE_SECONDS = 1.0
"""How long closing waits for truncations on their way, which are best effort."""

Wait = Callable[[float], None]

_undelivered: list[Any] = []
"""Producers that were closed while messages of theirs were in flight, see `_drop`."""


class KafkaLog:
    """Used by one thread at a time: the task thread opens and reads, then only the writer thread uses it."""

    def __init__(self, clients: Clients, log_id: str, positions: Mapping[int, int | None]) -> None:
        self.give_up_at = self.upkeep_at = float("inf")
        self.max_record_bytes = 0
        self.missing: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self._clients = clients
        self._settings = clients.settings
        self._log_id = log_id
        self._digest = digest(log_id)
        self._groups = sorted(positions)
        self._range = (self._groups[0], self._groups[-1]) if self._groups else (0, 0)
        self._positions = positions
        self._kafka = library()
        self._producer: Any = None
        self._admin: Any = None
        self._failed = False
        self._sharing_reported = False
        self._touched: set[int] = set()  # partitions in the open transaction
        self._rotate_after = self._settings.transaction_timeout_millis / 1000 / ROTATIONS_PER_TIMEOUT
        self._cuts: dict[int, int] = {}
        self._cutting: list[futures.Future[Any]] = []
        # By key group:
        self._tail: deque[tuple[int, int, bytes]] = deque()  # group, offset and value of unread records
        self._from: dict[int, int] = {}  # records below are not read
        self._heads: dict[int, int] = {}  # the first offset, where truncation went beyond the position
        self._seen: set[int] = set()  # a message of this log was read
        self._after: dict[int, int] = {}
        self._foreign: dict[int, int] = {}
        self._unnoted: set[int] = set()  # another log was found since the last message
        self._next: dict[int, int] = {}  # the offset of the next message, if nobody else writes

    # -- opening ---------------------------------------------------------------------------------------------

    def open(self, deadline: float, wait: Wait) -> None:
        """Fence older attempts, find the end, read up to it. Keeps P21, K13, S3.

        Raises KafkaException and NotReadyError for what may pass, StoreFencedError when another attempt was
        opened meanwhile.
        """
        settings = self._settings
        if self._groups and self._groups[-1] >= settings.partitions:
            raise ConfigurationError(
                f"key group {self._groups[-1]} needs more than the {settings.partitions} partitions of the "
                f"{settings}"
            )
        self._admin = self._clients.admin()
        topic = ensure_topic(self._admin, settings, self._look_up_topic(deadline, wait))
        self.max_record_bytes = topic.max_message_bytes - RESERVED_BYTES
        self._producer = self._initialised(self._range, deadline, wait)
        self._producer.begin_transaction()
        starts = self._starts(ends := self._offsets(self._kafka.admin.OffsetSpec.latest()))
        reader = PartitionReader(self._clients.consumer(), settings.topic, starts)
        try:
            self._take_over(reader, ends, deadline, wait)
        finally:
            reader.close()
        if self._foreign:
            self._report_sharing()

    def _look_up_topic(self, deadline: float, wait: Wait) -> Any:
        """The first answer of the cluster: waits for one that starts, not for one that refuses us."""
        name = self._settings.topic
        while True:
            try:
                return self._admin.list_topics(name, timeout=SLICE_SECONDS).topics[name]
            except self._kafka.KafkaException:
                self._poll_errors()
                last = self._clients.last_error
                if time.monotonic() >= deadline or (last is not None and is_hopeless(last)):
                    raise
            wait(0)

    def _take_over(self, reader: PartitionReader, ends: dict[int, int], deadline: float, wait: Wait) -> None:
        """Read, fence and claim until the claims follow on what was read, with nobody else's in between.

        Whoever is met is fenced, also one that was fenced before: it may have opened the log again. Of two
        attempts whose claims meet in a partition the later one thus fences the earlier one.
        """
        rivals = self._read(reader, ends, wait)
        while True:
            while rivals:
                for rival in sorted(rivals):
                    self._initialised(rival, deadline, wait)  # and dropped: all that counts is the fence
                ends = self._offsets(self._kafka.admin.OffsetSpec.latest())
                rivals = self._read(reader, ends, wait)
            claims = self._send(CLAIM, [(group, claim_value(self._log_id)) for group in self._groups])
            if all(offset == ends[group] for group, offset in claims.items()):
                break
            shared = len(self._foreign)
            ends = {group: offset + 1 for group, offset in claims.items()}
            rivals = self._read(reader, ends, wait)
            if not rivals and shared == len(self._foreign):  # else the claims have to tell of the other log
                break
        self.end = {group: offset + 1 for group, offset in claims.items()}
        self._next = dict(self.end)

    def _initialised(self, groups: tuple[int, int], deadline: float, wait: Wait) -> Any:
        """A producer with the id of these key groups; whoever had the id is fenced from now on."""
        name = f"{self._settings.topic}.{self._digest.hex()}.{groups[0]}-{groups[1]}"
        producer = self._clients.producer(name, self.max_record_bytes + RESERVED_BYTES)
        while True:
            with contextlib.suppress(self._kafka.KafkaException):  # else told below
                # Connects. Without a connection the library looks for its coordinator half a second later.
                producer.list_topics(self._settings.topic, timeout=SLICE_SECONDS)
            try:
                producer.init_transactions(SLICE_SECONDS)
                return producer
            except self._kafka.KafkaException as exception:
                producer.poll(0)  # brings errors of the connection
                if not error_of(exception).retriable() or time.monotonic() >= deadline:
                    raise
            wait(0)

    def _starts(self, ends: Mapping[int, int]) -> dict[int, int]:
        """Where to read from: at the last message before the position, since it names its writer."""
        heads = self._offsets(self._kafka.admin.OffsetSpec.earliest())
        starts = {}
        for group, position in self._positions.items():
            head = heads[group]
            known = 0 if position is None or position == NOTHING_TO_READ else position
            if known > ends[group]:  # the topic is not the one that the position is from
                self.missing[group] = known - head
                known = head
            elif head > known and position != NOTHING_TO_READ:
                self._heads[group] = head
            self._from[group] = ends[group] + 1 if position == NOTHING_TO_READ else known
            starts[group] = max(head, known - 1)
        return starts

    def _offsets(self, which: Any) -> dict[int, int]:
        partition = self._kafka.TopicPartition
        asked = {partition(self._settings.topic, group): which for group in self._groups}
        if not asked:
            return {}
        answers = self._admin.list_offsets(asked, request_timeout=REQUEST_SECONDS)
        return {place.partition: answer.result().offset for place, answer in answers.items()}

    def _read(self, reader: PartitionReader, ends: Mapping[int, int], wait: Wait) -> set[tuple[int, int]]:
        """Keep what is ours up to the ends, and return the key groups of other attempts that were met."""
        found: set[tuple[int, int]] = set()
        for message in reader.read_to(ends, self._settings.append_timeout, wait):
            group, offset = message.partition(), message.offset()
            stamp = read_stamp(message.key())
            if stamp is None or stamp.log != self._digest:
                self._foreign.setdefault(group, offset)
                continue
            if group not in self._seen:
                self._seen.add(group)
                self._first_of_group(group, offset, stamp)
            if stamp.kind == RECORDS:
                self._after[group] = offset + 1
                if offset >= self._from[group]:
                    self._tail.append((group, offset, message.value()))
            else:
                self._after[group] = max(self._after.get(group, 0), stamp.after)
            if (stamp.first, stamp.last) != self._range:
                found.add((stamp.first, stamp.last))
        return found

    def _first_of_group(self, group: int, offset: int, stamp: Stamp) -> None:
        """What the first message tells about what lies before it, where the log was cut or not read."""
        if stamp.foreign >= 0:
            self._foreign[group] = min(stamp.foreign, self._foreign.get(group, stamp.foreign))
        head = self._heads.pop(group, None)
        if head is None:
            return
        lost_to = stamp.after
        if stamp.kind == RECORDS and offset == head:  # kept for its writer's name, its records were cut
            lost_to = offset + 1
            self._from[group] = lost_to
        if lost_to > (position := self._positions[group] or 0):
            self.missing[group] = lost_to - position

    def tail(self) -> Iterator[Record]:
        """The records after the positions, in the order of each key group."""
        tail = self._tail
        while tail:
            group, offset, value = tail.popleft()
            try:
                records = records_of(value)
            except msgspec.MsgspecError as error:
                where = f"offset {offset} of partition {group} of the {self._settings}"
                raise UnreadableRecordError(f"{where}: {error}") from error
            for record in records:
                yield group, record

    # -- writing ---------------------------------------------------------------------------------------------

    def commit(self, records: Sequence[Record]) -> dict[int, int]:
        """One message per key group, delivered. Keeps P20, P22: a fenced attempt's is neither kept nor acked."""
        grouped = by_group(records, self.end)
        limit = self.max_record_bytes
        offsets = self._send(
            RECORDS,
            ((group, value) for group, data in grouped.items() for value in values_of(data, limit)),
        )
        if self._unnoted:  # the message before a position has to tell of the other log
            offsets.update(self._send(CLAIM, [(group, b"") for group in self._unnoted]))
            self._unnoted.clear()
        return {group: offset + 1 for group, offset in offsets.items()}

    def _send(self, kind: int, values: Iterable[tuple[int, bytes]]) -> dict[int, int]:
        """Offsets of the last message of each key group, once all are delivered. Raises what ends the attempt."""
        deliveries = _Deliveries()
        try:
            for group, value in values:
                stamp = Stamp(
                    self._digest, kind, *self._range, self._after.get(group, 0), self._foreign.get(group, -1)
                )
                self._produce(group, stamp.to_bytes(), value, deliveries)
            deadline = time.monotonic() + self._settings.append_timeout + SLICE_SECONDS
            while deliveries.left and deliveries.error is None:
                if deliveries.left > FEW_MESSAGES:
                    time.sleep(REPORT_SECONDS)
                    self._producer.poll(0)
                else:
                    self._producer.flush(FLUSH_SECONDS)
                now = time.monotonic()
                if deliveries.left and now >= min(deadline, self.give_up_at):
                    deliveries.error = timed_out()
        except self._kafka.KafkaException as exception:
            deliveries.failed(error_of(exception))
        if deliveries.error is not None:
            self._failed = True
            self._await_reports(deliveries)
            raise append_failed(self._settings, deliveries.error, self._clients.last_error)
        return self._delivered(kind, deliveries)

    def _await_reports(self, deliveries: _Deliveries) -> None:
        """Whether the attempt is fenced may be told after the first error, which says less."""
        deadline = min(time.monotonic() + SLICE_SECONDS, self.give_up_at)
        while len(self._producer) and time.monotonic() < deadline:
            try:
                self._producer.poll(FLUSH_SECONDS)
            except self._kafka.KafkaException as exception:
                deliveries.failed(error_of(exception))

    def _produce(self, group: int, key: bytes, value: bytes, deliveries: _Deliveries) -> None:
        deliveries.left += 1
        while True:
            try:
                self._producer.produce(
                    self._settings.topic, value, key, group, on_delivery=deliveries.delivered
                )
                return
            except BufferError:  # the queue of the library is full
                self._producer.flush(FLUSH_SECONDS)
                if time.monotonic() >= self.give_up_at:
                    raise self._kafka.KafkaException(timed_out()) from None

    def _delivered(self, kind: int, deliveries: _Deliveries) -> dict[int, int]:
        offsets: dict[int, int] = {}
        expected = self._next
        for group, offset in deliveries.offsets:
            if offset > expected.get(group, offset) and group not in self._foreign:
                self._foreign[group] = expected[group]  # all in between is another log's
                self._unnoted.add(group)
            if expected:
                expected[group] = offset + 1
            offsets[group] = offset
        if kind == RECORDS:
            self._after.update((group, offset + 1) for group, offset in offsets.items())
        if offsets and not self._touched:
            self.upkeep_at = time.monotonic() + self._rotate_after
        self._touched.update(offsets)
        if self._unnoted:
            self._report_sharing()
        return offsets

    def upkeep(self) -> None:
        """Replace the transaction before the broker would end it, whatever the task thread does meanwhile."""
        self.upkeep_at = float("inf")
        self._end_transaction(time.monotonic() + self._settings.append_timeout)
        self._producer.begin_transaction()

    def _end_transaction(self, deadline: float) -> None:
        while self._touched:
            try:
                self._producer.commit_transaction(SLICE_SECONDS)
            except self._kafka.KafkaException as exception:
                error = error_of(exception)
                if error.retriable() and time.monotonic() < min(deadline, self.give_up_at):
                    continue
                self._failed = True
                raise append_failed(self._settings, error, self._clients.last_error) from None
            for group in self._touched:  # the marker takes up an offset
                self._next[group] = self._next.get(group, 0) + 1
            self._touched.clear()

    # -- truncation and end ----------------------------------------------------------------------------------

    def cut(self, positions: Mapping[int, int]) -> None:
        """Note what is not needed any more. A fenced attempt finds that it is one. Keeps P23.

        The message before a position stays, see the module. What another log wrote stays as well, and with it
        what comes after.
        """
        cuts = {}
        for group, position in positions.items():
            cut = min(position - 1, self._foreign.get(group, position))
            if group in self.end and cut > self._cuts.get(group, 0):
                cuts[group] = cut
        if cuts:
            self._send(CLAIM, [(min(cuts), b"")])
            self._cuts.update(cuts)
            self._delete(cuts)

    def _delete(self, cuts: Mapping[int, int]) -> None:
        """Asked for, and not waited for: the next checkpoint asks for more."""
        if any(done.exception() for done in self._cutting if done.done()):
            self._admin = self._clients.admin()  # one that has lost its broker may not find it again
        partition = self._kafka.TopicPartition
        places = [partition(self._settings.topic, group, offset) for group, offset in cuts.items()]
        try:
            answers = self._admin.delete_records(places, request_timeout=REQUEST_SECONDS)
        except self._kafka.KafkaException as exception:
            _logger.debug("Cannot truncate the %s: %s", self._settings, exception)
            return
        self._cutting = [answer for answer in self._cutting if not answer.done()]
        self._cutting += answers.values()
        for answer in answers.values():
            answer.add_done_callback(self._deleted)

    def _deleted(self, answer: futures.Future[Any]) -> None:
        if (problem := answer.exception()) is not None:
            _logger.debug("Cannot truncate the %s: %s", self._settings, problem)

    def drop_some(self) -> bool:
        """The broker does that."""
        return False

    def close(self) -> None:
        """Commit what is open, so that the next attempt need not wait until it is aborted."""
        producer, self._producer = self._producer, None
        if producer is not None and not self._failed and self._touched:
            with contextlib.suppress(self._kafka.KafkaException):
                limit = min(CLOSE_SECONDS, max(0.1, self.give_up_at - time.monotonic()))
                producer.commit_transaction(limit)
        if producer is not None:
            _drop(producer, self._kafka.KafkaException)
        if self._cutting:
            futures.wait(self._cutting, CLOSE_SECONDS)
        self._admin = None

    def abandon(self) -> None:
        """Give up an opening that failed."""
        self._failed = True
        self._poll_errors()
        self.close()

    def _poll_errors(self) -> None:
        for client in (self._admin, self._producer):
            if client is not None:
                with contextlib.suppress(self._kafka.KafkaException):
                    client.poll(0)  # brings what its connections reported

    def _report_sharing(self) -> None:
        if not self._sharing_reported:
            self._sharing_reported = True
            _logger.warning(
                "The %s holds messages of another log. They are told apart, and what is older than they are "
                "cannot be truncated before them. Remedy: a topic of its own for each job; a job that starts "
                "anew goes on with its log when agents.job-id is set.",
                self._settings,
            )


class _Deliveries:
    """What the library reports about the messages of one flush."""

    __slots__ = ("error", "left", "offsets")

    def __init__(self) -> None:
        self.left = 0
        self.offsets: list[tuple[int, int]] = []
        self.error: Any = None

    def delivered(self, error: Any, message: Any) -> None:
        self.left -= 1
        if error is None:
            self.offsets.append((message.partition(), message.offset()))
        else:
            self.failed(error)

    def failed(self, error: Any) -> None:
        if self.error is None or is_fenced(error):
            self.error = error


def _drop(producer: Any, error: type[Exception]) -> None:
    """Let go of a producer, but not while messages are in flight: librdkafka may free memory twice (seen up to 2.16).

    When it is destroyed after a fatal error, and the answer to a further request is another one, its threads
    free the text of the first error again, and the process ends. Whoever closes next looks after it.
    """
    candidates = [producer]
    with contextlib.suppress(IndexError):
        while True:
            candidates.append(_undelivered.pop())  # atomic; no two threads look after one
    for candidate in candidates:
        with contextlib.suppress(error):
            candidate.purge(in_flight=False)
            candidate.poll(0)
        if len(candidate):
            _undelivered.append(candidate)
