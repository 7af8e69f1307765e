"""Exceptions of Python itself and of users' modules."""

from __future__ import annotations

import builtins
import codecs
import enum
import json
import os
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
from typing import Any, Generic, TypeVar

from tests.engine.exceptions.cases import Case, Places, raised_by

T = TypeVar("T")


class Reason(enum.Enum):
    QUOTA = "quota"
    DOWN = "down"


class Refused(Exception):
    """Builds its text from two arguments, holds an enum and a lock."""

    def __init__(self, code: int, reason: Reason) -> None:
        super().__init__(f"refused: {code} {reason.value}")
        self.code = code
        self.reason = reason
        self.lock = threading.Lock()


class KeywordOnly(Exception):
    def __init__(self, *, code: int) -> None:
        super().__init__("keyword only")
        self.code = code


class Slotted(Exception):
    __slots__ = ("code", "lock")

    def __init__(self, code: int) -> None:
        super().__init__("slotted")
        self.code = code
        self.lock = threading.Lock()


class Reducing(Exception):
    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code

    def __reduce__(self) -> Any:
        return Reducing, (self.code, self.args[1])


class Of(Exception, Generic[T]):
    def __init__(self, item: T) -> None:
        super().__init__(item)
        self.item = item


class OfNumber(Of[int]):
    def __init__(self) -> None:
        super().__init__(7)
        self.lock = threading.Lock()


class Gone(ValueError):
    """Its class is deleted before the record is read."""

    def __init__(self, code: int) -> None:
        super().__init__("gone")
        self.code = code
        self.lock = threading.Lock()


def refused_by_a_closed_port(at: Places) -> BaseException:
    host, port = at.closed.removeprefix("http://").split(":")
    return raised_by(lambda: socket.create_connection((host, int(port))))


def missing_file() -> BaseException:
    return raised_by(lambda: os.stat(os.path.join(tempfile.gettempdir(), "no", "such", "file")))


def failed_process() -> BaseException:
    command = [sys.executable, "-c", "import sys; print('out'); sys.exit(3)"]
    return raised_by(lambda: subprocess.run(command, check=True, capture_output=True))


def noted() -> BaseException:
    error = KeywordOnly(code=3)
    error.__notes__ = ["first note", "second note"]  # as add_note does, which 3.10 does not have
    return error


def chained() -> BaseException:
    def call() -> None:
        try:
            raise Refused(1, Reason.DOWN)
        except Refused as error:
            raise LookupError("outer") from error

    return raised_by(call)


def with_traceback() -> BaseException:
    def inner() -> None:
        raise ValueError("deep")

    def outer() -> None:
        inner()

    return raised_by(outer)


def group() -> BaseException:
    make: Any = builtins.__dict__["ExceptionGroup"]
    return make("two", [Refused(2, Reason.QUOTA), OSError(5, "input")])  # type: ignore[no-any-return]


def from_a_closure() -> BaseException:
    class Local(ConnectionError):
        def __init__(self, code: int, *, retry_after: float) -> None:
            super().__init__(f"local {code}")
            self.code = code
            self.retry_after = retry_after

    return Local(4, retry_after=1.5)


def own_cases() -> list[Case]:
    json_error = ("msg", "doc", "pos", "lineno", "colno")
    decode = ("encoding", "object", "start", "end", "reason")
    file = ("errno", "strerror", "filename")
    code = ("code", "args")
    cases = [
        Case("json", lambda at: raised_by(lambda: json.loads('{"a": ')), json_error),
        Case("unicode decode", lambda at: raised_by(lambda: b"a\xff".decode()), decode),
        Case("unicode encode", lambda at: raised_by(lambda: codecs.encode("\ud800", "utf-8")), decode),
        Case("connection refused", refused_by_a_closed_port, ("errno", "strerror", "args")),
        Case("file not found", lambda at: missing_file(), file),
        Case("process failed", lambda at: failed_process(), ("returncode", "output", "cmd[1]")),
        Case("ssl", lambda at: ssl.SSLError(1, "handshake"), ("errno", "strerror")),
        Case(
            "sqlite3", lambda at: raised_by(lambda: sqlite3.connect(":memory:").execute("no sql")), ("args",)
        ),
        Case("key", lambda at: raised_by(lambda: {}["missing"]), ("args",)),
        Case("attribute", lambda at: raised_by(lambda: "text".upperr), ("name", "args")),  # type: ignore[attr-defined]
        Case(
            "two arguments, an enum", lambda at: Refused(4, Reason.QUOTA), ("code", "reason", "reason.name")
        ),
        Case("keyword only", lambda at: KeywordOnly(code=5), code),
        Case("slots", lambda at: Slotted(6), code),
        Case("own __reduce__", lambda at: Reducing(7, "x"), code),
        Case("generic", lambda at: Of([1, 2]), ("item", "args")),
        Case("generic, bound", lambda at: OfNumber(), ("item", "args")),
        Case("notes", lambda at: noted(), ("__notes__", "code")),
        Case("cause", lambda at: chained(), ("__cause__.code", "__cause__.reason")),
        Case("traceback", lambda at: with_traceback(), ("args",)),
        Case("closure", lambda at: from_a_closure(), ("code", "retry_after")),
        Case("vanished class", lambda at: Gone(8), ("code",)),
    ]
    if hasattr(builtins, "ExceptionGroup"):
        cases.append(
            Case("group", lambda at: group(), ("exceptions[0].reason", "exceptions[1].errno", "message"))
        )
    return cases
