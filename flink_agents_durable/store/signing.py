"""Records that are signed: what comes out of a store is proven to be what this job wrote, before it is read.

A pickle runs code when it is loaded, so who can write to the store could run code in the tasks. With a key file
every record carries a keyed hash of itself, its key group and its log, and one that lacks it is refused. The keys
are read where the store is opened; they are neither part of the plan nor of a message.

The signature does not show that records are missing or that one is there twice: the numbers in them do (P8).
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from flink_agents_durable.api.errors import ConfigurationError, UnreadableRecordError
from flink_agents_durable.store.protocol import ActionStateStore, Record

MARKER = b"\xc1"
"""In front of a signed record; no item of msgpack begins with it, so that an unsigned one is told apart."""
_ID_BYTES, _MAC_BYTES = 4, 16
OVERHEAD = len(MARKER) + _ID_BYTES + _MAC_BYTES
SHORTEST_KEY = 32
"""Characters of a line: 128 bits if it is hexadecimal. Bounds the guessing of a key from a record."""

OPTION = "agents.store.signing-key-file"


@dataclass(frozen=True, repr=False)
class SigningKey:
    """One key for one log."""

    id: bytes
    secret: bytes

    def sign(self, group: int, record: bytes) -> bytes:
        message = group.to_bytes(4, "big") + record
        return blake2b(message, key=self.secret, digest_size=_MAC_BYTES).digest()


def read_keys(path: str, log_id: str) -> list[SigningKey]:
    """The keys of a file, one a line; the first signs, all verify. Empty lines and those with `#` do not count.

    Raises ConfigurationError that names the file, and never what is in it.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise ConfigurationError(
            f"{OPTION} = {path!r} cannot be read in this task ({error.strerror}): the file has to be on every "
            "task manager, readable by its user"
        ) from None
    keys = []
    for number, line in enumerate(map(bytes.strip, lines), 1):
        if not line or line.startswith(b"#"):
            continue
        if len(line) < SHORTEST_KEY:
            raise ConfigurationError(
                f"{OPTION} = {path!r}: the key in line {number} is shorter than {SHORTEST_KEY} characters; "
                "`openssl rand -hex 32` gives a good one"
            )
        keys.append(_derive(line, log_id))
    if not keys:
        raise ConfigurationError(f"{OPTION} = {path!r}: the file holds no key")
    return keys


def _derive(line: bytes, log_id: str) -> SigningKey:
    """From the log as well, so that no record of one log is valid in another."""
    master = blake2b(line, person=b"durable-key").digest()
    log = log_id.encode("utf-8", "surrogatepass")
    id = blake2b(b"", key=master, digest_size=_ID_BYTES, person=b"key-id").digest()
    return SigningKey(id, blake2b(log, key=master, digest_size=32, person=b"log-key").digest())


class SignedStore:
    """A store whose records are signed on their way in and verified on their way out."""

    def __init__(self, store: ActionStateStore, key_file: str) -> None:
        self._store = store
        self._key_file = key_file
        self._keys: list[SigningKey] = []

    @property
    def name(self) -> str:
        return self._store.name

    @property
    def durable(self) -> bool:
        return self._store.durable

    @property
    def missing(self) -> Mapping[int, int]:
        return self._store.missing

    @property
    def max_record_bytes(self) -> int | None:
        limit = self._store.max_record_bytes
        return None if limit is None else limit - OVERHEAD

    def open(
        self,
        log_id: str,
        positions: Mapping[int, int | None],
        on_ack: Callable[[], None],
        wait: Callable[[float], None] = time.sleep,
    ) -> Iterator[Record]:
        """As the store's own. Raises ConfigurationError for a bad key file, before the log is touched.

        The iterator raises UnreadableRecordError at the first record without a valid signature.
        """
        self._keys = read_keys(self._key_file, log_id)
        return self._verified(self._store.open(log_id, positions, on_ack, wait), log_id)

    def append(self, records: Sequence[Record]) -> None:
        key = self._keys[0]
        head = MARKER + key.id
        self._store.append(
            [(group, b"".join((head, key.sign(group, record), record))) for group, record in records]
        )

    def acknowledged(self) -> int:
        return self._store.acknowledged()

    def wait_acknowledged(self, batches: int, wait: Callable[[float], None]) -> None:
        self._store.wait_acknowledged(batches, wait)

    def positions(self, batches: int) -> Mapping[int, int]:
        return self._store.positions(batches)

    def truncate(self, positions: Mapping[int, int]) -> None:
        self._store.truncate(positions)

    def close(self, timeout: float) -> bool:
        return self._store.close(timeout)

    def _verified(self, records: Iterator[Record], log_id: str) -> Iterator[Record]:
        for number, (group, data) in enumerate(records, 1):
            problem = self._problem(group, data)
            if problem is not None:
                raise UnreadableRecordError(
                    f"record {number} of those to be read of log {log_id!r}, of key group {group}, is refused: "
                    f"{problem}"
                )
            yield group, data[OVERHEAD:]

    def _problem(self, group: int, data: bytes) -> str | None:
        if data[:1] != MARKER or len(data) < OVERHEAD:
            return (
                f"it is not signed. If the job ran without {OPTION} until now, stop it with a savepoint, "
                "remove the log, and start from the savepoint; otherwise somebody else wrote to the store"
            )
        id = data[len(MARKER) : len(MARKER) + _ID_BYTES]
        known = [key for key in self._keys if key.id == id]
        if not known:
            return f"no key in the file has signed it. A key that was replaced stays in {OPTION} as a further line"
        mac, record = data[len(MARKER) + _ID_BYTES : OVERHEAD], data[OVERHEAD:]
        if not any(hmac.compare_digest(key.sign(group, record), mac) for key in known):
            return (
                "its signature does not fit: it was changed, or belongs to another log or key group. Restore the "
                "store from a copy that is known to be good, or start with an agents.job-id of its own"
            )
        return None

    def __reduce__(self) -> tuple[type[SignedStore], tuple[ActionStateStore, str]]:
        """As configuration, before it is opened: the path, never a key."""
        return SignedStore, (self._store, self._key_file)
