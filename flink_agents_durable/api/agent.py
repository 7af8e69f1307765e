"""Agents: a class whose methods are actions, or an `Agent()` to which actions are added."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.events import Event
from flink_agents_durable.api.java import JavaFunction

F = TypeVar("F")
Trigger = type[Event] | str
FAILURE_POLICIES = ("fail", "skip", "dead-letter")

_MARK = "_flink_agents_durable_action"


@dataclass(frozen=True)
class ActionSpec:
    """One action of an agent: what triggers it and the function to call with (event, ctx), or the `JavaFunction`."""

    name: str
    triggers: tuple[str, ...]
    function: Any
    on_failure: str | None = None
    config: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Mark:
    triggers: tuple[str, ...]
    on_failure: str | None


def action(*trigger_conditions: Trigger, on_failure: str | None = None) -> Callable[[F], F]:
    """Mark a method as an action, triggered by these event classes or event types.

    `on_failure` (`fail`, `skip`, `dead-letter`) overrides `agents.action-failure` for this action.
    """
    mark = _Mark(_event_types(trigger_conditions), _failure_policy(on_failure))

    def decorate(function: F) -> F:
        target = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function
        if not callable(target):
            raise TypeError(f"@action marks functions, not {target!r}")
        setattr(target, _MARK, mark)
        return function

    return decorate


class Agent:
    """Base of agents. It is pickled at `apply()`; `self` is read-only configuration shared by all keys."""

    @property
    def durable_id(self) -> str:
        """Stands for the agent in the identity of durable calls of its methods, whatever its attributes are."""
        return type(self).__qualname__

    def add_action(
        self,
        name: str,
        trigger_conditions: list[Trigger] | tuple[Trigger, ...] | Trigger,
        func: Callable[..., Any] | JavaFunction,
        *,
        on_failure: str | None = None,
        **config: Any,
    ) -> Agent:
        """Add a function `(event, ctx)`, or a `JavaFunction`, as an action. Names are unique in an agent."""
        conditions = (
            trigger_conditions if isinstance(trigger_conditions, (list, tuple)) else (trigger_conditions,)
        )
        added: list[ActionSpec] = self.__dict__.setdefault("_added_actions", [])
        added.append(ActionSpec(name, _event_types(conditions), func, _failure_policy(on_failure), config))
        return self

    def add_resource(self, name: str, resource_type: Any, instance: Any) -> Agent:
        """Add a resource (a descriptor or an instance) under a name of its type."""
        resources: dict[tuple[Any, str], Any] = self.__dict__.setdefault("_added_resources", {})
        if (resource_type, name) in resources:
            raise ConfigurationError(
                f"resource {name!r} of type {resource_type} is defined twice in {type(self).__name__}"
            )
        resources[(resource_type, name)] = instance
        return self


def collect_actions(agent: Agent) -> list[ActionSpec]:
    """All actions of an agent, in the order of their definition. Raises ConfigurationError for what cannot work."""
    specs = list(_marked_methods(agent)) + list(agent.__dict__.get("_added_actions", ()))
    label = type(agent).__name__
    if not specs:
        raise ConfigurationError(f"agent {label} has no actions: mark a method with @action(InputEvent)")
    seen: set[str] = set()
    for spec in specs:
        if spec.name in seen:
            raise ConfigurationError(f"agent {label} has two actions named {spec.name!r}")
        seen.add(spec.name)
        _check_signature(label, spec)
    return specs


def _marked_methods(agent: Agent) -> Iterator[ActionSpec]:
    marks: dict[str, _Mark] = {}
    for cls in reversed(type(agent).__mro__):
        for name, attribute in vars(cls).items():
            function = getattr(attribute, "__func__", attribute)
            mark = getattr(function, _MARK, None)
            if mark is not None:
                marks[name] = mark  # an override without a mark keeps the mark of what it overrides
    for name, mark in marks.items():
        yield ActionSpec(name, mark.triggers, getattr(agent, name), mark.on_failure)


def _event_types(conditions: tuple[Trigger, ...] | list[Trigger]) -> tuple[str, ...]:
    if not conditions:
        raise ConfigurationError("an action needs at least one event that triggers it: @action(InputEvent)")
    types = []
    for condition in conditions:
        if isinstance(condition, str):
            types.append(condition)
        elif isinstance(condition, type) and issubclass(condition, Event):
            types.append(condition.EVENT_TYPE)
        else:
            raise ConfigurationError(
                f"an action is triggered by event classes or event types, not by {condition!r}"
            )
    return tuple(dict.fromkeys(types))


def _failure_policy(policy: str | None) -> str | None:
    if policy is not None and policy not in FAILURE_POLICIES:
        raise ConfigurationError(f"on_failure is one of {', '.join(FAILURE_POLICIES)}, not {policy!r}")
    return policy


def _check_signature(label: str, spec: ActionSpec) -> None:
    if isinstance(spec.function, JavaFunction):
        return  # its class is in the job's jars, which only the tasks have
    if not callable(spec.function):
        raise ConfigurationError(f"action {spec.name!r} of {label} is no function: {spec.function!r}")
    if inspect.isasyncgenfunction(spec.function):
        raise ConfigurationError(
            f"action {spec.name!r} of {label} is an async generator; use async def without yield"
        )
    try:
        inspect.signature(spec.function).bind(None, None)
    except TypeError:
        raise ConfigurationError(
            f"action {spec.name!r} of {label} must take (event, ctx)"
            f"{' after self, or be a @staticmethod' if inspect.isfunction(spec.function) else ''}"
        ) from None
    except ValueError:
        pass  # a builtin without a signature
