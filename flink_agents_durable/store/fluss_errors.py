"""What an error of Fluss means for an attempt, and what a user can do about it."""

from __future__ import annotations

import asyncio

from flink_agents_durable.api.errors import DurableExecutionError, StoreUnavailableError
from flink_agents_durable.store.fluss_client import FlussSettings, library
from flink_agents_durable.store.protocol import StoreFencedError, UnknownFateError


class NotReadyError(Exception):
    """The cluster, or the table, is not usable yet."""


MAX_REASON_CHARS = 500
"""Of what a server says: it sends its stack trace along."""

_HOPELESS = (
    "INVALID_TABLE_EXCEPTION",
    "INVALID_DATABASE_EXCEPTION",
    "INVALID_CONFIG_EXCEPTION",
    "BUCKET_MAX_NUM_EXCEPTION",
    "UNSUPPORTED_VERSION",
    "SECURITY_DISABLED_EXCEPTION",
    "AUTHENTICATE_EXCEPTION",
    "AUTHORIZATION_EXCEPTION",
)
_GONE = ("TABLE_NOT_EXIST", "DATABASE_NOT_EXIST", "UNKNOWN_TABLE_OR_BUCKET_EXCEPTION")

_REMEDIES = {
    "AUTHENTICATE_EXCEPTION": "see security.protocol and security.sasl.* in agents.store.fluss.properties.*",
    "AUTHORIZATION_EXCEPTION": "let its user READ, WRITE and DESCRIBE the table, and CREATE it unless it exists",
    "INVALID_REPLICATION_FACTOR": "set agents.store.fluss.replication-factor to at most the number of tablet "
    "servers that run, or start more of them",
    "INVALID_TABLE_EXCEPTION": "see agents.store.fluss.table",
    "INVALID_DATABASE_EXCEPTION": "see agents.store.fluss.database",
    "NOT_ENOUGH_REPLICAS_EXCEPTION": "start the missing tablet servers",
}
for _name in _GONE:
    _REMEDIES[_name] = "the table was dropped; the restart makes it again, and what it held is lost"
_REMEDY = "see that the servers at agents.store.fluss.bootstrap-servers run and can be reached from here"
_NO_LEADER = "No leader found"
_LEADERLESS_REMEDY = (
    "see that its tablet servers run. If they do and the table was just made, the coordinator has missed that (seen "
    "with Fluss 0.9.1): nothing was ever written to it, drop it and it is made again"
)


def waitable() -> tuple[type[Exception], ...]:
    """What the library raises, and what a time limit or a table that is being made does: all may pass."""
    return library().FlussError, asyncio.TimeoutError, NotReadyError


def name_of(error: BaseException) -> str:
    """The name of the error in Fluss, or that of its class."""
    code = getattr(error, "error_code", None)
    if code is None:
        return type(error).__name__
    names = library().ErrorCode
    known = {getattr(names, name): name for name in dir(names) if name.isupper()}
    if code in (-1, -2) and _is_refused_login(str(error)):
        return "AUTHENTICATE_EXCEPTION"
    return known.get(code, str(code))


def _is_refused_login(text: str) -> bool:
    """The library reports some failed logins under its general code."""
    return "authenticat" in text.lower()


def reason_of(error: BaseException) -> str:
    if isinstance(error, asyncio.TimeoutError):
        return "TimeoutError: no answer in time"
    text = (str(error).strip() or repr(error)).split("\n\tat ")[0]
    return f"{name_of(error)}: {text[:MAX_REASON_CHARS]}"


def is_hopeless(error: BaseException) -> bool:
    """Trying again does not help: somebody has to change something first."""
    return name_of(error) in _HOPELESS


def is_gone(error: BaseException) -> bool:
    return name_of(error) in _GONE


def _remedy_of(error: BaseException) -> str:
    if _NO_LEADER in str(error):  # under the general code of the library
        return _LEADERLESS_REMEDY
    return _REMEDIES.get(name_of(error), _REMEDY)


def unavailable(settings: FlussSettings, what: str, error: BaseException) -> StoreUnavailableError:
    """`what` is what could not be done."""
    return StoreUnavailableError(
        settings.redact(
            f"the action state store fluss, {settings}, {what}: {reason_of(error)}. Remedy: {_remedy_of(error)}"
        )
    )


def fenced(settings: FlussSettings, groups: list[int]) -> StoreFencedError:
    return StoreFencedError(
        f"another attempt has taken over key groups {groups} of this subtask in the action state store fluss, "
        f"{settings}"
    )


def unanswered(settings: FlussSettings, groups: list[int], error: BaseException | None) -> UnknownFateError:
    """Keeps P20."""
    cause = f"; last: {reason_of(error)}" if error is not None else ""
    remedy = _remedy_of(error) if error is not None else _REMEDY
    return UnknownFateError(
        settings.redact(
            f"an append to the action state store fluss, {settings}, was not read back within "
            f"agents.store.append-timeout ({settings.append_timeout:g} s; key groups {groups}{cause}); whether it "
            f"was written is seen when the next attempt reads the log. Remedy: {remedy}"
        )
    )


def lost(settings: FlussSettings, groups: list[int]) -> DurableExecutionError:
    """Acknowledged rows are gone from under a living attempt."""
    return UnknownFateError(
        f"the action state store fluss, {settings}, has lost rows that it had handed out, in key groups {groups}: "
        "calls that were recorded there run again after the restart. Remedy: a table with a replication factor of 3 "
        "(agents.store.fluss.replication-factor, for a table that is made), since a server that is killed forgets "
        "the last rows of a table with one replica"
    )
