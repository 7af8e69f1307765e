"""What identity and records of one call cost, without a job: microseconds of one thread's CPU time."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from flink_agents_durable.engine.failures import decode_failure, encode_failure
from flink_agents_durable.engine.functions import identify
from flink_agents_durable.engine.payload import PayloadCodec


def measure(function: Callable[[], Any], times: int) -> float:
    """Microseconds of CPU for one call of `function`; the best of five rounds."""
    rounds = []
    for _ in range(5):
        begin = time.thread_time()
        for _ in range(times):
            function()
        rounds.append((time.thread_time() - begin) / times * 1e6)
    return min(rounds)


def score(name: str, stars: int, urgent: bool = False) -> None:
    """A durable function; it is never run."""


def small_calls() -> tuple[float, float]:
    """Identity of a call with one scalar, and with three."""
    return (
        measure(lambda: identify(score, ("review-17",), {}), 20_000),
        measure(lambda: identify(score, ("review-17", 5), {"urgent": True}), 20_000),
    )


def bare_digest() -> float:
    """The least that a digest of these arguments can cost: encode and hash them."""
    encode = msgspec.msgpack.encode
    return measure(
        lambda: blake2b(encode((("review-17", 5), {"urgent": True})), digest_size=8).digest(), 20_000
    )


def large_call(items: int) -> float:
    """Identity of a call with a list of so many small dicts."""
    rows = [{"id": number, "text": "some words"} for number in range(items)]
    return measure(lambda: identify(score, (rows,), {}), max(1, 20_000 // items))


def failure() -> tuple[float, float, int]:
    """Writing and reading the record of an ordinary exception, and its bytes."""
    codec = PayloadCodec()
    try:
        raise ValueError("the model gave no score")
    except ValueError as error:
        raised = error
    data = encode_failure(raised, codec)
    return (
        measure(lambda: encode_failure(raised, codec), 500),
        measure(lambda: decode_failure(data, codec), 500),
        len(data),
    )
