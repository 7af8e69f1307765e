"""Admission of inputs: which sequence number, and which tail records, an input gets."""

from __future__ import annotations

import hashlib
from typing import Any

from flink_agents_durable.engine.digest import digest
from flink_agents_durable.engine.run import KeyState, Unclaimed

CLAIM_WINDOW = 100
"""Inputs of a key within which a lost input is expected back at least. Bounds how long its records stay in the
state; too few and an input that comes back behind others of its key would repeat its calls."""


def input_digest(value: Any, payload: bytes) -> bytes:
    """Digest of an input's value, without its timestamp (P7).

    A value without a canonical form is known by its pickled bytes: should they differ after a restore, calls
    run again, which is better than results of another input.
    """
    known = digest(value)
    return known if known is not None else hashlib.blake2b(payload, digest_size=8).digest()


def claim(ks: KeyState, digest: bytes) -> tuple[int, Unclaimed | None]:
    """Sequence number and tail records, if any, for an input. Keeps P7 and the dropping rule of P6.

    It claims the lowest unclaimed run of its key with its digest; without one it gets a sequence number that
    the tail does not use.
    """
    if not ks.unclaimed:
        sequence = ks.sequence
        ks.sequence = sequence + 1
        return sequence, None
    ks.received += 1
    matching = [sequence for sequence, known in ks.unclaimed.items() if known.digest == digest]
    claimed = None
    if matching:
        sequence = min(matching)
        claimed = ks.unclaimed.pop(sequence)
    else:
        sequence = ks.sequence
        while sequence in ks.unclaimed:
            sequence += 1
    ks.sequence = max(ks.sequence, sequence + 1)
    ks.unclaimed_dirty = True
    return sequence, claimed


def drop_stale(ks: KeyState) -> int:
    """Drop unclaimed records whose input does not come back (P6); gives how many runs were dropped."""
    if not ks.unclaimed or ks.received < ks.claim_limit:
        return 0
    dropped = len(ks.unclaimed)
    # Numbers of dropped runs stay used: their records are still in the log.
    ks.sequence = max(ks.sequence, max(ks.unclaimed) + 1)
    ks.unclaimed.clear()
    ks.unclaimed_dirty = True
    return dropped


def expect_claims(ks: KeyState) -> None:
    """Set how many inputs may come before unclaimed records count as stale (P6)."""
    if ks.unclaimed:
        expected = 2 * (max(ks.unclaimed) - ks.sequence + 1)
        ks.claim_limit = max(ks.claim_limit - ks.received, expected, CLAIM_WINDOW)
        ks.received = 0
