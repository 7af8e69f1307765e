"""What agents under simulation use: they report what they see, and call what may fail."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from flink_agents_durable.api.events import OutputEvent
from flink_agents_durable.testing.simulation.invariants import Invariants, Result

if TYPE_CHECKING:
    from flink_agents_durable.testing.simulation.attempt import Attempt
    from flink_agents_durable.testing.simulation.scripted_java import Script


class Stage:
    """The side of the world that agents see."""

    random: random.Random
    seed: int
    version: int
    """Of the code; changes at a restart (`Faults.flip`)."""
    invariants: Invariants
    executed: Counter[str]
    faulty: bool
    store_durable: bool
    program: list[str]
    """What the agent does, in lines for the reader of a violation; an agent made from a seed fills it."""
    caller: Attempt
    """Whose call runs."""
    scripts: Mapping[str, Script] = MappingProxyType({})
    """Actions "written in Java", by the names of their methods; an agent that has some sets them."""
    pins: bool = False
    """Frames of scripts cannot wait in some attempts: what is asked for differs in form, so no transcript is kept."""

    def observe(self, ctx: Any, place: str, value: Any) -> None:
        """An action saw a value: on every later attempt it must see the same there."""
        if _counts(ctx):
            self.invariants.observe(ctx._driver.port._execution.run, place, value)

    def emit(self, ctx: Any, place: str, value: Any, *more: Any) -> None:
        """Send an output: input, place, and what the action has seen."""
        output = [value, place, list(more)]
        if _counts(ctx):
            self.invariants.expect(ctx._driver.port._execution.run, place, output)
        ctx.send_event(OutputEvent(output))

    def give_up(self, ctx: Any, action: str, value: Any, error: Exception) -> None:
        """The action fails for good: a dead letter is due, as `Attempt.emit_dead_letter` writes it."""
        output = [value, f"dead letter of {action}", [f"builtins.{type(error).__name__}: {error}"]]
        if _counts(ctx):
            self.invariants.expect(ctx._driver.port._execution.run, f"dead letter of {action}", output)

    def call(self, label: str, fail: float = 0.0) -> Result:
        """What durable functions of simulated agents do: give a value that no other execution gives."""
        self.executed[label] += 1
        # Without a store and checkpoints each failure costs everything: at the end there must be none.
        if (self.faulty or self.store_durable) and self.random.random() < fail:
            raise ConnectionError(f"{label} failed {self.executed[label]}")
        return Result(label, self.executed[label])

    def call_after(self, label: str, parent: str) -> Result:
        """A call that depends on an earlier one though its arguments do not show it; see `depends`."""
        self.executed[label] += 1
        return Result(label, self.executed[label], self.caller.parents[parent])

    def depends(self, ctx: Any, label: str, nonce: int) -> None:
        """What `call_after` takes for the result of its parent, in the same attempt of the task."""
        _attempt_of(ctx).parents[label] = nonce

    def check(self, ctx: Any, holds: bool, text: str) -> None:
        """An invariant of the agent."""
        if not holds and _counts(ctx):
            self.violation(text)

    def big(self, label: str) -> Any:
        """A result that the store may refuse."""
        self.executed[label] += 1
        if self.random.random() < 0.5:
            return Result(label + " " * 5_000, self.executed[label])
        return Result(label, self.executed[label])

    def remember(self, ctx: Any, path: str, value: Any) -> None:
        """Write to memory."""
        ctx.short_term_memory.set(path, (ctx._driver.port.id, value))

    def recall(self, ctx: Any, path: str) -> Any:
        """Read from memory; only completed executions may have written it."""
        writer, value = ctx.short_term_memory.get(path, (0, None))
        if writer and _counts(ctx):
            self.invariants.reads(ctx._driver.port.id, writer)
        return value

    def completes(self, ctx: Any) -> None:
        """The last thing that an action does, if others read what it has written."""
        if _counts(ctx):
            self.invariants.facts.completed.add(ctx._driver.port.id)

    def violation(self, text: str) -> NoReturn:
        """Raise a violation with the history."""
        raise NotImplementedError


def _counts(ctx: Any) -> bool:
    """Whether an action belongs to the present attempt, and the attempt to the living."""
    attempt = _attempt_of(ctx)
    return attempt.current and attempt.alive


def _attempt_of(ctx: Any) -> Attempt:
    attempt: Attempt = ctx._driver.port._engine.ports
    return attempt
