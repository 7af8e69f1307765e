"""Reads partitions up to known ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flink_agents_durable.store.kafka_client import library

MESSAGES_PER_POLL = 2_000
"""Bounds the memory of one poll."""

POLL_SECONDS = 0.02
"""A poll waits that long unless it is filled: what reading a short tail takes at least."""


class PartitionReader:
    """Goes on where it stopped, so that one can read up to an end, look again, and read up to the new one.

    It may read beyond the ends, whatever was written meanwhile.
    """

    def __init__(self, consumer: Any, topic: str, starts: Mapping[int, int]) -> None:
        kafka = library()
        self._consumer = consumer
        self._topic = topic
        self._eof = kafka.KafkaError._PARTITION_EOF
        self._kafka = kafka
        self._reached = dict(starts)
        self._assigned: set[int] = set()

    def read_to(
        self, ends: Mapping[int, int], timeout: float, wait: Callable[[float], None]
    ) -> Iterator[Any]:
        """The messages before the ends, and maybe some after them.

        An end is reached by offsets alone: the one of a message, or the one at which the broker says that a
        partition ends; markers of transactions take up offsets too. Raises KafkaException, also after so many
        seconds in which nothing came.
        """
        left = {group for group, end in ends.items() if self._reached[group] < end}
        self._assign(left)
        heard = time.monotonic()
        while left:
            messages = self._consumer.consume(MESSAGES_PER_POLL, POLL_SECONDS)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() > heard + timeout:
                raise self._kafka.KafkaException(
                    self._kafka.KafkaError(self._kafka.KafkaError._TIMED_OUT, "nothing could be read in time")
                )
            else:
                wait(0)
            for message in messages:
                group, error = message.partition(), message.error()
                if error is None:
                    self._reached[group] = message.offset() + 1
                    yield message
                elif error.code() == self._eof:
                    self._reached[group] = max(self._reached[group], message.offset())
                else:
                    raise self._kafka.KafkaException(error)
                if self._reached[group] >= ends.get(group, 0):
                    left.discard(group)

    def _assign(self, groups: set[int]) -> None:
        new = groups - self._assigned
        if new:
            partition = self._kafka.TopicPartition
            self._consumer.incremental_assign(
                [partition(self._topic, group, self._reached[group]) for group in sorted(new)]
            )
            self._assigned |= new

    def close(self) -> None:
        self._consumer.close()
