"""The Java side of Java actions without a JVM: scripts that write the same messages as `Execution.java`.

A script is a generator `(ctx, value)`; what it waits for it gets by `yield from ctx...`. Its calls are functions of
Python, whose results are recorded as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from flink_agents_durable.engine.java_messages import (
    ASK,
    BATCH,
    CALL,
    COMPLETE,
    EXECUTE,
    FAIL,
    FAILURE,
    FIRED,
    INTERRUPTED,
    OUTCOMES,
    SEND,
    SLEEP,
    TIMER,
    VALUE,
    decode_flat,
    encode,
)

Answer = list[Any]
Waiting = Generator[None, Answer, Any]
Script = Callable[[Any, Any], Waiting]


class ScriptedCall:
    """A durable call of a script."""

    def __init__(
        self,
        label: str,
        function: Callable[[], object],
        reconciler: Callable[[], object] | None = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.label = label
        self.function = function
        self.reconciler = reconciler
        self.options = options


class ScriptFailure(Exception):
    """What a call of a script failed with."""

    def __init__(self, slot: int, failure: dict[str, Any]) -> None:
        super().__init__(str(failure))
        self.slot = slot


class Interrupted(Exception):
    """A call of a script was interrupted (I2)."""


class ScriptContext:
    """What a script sees: commands, slots in the order of first awaits, one wait at a time."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver  # where the stage finds the execution
        self.commands: list[list[Any]] = []
        self.calls: dict[int, ScriptedCall] = {}
        self.next_slot = 0
        self.pinned = False
        """Whether the frames of the script cannot wait: then it is answered from inside its step."""

    def send_event(self, event: Any) -> None:
        self.commands.append([SEND, event.type, event.attributes])

    def _described(self, call: ScriptedCall) -> list[Any]:
        number = len(self.calls) + 1
        self.calls[number] = call
        return [number, call.label, [call.label], call.reconciler is not None, call.options]

    def _answer(self) -> Waiting:
        if not self.pinned:
            return (yield)
        commands, self.commands = self.commands, []
        return decode_flat(self._driver.serve(encode(commands)))[1:]

    def _slots(self, count: int) -> int:
        first = self.next_slot
        self.next_slot += count
        return first

    def call(self, call: ScriptedCall, kind: int = CALL) -> Waiting:
        """Await a call."""
        slot = self._slots(1)
        kind = EXECUTE if self.pinned else kind
        self.commands.append([kind, slot, *self._described(call)])
        return _value(slot, (yield from self._answer()))

    def execute(self, call: ScriptedCall) -> Waiting:
        """A call that the whole task waits for."""
        return (yield from self.call(call, EXECUTE))

    def gather(self, calls: Sequence[ScriptedCall], timeout: float | None = None) -> Waiting:
        """The outcomes of a batch: values, or ScriptFailures."""
        described = [self._described(call) for call in calls]
        first = self._slots(len(calls))
        if timeout is not None:
            self._slots(1)
        self.commands.append([BATCH, described, first, timeout])
        answer = yield from self._answer()
        if answer[0] != OUTCOMES:
            return _value(first, answer)
        outcomes = []
        for place, outcome in enumerate(answer[1]):
            try:
                outcomes.append(_value(first + place, outcome))
            except ScriptFailure as failure:
                outcomes.append(failure)
        return outcomes

    def sleep(self, seconds: float) -> Waiting:
        """Wait for a durable timer."""
        if self.pinned:
            nothing = ScriptedCall("ctx.sleep", lambda: None)
            self.commands.append([EXECUTE, self._slots(1), *self._described(nothing)])
            self.commands[-1][3:5] = [SLEEP, []]
            yield from self._answer()
            return
        self.commands.append([TIMER, self._slots(1), seconds])
        answer = yield
        assert answer[0] == FIRED, answer

    def ask(self, what: str, *arguments: Any) -> Waiting:
        """What is answered at once."""
        self.commands.append([ASK, what, list(arguments)])
        return _value(-1, (yield from self._answer()))


def _value(slot: int, answer: Answer) -> Any:
    if answer[0] == VALUE:
        return answer[1]
    if answer[0] == INTERRUPTED:
        raise Interrupted
    assert answer[0] == FAILURE, answer
    raise ScriptFailure(slot, answer[1])


class ScriptedJava:
    """Implements `JavaPort`."""

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self._scripts = scripts
        self._running: dict[int, tuple[ScriptContext, Waiting]] = {}
        self._handles = 0

    def prepare(self) -> None: ...

    def new_handle(self) -> int:
        self._handles += 1
        return self._handles

    def start(self, handle: int, message: bytes, serve: Any) -> bytes:
        _, _, method, _, _, attributes, *_ = decode_flat(message)
        context = ScriptContext(serve.__self__)
        script = self._scripts[method](context, attributes.get("input", attributes))
        self._running[handle] = context, script
        return self._go_on(handle, lambda: next(script))

    def step(self, handle: int, answer: bytes, serve: Any) -> bytes:
        _, *rest = decode_flat(answer)
        script = self._running[handle][1]
        return self._go_on(handle, lambda: script.send(rest))

    def _go_on(self, handle: int, resume: Callable[[], None]) -> bytes:
        context, _ = self._running[handle]
        try:
            resume()
        except StopIteration:
            context.commands.append([COMPLETE])
        except Exception as error:
            context.commands.append([FAIL, _described(error), _slots_of(error)])
        commands, context.commands = context.commands, []
        return encode(commands)

    def call(self, handle: int, number: int, reconcile: bool) -> Callable[[], object]:
        call = self._running[handle][0].calls[number]
        function = call.reconciler if reconcile else call.function
        assert function is not None
        return function

    def interrupt(self, handle: int, error: BaseException) -> bool:
        return isinstance(error, InterruptedError)

    def abandon(self, handle: int) -> None:
        self.release(handle)

    def release(self, handle: int) -> None:
        _, script = self._running.pop(handle, (None, None))
        if script is not None:
            script.close()


def _slots_of(error: BaseException | None) -> list[int]:
    slots = []
    while error is not None:
        if isinstance(error, ScriptFailure):
            slots.append(error.slot)
        error = error.__cause__
    return slots


def _described(error: Exception) -> dict[str, Any]:
    name = f"script.{type(error).__name__}"
    return {
        "class": name,
        "message": str(error),
        "lineage": [name],
        "fields": {},
        "own": False,
        "stack": [],
        "causes": [],
    }
