"""Exceptions of HTTP clients, built as the clients build them; nothing listens, nothing is sent."""

from __future__ import annotations

import base64
import dataclasses
import http.client
import importlib
import urllib.error
from collections.abc import Callable
from typing import Any, NamedTuple

import httpx
import openai
import pydantic
import pytest
import requests

from flink_agents_durable.api.errors import RecordedCallError
from flink_agents_durable.engine.failures import decode_failure, encode_failure
from flink_agents_durable.engine.payload import PayloadCodec

CODEC = PayloadCodec()
SECRETS = ["planted-bearer", "planted-api-key", "planted-cookie", "planted-query", "planted-password"]
SECRETS += ["planted prompt"]
BODY: Any = {"model": "gpt-4o", "messages": [{"role": "user", "content": "planted prompt of the user"}]}
HEADERS = {
    "Authorization": "Bearer planted-bearer-0123",
    "api-key": "planted-api-key-0123",
    "X-Goog-Api-Key": "planted-api-key-4567",
    "Proxy-Authorization": "Basic " + base64.b64encode(b"user:planted-password").decode(),
    "Cookie": "theme=dark; session=planted-cookie-0123",
}
ANSWER = {
    "Retry-After": "7", "X-Request-Id": "req-1", "x-ratelimit-remaining-tokens": "90",
    "Set-Cookie": "session=planted-cookie-4567; Path=/; HttpOnly",
}  # fmt: skip
URL = "https://user:planted-password@api.test/v1/chat?api-version=3&key=planted-query-0123"
ERROR = {"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded", "type": "tokens"}}


def answer(status: int = 429, error: Any = ERROR) -> Callable[[httpx.Request], httpx.Response]:
    return lambda request: httpx.Response(status, headers=ANSWER, json=error, request=request)


def down(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("connection refused", request=request)


def slow(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("timed out", request=request)


def caught(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def httpx_error(handler: Callable[[httpx.Request], httpx.Response]) -> Exception:
    def call() -> None:
        with httpx.Client(transport=httpx.MockTransport(handler), headers=HEADERS) as client:
            client.post(URL, json=BODY).raise_for_status()

    return caught(call)


def openai_error(handler: Callable[[Any], Any]) -> Exception:
    """Through the SDK's own client, whichever HTTP package it is built on."""
    bases = [base.__module__.partition(".")[0] for base in openai.DefaultHttpxClient.__mro__]
    package: Any = importlib.import_module(next(base for base in bases if base != "openai"))

    def translated(request: Any) -> Any:
        try:
            found = handler(httpx.Request(request.method, str(request.url)))
        except httpx.RequestError as error:
            raise getattr(package, type(error).__name__)(str(error), request=request) from None
        return package.Response(found.status_code, headers=ANSWER, json=found.json(), request=request)

    def call() -> None:
        transport = package.MockTransport(translated)
        with openai.OpenAI(
            api_key="planted-api-key-0123", base_url="https://api.test/v1", max_retries=0,
            default_headers=HEADERS, http_client=package.Client(transport=transport),
        ) as client:  # fmt: skip
            client.chat.completions.create(**BODY)

    return caught(call)


def requests_error() -> Exception:
    def call() -> None:
        response = requests.Response()
        response.status_code = 429
        response.headers.update(ANSWER)
        response._content = b'{"error": {"code": "rl"}}'
        response.url = URL
        response.request = requests.Request("POST", URL, headers=HEADERS, json=BODY).prepare()
        response.raise_for_status()

    return caught(call)


def urllib_error() -> Exception:
    headers = http.client.HTTPMessage()
    for name, value in ANSWER.items():
        headers[name] = value
    return caught(lambda: (_ for _ in ()).throw(urllib.error.HTTPError(URL, 429, "Too Many", headers, None)))


def recorded(exc: BaseException) -> tuple[bytes, Any]:
    data = encode_failure(exc, CODEC)
    return data, decode_failure(data, CODEC)


def assert_clean(data: bytes) -> None:
    assert [secret for secret in SECRETS if secret.encode() in data] == []
    assert base64.b64encode(b"user:planted-password") not in data


ALL: dict[str, Callable[[], Exception]] = {
    "httpx-status": lambda: httpx_error(answer()),
    "httpx-connect": lambda: httpx_error(down),
    "httpx-timeout": lambda: httpx_error(slow),
    "openai-rate-limit": lambda: openai_error(answer()),
    "openai-server": lambda: openai_error(answer(500)),
    "openai-authentication": lambda: openai_error(
        answer(401, {"error": {"message": "Incorrect API key provided: planted-api-key-0123."}})
    ),
    "openai-connection": lambda: openai_error(down),
    "openai-timeout": lambda: openai_error(slow),
    "requests": requests_error,
    "urllib": urllib_error,
}


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_x8_no_credential_reaches_the_record(make: Callable[[], Exception]) -> None:
    exc = make()
    data, again = recorded(exc)
    assert_clean(data)
    assert isinstance(again, type(exc))
    assert isinstance(again, RecordedCallError)


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
@pytest.mark.parametrize("how", ["cause", "context", "argument", "attribute", "nested", "group"])
def test_x8_nor_when_another_exception_holds_it(make: Callable[[], Exception], how: str) -> None:
    inner, outer = make(), ValueError("the model failed")
    if how == "cause":
        outer.__cause__ = inner
    elif how == "context":
        outer.__context__ = inner
    elif how == "argument":
        outer = ValueError(inner, str(inner))
    elif how == "attribute":
        outer.failure = inner  # type: ignore[attr-defined]
    elif how == "nested":
        outer.failures = {"list": [(inner,)]}  # type: ignore[attr-defined]
    else:
        outer = pytest.importorskip("builtins").__dict__.get("ExceptionGroup", ValueError)("group", [inner])
    data, again = recorded(outer)
    assert_clean(data)
    assert isinstance(again, type(outer))


def test_x3_httpx_status_errors_keep_status_headers_and_body() -> None:
    """Case 2."""
    _, again = recorded(httpx_error(answer()))
    assert isinstance(again, httpx.HTTPStatusError)
    assert str(again).startswith("httpx.HTTPStatusError: Client error '429 Too Many Requests'")
    assert again.response.status_code == 429
    assert again.response.headers["retry-after"] == "7"
    assert again.response.headers.get("RETRY-AFTER") == "7"
    assert "Retry-After" in again.response.headers
    assert again.response.json() == ERROR
    assert again.request.method == "POST"
    assert "api.test/v1/chat?api-version=3" in str(again.request.url)


def test_x3_openai_errors_keep_status_code_body_and_retry_after() -> None:
    """Case 3."""
    original: Any = openai_error(answer())
    assert type(original) is openai.RateLimitError
    _, again = recorded(original)
    assert isinstance(again, openai.RateLimitError)
    assert isinstance(again, openai.APIStatusError)
    assert again.status_code == original.status_code == 429
    assert again.code == original.code == "rate_limit_exceeded"
    assert again.body == original.body
    assert again.message == original.message
    assert again.request_id == "req-1"
    assert again.response.headers.get("retry-after") == "7"
    assert again.response.headers["x-ratelimit-remaining-tokens"] == "90"
    assert str(again) == f"openai.RateLimitError: {original}"


def test_x3_openai_connection_errors_keep_their_cause() -> None:
    """Case 3."""
    _, again = recorded(openai_error(down))
    assert isinstance(again, openai.APIConnectionError)
    assert str(again) == "openai.APIConnectionError: Connection error."
    assert type(again.__cause__).__name__ == "ConnectError"
    _, late = recorded(openai_error(slow))
    assert isinstance(late, openai.APITimeoutError)


def test_x3_an_exception_group_of_client_errors_is_caught_by_member() -> None:
    group = pytest.importorskip("builtins").__dict__.get("ExceptionGroup")
    if group is None:
        pytest.skip("exception groups are of Python 3.11")
    data, again = recorded(group("two", [httpx_error(answer()), ValueError("x")]))
    assert_clean(data)
    matched, rest = again.split(httpx.HTTPStatusError)
    assert matched.exceptions[0].response.status_code == 429
    assert type(rest.exceptions[0]) is ValueError


def test_x8_other_packages_are_known_by_the_names_of_their_classes() -> None:
    class FancyRequest:
        def __init__(self) -> None:
            self.headers = dict(HEADERS)
            self.body = "planted prompt of the user"
            self.url = URL

    class FancyResponse:
        def __init__(self) -> None:
            self.status_code = 503
            self.headers = dict(ANSWER)
            self.request = FancyRequest()

    class FancyError(Exception):
        pass

    exc: Any = FancyError("failed for planted-bearer-0123")
    exc.response = FancyResponse()
    data, again = recorded(exc)
    assert_clean(data)
    assert again.response.status_code == 503
    assert again.response.headers["retry-after"] == "7"


@dataclasses.dataclass
class Settings:
    api_key: str
    region: str


class Info(NamedTuple):
    url: str
    authorization: str


class Config(pydantic.BaseModel):
    token: str
    region: str


@pytest.mark.parametrize(
    "state",
    [
        {"headers": HEADERS},
        {"headers": list(HEADERS.items())},
        {"settings": Settings("planted-api-key-0123", "eu")},
        {"config": Config(token="planted-api-key-0123", region="eu")},
        {"info": Info("u", "planted-bearer")},
        {"api_key": "planted-api-key-0123"},
        {"nested": [{"deep": ({"x-api-key": "planted-api-key-0123"},)}]},
        {"raw": b"POST / HTTP/1.1\r\nAuthorization: Bearer planted-bearer-0123\r\n"},
    ],
    ids=lambda state: next(iter(state)),
)
def test_x8_credentials_by_name_are_removed_from_any_exception(state: dict[str, Any]) -> None:
    exc = ValueError("plain")
    vars(exc).update(state)
    data, again = recorded(exc)
    assert_clean(data)
    assert isinstance(again, ValueError)


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer planted-bearer-0123",
        "headers={'Authorization': 'Bearer planted-bearer-0123', 'x': '1'}",
        "curl -H 'api-key: planted-api-key-0123' https://h",
        "failed: Cookie: a=b; session=planted-cookie-0123",
        f"cannot reach {URL}",
        "bad key sk-planted-api-key-0123456789",
        'got {"api_key": "planted-api-key-0123"}',
    ],
)
def test_x8_credentials_in_texts_are_removed(text: str) -> None:
    data, again = recorded(ValueError(text))
    assert_clean(data)
    assert isinstance(again, ValueError)
    assert "[removed]" in str(again)


@pytest.mark.parametrize(
    "text",
    ["KeyError: 'key'", "unknown token 'x' at 3", "max_tokens=5 is too small", "user@example.com not found",
     "https://h/a?page=2&keyword=x", "the cookie jar is empty", "total_tokens: 17", "sk-", "bearer of news"],
)  # fmt: skip
def test_x2_innocent_texts_are_left_alone(text: str) -> None:
    _, again = recorded(ValueError(text))
    assert type(again) is ValueError
    assert str(again) == text


def test_x2_usage_counts_named_tokens_are_no_credentials() -> None:
    exc: Any = ValueError("x")
    exc.usage = {"prompt_tokens": 3, "total_tokens": 5, "tokens_per_second": 1.5}
    _, again = recorded(exc)
    assert again.usage == exc.usage
    assert not isinstance(again, RecordedCallError)


def test_x3_the_replayed_error_works_with_a_retry_policy() -> None:
    """A predicate and a reader of the server's advice see the same on the original and on the substitute."""

    def retry_after(error: Any) -> float | None:
        value = error.response.headers.get("retry-after")
        return float(value) if value is not None else None

    original = openai_error(answer())
    _, again = recorded(original)
    assert retry_after(original) == retry_after(again) == 7.0
