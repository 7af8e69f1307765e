"""`retry_after_header`: what a busy server asks for, in the errors of the HTTP clients and as they replay."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any

import pytest

from flink_agents_durable import CallTimeoutError, retry_after_header
from flink_agents_durable.api.retry_after import busy_server_seconds
from tests.engine.test_failures_http import (
    answer,
    down,
    httpx_error,
    openai_error,
    recorded,
    requests_error,
    urllib_error,
)

CLIENTS: dict[str, Callable[[], Exception]] = {
    "httpx": lambda: httpx_error(answer()),
    "openai": lambda: openai_error(answer()),
    "requests": requests_error,
    "urllib": urllib_error,
}


@pytest.mark.parametrize("make", CLIENTS.values(), ids=CLIENTS)
def test_cases_2_and_3_of_each_client_live_and_replayed(make: Callable[[], Exception]) -> None:
    error = make()
    assert retry_after_header(error) == 7.0
    assert busy_server_seconds(error) == 7.0
    assert retry_after_header(recorded(error)[1]) == 7.0


def test_aiohttp_and_botocore() -> None:
    aiohttp = pytest.importorskip("aiohttp")
    multidict = pytest.importorskip("multidict")
    error = aiohttp.ClientResponseError(
        SimpleNamespace(real_url="http://api.test"),
        (),
        status=503,
        headers=multidict.CIMultiDict({"Retry-After": "3"}),
    )
    assert busy_server_seconds(error) == 3.0
    exceptions = pytest.importorskip("botocore.exceptions")
    metadata = {"HTTPStatusCode": 429, "HTTPHeaders": {"retry-after": "4"}}
    assert busy_server_seconds(exceptions.ClientError({"ResponseMetadata": metadata}, "Invoke")) == 4.0


def test_an_error_raised_from_one() -> None:
    outer = RuntimeError("the model did not answer")
    outer.__cause__ = requests_error()
    assert retry_after_header(outer) == 7.0
    ring = RuntimeError()
    ring.__cause__ = ring
    assert retry_after_header(ring) is None


def failed(status: int = 429, **headers: str) -> Any:
    error: Any = RuntimeError()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error.response = SimpleNamespace(status_code=status, headers=named)
    return error


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry_After": "0"}, 0.0),
        ({"Retry_After": " 1.5 "}, 1.5),
        ({"Retry_After": "-3"}, 0.0),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"retry_after_ms": "soon", "retry_after": "9"}, 9.0),
        (
            {
                "Retry_After": "Wed, 21 Oct 2015 07:28:30 GMT",
                "Date": "Wed, 21 Oct 2015 07:28:00 GMT",
            },
            30.0,
        ),
        ({"Retry_After": "Wed, 21 Oct 2015 07:28:30 GMT"}, 0.0),
        ({"Retry_After": "soon"}, None),
        ({"Retry_After": "nan"}, None),
        ({"Retry_After": "inf"}, None),
        ({}, None),
    ],
)
def test_forms_of_the_header(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_header(failed(**headers)) == expected


def test_a_date_without_the_servers_own_counts_from_now() -> None:
    when = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=60), usegmt=True)
    seconds = retry_after_header(failed(Retry_After=when))
    assert seconds is not None
    assert 50 < seconds <= 60


def test_only_429_and_503_say_that_the_server_is_busy() -> None:
    assert busy_server_seconds(failed(503, Retry_After="2")) == 2.0
    assert busy_server_seconds(failed(500, Retry_After="2")) is None
    assert busy_server_seconds(failed(301, Retry_After="2")) is None


def test_what_has_no_header_and_what_cannot_be_looked_at() -> None:
    class Hostile(Exception):
        @property
        def response(self) -> Any:
            raise ZeroDivisionError

    for error in (ValueError("no"), CallTimeoutError("late"), httpx_error(down), Hostile()):
        assert retry_after_header(error) is None
