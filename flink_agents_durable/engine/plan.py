"""A compiled agent: its actions by the event types that trigger them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from flink_agents_durable.api.agent import ActionSpec
from flink_agents_durable.engine.commands import Driver
from flink_agents_durable.engine.services import Services


@dataclass(frozen=True)
class CompiledAction:
    """An action with the factory of its drivers."""

    spec: ActionSpec
    make_driver: Callable[[CompiledAction, Any, Services], Driver]

    @property
    def name(self) -> str:
        """The action's name, part of the identity of its executions."""
        return self.spec.name


@dataclass(frozen=True)
class CompiledPlan:
    """What an engine runs."""

    by_name: dict[str, CompiledAction]
    by_event: dict[str, list[CompiledAction]] = field(default_factory=dict)

    @classmethod
    def of(cls, actions: list[CompiledAction]) -> CompiledPlan:
        """Index actions by name and by trigger, in the order of their definition."""
        by_event: dict[str, list[CompiledAction]] = {}
        for action in actions:
            for trigger in action.spec.triggers:
                by_event.setdefault(trigger, []).append(action)
        return cls({action.name: action for action in actions}, by_event)
