"""When a server that is busy wants to be asked again: the `Retry-After` of its answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

_MAX_CAUSES = 8
# Bounds the walk: a chain of causes may be a ring.
_BUSY = frozenset({429, 503})


def retry_after_header(error: BaseException) -> float | None:
    """The seconds that a server's `Retry-After` asks to wait, or None. For `RetryPolicy(retry_after=...)`.

    Understands the errors of httpx, requests, openai, anthropic, aiohttp, urllib and botocore, as they are raised
    and as they replay, and errors raised `from` one. The header is a number of seconds or a date; a date counts
    from the answer's own `Date`, so that it means the same on every attempt, and without one from now. Never
    raises.
    """
    found = _answer(error)
    return None if found is None else found[1]


def busy_server_seconds(error: BaseException) -> float | None:
    """`retry_after_header` of an answer that says the server is busy (429 or 503), else None."""
    found = _answer(error)
    return found[1] if found is not None and found[0] in _BUSY else None


def _answer(error: BaseException | None) -> tuple[int | None, float] | None:
    """Status and seconds of the first error in the chain of causes that has the header."""
    try:
        for _ in range(_MAX_CAUSES):
            if error is None:
                return None
            response = getattr(error, "response", None)
            headers = _headers(error, response)
            seconds = _seconds(headers) if headers else None
            if seconds is not None:
                return _status(error, response), seconds
            error = error.__cause__
    except Exception:  # what users raise may do anything when it is looked at
        return None
    return None


def _headers(error: BaseException, response: Any) -> dict[str, str]:
    found = getattr(response, "headers", None) or getattr(error, "headers", None)
    if isinstance(response, Mapping):
        found = response.get("ResponseMetadata", {}).get("HTTPHeaders")
    return {str(name).lower(): str(value) for name, value in found.items()} if found else {}


def _status(error: BaseException, response: Any) -> int | None:
    if isinstance(response, Mapping):
        return _number(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
    for owner in (response, error):
        for name in ("status_code", "status", "code"):
            status = _number(getattr(owner, name, None))
            if status is not None:
                return status
    return None


def _number(value: object) -> int | None:
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _seconds(headers: dict[str, str]) -> float | None:
    millis = _positive(headers.get("retry-after-ms"))
    if millis is not None:
        return millis / 1000
    text = headers.get("retry-after")
    seconds = _positive(text)
    if seconds is not None or text is None:
        return seconds
    when, sent = _date(text), _date(headers.get("date"))
    if when is None:
        return None
    return max(0.0, (when - (sent or datetime.now(timezone.utc))).total_seconds())


def _positive(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text) if text is not None else None
    except (TypeError, ValueError):
        return None
    if date is None or date.tzinfo is not None:
        return date
    return date.replace(tzinfo=timezone.utc)
