"""Bad input: each has a clear error that names the thing and the remedy; nothing else suffers from it."""

from __future__ import annotations

import copy
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from flink_agents_durable import (
    ActionFailedError,
    Agent,
    AttemptEndedError,
    CallOptions,
    ConfigurationError,
    DurableExecutionError,
    DurableSerializationError,
    Event,
    InputEvent,
    OutputEvent,
    ResourceType,
    RunnerContext,
    SqliteActionStateStore,
    StoreUnavailableError,
    action,
    configured,
)
from flink_agents_durable.testing import LocalRunner
from tests.contracts.functions import ask, never
from tests.contracts.kit import Attempts, Gate, agent_of, called, out, until, values


def nothing(event: Any, ctx: RunnerContext) -> None:
    """An action that does nothing."""


# --- when the job is built ---


@pytest.mark.parametrize(
    ("options", "texts"),
    [
        ({"agents.mismatch-polcy": "fail"}, ["agents.mismatch-polcy", "agents.mismatch-policy"]),
        ({"agents.call.worker": 3}, ["agents.call.worker", "agents.call.workers"]),
        ({"agents.call.workers": "many"}, ["agents.call.workers", "'many'", "whole number"]),
        ({"agents.call.workers": 0}, ["agents.call.workers", "at least 1"]),
        ({"agents.strict-values": "perhaps"}, ["agents.strict-values", "true or false"]),
        ({"agents.mismatch-policy": "fial"}, ["agents.mismatch-policy", "'fail'"]),
        ({"agents.close-timeout": "5 parsecs"}, ["agents.close-timeout", "duration"]),
    ],
)
def test_options(options: dict[str, Any], texts: list[str]) -> None:
    """Unknown keys and values of the wrong type, with the nearest known key."""
    with pytest.raises(ConfigurationError) as caught:
        LocalRunner(agent_of(nothing), options=options)
    assert all(text in str(caught.value) for text in texts), caught.value


def test_an_agent_without_actions() -> None:
    class Idle(Agent):
        def act(self, event: Any, ctx: RunnerContext) -> None: ...

    with pytest.raises(ConfigurationError, match=r"Idle has no actions.*@action"):
        LocalRunner(Idle())


def test_two_actions_of_one_name() -> None:
    with pytest.raises(ConfigurationError, match="two actions named 'nothing'"):
        LocalRunner(agent_of(nothing, nothing))

    class Named(Agent):
        @action(InputEvent)
        def act(self, event: Any, ctx: RunnerContext) -> None: ...

    with pytest.raises(ConfigurationError, match="two actions named 'act'"):
        LocalRunner(Named().add_action("act", [InputEvent], nothing))


def test_actions_that_cannot_be_called() -> None:
    """A missing parameter, a forgotten @staticmethod, no function, an async generator."""

    class NoContext(Agent):
        @action(InputEvent)
        def act(self, event: Any) -> None: ...

    with pytest.raises(ConfigurationError, match=r"'act' of NoContext must take \(event, ctx\)"):
        LocalRunner(NoContext())
    with pytest.raises(ConfigurationError, match="'act' of Agent is no function"):
        LocalRunner(Agent().add_action("act", [InputEvent], "nothing"))  # type: ignore[arg-type]

    async def streams(event: Any, ctx: RunnerContext) -> Any:
        yield 1

    with pytest.raises(ConfigurationError, match="async generator"):
        LocalRunner(agent_of(streams))


@pytest.mark.parametrize("trigger", [3, str, None, Event("x")], ids=repr)
def test_triggers_that_are_none(trigger: Any) -> None:
    with pytest.raises(ConfigurationError, match="event classes or event types"):
        Agent().add_action("act", [trigger], nothing)


def test_no_trigger() -> None:
    with pytest.raises(ConfigurationError, match="at least one event"):
        Agent().add_action("act", [], nothing)
    with pytest.raises(ConfigurationError, match="at least one event"):
        action()


def test_failure_policies() -> None:
    with pytest.raises(ConfigurationError, match=r"fail, skip.*'ignore'"):
        action(InputEvent, on_failure="ignore")


def test_call_options() -> None:
    with pytest.raises(ValueError, match="timeout must be positive"):
        CallOptions(timeout=0)
    with pytest.raises(TypeError, match="name of a limit"):
        CallOptions(limit="")


# --- inputs ---


def test_a_key_selector_that_raises(attempts: Attempts) -> None:
    """Its own error comes out, and other inputs go on."""

    def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, [ctx.key, event.input])

    runner = attempts.start(agent_of(act), key_selector=lambda value: value["user"])
    runner.process({"user": "a"})
    with pytest.raises(KeyError, match="user"):
        runner.process({"name": "a"})
    runner.process({"user": "b"})
    assert [value[0] for value in values(runner)] == ["a", "b"]


@pytest.mark.parametrize(
    "key", [object(), threading.Lock(), lambda: 1, {"a": 1}], ids=["object", "lock", "lambda", "dict"]
)
def test_a_key_without_an_encoding(attempts: Attempts, key: Any) -> None:
    """It names the type; nothing was admitted."""
    runner = attempts.start(agent_of(nothing))
    with pytest.raises(TypeError, match=type(key).__name__):
        runner.process(key, 1)
    assert runner.idle


def test_an_input_that_cannot_be_pickled(attempts: Attempts) -> None:
    """It names the type; other keys go on."""
    runner = attempts.start(agent_of(lambda_free_echo))
    with pytest.raises(DurableSerializationError, match="lock"):
        runner.process("k", threading.Lock())
    runner.process("k", 1)
    assert values(runner) == [1]


def lambda_free_echo(event: Any, ctx: RunnerContext) -> None:
    out(ctx, event.input)


class Rots:
    """Pickles, and does not load."""

    def __reduce__(self) -> Any:
        return _rotten, ()


def _rotten() -> Any:
    raise ImportError("the module of this class is gone")


def test_an_input_that_cannot_be_unpickled(attempts: Attempts) -> None:
    """The task fails with an error that says so; after the restart the other keys have lost nothing."""
    gate = Gate()

    async def act(event: Any, ctx: RunnerContext) -> None:
        out(ctx, await ctx.durable_execute_async(ask, event.input))

    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("good", "a")
    until(first, lambda: gate.is_waiting("a"))
    checkpoint = first.checkpoint()
    with pytest.raises(Exception, match=r"cannot be unpickled.*module of this class is gone"):
        first.process("bad", Rots())
    second = attempts.start(agent_of(act), checkpoint=checkpoint)
    second.run_until_idle()
    assert values(second) == ["a!"]


# --- inside actions ---


def fails_with(attempts: Attempts, body: Any, kind: type[BaseException], *texts: str) -> None:
    """An action that does this fails with a clear error, before any call; so does one that awaits in between."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        result = body(ctx)
        if hasattr(result, "__await__"):
            await result

    runner = attempts.start(agent_of(act))
    with pytest.raises(ActionFailedError) as caught:
        _run(runner)
    cause = caught.value.__cause__
    assert isinstance(cause, kind), repr(cause)
    for text in (*texts,):
        assert text in str(cause)
    assert "'act'" in str(caught.value)
    assert runner.calls == []


def _run(runner: Any) -> None:
    runner.process("k", 1)
    runner.run_until_idle()


@pytest.mark.parametrize("value", [3, None, "ask", [ask]], ids=["number", "None", "text", "list"])
@pytest.mark.parametrize("kind", ["durable_execute", "durable_execute_async", "with options"])
def test_a_function_that_is_no_function(attempts: Attempts, value: Any, kind: str) -> None:
    def body(ctx: RunnerContext) -> Any:
        if kind == "with options":
            return ctx.durable_execute_async(value, options=CallOptions(durable_id="x"))
        return getattr(ctx, kind)(value)

    fails_with(attempts, body, TypeError, "takes a function", repr(value)[:3])


def test_a_called_coroutine_function(attempts: Attempts) -> None:
    """`durable_execute_async(ask(1))` instead of `(ask, 1)`."""

    def body(ctx: RunnerContext) -> Any:
        coroutine = ask(1)
        try:
            return ctx.durable_execute_async(coroutine)
        finally:
            coroutine.close()

    fails_with(attempts, body, TypeError, "takes a function", "arguments after it")


def with_parameters(what: Any) -> Any:
    return what


@pytest.mark.parametrize("kind", ["durable_execute", "durable_execute_async"])
def test_a_reconciler_with_parameters(attempts: Attempts, kind: str) -> None:
    fails_with(
        attempts,
        lambda ctx: getattr(ctx, kind)(ask, 1, reconciler=with_parameters),
        TypeError,
        "reconciler",
        "with_parameters",
        "functools.partial",
    )


def test_a_configured_reconciler_with_parameters(attempts: Attempts) -> None:
    fails_with(
        attempts,
        lambda ctx: ctx.durable_execute_async(configured(ask, reconciler=with_parameters), 1),  # type: ignore[arg-type]
        TypeError,
        "with_parameters",
    )


def test_a_reconciler_that_is_no_function(attempts: Attempts) -> None:
    fails_with(
        attempts, lambda ctx: ctx.durable_execute_async(ask, 1, reconciler="look"), TypeError, "'look'"
    )


def test_options_of_another_kind(attempts: Attempts) -> None:
    fails_with(
        attempts,
        lambda ctx: ctx.durable_execute_async(ask, 1, options={"timeout": 3}),
        TypeError,
        "CallOptions",
    )


def takes_options(options: Any) -> Any:
    return options


def test_a_function_with_a_reserved_parameter(attempts: Attempts) -> None:
    fails_with(
        attempts,
        lambda ctx: ctx.durable_execute_async(takes_options, options=CallOptions()),
        TypeError,
        "options=",
        "functools.partial",
    )


def test_a_generator_as_a_durable_function(attempts: Attempts) -> None:
    """Its items would be lost with the worker: collect them inside the call."""

    def streams(what: Any) -> Any:
        yield what

    async def streams_too(what: Any) -> Any:
        yield what

    async def act(event: Any, ctx: RunnerContext) -> None:
        for function in (streams, streams_too):
            with pytest.raises(TypeError, match="generator"):
                await ctx.durable_execute_async(function, 1)
        out(ctx, "done")

    runner = attempts.start(agent_of(act))
    _run(runner)
    assert values(runner) == ["done"]


def test_a_durable_call_outside_of_the_task_thread(attempts: Attempts) -> None:
    """From a function that runs on a worker: the error names the action, and the action goes on."""
    contexts: list[RunnerContext] = []

    def nested(what: Any) -> Any:
        contexts[0].durable_execute(never)

    async def act(event: Any, ctx: RunnerContext) -> None:
        contexts.append(ctx)
        with pytest.raises(DurableExecutionError, match=r"'act'.*task thread"):
            await ctx.durable_execute_async(nested, 1)
        out(ctx, "went on")

    runner = attempts.start(agent_of(act))
    _run(runner)
    assert values(runner) == ["went on"]
    with pytest.raises(DurableExecutionError, match="after the action has ended"):
        contexts[0].durable_execute_async(ask, 1)


def test_awaiting_in_a_plain_action(attempts: Attempts) -> None:
    """A plain function that returns an awaitable is one; a future driven by hand says what to do."""

    def act(event: Any, ctx: RunnerContext) -> None:
        future = ctx.durable_execute_async(ask, 1)
        with pytest.raises(DurableExecutionError, match="async def"):
            future.send(None)
        out(ctx, "went on")

    runner = attempts.start(agent_of(act))
    _run(runner)
    assert values(runner) == ["went on"]


@pytest.mark.parametrize("event", [3, None, "done", OutputEvent], ids=repr)
def test_sending_what_is_no_event(attempts: Attempts, event: Any) -> None:
    fails_with(attempts, lambda ctx: ctx.send_event(event), TypeError, "takes an Event")


def test_sending_what_cannot_be_pickled(attempts: Attempts) -> None:
    """At `send_event`, where the mistake is; for an event that triggers and for an output."""

    def act(event: Any, ctx: RunnerContext) -> None:
        for bad in (Event("step", {"lock": threading.Lock()}), OutputEvent(threading.Lock())):
            with pytest.raises(DurableSerializationError, match="lock"):
                ctx.send_event(bad)
        out(ctx, "went on")

    def step(event: Any, ctx: RunnerContext) -> None: ...

    runner = attempts.start(agent_of(act, step=step))
    _run(runner)
    assert values(runner) == ["went on"]


def test_an_unknown_resource(attempts: Attempts) -> None:
    async def act(event: Any, ctx: RunnerContext) -> None:
        ctx.get_resource("gpt", ResourceType.CHAT_MODEL)

    runner = attempts.start(agent_of(act))
    with pytest.raises(ActionFailedError, match="gpt") as caught:
        _run(runner)
    assert "CHAT_MODEL" in str(caught.value).upper()


def test_a_failed_action_names_action_key_and_error(attempts: Attempts) -> None:
    """And it is the cause; the attempt is over for all keys, the next one has them all."""
    gate = Gate()

    async def act(event: Any, ctx: RunnerContext) -> None:
        if event.input == "bad":
            raise LookupError("nothing there")
        out(ctx, await ctx.durable_execute_async(ask, event.input))

    first = attempts.start(agent_of(act), fakes={ask: gate})
    first.process("k1", "good")
    until(first, lambda: gate.is_waiting("good"))
    checkpoint = first.checkpoint()
    with pytest.raises(ActionFailedError) as caught:
        first.process("k2", "bad")
    assert isinstance(caught.value.__cause__, LookupError)
    for text in ("'act'", "'k2'", "LookupError", "nothing there"):
        assert text in str(caught.value)
    second = attempts.start(agent_of(act), checkpoint=checkpoint, options={"agents.action-failure": "skip"})
    second.process("k2", "bad")
    second.run_until_idle()
    assert values(second) == ["good!"]
    assert called(second) == ["good"]


def test_an_action_that_raises_on_failure_skip(attempts: Attempts) -> None:
    """`on_failure` of the action overrides the option."""

    class Careful(Agent):
        @action(InputEvent, on_failure="skip")
        def may_fail(self, event: Any, ctx: RunnerContext) -> None:
            raise LookupError

        @action(InputEvent)
        def other(self, event: Any, ctx: RunnerContext) -> None:
            out(ctx, "went on")

    runner = attempts.start(Careful())
    runner.process("k", 1)
    assert values(runner) == ["went on"]
    assert runner.idle


# --- the store ---


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    """The store cannot be opened: the error names the path and what to do."""
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    with pytest.raises(StoreUnavailableError, match="blocked") as caught:
        LocalRunner(agent_of(nothing), store=SqliteActionStateStore(blocked / "log", append_timeout=0.2))
    assert "agents.store.sqlite.path" in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    with pytest.raises(StoreUnavailableError, match="locked"):
        LocalRunner(agent_of(nothing), store=SqliteActionStateStore(locked, append_timeout=0.2))


class FullStore:
    """A store whose disk is full from some batch on."""

    def __init__(self, inner: Any, batches: int) -> None:
        self._inner = inner
        self._left = batches
        self.error: BaseException | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def __copy__(self) -> FullStore:
        return FullStore(copy.copy(self._inner), self._left)

    def append(self, records: Any) -> None:
        self._left -= 1
        if self._left < 0:
            self.error = StoreUnavailableError(
                "the action state store /data cannot be written: the disk is full"
            )
            return
        self._inner.append(records)

    def acknowledged(self) -> int:
        if self.error is not None:
            raise self.error
        return int(self._inner.acknowledged())

    def wait_acknowledged(self, batches: int, wait: Any) -> None:
        if self.error is not None:
            raise self.error
        self._inner.wait_acknowledged(batches, wait)


@pytest.mark.parametrize("kind", ["async", "synchronous"])
def test_a_full_disk_ends_the_attempt_and_loses_nothing(attempts: Attempts, kind: str) -> None:
    """S7: the action does not go on with a result that is not durable; with room again the job goes on."""

    async def act(event: Any, ctx: RunnerContext) -> None:
        for name in "abc":
            try:
                if kind == "async":
                    out(ctx, await ctx.durable_execute_async(ask, name))
                else:
                    out(ctx, ctx.durable_execute(ask, name))
            except Exception:
                out(ctx, "swallowed")

    store = attempts.store
    attempts.store = FullStore(store, 2 if kind == "async" else 1)
    first = attempts.start(agent_of(act))
    with pytest.raises((StoreUnavailableError, AttemptEndedError), match="disk is full"):
        _run(first)
    assert values(first) in (["a!"], ["a!", "b!"])
    attempts.store = store
    second = attempts.start(agent_of(act))
    _run(second)
    assert values(second) == ["a!", "b!", "c!"]
    assert called(second)[-1] == "c"
    assert "a" not in called(second)
