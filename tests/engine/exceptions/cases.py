"""What a case of the exception table is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Places:
    """Addresses that fail in their own way."""

    url: str
    """A server that fails as the path asks for."""
    silent: str
    """Connections to it time out."""
    closed: str
    """Connections to it are refused."""


@dataclass(frozen=True)
class Case:
    """An exception, and what an action reads of it."""

    name: str
    make: Callable[[Places], BaseException]
    expressions: tuple[str, ...] = ()
    """Behind `error.`; each gives in another process what it gives here."""


def raised_by(call: Callable[[], object]) -> BaseException:
    """What a call raises, with its traceback."""
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def caught_by(error: BaseException) -> list[str]:
    """The classes whose `except` clause catches it; by name, as cloudpickle forgets where a class was nested."""
    return [f"{cls.__module__}.{cls.__name__}" for cls in type(error).__mro__ if issubclass(cls, Exception)]


def read(error: BaseException, expressions: Iterable[str]) -> dict[str, str]:
    """What the expressions give, as text."""
    return {expression: _evaluate(error, expression) for expression in expressions}


def _evaluate(error: Any, expression: str) -> str:
    try:
        return repr(eval(f"error.{expression}", {"error": error}))
    except Exception as failure:
        return f"raises {type(failure).__name__}: {failure}"
