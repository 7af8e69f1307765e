"""Which failures are tried again, and after what time: what a RetryPolicy says, without any state."""

from __future__ import annotations

import hashlib
import math
import struct

from flink_agents_durable.api.call_options import RetryPolicy, seconds

_ATTEMPT = struct.Struct(">QII")
_SHORTEST = 0.5  # of a wait, by jitter: callers that failed together spread, and still leave the server time


def is_retried(policy: RetryPolicy, error: BaseException) -> bool:
    """Whether the policy tries again after this failure. Raises what its predicate raises."""
    retry_on = policy.retry_on
    if isinstance(retry_on, (type, tuple)):
        return isinstance(error, retry_on)
    return bool(retry_on(error))


def wait_after(policy: RetryPolicy, error: BaseException, execution: int, slot: int, attempt: int) -> float:
    """Seconds from this failure of this attempt to the next one.

    Jitter is derived from the call, so that every replay of it agrees. Raises what `retry_after` raises, and
    ValueError or TypeError when its advice is no time.
    """
    if policy.retry_after is not None:
        advice = policy.retry_after(error)
        if advice is not None:
            wait = seconds(advice)
            if not math.isfinite(wait):
                raise ValueError(f"retry_after gave {advice!r}, which is no time")
            return max(0.0, wait)
    longest = seconds(policy.max_interval)
    try:
        wait = min(longest, seconds(policy.initial_interval) * policy.backoff_factor ** (attempt - 1))
    except OverflowError:
        wait = longest
    return wait * _jitter(execution, slot, attempt) if policy.jitter else wait


def _jitter(execution: int, slot: int, attempt: int) -> float:
    """A factor between a half and 1, equal for equal attempts."""
    drawn = hashlib.blake2b(_ATTEMPT.pack(execution, slot, attempt), digest_size=4).digest()
    return _SHORTEST + (1 - _SHORTEST) * int.from_bytes(drawn, "big") / 2**32
