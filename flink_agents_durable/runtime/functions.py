"""How a durable function has to be run: on the loop thread, or on a worker."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Coroutine
from functools import partial
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, MethodType
from typing import Any

GENERATORS = frozenset({GeneratorType, AsyncGeneratorType})


def is_async(function: object) -> bool:
    """Whether calling this only makes a coroutine, so that no worker is needed."""
    while isinstance(function, partial):
        function = function.func
    if isinstance(function, MethodType):
        function = function.__func__
    if type(function) is FunctionType:
        if function.__code__.co_flags & inspect.CO_COROUTINE:
            return True
        return bool(function.__dict__) and _is_marked(function)
    return _is_marked(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def is_plain(function: object) -> bool:
    """Whether a call needs a worker."""
    return not is_async(function)


def _is_marked(function: object) -> bool:
    # `inspect.markcoroutinefunction` (3.12) and the older marker of asyncio, both plain attributes.
    with contextlib.suppress(Exception):
        if getattr(function, "_is_coroutine", None) is getattr(asyncio.coroutines, "_is_coroutine", inspect):
            return True
        return getattr(function, "_is_coroutine_mark", None) is not None
    return False


def refuse_generator(name: str, value: object) -> None:
    """A generator cannot be recorded: it has to be collected inside the call."""
    if not inspect.isawaitable(value):
        raise TypeError(
            f"the durable call {name} returned a generator, which cannot be recorded; "
            "collect its items inside the call and return a list"
        )


def is_awaitable(value: object) -> bool:
    """Whether what a plain function returned still has to be awaited."""
    return hasattr(type(value), "__await__") or (type(value) is GeneratorType and inspect.isawaitable(value))


def as_coroutine(value: Any) -> Coroutine[Any, Any, Any]:
    """An awaitable as something that a task can drive."""
    if isinstance(value, CoroutineType):
        return value
    return _await(value)


async def _await(value: Awaitable[Any]) -> Any:
    return await value
