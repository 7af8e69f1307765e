"""What is asked of a function's parameters at each call is what `inspect.signature` says."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from flink_agents_durable.engine.parameters import has_parameter, needs_arguments


def nothing() -> None: ...
def one(options: Any) -> None: ...
def with_default(value: int = 1, options: Any = None) -> None: ...
def one_default_of_two(value: int, options: Any = None) -> None: ...
def keyword_only(*, options: Any) -> None: ...
def keyword_default(*, reconciler: Any = None) -> None: ...
def one_keyword_default_of_two(*, options: Any = None, other: Any) -> None: ...
def positional_only(options: Any, /) -> None: ...
def any_keywords(**anything: Any) -> None: ...
def local_variable() -> None:
    options = 1
    del options


@functools.wraps(one)
def wrapped(*args: Any, **kwargs: Any) -> None: ...


def relabelled(*args: Any) -> None: ...


relabelled.__signature__ = inspect.signature(one)  # type: ignore[attr-defined]


class Service:
    def method(self, options: Any) -> None: ...
    def bare(self) -> None: ...
    @classmethod
    def of_class(cls, options: Any = None) -> None: ...
    def __call__(self, reconciler: Any = None) -> None: ...


async def coroutine(options: Any) -> None: ...


FUNCTIONS: list[Callable[..., Any]] = [
    nothing,
    one,
    with_default,
    one_default_of_two,
    keyword_only,
    keyword_default,
    one_keyword_default_of_two,
    positional_only,
    any_keywords,
    local_variable,
    wrapped,
    relabelled,
    coroutine,
    Service().method,
    Service().bare,
    Service.of_class,
    Service(),
    lambda options: None,
    lambda: None,
    lambda x=1: None,
    print,
    dict,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_parameters_are_those_of_the_signature(function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin that does not say
        assert not needs_arguments(function)
        assert not has_parameter(function, "options")
        return
    for name in ("options", "reconciler", "self", "value"):
        assert has_parameter(function, name) == (name in signature.parameters)
    try:
        signature.bind()
    except TypeError:
        assert needs_arguments(function)
    else:
        assert not needs_arguments(function)


def test_what_partial_binds_is_no_parameter_any_more() -> None:
    bound = functools.partial(one_default_of_two, 1, options=2)
    assert not has_parameter(bound, "options")
    assert not needs_arguments(bound)
    assert needs_arguments(functools.partial(one))
