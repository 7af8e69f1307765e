"""Java throwables as pemja hands them over, as far as Python looks at them."""

from __future__ import annotations

from typing import Any


class JavaClass:
    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:
        return self._name

    def getSuperclass(self) -> None:
        return None


class PyJObject:
    """What pemja hands over for a Java throwable, as far as Python looks at it."""

    def __init__(self, name: str, message: str = "", cause: PyJObject | None = None) -> None:
        self._name = name
        self._message = message
        self._cause = cause

    def getClass(self) -> JavaClass:
        return JavaClass(self._name)

    def getMessage(self) -> str:
        return self._message

    def getCause(self) -> PyJObject | None:
        return self._cause

    def getStackTrace(self) -> list[Any]:
        return []
