"""The driver of actions written in Python: coroutines, generators and plain functions."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import Generator
from contextvars import copy_context
from threading import get_ident
from types import CoroutineType
from typing import Any, NoReturn

from flink_agents_durable.api._current import ContextRef, current
from flink_agents_durable.api.awakeables import Awakeable
from flink_agents_durable.api.errors import CallTimeoutError, DurableExecutionError, StalledActionError
from flink_agents_durable.api.futures import NOBODY, CallSpec, DurableFuture, GatherFuture, Outcome
from flink_agents_durable.engine import async_generators
from flink_agents_durable.engine.commands import (
    AWAIT,
    BATCH,
    CALL,
    CANCEL,
    COMPLETE,
    FAIL,
    NOT_LIVE,
    SEND,
    TIMER,
    Command,
)
from flink_agents_durable.engine.context import ActionContext
from flink_agents_durable.engine.failures import decode_failure
from flink_agents_durable.engine.functions import identify
from flink_agents_durable.engine.gather import check_batch
from flink_agents_durable.engine.loop import ActionLoop, DurableTimer, TimerPort, close_task, make_loop
from flink_agents_durable.engine.plan import CompiledAction
from flink_agents_durable.engine.services import Services
from flink_agents_durable.engine.uncaught import uncaught_slots


class PythonDriver(TimerPort):
    """Runs one action execution on a loop of its own, and collects what it asks for as commands.

    `port` is the engine's side of the execution: recorded time, memory, synchronous calls.
    """

    def __init__(self, action: CompiledAction, port: Any, services: Services) -> None:
        self.action = action
        self.port = port
        self.services = services
        self.commands: list[Command] = []
        self.next_slot = 0
        self.targets: dict[int, Any] = {}
        self.failures: dict[int, tuple[BaseException, int]] = {}
        self.loop: ActionLoop | None = None
        self.task: asyncio.Task[Any] | None = None
        self.thread = 0  # of the step that runs
        self.closing = False
        self.hashes = port.id << 16 & 0xFFFFFFFFFFFFFF  # of the futures it makes: the same on replay
        self._context: Any = ActionContext(self)
        self._reference = ContextRef(self._context, services.lazies)

    # --- the engine's side ---

    def start(self, event: Any) -> list[Command]:
        """Begin the action with this event."""
        context = copy_context()
        context.run(current.set, self._reference)
        self.thread = get_ident()
        outer = asyncio._get_running_loop()
        try:
            asyncio._set_running_loop(None)
            result = context.run(self.action.spec.function, event, self._context)
        except Exception as error:
            return self._fail(error)
        finally:
            asyncio._set_running_loop(outer)
            self.thread = 0
        coroutine: Any = result
        if type(result) is not CoroutineType:
            if inspect.isgenerator(result):
                coroutine = _drive(result)
            elif result is not None and inspect.isawaitable(result):
                coroutine = _as_coroutine(result)
            else:
                self.commands.append((COMPLETE,))
                return self._take()
        self.thread = get_ident()
        loop = self.loop = make_loop(self, self.port.id)
        self.task = loop.create_main_task(coroutine, context)
        return self._go_on()

    def resolve(self, slot: int, ok: bool, payload: bytes, live: Any) -> list[Command]:
        """Give the outcome of a slot to whoever waits for it, then go on."""
        target = self.targets.pop(slot, None)
        if target is None:
            return []
        self.thread = get_ident()
        if ok and live is not NOT_LIVE and type(target) is DurableFuture and target.batch is None:
            # By far the most common; as DurableFuture.resolve does.
            waiters = target._waiters
            target._outcome = Outcome(live, None)
            target._waiters = NOBODY
            for waiter in waiters or NOBODY:
                if not waiter.done():
                    waiter.set_result(None)
        elif type(target) is DurableTimer:
            assert self.loop is not None
            self.loop.fire(target)
        elif type(target) is Awakeable:
            # Its failure is final, so that it is none of those that a replay may be without (P14).
            codec = self.port.codec
            target.resolve(
                Outcome(codec.loads(payload), None) if ok else Outcome(None, decode_failure(payload, codec))
            )
        elif ok:
            value = self.port.codec.loads(payload) if live is NOT_LIVE else live
            self._settle(target, Outcome(value, None))
        else:
            error = decode_failure(payload, self.port.codec) if live is NOT_LIVE else live
            self.failures[id(error)] = (error, slot)
            self._settle(target, Outcome(None, error))
        return self._go_on()

    def end_batch(self, slot: int, expired: list[int]) -> list[Command]:
        """Time-out of a batch: what has no outcome gets a `CallTimeoutError` (F8).

        Also when nobody waits for the batch any more: one of its calls may be awaited by itself.
        """
        self.thread = get_ident()
        gather: GatherFuture | None = self.targets.pop(slot, None)
        after = "" if gather is None else f" after {gather.timeout} s"
        for index in expired:
            future = self.targets.pop(index, None)
            if future is None:
                continue
            error = CallTimeoutError(
                f"{future.spec.function_id} had no result when its batch timed out{after}"
            )
            self.failures[id(error)] = (error, index)
            self._settle(future, Outcome(None, error))
        return self._go_on()

    def abandon(self) -> None:
        """Close the coroutine on the task thread; what its `finally` blocks ask for is refused (case 26)."""
        if self.loop is not None:
            self.closing = True
            self.thread = get_ident()
            try:
                if self.task is not None:
                    close_task(self.task)
                self.loop.abandon()
            finally:
                self.thread = 0
        self.release()

    def release(self) -> None:
        """The execution has ended: leave no cycle behind, so that all of it is freed at once (L6)."""
        self._reference.context = None
        self._context = None
        if self.loop is not None and self.loop.generators:
            async_generators.forget(self.loop)
        self.loop = self.task = None
        self.commands = []
        self.targets = {}
        self.failures = {}

    @property
    def version(self) -> int:
        """The version of memory that this step reads (P16)."""
        version: int = self.port.version
        return version

    # --- a step ---

    def _take(self) -> list[Command]:
        commands, self.commands = self.commands, []
        return commands

    def _go_on(self) -> list[Command]:
        """Step the loop; the caller has said which thread does (`thread`)."""
        loop: Any = self.loop
        task: Any = self.task
        try:
            loop.run_ready()
        except DurableExecutionError as error:
            return self._fail(error)
        finally:
            self.thread = 0
        if loop.violation is not None:
            return self._fail(loop.violation)
        if task.done():
            return self._ended(loop, task)
        if not self.targets:
            return self._fail(StalledActionError(_stalled(self.action.name, task, loop)))
        commands, self.commands = self.commands, []
        return commands

    def _ended(self, loop: ActionLoop, task: asyncio.Task[Any]) -> list[Command]:
        """The action's own coroutine has ended; tasks that it left behind are awaited (case 27)."""
        if task.cancelled():
            return self._fail(asyncio.CancelledError("the action was cancelled from inside"))
        error = task.exception()
        if error is None:
            error = loop.unretrieved()
        if error is not None:
            return self._fail(error)
        if loop.children:
            if not self.targets:
                child = next(iter(loop.children.values()))
                return self._fail(StalledActionError(_stalled(self.action.name, child, loop)))
            return self._take()
        self.commands.append((COMPLETE,))
        return self._take()

    def _fail(self, error: BaseException) -> list[Command]:
        timed_out = {} if self.loop is None else self.loop.timed_out
        self.commands.append((FAIL, error, uncaught_slots(error, self.failures, timed_out)))
        return self._take()

    def _settle(self, future: DurableFuture[Any], outcome: Outcome[Any]) -> None:
        future.resolve(outcome)
        batch = future.batch
        if batch is None or batch._outcome is not None:
            return
        batch.open -= 1
        if batch.open == 0:
            if batch.slot >= 0 and self.targets.pop(batch.slot, None) is not None:
                self.commands.append((CANCEL, batch.slot))
            batch.resolve(Outcome([child._outcome for child in batch.children], None))
            for child in batch.children:
                child.batch = None
            batch.children = ()

    # --- the action's side ---

    def check_thread(self, what: str) -> None:
        """Only the action itself, on the task thread, may use its context."""
        if self.thread != get_ident():
            raise DurableExecutionError(
                f"{what} belongs to the action {self.action.name!r} and its task thread: it cannot be used in a"
                " durable function, from another thread, or after the action has ended"
            )

    def refuse_await(self) -> NoReturn:
        """A durable future is awaited where that cannot be."""
        self.check_thread("a durable future")
        raise DurableExecutionError(
            f"action {self.action.name!r} is a plain function and cannot await: make it `async def`"
        )

    def reserve(self, target: Any) -> int:
        """The next slot, in the order of first awaits."""
        slot = self.next_slot
        self.next_slot = slot + 1
        self.targets[slot] = target
        return slot

    def describe(self, spec: CallSpec) -> None:
        """Take the identity of a call before it runs (D2)."""
        options = spec.options
        durable_id = None if options is None else options.durable_id
        spec.function_id, spec.arguments = identify(spec.function, spec.args, spec.kwargs, durable_id)
        spec.context = copy_context()
        if options is not None and options.total_timeout is not None:
            spec.started = self.port.ask_time()

    def plan_call(self, future: DurableFuture[Any]) -> None:
        """First await of a call (F2)."""
        spec = future.spec
        if spec.options is None:  # as `describe` does
            spec.function_id, spec.arguments = identify(spec.function, spec.args, spec.kwargs)
            spec.context = copy_context()
        else:
            self.describe(spec)
        slot = future.slot = self.next_slot
        self.next_slot = slot + 1
        self.targets[slot] = future
        self.commands.append((CALL, slot, spec))

    def plan_batch(self, gather: GatherFuture) -> None:
        """First await of a batch: slots in argument order, then the one of its end (F4)."""
        check_batch(self, gather.children)
        if not gather.children:
            gather.resolve(Outcome([], None))
            return
        planned = []
        for child in gather.children:
            child.batch = gather
            child._waiters = []
            self.describe(child.spec)
            child.slot = self.reserve(child)
            planned.append((child.slot, child.spec))
        if gather.timeout is not None:
            gather.slot = self.reserve(gather)
        self.commands.append((BATCH, planned, gather.slot, gather.timeout))

    def abandon_call(self, future: DurableFuture[Any]) -> None:
        """Nobody waits any more for this call."""
        if self.targets.pop(future.slot, None) is not None:
            self.commands.append((CANCEL, future.slot))

    def abandon_batch(self, gather: GatherFuture) -> None:
        """Nobody waits any more for this batch; children that somebody awaits by themselves go on."""
        if self.targets.pop(gather.slot, None) is not None:
            self.commands.append((CANCEL, gather.slot))
        for child in gather.children:
            child.batch = None
            if child._outcome is None and not child._waiters:
                child.resolve(Outcome.failure(asyncio.CancelledError()))
                self.abandon_call(child)

    def plan_awakeable(self, awakeable: Awakeable[Any]) -> None:
        """Somebody begins to wait for an awakeable."""
        awakeable.slot = self.reserve(awakeable)
        self.commands.append((AWAIT, awakeable.slot, awakeable.id))

    def leave_awakeable(self, awakeable: Awakeable[Any]) -> None:
        """Nobody waits for an awakeable at present."""
        if self.targets.pop(awakeable.slot, None) is not None:
            self.commands.append((CANCEL, awakeable.slot))

    def execute(self, spec: CallSpec) -> Any:
        """A synchronous durable call (P17)."""
        self.describe(spec)
        slot = self.next_slot
        self.next_slot = slot + 1
        commands, self.thread = self._take(), 0  # the function may run on this very thread
        try:
            ok, value = self.port.execute(slot, spec, commands)
        finally:
            self.thread = get_ident()
        if ok:
            return value
        self.failures[id(value)] = (value, slot)
        raise value

    def send(self, event: Any) -> None:
        """Send an event; it is dispatched as it stands now, whatever becomes of it later in this step."""
        self.commands.append((SEND, event))
        if not self.closing:
            self.port.carry_out(self._take())

    # --- the loop's side ---

    def time(self) -> float:
        result: float = self.port.ask_time() / 1000
        return result

    def start_timer(self, delay: float, timer: DurableTimer) -> int:
        slot = self.reserve(timer)
        self.commands.append((TIMER, slot, delay))
        return slot

    def cancel_timer(self, slot: int) -> None:
        if self.targets.pop(slot, None) is not None:
            self.commands.append((CANCEL, slot))


async def _as_coroutine(awaitable: Any) -> Any:
    return await awaitable


async def _drive(generator: Generator[Any, Any, Any]) -> None:
    """Run a generator action: what it yields is awaited and sent back."""
    send, value = generator.send, None
    try:
        while True:
            try:
                awaited = send(value)
            except StopIteration:
                return
            try:
                value = await awaited
                send = generator.send
            except BaseException as error:
                if isinstance(error, GeneratorExit):
                    raise
                value, send = error, generator.throw
    finally:
        generator.close()


def _stalled(action: str, task: asyncio.Task[Any], loop: ActionLoop) -> str:
    frames = task.get_stack()
    where = ""
    if frames:
        summary = traceback.extract_stack(frames[-1], 1)[0]
        where = f" at {summary.filename}:{summary.lineno} ({summary.line})"
    return (
        f"action {action!r} waits{where} for something that no durable call, timer or event of it can bring:"
        " a bare future, or a callback of another thread. Await ctx.durable_execute_async(...) instead"
    )
