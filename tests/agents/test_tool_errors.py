"""The text of a tool's error is part of the next request: it must be the same on replay (D1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from flink_agents_durable.agents.tool_calls import error_text
from flink_agents_durable.api.errors import CallTimeoutError, RecordedCallError
from flink_agents_durable.engine.failures import decode_failure, encode_failure
from flink_agents_durable.engine.payload import PayloadCodec


class TwoArguments(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} and {second}")


class Hostile(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def _http() -> Exception:
    response = httpx.Response(429, request=httpx.Request("GET", "http://localhost/x"))
    return httpx.HTTPStatusError("too many", request=response.request, response=response)


def _local() -> Exception:
    class Local(ValueError):
        pass

    return Local("here")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ValueError("no such parcel"),
        lambda: KeyError("k"),
        lambda: ValueError("a", 2),
        lambda: OSError(2, "no such file", "f"),
        lambda: RuntimeError(),
        lambda: TwoArguments(1, 2),
        lambda: CallTimeoutError("too late"),
        lambda: ValueError("x" * 20_000),
        lambda: ValueError("\udc80\0"),
        Hostile,
        _http,
        _local,
    ],
)
def test_d1_text_of_an_error_is_the_same_when_replayed(make: Callable[[], Any]) -> None:
    error, codec = make(), PayloadCodec()
    replayed = decode_failure(encode_failure(error, codec), codec)
    assert isinstance(replayed, Exception)
    assert error_text(replayed) == error_text(error)
    again = decode_failure(encode_failure(replayed, codec), codec)
    assert isinstance(again, Exception)
    assert error_text(again) == error_text(error)


def test_the_class_is_said_once() -> None:
    assert error_text(RecordedCallError("x")).count("RecordedCallError") <= 1
    assert error_text(TwoArguments(1, 2)).count("TwoArguments") == 1
