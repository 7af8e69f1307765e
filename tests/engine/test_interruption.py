from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from flink_agents_durable.engine.interruption import is_interruption

HIERARCHY = {
    "java.nio.channels.ClosedByInterruptException": "java.nio.channels.AsynchronousCloseException",
    "java.nio.channels.AsynchronousCloseException": "java.io.IOException",
    "com.example.StopException": "java.util.concurrent.CancellationException",
    "java.net.SocketTimeoutException": "java.io.InterruptedIOException",
    "java.io.InterruptedIOException": "java.io.IOException",
}


class JavaClass:
    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:
        return self._name

    def getSuperclass(self) -> JavaClass | None:
        parent = HIERARCHY.get(self._name)
        return JavaClass(parent) if parent is not None else None


class Throwable:
    """Looks like the bridge's view of a Java throwable."""

    def __init__(self, name: str, cause: Throwable | None = None) -> None:
        self._class = JavaClass(name)
        self.cause = cause

    def getClass(self) -> JavaClass:
        return self._class

    def getMessage(self) -> str:
        return "java.lang.InterruptedException"  # never looked at

    def getCause(self) -> Throwable | None:
        return self.cause


INTERRUPTED = "java.lang.InterruptedException"
YES = [
    INTERRUPTED,
    "java.nio.channels.ClosedByInterruptException",
    "java.util.concurrent.CancellationException",
    "com.example.StopException",
]
NO = [
    "java.io.InterruptedIOException",
    "java.net.SocketTimeoutException",
    "java.io.IOException",
    "java.lang.IllegalStateException",
    "java.nio.channels.AsynchronousCloseException",
]


@pytest.mark.parametrize("name", YES)
def test_i1_an_interruption_is_known_by_its_class(name: str) -> None:
    assert is_interruption(RuntimeError(Throwable(name)), None)
    assert is_interruption(RuntimeError("text", Throwable(name)), None)


@pytest.mark.parametrize("name", NO)
def test_i1_timeouts_and_other_errors_are_failures(name: str) -> None:
    assert not is_interruption(RuntimeError(Throwable(name)), None)


def test_i1_along_the_java_cause_chain() -> None:
    deep = Throwable("java.lang.RuntimeException", Throwable("java.io.IOException", Throwable(INTERRUPTED)))
    assert is_interruption(RuntimeError(deep), None)


def test_i1_along_the_explicit_python_cause_chain() -> None:
    outer, middle = ValueError("outer"), KeyError("middle")
    outer.__cause__, middle.__cause__ = middle, RuntimeError(Throwable(INTERRUPTED))
    assert is_interruption(outer, None)


def test_i1_never_along_the_implicit_context() -> None:
    try:
        try:
            raise RuntimeError(Throwable(INTERRUPTED))
        except RuntimeError:
            raise ValueError("while cleaning up")  # noqa: B904
    except ValueError as caught:
        error = caught
    assert error.__context__ is not None
    assert not is_interruption(error, None)


def test_i1_never_by_message() -> None:
    assert not is_interruption(RuntimeError("java.lang.InterruptedException: sleep interrupted"), None)
    assert not is_interruption(InterruptedError("interrupted"), None)


def test_i1_in_the_members_of_a_group() -> None:
    group: Any = ValueError("stands for a group, on every Python")
    group.exceptions = (KeyError("x"), RuntimeError(Throwable(INTERRUPTED)))
    assert is_interruption(group, None)


def test_i1_java_is_asked_when_it_can_be() -> None:
    asked: list[object] = []

    def inspect(throwable: object) -> bool:
        asked.append(throwable)
        return True

    throwable = Throwable("java.lang.IllegalStateException")
    assert is_interruption(RuntimeError(throwable), inspect)
    assert asked == [throwable]
    assert not is_interruption(RuntimeError(Throwable(INTERRUPTED)), lambda _: False)
    assert not is_interruption(RuntimeError("x", 1, None, {}), inspect)
    assert asked == [throwable]


class Ring(Throwable):
    def getCause(self) -> Throwable | None:
        return self


class HostileThrowable(Throwable):
    def getClass(self) -> JavaClass:
        raise KeyboardInterrupt


class HostileError(Exception):
    @property
    def args(self) -> Any:  # type: ignore[override]
        raise SystemExit

    @property
    def exceptions(self) -> Any:
        raise SystemExit

    def __eq__(self, other: object) -> bool:
        raise SystemExit

    __hash__ = None  # type: ignore[assignment]


class HostileArgument:
    def __getattr__(self, name: str) -> Any:
        raise SystemExit


def looping() -> Exception:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    return one


@pytest.mark.parametrize(
    "exc",
    [
        RuntimeError(Ring("java.lang.RuntimeException")),
        RuntimeError(HostileThrowable(INTERRUPTED)),
        HostileError("x"),
        RuntimeError(HostileArgument()),
        RuntimeError(mock.MagicMock()),
        looping(),
        KeyboardInterrupt(),
    ],
    ids=["ring", "throwable", "error", "argument", "mock", "loop", "interrupt"],
)
def test_i3_inspecting_never_raises_and_never_loops(exc: BaseException) -> None:
    assert not is_interruption(exc, None)

    def broken(_: object) -> bool:
        raise KeyboardInterrupt

    assert not is_interruption(exc, broken)
