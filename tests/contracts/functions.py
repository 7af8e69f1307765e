"""Durable functions of the contract tests; fakes stand for them where a test decides what they do."""

from __future__ import annotations

from typing import Any


async def ask(what: Any) -> Any:
    """An async function; it answers at once."""
    return f"{what}!"


async def check(what: Any) -> Any:
    """Another one, so that two functions can be told apart."""
    return f"{what}?"


def compute(what: Any) -> Any:
    """A plain function."""
    return f"{what}!"


def never(*args: Any, **kwargs: Any) -> Any:
    """A fake for what must not be called."""
    raise AssertionError(f"this call must not be made: {args} {kwargs}")
