"""X1 to X5, X8, end to end: what `except` saw in the first run it sees after a restore in another attempt."""

from __future__ import annotations

import sys
import threading
from typing import Any

import httpx
import openai
import pytest
import tenacity

from flink_agents_durable import RecordedCallError, RunnerContext
from tests.contracts.functions import ask, check, never
from tests.contracts.java import PyJObject
from tests.contracts.kit import Attempts, Gate, agent_of, out, until, values

SECRETS = ("sk-secret-key", "session-cookie-value", "the private request body", "basic-auth-password")


class TwoArguments(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class Empty(Exception):
    def __len__(self) -> int:
        return 0


class Plain(Exception):
    pass


class WithLock(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()
        self.status_code = 503


class CannotBeLoaded(Exception):
    """Pickles, and then does not load: X5."""

    def __reduce__(self) -> Any:
        return _fail_to_load, ("x",)


def _fail_to_load(text: str) -> Any:
    raise TypeError("this cannot be rebuilt")


class HostileText(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class WithAttributes(ValueError):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.retry_after = 7


def plain() -> BaseException:
    return Plain("went wrong", 3)


def with_attributes() -> BaseException:
    return WithAttributes("later")


def with_cause() -> BaseException:
    error = Plain("outer")
    error.__cause__ = KeyError("inner")
    return error


def self_caused() -> BaseException:
    error = Plain("self")
    error.__cause__ = error
    return error


def cause_cycle() -> BaseException:
    one, two = Plain("one"), Plain("two")
    one.__cause__, two.__cause__ = two, one
    return one


def http_status() -> BaseException:
    request = httpx.Request(
        "POST",
        "https://api.example/v1/chat",
        headers={"Authorization": f"Bearer {SECRETS[0]}", "Cookie": SECRETS[1], "X-Api-Key": SECRETS[0]},
        content=SECRETS[2],
    )
    response = httpx.Response(
        429, request=request, headers={"Retry-After": "3", "Set-Cookie": SECRETS[1]}, text="slow down"
    )
    try:
        response.raise_for_status()
    except httpx.HTTPStatusError as error:
        return error
    raise AssertionError


def rate_limit() -> BaseException:
    status = http_status()
    assert isinstance(status, httpx.HTTPStatusError)
    return openai.RateLimitError("Rate limited", response=status.response, body={"code": "rate_limit"})


def api_connection() -> BaseException:
    request = httpx.Request("POST", "https://u:p@api.example/", headers={"Authorization": SECRETS[0]})
    return openai.APIConnectionError(request=request)


def retry_error() -> BaseException:
    attempt: Any = tenacity.Future(3)
    attempt.set_exception(ConnectionError("down"))
    return tenacity.RetryError(attempt)


def surrogates() -> BaseException:
    return Plain("lone \ud800 and NUL \x00")


def group() -> BaseException:
    if sys.version_info < (3, 11):
        pytest.skip("exception groups came with Python 3.11")
    return ExceptionGroup("several", [ValueError("one"), KeyError("two")])  # noqa: F821


ERRORS = {
    "plain": (plain, Plain),
    "builtin": (lambda: ValueError("bad value"), ValueError),
    "os error": (lambda: FileNotFoundError(2, "No such file", "a.txt"), OSError),
    "attributes": (with_attributes, ValueError),
    "cause": (with_cause, Plain),
    "raise e from e": (self_caused, Plain),
    "cause cycle": (cause_cycle, Plain),
    "two arguments": (lambda: TwoArguments(3, "no"), TwoArguments),
    "keyword-only": (lambda: KeywordOnly(code=3), KeywordOnly),
    "len 0": (lambda: Empty("empty"), Empty),
    "lock": (lambda: WithLock("locked"), WithLock),
    "cannot be loaded": (lambda: CannotBeLoaded("x"), CannotBeLoaded),
    "httpx": (http_status, httpx.HTTPStatusError),
    "openai rate limit": (rate_limit, openai.RateLimitError),
    "openai connection": (api_connection, openai.APIConnectionError),
    "tenacity": (retry_error, tenacity.RetryError),
    "surrogates": (surrogates, Plain),
    "hostile text": (HostileText, HostileText),
    "group": (group, Exception),
}


def describe(error: BaseException) -> list[Any]:
    """What user code branches on: class, arguments, attributes, cause."""
    chain: list[Any] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen and len(chain) < 8:
        seen.add(id(current))
        chain.append([_names(type(current)), _text(current), _attributes(current)])
        current = current.__cause__
    return [bool(error), chain]


def _names(kind: type) -> list[str]:
    return [base.__name__ for base in kind.__mro__ if base.__module__ != "builtins" or base is not object]


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:
        return f"no text: {type(problem).__name__}"


def _attributes(error: BaseException) -> dict[str, Any]:
    found = {}
    for name in ("code", "reason", "retry_after", "status_code", "errno", "filename"):
        value = getattr(error, name, None)
        if isinstance(value, (int, str)):
            found[name] = value
    response = getattr(error, "response", None)
    if response is not None:
        found["response.status_code"] = response.status_code
        found["response.headers"] = response.headers.get("retry-after")
    return found


def raiser(make: Any) -> Any:
    async def fail(what: Any) -> Any:
        raise make()

    return fail


@pytest.mark.parametrize("kind", ["synchronous", "async", "gather"])
@pytest.mark.parametrize("name", list(ERRORS))
def test_x2_x3_x4_with_strict_values_both_runs_see_the_same(attempts: Attempts, name: str, kind: str) -> None:
    """The same `except` clause, text, attributes and causes in the first run and after a restore."""
    make, caught = ERRORS[name]
    seen: list[Any] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            if kind == "synchronous":
                ctx.durable_execute(ask, "a")
            elif kind == "async":
                await ctx.durable_execute_async(ask, "a")
            else:
                [outcome] = await ctx.gather(ctx.durable_execute_async(ask, "a"))
                assert outcome.is_failure()
                _ = outcome.value
        except caught as error:
            seen.append(describe(error))
        out(ctx, await ctx.durable_execute_async(check, "next"))

    options = {"agents.strict-values": True}
    for fakes in ({ask: raiser(make)}, {ask: never, check: never}):
        runner = attempts.start(agent_of(act), fakes=fakes, options=options)
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == ["next?"]
        runner.crash()
    assert len(seen) == 2
    assert seen[0] == seen[1]


@pytest.mark.parametrize("name", list(ERRORS))
def test_x2_x3_x4_without_strict_values_the_first_run_sees_the_original(
    attempts: Attempts, name: str
) -> None:
    """And the replay what stands for it: the same `except` clause matches, attributes are readable."""
    make, caught = ERRORS[name]
    seen: list[BaseException] = []

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "a")
        except caught as error:
            seen.append(error)
        out(ctx, await ctx.durable_execute_async(check, "next"))

    original = make()
    options = {"agents.strict-values": False}
    for fakes in ({ask: raiser(lambda: original)}, {ask: never, check: never}):
        runner = attempts.start(agent_of(act), fakes=fakes, options=options)
        runner.process("k", 1)
        runner.run_until_idle()
        runner.crash()
    assert len(seen) == 2
    assert seen[0] is original
    assert _attributes(seen[1]) == _attributes(original)
    if isinstance(seen[1], RecordedCallError):
        path = f"{type(original).__module__}.{type(original).__qualname__}"
        assert str(seen[1]).startswith(path)
        assert type(original).__name__ in _names(type(seen[1]))
    else:
        assert type(seen[1]) is type(original)
        assert _text(seen[1]) == _text(original)
    cause = original.__cause__
    if cause is not None and cause is not original:
        assert seen[1].__cause__ is not None
        assert type(cause).__name__ in _names(type(seen[1].__cause__))


@pytest.mark.parametrize("make", [http_status, rate_limit, api_connection], ids=lambda make: make.__name__)
@pytest.mark.parametrize("with_store", [True, False])
def test_x8_no_credential_reaches_store_or_checkpoint(
    attempts: Attempts, make: Any, with_store: bool
) -> None:
    """Headers that authorise, cookies, request bodies and passwords in addresses are not among the bytes."""
    if not with_store:
        attempts.store = None

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "a")
        except Exception as error:
            out(ctx, type(error).__name__)
        await ctx.durable_execute_async(check, "wait")

    runner = attempts.start(agent_of(act), fakes={ask: raiser(make), check: Gate()})
    runner.process("k", 1)
    until(runner, lambda: values(runner))
    checkpoint = runner.checkpoint()
    runner.crash()
    written = checkpoint + b"".join(
        path.read_bytes() for path in attempts.folder.rglob("*") if path.is_file()
    )
    assert make().__class__.__name__.encode() in written
    for secret in (*SECRETS, "u:p@"):
        assert secret.encode() not in written


def test_x1_a_message_is_bounded(attempts: Attempts) -> None:
    """Case 35: 450,000 characters of text neither fill the store nor fail."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "a")
        except Exception as error:
            out(ctx, [str(error)[:20], len(str(error)) < 20_000])

    error = WithLock("x\ud800" * 225_000)
    for fakes in ({ask: raiser(lambda: error)}, {ask: never}):
        runner = attempts.start(agent_of(act), fakes=fakes)
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner)[0][1]
        runner.crash()
    written = sum(path.stat().st_size for path in attempts.folder.rglob("*") if path.is_file())
    assert written < 400_000


def test_x3_retry_after_is_readable_after_a_restore(attempts: Attempts) -> None:
    """Cases 2 and 3: what an action needs to wait as long as the server asks."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "a")
        except openai.RateLimitError as error:
            out(ctx, [error.status_code, error.response.headers["retry-after"]])
        try:
            await ctx.durable_execute_async(ask, "b")
        except openai.APIStatusError as error:
            out(ctx, [error.code, error.status_code])

    for fakes in ({ask: raiser(rate_limit)}, {ask: never}):
        runner = attempts.start(agent_of(act), fakes=fakes)
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == [[429, "3"], ["rate_limit", 429]]


def test_x4_a_java_error_is_recorded_as_data(attempts: Attempts) -> None:
    """Case 9: class and message of the throwable are readable after a restore."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        try:
            await ctx.durable_execute_async(ask, "a")
        except RuntimeError as error:
            out(ctx, "java.sql.SQLException" in str(error) and "no such table" in str(error))

    def error() -> BaseException:
        return RuntimeError(PyJObject("java.sql.SQLException", "no such table"))

    for fakes in ({ask: raiser(error)}, {ask: never}):
        runner = attempts.start(agent_of(act), fakes=fakes)
        runner.process("k", 1)
        runner.run_until_idle()
        assert values(runner) == [True]


def test_x5_failures_in_a_checkpoint_load_as_well(storeless: Attempts) -> None:
    """The same records come out of keyed state."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        caught = []
        for name in ("lock", "two arguments", "openai rate limit"):
            try:
                await ctx.durable_execute_async(ask, name)
            except ERRORS[name][1] as error:
                caught.append(name)
                del error
        out(ctx, [caught, await ctx.durable_execute_async(check, "wait")])

    async def fail(name: str) -> Any:
        raise ERRORS[name][0]()

    gate = Gate()
    first = storeless.start(agent_of(act), fakes={ask: fail, check: gate})
    first.process("k", 1)
    until(first, lambda: gate.is_waiting("wait"))
    second = storeless.start(agent_of(act), checkpoint=first.checkpoint(), fakes={ask: never})
    second.run_until_idle()
    assert values(second) == [[["lock", "two arguments", "openai rate limit"], "wait?"]]
