"""Where the log stands: what each key group's blob in raw keyed state says, whose log it is, what to drop."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from flink_agents_durable.api.errors import ConfigurationError, UnreadableRecordError
from flink_agents_durable.store.protocol import NOTHING_TO_READ

_log = logging.getLogger(__name__)

FORMAT = 1


class GroupBlob(msgspec.Struct, array_like=True, frozen=True):
    """What a snapshot keeps for one key group beside the keyed state."""

    format: int
    log_id: str
    store: str
    """Positions of one store mean nothing to another."""
    position: int
    key_encoding: str
    floor: int = 0
    """Where the sequence numbers of keys start that the state does not know (P25)."""

    def to_bytes(self) -> bytes:
        return msgspec.msgpack.encode(self)


def read_blob(group: int, data: bytes) -> GroupBlob:
    """Raises UnreadableRecordError for what this version cannot read."""
    try:
        blob = msgspec.msgpack.decode(data, type=GroupBlob)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise UnreadableRecordError(f"the state of key group {group} cannot be read: {error}") from None
    if blob.format != FORMAT:
        raise UnreadableRecordError(f"the state of key group {group} has format {blob.format}, not {FORMAT}")
    return blob


@dataclass(frozen=True)
class LogStart:
    """Which log this attempt opens, and from which positions it reads."""

    log_id: str
    positions: dict[int, int | None]


def choose_log(
    blobs: Mapping[int, GroupBlob],
    groups: range,
    *,
    restored: bool,
    explicit_id: str | None,
    first_id: str,
    store: str,
    key_encoding: str,
) -> LogStart:
    """Whose log it is ("Whose log is it" in the design), and where to read on.

    An explicit id wins: a restore whose state has another one is a fork, with a log of its own, read from its
    beginning for the case that the fork itself failed before its first checkpoint. Otherwise the id in the
    state goes on, and without state that of the first start.
    """
    _check_key_encoding(blobs, key_encoding)
    if explicit_id is not None:
        log_id = explicit_id
    elif blobs:
        log_id = _common_id(blobs)
    else:
        log_id = first_id
    positions = {group: _position(blobs.get(group), restored, log_id, store) for group in groups}
    forked = {blob.log_id for blob in blobs.values()} - {log_id}
    if forked and explicit_id is not None:
        _log.info("this job is a fork: log %s, the state came from %s", log_id, ", ".join(sorted(forked)))
    return LogStart(log_id, positions)


def _position(blob: GroupBlob | None, restored: bool, log_id: str, store: str) -> int | None:
    if blob is None:
        # Restored without a blob: the subtask that had this group had finished, nothing of it is open.
        return NOTHING_TO_READ if restored else None
    return blob.position if blob.log_id == log_id and blob.store == store else None


def _common_id(blobs: Mapping[int, GroupBlob]) -> str:
    counts = Counter(blob.log_id for blob in blobs.values())
    log_id = min(counts, key=lambda id: (-counts[id], id))
    if len(counts) > 1:
        _log.warning("the restored state names several logs, %s; going on with %s", sorted(counts), log_id)
    return log_id


def _check_key_encoding(blobs: Mapping[int, GroupBlob], key_encoding: str) -> None:
    """Keeps K3: under another encoding every key would start anew in another key group."""
    for blob in blobs.values():
        if blob.key_encoding != key_encoding:
            raise ConfigurationError(
                f"the restored state was keyed by {blob.key_encoding!r}, this job keys by {key_encoding!r}: "
                "use the same key selector and Python execution mode as the job that wrote it"
            )


class RetainedPositions:
    """To which positions the log may be cut. Keeps P23.

    Only positions of checkpoints that Flink has reported as completed count, and only once as many of them as
    Flink retains are known: an older one could still be restored until then.
    """

    def __init__(self, num_retained: int) -> None:
        self._num_retained = max(1, num_retained)
        self._pending: dict[int, Mapping[int, int]] = {}
        self._completed: list[Mapping[int, int]] = []

    def taken(self, checkpoint: int, positions: Mapping[int, int]) -> None:
        """A checkpoint (no savepoint) has these positions."""
        self._pending[checkpoint] = positions

    def completed(self, checkpoint: int) -> Mapping[int, int] | None:
        """The positions to cut to, if this checkpoint allows more."""
        positions = self._pending.pop(checkpoint, None)
        if positions is None:
            return None  # a savepoint, or one of an earlier attempt
        # Older ones were subsumed or their notification was lost; both never count.
        self._pending = {id: known for id, known in self._pending.items() if id > checkpoint}
        self._completed.append(positions)
        if len(self._completed) < self._num_retained:
            return None
        del self._completed[: -self._num_retained]
        return self._completed[0]

    def aborted(self, checkpoint: int) -> None:
        self._pending.pop(checkpoint, None)
