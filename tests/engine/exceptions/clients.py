"""Exceptions of client libraries, from calls of their own clients to the failing server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from typing import Any

from tests.engine.exceptions.cases import Case, Places, raised_by

BODY: Any = {"model": "m", "messages": [{"role": "user", "content": "planted prompt of the user"}]}
HEADERS = {
    "Authorization": "Bearer planted-bearer-0123",
    "X-Api-Key": "planted-api-key-0123",
    "Proxy-Authorization": "Basic " + base64.b64encode(b"user:planted-password").decode(),
    "Cookie": "theme=dark; session=planted-cookie-0123",
}
PROMPT = b"planted prompt of the user"  # by name: a traceback quotes the line of a call
QUERY = "?api-version=3&key=planted-query-0123"
SHORT = 0.2
"""Seconds for a call that is to time out: nothing answers it, so none ends earlier on a slow machine."""
STATUS = ("status_code", "response.status_code", "response.headers['retry-after']", "request_id")


def awaited(call: Callable[[], Awaitable[Any]]) -> BaseException:
    async def main() -> Any:
        return await call()

    return raised_by(lambda: asyncio.run(main()))


# --- httpx


def httpx_error(url: str, **options: Any) -> BaseException:
    import httpx

    def call() -> None:
        with httpx.Client(headers=HEADERS, **options) as client:
            client.post(url + QUERY, json=BODY).raise_for_status()

    return raised_by(call)


def httpx_async_error(url: str) -> BaseException:
    import httpx

    async def call() -> None:
        async with httpx.AsyncClient(headers=HEADERS) as client:
            (await client.post(url + QUERY, json=BODY)).raise_for_status()

    return awaited(call)


def httpx_cases() -> list[Case]:
    answer = ("response.status_code", "response.headers['retry-after']", "response.json()", "response.text",
              "request.method", "response.reason_phrase", "response.is_client_error")  # fmt: skip
    sent = ("request.method",)
    return [
        Case("httpx 429", lambda at: httpx_error(at.url + "/status/429"), answer),
        Case("httpx 400 quotes the prompt", lambda at: httpx_error(at.url + "/status/400"), answer[:2]),
        Case("httpx 503 async", lambda at: httpx_async_error(at.url + "/status/503"), answer),
        Case("httpx connect", lambda at: httpx_error(at.closed), sent),
        Case("httpx connect timeout", lambda at: httpx_error(at.silent, timeout=SHORT), sent),
        Case("httpx read timeout", lambda at: httpx_error(at.url + "/hang", timeout=SHORT), sent),
        Case("httpx protocol", lambda at: httpx_error(at.url + "/drop"), sent),
        Case("httpx body cut", lambda at: httpx_error(at.url + "/cut"), sent),
        Case("httpx redirects", lambda at: httpx_error(at.url + "/redirect", follow_redirects=True), sent),
        Case("httpx scheme", lambda at: httpx_error("nope://host"), sent),
    ]


# --- openai, anthropic, google-genai


def openai_error(url: str, timeout: float = 30) -> BaseException:
    import openai

    def call() -> None:
        with openai.OpenAI(
            base_url=url + "/v1", api_key="planted-api-key-0123", max_retries=0, timeout=timeout,
            default_headers={"Cookie": HEADERS["Cookie"]},
        ) as client:  # fmt: skip
            client.chat.completions.create(**BODY)

    return raised_by(call)


def openai_async_error(url: str) -> BaseException:
    import openai

    async def call() -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="planted-api-key-0123", max_retries=0) as client:
            await client.chat.completions.create(**BODY)

    return awaited(call)


def openai_cases() -> list[Case]:
    status = (*STATUS, "code", "type", "param", "body", "message")
    codes = [400, 401, 403, 404, 409, 422, 429, 500]
    return [
        *(
            Case(f"openai {code}", status_maker(openai_error, code), status if code > 401 else STATUS)
            for code in codes
        ),
        Case("openai 429 async", lambda at: openai_async_error(at.url + "/status/429"), status),
        Case("openai connection", lambda at: openai_error(at.closed), ("message", "code", "body")),
        Case("openai timeout", lambda at: openai_error(at.url + "/hang", SHORT), ("message",)),
    ]


def status_maker(make: Callable[[str], BaseException], code: int) -> Callable[[Places], BaseException]:
    return lambda at: make(f"{at.url}/status/{code}")


def anthropic_error(url: str, timeout: float = 30) -> BaseException:
    import anthropic

    def call() -> None:
        with anthropic.Anthropic(
            base_url=url, api_key="planted-api-key-0123", max_retries=0, timeout=timeout,
            default_headers={"Cookie": HEADERS["Cookie"]},
        ) as client:  # fmt: skip
            client.messages.create(max_tokens=9, **BODY)

    return raised_by(call)


def anthropic_cases() -> list[Case]:
    status = (*STATUS, "body", "message")
    return [
        *(Case(f"anthropic {code}", status_maker(anthropic_error, code), status) for code in (404, 429, 529)),
        Case("anthropic 401 quotes the key", status_maker(anthropic_error, 401), STATUS),
        Case("anthropic connection", lambda at: anthropic_error(at.closed), ("message",)),
        Case("anthropic timeout", lambda at: anthropic_error(at.url + "/hang", SHORT), ("message",)),
    ]


def genai_error(url: str, timeout: int | None = None) -> BaseException:
    from google import genai
    from google.genai import types

    def call() -> None:
        options = types.HttpOptions(base_url=url, timeout=timeout, headers={"Cookie": HEADERS["Cookie"]})
        client = genai.Client(api_key="planted-api-key-0123", http_options=options)
        client.models.generate_content(model="m", contents="planted prompt of the user")

    return raised_by(call)


def genai_cases() -> list[Case]:
    status = ("code", "status", "message", "details")
    return [
        Case("google-genai 429", status_maker(genai_error, 429), (*status, "response.status_code")),
        Case("google-genai 503", status_maker(genai_error, 503), status),
        Case("google-genai timeout", lambda at: genai_error(at.url + "/hang", 200), ()),
    ]


# --- requests, aiohttp


def requests_error(url: str, **options: Any) -> BaseException:
    import requests

    def call() -> None:
        with requests.Session() as session:
            session.headers.update(HEADERS)
            answer = session.post(url + QUERY, json=BODY, **options)
            answer.raise_for_status()
            answer.json()

    return raised_by(call)


def requests_cases() -> list[Case]:
    status = ("response.status_code", "response.headers['Retry-After']", "response.json()", "response.reason",
              "request.method", "response.ok")  # fmt: skip
    return [
        Case("requests 429", lambda at: requests_error(at.url + "/status/429"), status),
        Case("requests connection", lambda at: requests_error(at.closed), ("request.method", "response")),
        Case("requests connect timeout", lambda at: requests_error(at.silent, timeout=SHORT), ()),
        Case("requests read timeout", lambda at: requests_error(at.url + "/hang", timeout=SHORT), ()),
        Case("requests no json", lambda at: requests_error(at.url + "/text"), ("msg", "pos", "lineno")),
        Case("requests scheme", lambda at: requests_error("nope://host"), ()),
    ]


def aiohttp_error(url: str, total: float | None = None, connect: float | None = None) -> BaseException:
    import aiohttp

    async def call() -> None:
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=connect)
        async with (
            aiohttp.ClientSession(headers=HEADERS, timeout=timeout) as session,
            session.post(url + QUERY, json=BODY) as answer,
        ):
            answer.raise_for_status()
            await answer.json()

    return awaited(call)


def aiohttp_cases() -> list[Case]:
    status = ("status", "message", "headers['Retry-After']", "request_info.method", "history")
    return [
        Case("aiohttp 429", lambda at: aiohttp_error(at.url + "/status/429"), status),
        Case("aiohttp content type", lambda at: aiohttp_error(at.url + "/text"), ("status", "message")),
        Case(
            "aiohttp connection",
            lambda at: aiohttp_error(at.closed),
            ("errno", "strerror", "host", "port", "ssl"),
        ),
        Case("aiohttp connect timeout", lambda at: aiohttp_error(at.silent, connect=SHORT), ()),
        Case("aiohttp total timeout", lambda at: aiohttp_error(at.url + "/hang", total=SHORT), ()),
        Case("aiohttp disconnected", lambda at: aiohttp_error(at.url + "/drop"), ("message",)),
        Case("aiohttp body cut", lambda at: aiohttp_error(at.url + "/cut"), ()),
        Case("aiohttp scheme", lambda at: aiohttp_error("nope://host"), ()),
    ]


# --- botocore


def botocore_error(url: str, timeout: float = 30, **credentials: str) -> BaseException:
    import botocore.session
    from botocore.config import Config

    def call() -> None:
        config = Config(retries={"total_max_attempts": 1}, read_timeout=timeout, connect_timeout=timeout)
        client = botocore.session.get_session().create_client(
            "bedrock-runtime", region_name="eu-west-1", endpoint_url=url, config=config,
            aws_access_key_id="planted-access-key", aws_secret_access_key="planted-secret-key",
        )  # fmt: skip
        client.converse(
            modelId="m", messages=[{"role": "user", "content": [{"text": "planted prompt of the user"}]}]
        )

    return raised_by(call)


def botocore_cases() -> list[Case]:
    status = ("response['Error']['Code']", "response['ResponseMetadata']['HTTPStatusCode']", "operation_name",
              "response['ResponseMetadata']['HTTPHeaders']['retry-after']")  # fmt: skip
    return [
        Case("botocore 429", status_maker(botocore_error, 429), status),
        Case("botocore endpoint", lambda at: botocore_error(at.closed), ("kwargs['endpoint_url']", "fmt")),
        Case("botocore read timeout", lambda at: botocore_error(at.url + "/hang", SHORT), ("fmt",)),
        Case("botocore connect timeout", lambda at: botocore_error(at.silent, SHORT), ("fmt",)),
    ]


# --- grpc


def grpc_error(asynchronous: bool) -> BaseException:
    from concurrent import futures

    import grpc

    def refuse(request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("retry-after", "7"), ("set-cookie", "planted-cookie-4567")))
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many calls")
        return b""

    sent = (("authorization", HEADERS["Authorization"]),)
    server = grpc.server(futures.ThreadPoolExecutor(1))
    handler = grpc.unary_unary_rpc_method_handler(refuse)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s.S", {"M": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()

    def call() -> None:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            channel.unary_unary("/s.S/M")(PROMPT, metadata=sent)

    async def call_async() -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await channel.unary_unary("/s.S/M")(PROMPT, metadata=sent)

    try:
        return awaited(call_async) if asynchronous else raised_by(call)
    finally:
        server.stop(None).wait()


def grpc_unavailable(at: Places) -> BaseException:
    import grpc

    def call() -> None:
        with grpc.insecure_channel(at.closed.removeprefix("http://")) as channel:
            channel.unary_unary("/s.S/M")(PROMPT)

    return raised_by(call)


def grpc_cases() -> list[Case]:
    facts = ("code()", "code().name", "details()")
    return [
        Case("grpc exhausted", lambda at: grpc_error(False), (*facts, "trailing_metadata()[0][1]")),
        Case(
            "grpc.aio exhausted", lambda at: grpc_error(True), (*facts, "trailing_metadata()['retry-after']")
        ),
        Case("grpc unavailable", grpc_unavailable, facts[:2]),
    ]


# --- databases, tenacity, pydantic


def sqlalchemy_error(statement: str) -> BaseException:
    import sqlalchemy

    def call() -> None:
        engine = sqlalchemy.create_engine("sqlite://")
        with engine.connect() as connection:
            connection.execute(sqlalchemy.text("create table t (id integer primary key)"))
            for _ in range(2):
                connection.execute(sqlalchemy.text(statement), {"id": 1})

    return raised_by(call)


def sqlalchemy_cases() -> list[Case]:
    facts = (
        "statement",
        "params",
        "code",
        "orig.sqlite_errorcode",
        "orig.args",
        "connection_invalidated",
        "detail",
    )
    return [
        Case("sqlalchemy integrity", lambda at: sqlalchemy_error("insert into t values (:id)"), facts),
        Case(
            "sqlalchemy operational",
            lambda at: sqlalchemy_error("select * from nothing where 1 = :id"),
            facts,
        ),
    ]


def tenacity_error() -> BaseException:
    import tenacity

    def call() -> None:
        raise ConnectionRefusedError(111, "refused")

    return raised_by(lambda: tenacity.Retrying(stop=tenacity.stop_after_attempt(2))(call))


def pydantic_error() -> BaseException:
    import pydantic

    model = pydantic.create_model("Order", count=(int, ...))
    return raised_by(lambda: model(count="many"))


def other_cases() -> list[Case]:
    return [
        *sqlalchemy_cases(),
        Case("tenacity", lambda at: tenacity_error(), ("__cause__.errno",)),
        Case("pydantic", lambda at: pydantic_error(), ("errors()", "error_count()", "title")),
    ]


def client_cases() -> list[Case]:
    return [
        *httpx_cases(), *openai_cases(), *anthropic_cases(), *genai_cases(), *requests_cases(), *aiohttp_cases(),
        *botocore_cases(), *grpc_cases(), *other_cases(),
    ]  # fmt: skip
