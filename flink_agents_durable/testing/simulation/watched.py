"""A driver that tells the invariants what an action asks for, and what it is given, in the order of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flink_agents_durable.api.java import JavaFunction
from flink_agents_durable.engine.commands import BATCH, CALL, FAIL, NOT_LIVE, SEND, Command, Driver
from flink_agents_durable.engine.driver import PythonDriver
from flink_agents_durable.engine.java_driver import JavaDriver
from flink_agents_durable.engine.plan import CompiledAction
from flink_agents_durable.engine.services import Services
from flink_agents_durable.testing.simulation.invariants import Result, Transcript, label_of

if TYPE_CHECKING:
    from flink_agents_durable.testing.simulation.attempt import Attempt


class _Watching:
    """An action under simulation: a replay has to go through the same steps (D5, P9), and no outcome may reach
    another slot than its own (D6)."""

    def __init__(self, action: CompiledAction, port: Any, services: Services) -> None:
        super().__init__(action, port, services)  # type: ignore[call-arg]
        self._attempt: Attempt = port._engine.ports
        self._run = port._execution.run
        self._labels: dict[int, str] = {}
        invariants = self._attempt.world.invariants
        self._transcript: Transcript | None = (
            invariants.transcript(self._run, port.id) if self._attempt.watched else None
        )

    port: Any

    def start(self, event: Any) -> list[Command]:
        return self._asked(super().start(event))  # type: ignore[misc]

    def resolve(self, slot: int, ok: bool, payload: bytes, live: Any) -> list[Command]:
        if self._counts():
            self._given(slot, ok, payload, live)
        return self._asked(super().resolve(slot, ok, payload, live))  # type: ignore[misc]

    def end_batch(self, slot: int, expired: list[int]) -> list[Command]:
        self._note("end of batch", slot, *expired)
        return self._asked(super().end_batch(slot, expired))  # type: ignore[misc]

    def _given(self, slot: int, ok: bool, payload: bytes, live: Any) -> None:
        self._note("get", slot, ok, payload)
        if ok and slot in self._labels:
            value = self.port.codec.loads(payload) if live is NOT_LIVE else live
            self._check_owner(slot, self._labels[slot], value)

    def _check_owner(self, slot: int, label: str, value: Any) -> None:
        if isinstance(value, Result) and value.label.rstrip() != label and self._counts():
            self._attempt.world.violation(f"slot {slot}, of the call {label}, is given {value}")

    def _asked(self, commands: list[Command]) -> list[Command]:
        for command in commands:
            kind = command[0]
            if kind == CALL:
                self._labels[command[1]] = label = label_of(command[2])
                self._note("call", command[1], label)
            elif kind == BATCH:
                for slot, spec in command[1]:
                    self._labels[slot] = label_of(spec)
                self._note("gather", *(self._labels[slot] for slot, _ in command[1]), *command[2:])
            elif kind == FAIL:
                self._note("fail", type(command[1]).__name__, *command[2])
            elif kind != SEND:  # noted when it is sent
                self._note(f"command {kind}", *command[1:])
        return commands

    def _counts(self) -> bool:
        return self._attempt.current and self._attempt.alive

    def _note(self, *entry: Any) -> None:
        if self._transcript is not None and self._counts():
            self._transcript.note(self._run.delivered, entry)


class WatchedDriver(_Watching, PythonDriver):
    """An action written in Python."""

    def send(self, event: Any) -> None:
        self._note("send", event.type, repr(event.attributes))
        super().send(event)

    def execute(self, spec: Any) -> Any:
        slot, label = self.next_slot, label_of(spec)
        self._note("call, synchronously,", slot, label)
        value = super().execute(spec)
        self._check_owner(slot, label, value)
        self._note("get", slot, value)
        return value


class WatchedJavaDriver(_Watching, JavaDriver):
    """An action whose side of the messages is played by `scripted_java.py`."""

    def _execute(self, slot: int, spec: Any, commands: list[Command]) -> list[Any]:
        label = label_of(spec)
        self._note("call, synchronously,", slot, label)
        answer = super()._execute(slot, spec, commands)
        self._check_owner(slot, label, answer[1] if len(answer) > 1 else None)
        return answer

    def _event(self, type: str, attributes: dict[str, Any]) -> Any:
        self._note("send", type, repr(attributes))
        return super()._event(type, attributes)


def watched(action: CompiledAction) -> Callable[[CompiledAction, Any, Services], Driver]:
    """The driver that watches this action."""
    return WatchedJavaDriver if isinstance(action.spec.function, JavaFunction) else WatchedDriver
