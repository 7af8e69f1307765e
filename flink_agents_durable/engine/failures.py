"""A failure as a record, and the exception that it replays as.

An exception is recorded twice over: described, so that it can always be shown and stood in for, and pickled
where pickling gives it back. It replays from the pickle, or else as a substitute (`substitutes.py`).
"""

from __future__ import annotations

import builtins
import traceback
from functools import partial
from typing import Any

import msgspec

from flink_agents_durable.api.errors import UnreadableRecordError
from flink_agents_durable.engine import java_errors, plain_data, substitutes
from flink_agents_durable.engine.class_references import class_reference, find_class
from flink_agents_durable.engine.codec import Codec
from flink_agents_durable.engine.digest import digest
from flink_agents_durable.engine.scrubbing import Scrubber

# No opcode of pickle and no item of msgpack begins with 0xC1, no UTF-8 text holds it.
MARKER = b"\xc1failure"
VERSION = 1

MAX_MESSAGE = 16_384
# Bounds the record of an exception whose text or arguments hold a whole document.
MAX_TRACEBACK = 32_768
MAX_PICKLED = 65_536
# Frames of a traceback, from its end: a recursion error has a thousand alike.
_MAX_FRAMES = 64
# Exceptions of one record, over all causes and groups: a cause chain may be a ring, a group may be deep.
MAX_EXCEPTIONS = 64
_MAX_CAUSES = 16

_Group: Any = getattr(builtins, "BaseExceptionGroup", ())


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The structure behind marker and version. Texts are UTF-8 with surrogates passed through."""

    path: str
    message: bytes
    lineage: list[str] = []
    traceback: bytes = b""
    args: list[Any] | None = None
    attributes: dict[str, Any] = {}
    cause: Failure | None = None
    suppress_context: bool = False
    children: list[Failure] | None = None
    pickled: bytes | None = None


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Failure)  # leaves extension items as they are: a part can be framed again


def is_failure(data: bytes) -> bool:
    return data.startswith(MARKER)


def encode_failure(exc: BaseException, codec: Codec) -> bytes:
    """The record of a failure. Keeps X1 to X5, X7, X8 and X9. Never raises, whatever the exception does."""
    recorded = substitutes.record_of(exc)
    if recorded is not None:
        return recorded  # a substitute that is raised again is the failure that it stands for
    try:
        failure = _Recorder(codec, Scrubber(exc)).describe(exc)
        return _frame(failure)
    except BaseException as error:
        text = f"(this exception could not be described: {type(error).__name__})"
        return _frame(Failure(path=_class_path(type(exc)), message=text.encode()))


def decode_failure(data: bytes, codec: Codec, name: str = "a failure record") -> BaseException:
    """The exception that a record replays as. Keeps X2, X3 and X6.

    Raises UnreadableRecordError, which names the record, when it cannot be read.
    """
    if not is_failure(data):
        return _bare_pickle(data, codec, name)
    version = data[len(MARKER) : len(MARKER) + 1]
    if version != bytes([VERSION]):
        found = version[0] if version else "none"
        raise UnreadableRecordError(f"{name} has the format version {found}, this release reads {VERSION}")
    try:
        failure = _decoder.decode(memoryview(data)[len(MARKER) + 1 :])
    except Exception as error:
        raise UnreadableRecordError(f"{name} cannot be read: {error}") from error
    try:
        return _rebuild(failure, codec, data)
    except Exception as error:
        raise UnreadableRecordError(f"{name} cannot be read: {type(error).__name__}: {error}") from error


def describe_failure(exc: BaseException, codec: Codec) -> tuple[str, str]:
    """`"<class path>: <message>"` and the traceback, bounded and without credentials (X1, X8). Never raises."""
    failure = _decoder.decode(memoryview(encode_failure(exc, codec))[len(MARKER) + 1 :])
    message, trace = failure.message.decode(errors="replace"), failure.traceback.decode(errors="replace")
    return f"{failure.path}: {message}", trace


def _frame(failure: Failure) -> bytes:
    return MARKER + bytes([VERSION]) + _encoder.encode(failure)


def _class_path(cls: type) -> str:
    return _printable(f"{cls.__module__}.{cls.__qualname__}")


def _printable(name: str) -> str:
    return name.encode("utf-8", "replace").decode()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# --- recording


class _Recorder:
    """One walk over an exception, its causes and its group members."""

    def __init__(self, codec: Codec, scrubber: Scrubber) -> None:
        self._codec = codec
        self._reference = partial(class_reference, codec=codec)
        self._scrubber = scrubber
        self._seen: set[int] = set()

    def describe(self, exc: BaseException, depth: int = 0) -> Failure:
        self._seen.add(id(exc))
        java = java_errors.describe_exception(exc)
        plain = plain_data.Plainer(self._scrubber, self._reference)
        path, message, attributes = _class_path(type(exc)), safe_text(exc), plain.attributes(exc)
        if java is not None:
            path, message = _printable(java.class_name), java.message
            attributes.update(java.attributes(self._scrubber.clean))
        return Failure(
            path=path,
            message=_bytes(self._scrubber.clean(message[: 4 * MAX_MESSAGE])[:MAX_MESSAGE]),
            lineage=self._lineage(type(exc)),
            traceback=_bytes(self._traceback(exc)) if depth == 0 else b"",
            args=plain.arguments(exc),
            attributes=attributes,
            cause=self._cause(exc, depth),
            suppress_context=bool(exc.__suppress_context__),
            children=self._children(exc, depth),
            pickled=None if java is not None else self._pickle(exc),
        )

    def _lineage(self, cls: type) -> list[str]:
        """The class and its bases by name, so that a class that has vanished still has its base caught."""
        bases = [base for base in cls.__mro__ if base not in (object, BaseException, Exception)]
        return [self._reference(base) for base in bases[:32]]

    def _traceback(self, exc: BaseException) -> str:
        try:
            lines = traceback.format_exception(type(exc), exc, exc.__traceback__, limit=-_MAX_FRAMES)
            text = "".join(lines)
        except BaseException as error:
            return f"(no traceback: {type(error).__name__})"
        # Cleaned before it is cut, so that the cut does not leave a part of a credential.
        return self._scrubber.clean(text[-4 * MAX_TRACEBACK :])[-MAX_TRACEBACK:]

    def _cause(self, exc: BaseException, depth: int) -> Failure | None:
        cause = exc.__cause__
        if cause is None or depth >= _MAX_CAUSES or not self._is_new(cause):
            return None
        return self.describe(cause, depth + 1)

    def _children(self, exc: BaseException, depth: int) -> list[Failure] | None:
        if not isinstance(exc, _Group):
            return None
        members = _Group.exceptions.__get__(exc)
        return [self.describe(m, depth + 1) for m in members if depth < _MAX_CAUSES and self._is_new(m)]

    def _is_new(self, exc: BaseException) -> bool:
        return id(exc) not in self._seen and len(self._seen) < MAX_EXCEPTIONS

    def _pickle(self, exc: BaseException) -> bytes | None:
        """The pickle of an exception that one gets back from it. Keeps X2, X5 and X8."""
        if not isinstance(exc, Exception) or isinstance(exc, _Group) or self._scrubber.is_tainted(exc):
            return None
        try:
            data = self._codec.dumps_by_reference(exc)
            if data is None or len(data) > MAX_PICKLED:
                return None
            return data if _is_same(exc, self._codec.loads(data)) else None
        except BaseException:
            return None


def _is_same(exc: BaseException, loaded: object) -> bool:
    """Whether a pickle gives the exception back. Constructors that build their text may not (case 5)."""
    if type(loaded) is not type(exc) or not isinstance(loaded, BaseException):
        return False
    if safe_text(loaded) != safe_text(exc):
        return False
    before, after = plain_data.own_attributes(exc), plain_data.own_attributes(loaded)
    # A class with a way of its own to pickle may keep its state elsewhere than in its arguments.
    if type(exc).__reduce__ is BaseException.__reduce__:
        before["args"], after["args"] = exc.args, loaded.args
    return before.keys() == after.keys() and all(_is_alike(before[name], after[name]) for name in before)


def _is_alike(before: object, after: object) -> bool:
    known = digest(before)
    return known == digest(after) if known is not None else type(before) is type(after)


def failure_text(exc: BaseException, limit: int) -> str:
    """Class and message of an exception in one text of bounded length, without credentials (X8). Never raises."""
    try:
        message = Scrubber(exc).clean(safe_text(exc)[: 4 * limit])
        text = f"{_class_path(type(exc))}: {message}"
    except BaseException as error:
        text = f"{_class_path(type(exc))} (its text cannot be had: {type(error).__name__})"
    return _printable(text[:limit])


def safe_text(exc: BaseException) -> str:
    """`str(exc)`, or why there is none. Never raises."""
    try:
        return str.__str__(str(exc))
    except BaseException as error:
        return f"(str() of this exception raised {type(error).__name__})"


# --- replay


def _bare_pickle(data: bytes, codec: Codec, name: str) -> BaseException:
    """Records without a marker were written by the reference, as a bare pickle (X5)."""
    if not codec.reads_bare_pickles:
        raise UnreadableRecordError(
            f"{name} is no failure record but, it seems, a bare pickle. Such records are not read while "
            "agents.payload is json or agents.store.signing-key-file is set"
        )
    try:
        loaded = codec.loads(data)
    except UnreadableRecordError as error:
        raise UnreadableRecordError(f"{name}: {error}") from error
    if not isinstance(loaded, BaseException):
        raise UnreadableRecordError(f"{name} holds a {_class_path(type(loaded))}, not an exception")
    return loaded


def _rebuild(failure: Failure, codec: Codec, data: bytes | None = None) -> BaseException:
    exc = _unpickle(failure, codec)
    if exc is None:
        children = None
        if failure.children is not None:
            children = [_rebuild(child, codec) for child in failure.children]
        exc = substitutes.build(failure, children, codec, data if data is not None else _frame(failure))
    if failure.cause is not None:
        substitutes.set_member(exc, "__cause__", _rebuild(failure.cause, codec))
    substitutes.set_member(exc, "__suppress_context__", failure.suppress_context)
    return exc


def _unpickle(failure: Failure, codec: Codec) -> BaseException | None:
    """The pickled exception, or None when its class has changed since: then there is a substitute."""
    if failure.pickled is None or not codec.trusts_records:
        return None
    try:
        loaded = codec.loads(failure.pickled)
    except UnreadableRecordError:
        return None
    if not isinstance(loaded, BaseException):
        return None
    if failure.attributes:
        attributes = plain_data.revive(failure.attributes, partial(find_class, codec=codec))
        plain_data.restore_missing_members(loaded, attributes)
    return loaded
