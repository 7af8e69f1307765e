"""The driver of actions written in Java: their commands become those of the engine, outcomes become answers.

A Java action waits for one thing at a time: a call, a batch or a timer. What is answered at once (memory, recorded
time, synchronous calls) is answered in a further exchange of the same step. An outcome is given as it is recorded,
live and on replay alike.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from flink_agents_durable.api.call_options import CallOptions, RetryPolicy
from flink_agents_durable.api.errors import CallTimeoutError, ConfigurationError
from flink_agents_durable.api.events import Event, EventType, OutputEvent
from flink_agents_durable.api.futures import CallSpec
from flink_agents_durable.api.java import JavaCallError
from flink_agents_durable.api.memory import MemoryObject
from flink_agents_durable.api.resources import ResourceType
from flink_agents_durable.engine import commands as engine
from flink_agents_durable.engine.commands import NOT_LIVE, Command
from flink_agents_durable.engine.digest import digest_call
from flink_agents_durable.engine.failures import decode_failure
from flink_agents_durable.engine.functions import identify
from flink_agents_durable.engine.identity import derived_uuid
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
    METRIC,
    OUTCOMES,
    SEND,
    SLEEP,
    TIMER,
    VALUE,
    Item,
    decode,
    encode,
    failure_to_java,
    pack,
    packed,
)
from flink_agents_durable.engine.java_port import JavaPort
from flink_agents_durable.engine.limits import check_limit
from flink_agents_durable.engine.memory import SENSORY, MemoryView
from flink_agents_durable.engine.plan import CompiledAction
from flink_agents_durable.engine.services import Services

_OBJECT = "\x00object"
_NOTHING = pack(None)

Answer = list[Any]


class _Batch:
    """A gather that is waited for: outcomes come in any order and cross to Java together."""

    __slots__ = ("end", "open", "outcomes", "timeout")

    def __init__(self, slots: list[int], end: int, timeout: float | None) -> None:
        self.outcomes: dict[int, list[Any] | None] = dict.fromkeys(slots)
        self.open = len(slots)
        self.end = end
        self.timeout = timeout


class JavaDriver:
    """Runs one execution of a Java action through its `JavaPort`."""

    def __init__(self, action: CompiledAction, port: Any, services: Services) -> None:
        self._action = action
        self.port = port
        self._services = services
        self._handle = 0  # of the execution in Java; 0: it has not begun
        self._call = -1  # slot of the call that is waited for
        self._timer = -1  # slot of the timer that is waited for
        self._batch: _Batch | None = None
        self._tools: set[int] = set()  # slots of calls that run in Python
        self._events = 0
        self._pinned = False  # a frame that cannot wait is being served

    # --- the engine's side ---

    def start(self, event: Event) -> list[Command]:
        """Begin the action with this event."""
        try:
            java = self._java()
            self._handle = java.new_handle()
            message = encode(self._beginning(event))
        except Exception as error:
            return [(engine.FAIL, error, [])]
        return self._carry_on(java.start(self._handle, message, self.serve))

    def _java(self) -> JavaPort:
        java = self._services.java
        if java is None:
            raise ConfigurationError(
                f"action {self._action.name!r} is written in Java ({self._action.spec.function}) and needs the JVM of a"
                " Flink job: LocalRunner runs Python actions only"
            )
        return java

    def _beginning(self, event: Event) -> list[Any]:
        function: Any = self._action.spec.function
        port, id = self.port, self.port.id
        return [
            port.is_replaying(),
            function.class_name,
            function.method,
            self._action.name,
            event.type,
            packed(event.attributes),
            str(event.id),
            event.source_timestamp,
            packed(port.key),
            port.run_id.hex(),
            id - (1 << 64) if id >= 1 << 63 else id,
            packed(self._action.spec.config),
        ]

    def resolve(self, slot: int, ok: bool, payload: bytes, live: Any) -> list[Command]:
        """Give the outcome of a slot, or keep it until its batch has all."""
        batch = self._batch
        if batch is not None and slot in batch.outcomes:
            return self._resolve_in_batch(batch, slot, ok, payload, live)
        if slot == self._call:
            self._call = -1
            return self._step(self._outcome(slot, ok, payload, live))
        if slot == self._timer:
            self._timer = -1
            return self._step([FIRED])
        return []

    def _resolve_in_batch(
        self, batch: _Batch, slot: int, ok: bool, payload: bytes, live: Any
    ) -> list[Command]:
        outcome = self._outcome(slot, ok, payload, live)
        if outcome[0] == INTERRUPTED:
            self._batch = None
            return self._step(outcome)
        batch.open -= batch.outcomes[slot] is None
        batch.outcomes[slot] = outcome
        if batch.open:
            return []
        self._batch = None
        commands = self._step([OUTCOMES, list(batch.outcomes.values())])
        return [(engine.CANCEL, batch.end), *commands] if batch.end >= 0 else commands

    def end_batch(self, slot: int, expired: list[int]) -> list[Command]:
        """Time-out of a batch: what has no outcome gets a `CallTimeoutError` (F8)."""
        batch = self._batch
        if batch is None or slot != batch.end:
            return []
        self._batch = None
        outcomes = [outcome or _late(batch.timeout) for outcome in batch.outcomes.values()]
        return self._step([OUTCOMES, outcomes])

    def abandon(self) -> None:
        """Unwind the action; what its `finally` blocks ask for is refused (case 26)."""
        if self._handle:
            self._java().abandon(self._handle)

    def release(self) -> None:
        """The execution has ended: Java forgets it (L6)."""
        if self._handle:
            self._java().release(self._handle)

    # --- answers ---

    def _outcome(self, slot: int, ok: bool, payload: bytes, live: Any) -> Answer:
        codec = self.port.codec
        value: Any = live
        if live is NOT_LIVE:
            value = codec.loads(payload) if ok else decode_failure(payload, codec)
        return self._of_call(slot, ok, value)

    def _of_call(self, slot: int, ok: bool, value: Any) -> Answer:
        """The outcome of a call; Java has packed its own results, those of tools are objects of Python."""
        if not ok or slot not in self._tools:
            return self._answer(ok, value)
        try:
            return [VALUE, pack(value)]
        except Exception as error:
            return [FAILURE, failure_to_java(error)]

    def _answer(self, ok: bool, value: Any) -> Answer:
        if ok:
            return [VALUE, value]
        if not isinstance(value, JavaCallError) and self._java().interrupt(self._handle, value):
            return [INTERRUPTED]
        return [FAILURE, failure_to_java(value)]

    def _step(self, answer: Answer) -> list[Command]:
        message = encode([self.port.is_replaying(), *answer])
        return self._carry_on(self._java().step(self._handle, message, self.serve))

    def serve(self, message: bytes) -> bytes:
        """Answer commands from a frame that cannot wait; they end with something that is answered at once."""
        pending: list[Command] = []
        self._pinned = True
        try:
            answer = self._take(decode(message), pending) or [VALUE, None]
            self.port.carry_out(pending)
        except BaseException as error:  # through Java's frames only its text would come
            answer = self._answer(False, error)
        finally:
            self._pinned = False
        return encode([self.port.is_replaying(), *answer])

    # --- commands ---

    def _carry_on(self, message: bytes) -> list[Command]:
        """Turn the commands of a step into those of the engine, with as many exchanges as it takes."""
        commands: list[Command] = []
        java = self._java()
        try:
            while True:
                answer = self._take(decode(message), commands)
                if answer is None:
                    return commands
                message = java.step(self._handle, encode([self.port.is_replaying(), *answer]), self.serve)
        except Exception as error:
            return [*commands, (engine.FAIL, error, [])]

    def _take(self, items: list[Item], commands: list[Command]) -> Answer | None:
        """Add commands; gives the answer if the last one is answered at once."""
        for item in items:
            kind = item[0]
            if kind == CALL:
                slot, spec = item[1], self._spec(item[1], item[2:])
                if self.port.is_synchronous(slot, spec.function_id):
                    return self._execute(slot, spec, commands)
                self._call = slot
                commands.append((engine.CALL, slot, spec))
            elif kind == SEND:
                commands.append((engine.SEND, self._event(item[1], item[2])))
            elif kind == COMPLETE:
                commands.append((engine.COMPLETE,))
            elif kind == EXECUTE and item[3] == SLEEP:
                return self._sleep_in_place(item, commands)
            elif kind == EXECUTE:
                return self._execute(item[1], self._spec(item[1], item[2:]), commands)
            elif kind == ASK:
                return self._ask(item[1], item[2])
            elif kind == TIMER:
                if self.port.is_synchronous(item[1], SLEEP):
                    return self._sleep_again(item[1], commands)
                self._timer = item[1]
                commands.append((engine.TIMER, item[1], item[2]))
            elif kind == BATCH:
                return self._place_batch(item[1], item[2], item[3], commands)
            elif kind == METRIC:
                self._metric(*item[1:])
            elif kind == FAIL:
                commands.append((engine.FAIL, JavaCallError(item[1]), item[2]))
        return None

    def _spec(self, slot: int, described: Item) -> CallSpec:
        """The call of number, function id, arguments, whether it has a reconciler, options."""
        number, function_id, arguments, has_reconciler, options = described
        if function_id is None:
            self._tools.add(slot)
            return self._tool(*arguments)
        call = self._java().call
        reconciler = call(self._handle, number, True) if has_reconciler else None
        spec = CallSpec(call(self._handle, number, False), (), {}, reconciler, None)
        spec.function_id = function_id
        spec.arguments = None if arguments is None else digest_call(tuple(arguments), {})
        if options is not None:
            spec.options = self._options(options)
            if spec.options.total_timeout is not None:
                spec.started = self.port.ask_time()
        return spec

    def _tool(self, name: str, arguments: dict[str, Any]) -> CallSpec:
        """The call of a tool of the agent, as the built-in actions make it."""
        tool = self._services.get_resource(name, ResourceType.TOOL)
        spec = CallSpec(tool.durable_call, (arguments,), {}, None, tool.call_options)
        spec.function_id, spec.arguments = identify(tool.durable_call, spec.args, {})
        if spec.options is not None and spec.options.total_timeout is not None:
            spec.started = self.port.ask_time()
        return spec

    def _options(self, options: dict[str, Any]) -> CallOptions:
        retry = None
        if "max_attempts" in options:
            retry = RetryPolicy(
                max_attempts=options["max_attempts"],
                initial_interval=options["initial_interval"],
                backoff_factor=options["backoff_factor"],
                max_interval=options["max_interval"],
                jitter=options["jitter"],
                retry_on=partial(_is_of, frozenset(options["retry_on"])),
            )
        limit = options.get("limit")
        if limit is not None:
            check_limit(limit, self._services.limits)
        return CallOptions(
            timeout=options.get("timeout"),
            total_timeout=options.get("total_timeout"),
            retry=retry,
            limit=limit,
        )

    def _place_batch(
        self, described: list[Item], first: int, timeout: float | None, commands: list[Command]
    ) -> Answer | None:
        """Slots in argument order, then the one of its end (F4)."""
        planned = [(slot, self._spec(slot, call)) for slot, call in enumerate(described, first)]
        end = -1 if timeout is None else first + len(planned)
        if self._pinned or any(self.port.is_synchronous(slot, spec.function_id) for slot, spec in planned):
            return self._batch_in_place(planned, end, timeout, commands)
        self._batch = _Batch([slot for slot, _ in planned], end, timeout)
        commands.append((engine.BATCH, planned, end, timeout))
        return None

    def _batch_in_place(
        self, planned: list[tuple[int, CallSpec]], end: int, timeout: float | None, commands: list[Command]
    ) -> Answer:
        """One call after the other, as the frame cannot wait; what was recorded otherwise stays as it was."""
        late = () if end < 0 else self.port.late_calls(end)
        outcomes = [
            _late(timeout) if slot in late else self._execute(slot, spec, commands) for slot, spec in planned
        ]
        if late:
            self._has_fired(end, commands)
        return [OUTCOMES, outcomes]

    def _execute(self, slot: int, spec: CallSpec, commands: list[Command]) -> Answer:
        """A synchronous call (P17). What ends the attempt reaches user code too, and its commands are refused (I2)."""
        try:
            return self._of_call(slot, *self.port.execute(slot, spec, _drained(commands), was_awaited=True))
        except BaseException as error:
            return self._answer(False, error)

    def _has_fired(self, slot: int, commands: list[Command]) -> bool:
        fired: bool = self.port.take_firing(slot, _drained(commands))
        return fired

    def _sleep_in_place(self, item: Item, commands: list[Command]) -> Answer:
        """It sleeps in a frame that cannot wait; a timer that has fired before the failure has woken it."""
        try:
            if self._has_fired(item[1], commands):
                return [VALUE, _NOTHING]
        except BaseException as error:
            return self._answer(False, error)
        return self._execute(item[1], self._spec(item[1], item[2:]), commands)

    def _sleep_again(self, slot: int, commands: list[Command]) -> Answer:
        """It slept in a frame that could not wait; now it could. The record says that it has."""
        spec = CallSpec(_slept, (), {}, None, None)
        spec.function_id, spec.arguments = SLEEP, digest_call((), {})
        answer = self._execute(slot, spec, commands)
        return [FIRED] if answer[0] == VALUE else answer

    def _event(self, type: str, attributes: dict[str, Any]) -> Event:
        self._events += 1
        if type == EventType.OutputEvent:
            event: Event = OutputEvent(attributes.get("output"))
            event.attributes = attributes
        else:
            event = Event(type, attributes)
        event._id = partial(derived_uuid, self.port.id, b"event", self._events)
        return event

    def _metric(self, of_action: bool, path: list[str], kind: str, name: str, value: Any) -> None:
        group = self._services.metric_group(self._action.name if of_action else None, self.port.is_replaying)
        for part in path:
            group = group.get_sub_group(part)
        if kind == "counter":
            group.get_counter(name).inc(value)
        elif kind == "meter":
            group.get_meter(name).mark(value)
        elif kind == "gauge":
            group.get_gauge(name).update(value)
        else:
            group.get_histogram(name).update(value)

    # --- what is answered at once ---

    def _ask(self, what: str, arguments: list[Any]) -> Answer:
        try:
            if what == "now":
                return [VALUE, self.port.ask_time()]
            if what == "memory":
                return [VALUE, self._memory(*arguments)]
            config = self._services.config
            return [VALUE, None if config is None else packed(config.get(arguments[0]))]
        except Exception as error:
            return [FAILURE, failure_to_java(error)]

    def _memory(self, scope: str, operation: str, prefix: str, *arguments: Any) -> Any:
        """Memory of the key; values of Python come as Java knows them."""
        if scope == "short":
            self.port.use_memory()
        base = SENSORY if scope == "sensory" else ""
        port = self.port
        view = MemoryView(port.memory, port.writes, self, port.codec, base + prefix)
        result = getattr(view, operation)(*arguments)
        if isinstance(result, MemoryObject):
            return _OBJECT
        return packed(result)

    def check_thread(self, what: str) -> None:
        """Java has checked it."""

    @property
    def version(self) -> int:
        """The version of memory that this step reads (P16)."""
        version: int = self.port.version
        return version


def _slept() -> None:
    """Stands for the call of a sleep that is recorded."""


def _late(timeout: float | None) -> Answer:
    late = CallTimeoutError(f"a call had no result when its batch timed out after {timeout} s")
    return [FAILURE, failure_to_java(late)]


def _drained(commands: list[Command]) -> list[Command]:
    """What was commanded before; it is carried out with what is answered at once."""
    drained = commands[:]
    commands.clear()
    return drained


def _is_of(classes: frozenset[str], error: BaseException) -> bool:
    """Whether a failure is of one of these Java classes."""
    if isinstance(error, JavaCallError):
        return not classes.isdisjoint(error.java_lineage)
    return not classes.isdisjoint(("java.lang.Exception", "java.lang.Throwable"))
