"""The messages between a Java action and its driver: MessagePack, because unlike JSON it has bytes.

One message crosses with all commands of a step, and one with the answer. `Execution.java` is the other end.
"""

from __future__ import annotations

from typing import Any

import msgspec

from flink_agents_durable.api.errors import (
    CallTimeoutError,
    DurableSerializationError,
    RecordTooLargeError,
)
from flink_agents_durable.api.java import JavaCallError
from flink_agents_durable.engine.digest import is_plain

# Commands
CALL = 1  # slot, number, function id, arguments or None, has a reconciler, options or None
BATCH = 2  # calls as in CALL from the number on, first slot, timeout in seconds or None
TIMER = 3  # slot, seconds
SEND = 4  # event type, attributes
METRIC = 5  # of the action, path of groups, kind, name, value
COMPLETE = 6
FAIL = 7  # failure, slots
EXECUTE = 8  # as CALL, answered at once
ASK = 9  # what, arguments; answered at once

# Answers, behind the flag of a replay
VALUE = 0
FAILURE = 1
INTERRUPTED = 2
FIRED = 3
OUTCOMES = 4

SLEEP = "java:ctx.sleep"  # the call that a timer becomes in a frame that cannot wait

Item = list[Any]

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[list[Any]])
_KNOWN = (CallTimeoutError, DurableSerializationError, RecordTooLargeError, ValueError, TypeError)


encode = _encoder.encode
decode = _decoder.decode


def decode_flat(data: bytes) -> list[Any]:
    """A message that is one flat list."""
    items: list[Any] = msgspec.msgpack.decode(data)
    return items


def decode_value(data: bytes) -> Any:
    """A value that Java has packed."""
    return msgspec.msgpack.decode(data)


def decode_failure(data: bytes) -> dict[str, Any]:
    """What Java says of a throwable."""
    failure: dict[str, Any] = msgspec.msgpack.decode(data)
    return failure


def to_java(value: object) -> object:
    """A value as Java gets it: JSON-like, with bytes. Raises DurableSerializationError where it has no such form."""
    if is_plain(value):
        return value
    try:
        return msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_builtin)
    except DurableSerializationError:
        raise
    except Exception as error:
        raise DurableSerializationError(
            f"a value of {type(value).__module__}.{type(value).__qualname__} has no form that Java knows: {error}"
        ) from error


def pack(value: object) -> bytes:
    """A value in the form of `to_java`, packed. Raises DurableSerializationError where it has none."""
    try:
        return encode(to_java(value))
    except (OverflowError, UnicodeError, RecursionError) as error:
        raise DurableSerializationError(
            f"a value has no form that Java knows: {error} (whole numbers have at most 64 bits, texts no lone"
            " surrogates, and nothing contains itself)"
        ) from error


def packed(value: object) -> msgspec.Raw:
    """`pack` as a part of a message, so that it is refused where it comes from and not with the whole message."""
    return msgspec.Raw(pack(value))


def _builtin(value: Any) -> Any:
    """What msgspec does not know by itself: pydantic models, Flink's rows, scalars of numpy."""
    for method in ("model_dump", "as_dict", "item", "tolist"):
        convert = getattr(type(value), method, None)
        if callable(convert):
            return convert(value)
    raise DurableSerializationError(
        f"a value of {type(value).__module__}.{type(value).__qualname__} has no form that Java knows: give JSON-like"
        " values, bytes, dataclasses or pydantic models to actions written in Java"
    )


def failure_to_java(error: BaseException) -> dict[str, Any]:
    """A failure as Java gets it: a Java exception as it was described there, any other by its class and text."""
    if isinstance(error, JavaCallError):
        return _failure_of(error)
    name = next((known.__name__ for known in _KNOWN if isinstance(error, known)), type(error).__name__)
    try:
        text = str(error)
    except Exception:
        text = "(its text cannot be had)"
    return {"python": name, "message": text.encode("utf-8", "replace").decode()}


def _failure_of(error: JavaCallError) -> dict[str, Any]:
    """From its attributes, of which a substitute may lack those that were too large for a record."""
    return {
        "class": getattr(error, "java_class", "java.lang.Throwable"),
        "message": getattr(error, "java_message", None),
        "fields": getattr(error, "java_fields", {}),
        "own": getattr(error, "java_own", False),
        "stack": getattr(error, "java_stack", []),
        "causes": getattr(error, "java_causes", []),
    }
