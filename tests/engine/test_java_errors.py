from __future__ import annotations

from typing import Any

import pytest

from flink_agents_durable.api.errors import RecordedCallError
from flink_agents_durable.engine.failures import decode_failure, encode_failure
from flink_agents_durable.engine.payload import PayloadCodec

CODEC = PayloadCodec()


class JavaClass:
    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:
        return self._name


class Frame:
    def toString(self) -> str:
        return "com.example.Service.call(Service.java:12)"


class Throwable:
    """Looks like the bridge's view of a Java throwable, and cannot be pickled as that."""

    def __init__(self, name: str, message: str | None = None, cause: Throwable | None = None) -> None:
        self._class = JavaClass(name)
        self._message = message
        self._cause = cause

    def getClass(self) -> JavaClass:
        return self._class

    def getMessage(self) -> str | None:
        return self._message

    def getCause(self) -> Throwable | None:
        return self._cause

    def getStackTrace(self) -> list[Frame]:
        return [Frame()] * 1_000

    def __reduce__(self) -> Any:
        raise TypeError("a Java object cannot be pickled")


class Ring(Throwable):
    def getCause(self) -> Throwable | None:
        return self


class Silent(Throwable):
    def getStackTrace(self) -> list[Frame]:
        raise RuntimeError("no stack")


class Broken(Throwable):
    def getClass(self) -> JavaClass:
        raise RuntimeError("no class")


def replay(exc: BaseException) -> Any:
    return decode_failure(encode_failure(exc, CODEC), CODEC)


def test_x9_a_java_error_is_recorded_as_plain_data() -> None:
    """Case 9."""
    cause = Throwable("java.io.IOException", "broken pipe", Throwable("java.lang.Error"))
    again = replay(RuntimeError(Throwable("java.lang.IllegalStateException", "boom", cause)))
    assert type(again).__mro__[1] is RecordedCallError
    assert str(again) == "java.lang.IllegalStateException: boom"
    assert again.java_class == "java.lang.IllegalStateException"
    assert again.java_message == "boom"
    assert again.java_causes == [["java.io.IOException", "broken pipe"], ["java.lang.Error", ""]]
    assert again.java_stack[0] == "com.example.Service.call(Service.java:12)"
    assert again.__cause__ is None


def test_x9_a_subclass_that_a_library_raises_around_it_is_still_caught() -> None:
    class Failed(RuntimeError): ...

    exc = Failed(Throwable("java.lang.IllegalStateException", "boom"))
    codec = PayloadCodec({"Failed": Failed}, "p")
    again = decode_failure(encode_failure(exc, codec), codec)
    assert isinstance(again, Failed)
    assert str(again) == "java.lang.IllegalStateException: boom"


def test_x9_as_the_cause_of_a_python_error() -> None:
    outer = ValueError("wrapped")
    outer.__cause__ = RuntimeError(Throwable("java.lang.IllegalStateException", "boom"))
    again = replay(outer)
    assert type(again) is ValueError
    assert str(again.__cause__) == "java.lang.IllegalStateException: boom"


@pytest.mark.parametrize(
    "throwable",
    [Ring("a.B", "m"), Silent("a.B", "m"), Broken("a.B", "m"), Throwable("a.B", "x" * 10_000_000)],
    ids=["ring", "stack", "class", "long"],
)  # fmt: skip
def test_x9_a_throwable_that_cannot_be_read_is_recorded_all_the_same(throwable: Throwable) -> None:
    data = encode_failure(RuntimeError(throwable), CODEC)
    assert len(data) < 400_000
    assert isinstance(decode_failure(data, CODEC), RuntimeError)
