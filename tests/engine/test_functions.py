from __future__ import annotations

import dataclasses
import functools
import gc
import math
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy
import pydantic
import pytest

from flink_agents_durable.engine.functions import function_id, identify


def plain(x: int, y: int = 0) -> int:
    return x + y


async def asynchronous(x: int) -> int:
    return x


def wrapped(func: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper


def opaque(func: Callable[..., Any]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapper


@wrapped
def decorated() -> None: ...


@functools.lru_cache
def cached(x: int) -> int:
    return x


class Base:
    def run(self, x: int) -> int:
        return x

    @classmethod
    def make(cls) -> Base:
        return cls()

    @staticmethod
    def static() -> None: ...

    def __call__(self) -> None: ...


class Left(Base): ...


class Right(Base): ...


class Named(Base):
    def __init__(self, durable_id: Any) -> None:
        self.durable_id = durable_id


class Model(Base):
    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self._lock = threading.Lock()

    def ask(self, prompt: str) -> str:
        self.calls += 1
        return prompt


class Private(Base):
    def __init__(self, name: str) -> None:
        self._name = name


class Slotted(Base):
    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


@dataclasses.dataclass
class Data(Base):
    name: str
    client: Any = None


class Pydantic(pydantic.BaseModel):
    name: str

    def run(self) -> None: ...


HERE = __name__


@pytest.mark.parametrize(
    ("func", "expected"),
    [
        (plain, f"{HERE}.plain"),
        (asynchronous, f"{HERE}.asynchronous"),
        (decorated, f"{HERE}.decorated"),
        (cached, f"{HERE}.cached"),
        (functools.partial(plain, 1), f"{HERE}.plain"),
        (functools.partial(functools.partial(plain, 1), y=2), f"{HERE}.plain"),
        (Base().run, f"{HERE}.Base.run"),
        (Left().run, f"{HERE}.Left.run"),
        (Base.run, f"{HERE}.Base.run"),
        (Base.make, f"{HERE}.Base.make"),
        (Left.make, f"{HERE}.Left.make"),
        (Base.static, f"{HERE}.Base.static"),
        (Base(), f"{HERE}.Base.__call__"),
        (Named("chat_model/gpt").run, "chat_model/gpt.run"),
        (Named("tool/x"), "tool/x.__call__"),
        (functools.partial(Named("tool/x").run, 1), "tool/x.run"),
        (Named(7).run, f"{HERE}.Named.run"),
        (Named("").run, f"{HERE}.Named.run"),
        (Base, f"{HERE}.Base"),
        (len, "builtins.len"),
        (math.sqrt, "math.sqrt"),
        ("abc".upper, "builtins.str.upper"),
        (str.upper, "builtins.str.upper"),
        (dict.fromkeys, "builtins.dict.fromkeys"),
        (numpy.sum, "numpy.sum"),
        (numpy.random.default_rng(1).random, "numpy.random._generator.Generator.random"),
    ],
)
def test_d3_a_function_id_is_the_path_of_what_is_called(func: Callable[..., Any], expected: str) -> None:
    assert function_id(func) == expected
    assert function_id(func) == expected  # from the cache
    assert identify(func, (), {})[0] == expected


def test_d3_a_nested_function_has_the_path_of_its_scope() -> None:
    def inner() -> None: ...

    assert function_id(inner) == f"{HERE}.{inner.__qualname__}"


def test_d3_swapped_lambdas_of_one_scope_are_a_mismatch() -> None:
    """Case 16."""
    before = [lambda x: x + 1, lambda x: x - 1]
    after = [lambda x: x - 1, lambda x: x + 1]
    assert [function_id(func) for func in before] == [function_id(func) for func in reversed(after)]
    assert function_id(before[0]) != function_id(before[1])
    assert "<lambda>" in function_id(before[0])


def test_d3_lambdas_differ_by_constants_names_and_defaults() -> None:
    one, two = 1, 2
    lambdas: list[Callable[..., object]] = [
        lambda: 1, lambda: 2, lambda: "1", lambda: one, lambda: two, lambda: len, lambda: max, lambda x: x,
        lambda x=1: x, lambda x=2: x, lambda *, x=2: x, lambda: (lambda: 1), lambda: (lambda: 2), lambda: ...,
        lambda x: x in {1, 2}, lambda x: x in {1, 3},
    ]  # fmt: skip
    assert len({function_id(func) for func in lambdas}) == len(lambdas)


def test_case_16_a_lambda_that_moves_to_another_line_is_the_same() -> None:
    sources = ["f = lambda x: x + len('a')", "\n\n\n# moved\nf = lambda x: x + len('a')"]
    found = []
    for source in sources:
        scope: dict[str, Any] = {"__name__": "m"}
        exec(compile(source, "file.py", "exec"), scope)
        found.append(function_id(scope["f"]))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Model("a").ask, Model("b").ask),
        (Private("a").run, Private("b").run),
        (Slotted("a").run, Slotted("b").run),
        (Data("a").run, Data("b").run),
        (Data("a", threading.Lock()).run, Data("b", threading.Lock()).run),
        (Pydantic(name="a").run, Pydantic(name="b").run),
        (Named("a").run, Named("b").run),
        (Left().run, Right().run),
        (Left.make, Right.make),
        (Model("a"), Model("b")),
        ("a".upper, "b".upper),
        (functools.partial(plain, 1), functools.partial(plain, 2)),
        (functools.partial(Model("a").ask, "x"), functools.partial(Model("b").ask, "x")),
        (opaque(plain), opaque(cached)),
    ],
)
def test_d3_two_instances_called_through_one_method_are_told_apart(
    one: Callable[..., Any], other: Callable[..., Any]
) -> None:
    assert identify(one, (), {}) != identify(other, (), {})


@pytest.mark.parametrize("make", [Model, Private, Slotted, Data, lambda name: Pydantic(name=name)])
def test_d1_equal_instances_have_equal_digests(make: Callable[[str], Any]) -> None:
    one, other = identify(make("a").run, (1,), {}), identify(make("a").run, (1,), {})
    assert one == other
    assert one[1] is not None


def test_d3_closures_over_different_constants_are_told_apart() -> None:
    def caller(model: str) -> Callable[[], str]:
        def call() -> str:
            return model

        return call

    assert identify(caller("a"), (), {}) == identify(caller("a"), (), {})
    assert identify(caller("a"), (), {}) != identify(caller("b"), (), {})


def test_d2_what_a_method_keeps_in_its_instance_does_not_make_the_next_call_another_one() -> None:
    live, replayed = Model("a"), Model("a")
    first = identify(live.ask, ("x",), {})
    live.ask("x")
    second = identify(live.ask, ("x",), {})
    assert first == second
    assert [identify(replayed.ask, ("x",), {}) for _ in range(2)] == [first, second]


def test_d2_what_a_closure_counts_does_not_make_its_next_call_another_one() -> None:
    def scope() -> Callable[[], None]:
        attempts, log = 0, [0]

        def call() -> None:
            nonlocal attempts
            attempts += 1
            log.append(attempts)

        return call

    used, fresh = scope(), scope()
    used()
    assert identify(used, (), {}) == identify(fresh, (), {})
    used()
    assert identify(used, (), {}) == identify(fresh, (), {})


def test_d3_a_partial_is_the_call_that_it_makes() -> None:
    assert identify(functools.partial(plain, 1, y=3), (), {}) == identify(plain, (1,), {"y": 3})
    assert identify(functools.partial(plain, 1), (2,), {}) == identify(plain, (1, 2), {})
    assert identify(functools.partial(plain, y=1), (2,), {"y": 5}) == identify(plain, (2,), {"y": 5})


def test_d3_a_durable_id_stands_for_the_function_and_what_is_bound_to_it() -> None:
    assert identify(Model("a").ask, ("x",), {}, "ask") == identify(Model("b").ask, ("x",), {}, "ask")
    assert identify(Model("a").ask, ("x",), {}, "ask")[0] == "ask"
    assert identify(plain, (1,), {}, "ask") == ("ask", identify(plain, (1,), {})[1])
    assert identify(functools.partial(plain, 1), (), {}, "ask") == identify(plain, (1,), {}, "ask")


@pytest.mark.parametrize("func", [plain, Model("a").ask, functools.partial(plain, 1), lambda x: x])
def test_d1_an_argument_without_a_canonical_form_makes_the_slot_unchecked(func: Callable[..., Any]) -> None:
    name, found = identify(func, (object(),), {})
    assert found is None
    assert name


class HostileState:
    __slots__ = ()

    def run(self) -> None: ...


@dataclasses.dataclass
class HostileData:
    name: str

    def __getattribute__(self, name: str) -> Any:
        if name == "name":
            raise RuntimeError(name)
        return object.__getattribute__(self, name)

    def run(self) -> None: ...


def test_d3_a_receiver_without_readable_state_still_checks_the_arguments() -> None:
    for func in (HostileState().run, HostileData("x").run):
        one, other = identify(func, (1,), {}), identify(func, (2,), {})
        assert one[0] == other[0]
        assert None not in (one[1], other[1])
        assert one[1] != other[1]


class HostileCallable:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("eq")

    __hash__ = None  # type: ignore[assignment]

    def __call__(self) -> None: ...

    def run(self) -> None: ...


def endless() -> Any:
    func: Any = functools.partial(plain)
    func.__setstate__((func, (), {}, {}))
    return func


@pytest.mark.parametrize(
    "func", [HostileCallable(), HostileCallable().run, mock.MagicMock(), mock.AsyncMock(), mock.Mock().method,
             object(), None, endless(), print, type("X", (), {"__call__": lambda self: 0})()],
    ids=lambda func: "callable",
)  # fmt: skip
def test_d3_identifying_never_fails(func: Any) -> None:
    assert isinstance(function_id(func), str)
    name, _ = identify(func, (), {})
    assert isinstance(name, str)


def test_the_caches_keep_nothing_alive() -> None:
    def call() -> None:
        assert limit

    limit = 1
    model = Model("a")
    identify(call, (), {})
    identify(model.ask, (), {})
    alive: list[weakref.ref[Any]] = [weakref.ref(call), weakref.ref(model)]
    del call, model
    gc.collect()
    assert [reference() for reference in alive] == [None, None]


PROGRAM = """
import functools
from flink_agents_durable.engine.functions import identify

class Model:
    def __init__(self):
        self.name, self.tags = "m", {"a", "b", "c"}
    def ask(self, x): ...

options = frozenset({"p", "q", "r"})
calls = [lambda x: x in {"a", "b", "c", "d"}, Model().ask, functools.partial(print, {"x", "y"}),
    lambda: options]
print([(name, digest.hex()) for name, digest in (identify(call, (1,), {}) for call in calls)])
"""


def test_d1_identities_are_the_same_in_processes_with_other_hash_seeds() -> None:
    results = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True, text=True, check=True, timeout=60,
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(results) == 1
