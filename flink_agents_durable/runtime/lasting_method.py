"""Methods that Java calls with several arguments, made harmless for what pemja 0.5.7 does to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class LastingMethod(Generic[P, R]):
    """An attribute that is called like a method.

    pemja keeps a reference for ever to what it gets for the name of such a method. A plain method is made
    anew each time, so that every input would leave one behind, and each would keep the operator alive (K11).
    This is one small object for all calls, and `release` empties it.
    """

    __slots__ = ("_method",)

    def __init__(self, method: Callable[P, R]) -> None:
        self._method: Callable[P, R] | None = method

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._method is None:
            raise RuntimeError("the operator is closed")
        return self._method(*args, **kwargs)

    def release(self) -> None:
        self._method = None
