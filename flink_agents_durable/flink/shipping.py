"""Makes an agent ready to travel, and says what cannot travel."""

from __future__ import annotations

import dataclasses
import pickle
import types
from collections.abc import Iterator, Mapping
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.engine.plan_classes import collect_plan_classes
from flink_agents_durable.runtime.plan import AgentPlan

# Bounds the search for the culprit in a large agent; the error then names the agent alone.
_MAX_VISITS = 2_000


def make_plan(plan: AgentPlan, main_classes: Mapping[str, type]) -> tuple[AgentPlan, bytes]:
    """The plan with its classes, and its bytes. An error names the variable that cannot be pickled."""
    agent, resources = plan.agent, plan.resources
    try:
        classes = {**collect_plan_classes((agent, resources)), **main_classes}
        plan = dataclasses.replace(plan, classes=classes)
        return plan, plan.dump()
    except Exception as error:
        where = _Search().find((type(agent), agent, resources), "agent")
        named = f"{where} cannot be pickled" if where else "it cannot be pickled"
        raise ConfigurationError(
            f"agent {type(agent).__qualname__} cannot be shipped to the tasks: {named} "
            f"({type(error).__name__}: {error}). Make it in the task instead: wrap the function that creates "
            "it in lazy(...): `client = lazy(make_client)`, then `client()` in durable functions"
        ) from error


class _Search:
    """Walks functions, classes and plain containers as cloudpickle does, to the smallest part that fails."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._alive: list[object] = []  # so that ids of parts made on the way stay unique

    def find(self, value: object, path: str) -> str | None:
        """The path of the innermost part that cannot be pickled, None if all can."""
        if id(value) in self._seen or len(self._seen) > _MAX_VISITS:
            return None
        self._seen.add(id(value))
        self._alive.append(value)
        if _pickles(value):
            return None
        for name, part in _parts(value):
            found = self.find(part, name)
            if found is not None:
                return found
        return (
            None if isinstance(value, (tuple, dict)) and path == "agent" else f"{path}, {_describe(value)},"
        )


def _pickles(value: object) -> bool:
    try:
        cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        return False
    return True


def _describe(value: object) -> str:
    cls = type(value)
    return (
        f"a {cls.__module__}.{cls.__qualname__}" if cls.__module__ != "builtins" else f"a {cls.__qualname__}"
    )


def _parts(value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, (staticmethod, classmethod, types.MethodType)):
        yield f"function {value.__func__.__qualname__}", value.__func__
        if isinstance(value, types.MethodType):
            yield "self", value.__self__
    elif isinstance(value, property):
        yield from ((f"property {part.__name__}", part) for part in (value.fget, value.fset) if part)
    elif isinstance(value, types.FunctionType):
        yield from _function_parts(value)
    elif isinstance(value, type):
        yield from ((f"{value.__qualname__}.{name}", part) for name, part in list(vars(value).items()))
        yield from ((f"class {base.__qualname__}", base) for base in value.__bases__)
    elif isinstance(value, dict):
        yield from ((f"[{name!r}]", part) for name, part in list(value.items()))
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from (("agent" if isinstance(part, Agent) else f"[{i}]", part) for i, part in enumerate(value))
    elif isinstance(getattr(value, "__dict__", None), dict):
        yield from ((f"self.{name}", part) for name, part in list(vars(value).items()))
        yield f"class {type(value).__qualname__}", type(value)


def _function_parts(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    where = f"used by {function.__qualname__}"
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield f"the global variable {name!r} {where}", function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield f"the variable {name!r} {where}", cell.cell_contents
        except ValueError:
            continue  # not assigned yet
    for part in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield f"a default argument of {function.__qualname__}", part
    if hasattr(function, "__wrapped__"):
        yield f"the function wrapped by {function.__qualname__}", function.__wrapped__


def _global_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names
