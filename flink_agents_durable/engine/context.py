"""The `RunnerContext` of one action execution."""

from __future__ import annotations

import datetime
import functools
import logging
import random
import uuid
from collections.abc import Callable
from threading import get_ident
from types import FunctionType
from typing import TYPE_CHECKING, Any

from flink_agents_durable.api.awakeables import Awakeable
from flink_agents_durable.api.call_options import CallOptions, Configured, Duration
from flink_agents_durable.api.context import RunnerContext
from flink_agents_durable.api.events import Event
from flink_agents_durable.api.futures import NO_KEYWORDS, CallSpec, DurableFuture, GatherFuture
from flink_agents_durable.api.java import JavaFunction
from flink_agents_durable.api.memory import MemoryObject
from flink_agents_durable.engine.gather import batch_timeout, check_batch
from flink_agents_durable.engine.identity import derived_uuid
from flink_agents_durable.engine.java_messages import pack, to_java
from flink_agents_durable.engine.limits import check_limit
from flink_agents_durable.engine.memory import SENSORY, MemoryView
from flink_agents_durable.engine.parameters import has_parameter, needs_arguments

if TYPE_CHECKING:
    from flink_agents_durable.engine.driver import PythonDriver

_RESERVED = ("reconciler", "options")


class ActionContext(RunnerContext):
    """See `RunnerContext`; everything is done by the driver."""

    __slots__ = ("_awakeables", "_driver", "_events", "_random", "_uuids")

    def __init__(self, driver: PythonDriver) -> None:
        self._driver = driver
        self._awakeables = 0
        self._events = 0
        self._uuids = 0
        self._random: random.Random | None = None

    # --- durable calls ---

    def durable_execute(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self._driver.check_thread("ctx.durable_execute")
        return self._driver.execute(self._checked(_spec(func, args, kwargs)))

    def durable_execute_async(
        self, func: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> DurableFuture[Any]:
        driver = self._driver
        if driver.thread != get_ident():
            driver.check_thread("ctx.durable_execute_async")
        driver.hashes = number = driver.hashes + 1
        if not kwargs and type(func) is FunctionType:
            return DurableFuture(driver, number, CallSpec(func, args, NO_KEYWORDS))
        return DurableFuture(driver, number, self._checked(_spec(func, args, kwargs)))

    def _checked(self, spec: CallSpec) -> CallSpec:
        if type(spec.function) is JavaFunction:
            self._prepare_java(spec)
        if spec.options is not None and spec.options.limit is not None:
            check_limit(spec.options.limit, self._driver.services.limits)
        return spec

    def _prepare_java(self, spec: CallSpec) -> None:
        """Refuse at the call what Java could not be given. Without a JVM a fake may take it."""
        if spec.kwargs:
            raise TypeError(f"{spec.function} is a method of Java: its arguments are given by position")
        pack(spec.args)  # refused here, and not when the call starts, which would fail the task
        spec.args = tuple(to_java(argument) for argument in spec.args)
        if self._driver.services.java is not None:
            self._driver.services.java.prepare()

    def gather(self, *futures: DurableFuture[Any], timeout: Duration | None = None) -> Any:
        self._driver.check_thread("ctx.gather")
        check_batch(self._driver, futures)
        return GatherFuture(self._driver, self._next_hash(), futures, batch_timeout(timeout))

    def _next_hash(self) -> int:
        driver = self._driver
        number: int = driver.hashes + 1
        driver.hashes = number
        return number

    def awakeable(self) -> tuple[str, Awakeable[Any]]:
        self._driver.check_thread("ctx.awakeable")
        self._awakeables += 1
        id = self._driver.port.awakeable_id(self._awakeables)
        return id, Awakeable(self._driver, self._next_hash(), id)

    # --- events and memory ---

    def send_event(self, event: Event) -> None:
        self._driver.check_thread("ctx.send_event")
        if not isinstance(event, Event):
            raise TypeError(f"ctx.send_event takes an Event, not {event!r}")
        self._driver.send(event)

    @property
    def short_term_memory(self) -> MemoryObject:
        self._driver.port.use_memory()
        return self._memory("")

    @property
    def sensory_memory(self) -> MemoryObject:
        return self._memory(SENSORY)

    def _memory(self, prefix: str) -> MemoryObject:
        driver = self._driver
        driver.check_thread("memory")
        return MemoryView(driver.port.memory, driver.port.writes, driver, driver.port.codec, prefix)

    # --- surroundings ---

    def get_resource(self, name: str, type: Any) -> Any:
        return self._driver.services.get_resource(name, type)

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        driver = self._driver
        prefix = f"[{driver.services.job_name} key={self.key!r} action={driver.action.name}]"
        return ReplayAwareLogger(
            logging.getLogger("flink_agents_durable.action"), prefix, driver.port.is_replaying
        )

    @property
    def config(self) -> Any:
        return self._driver.services.config

    @property
    def action_config(self) -> dict[str, Any]:
        return dict(self._driver.action.spec.config)

    def get_action_config_value(self, key: str) -> Any:
        return self._driver.action.spec.config.get(key)

    @property
    def agent_metric_group(self) -> Any:
        return self._driver.services.metric_group(None, self._driver.port.is_replaying)

    @property
    def action_metric_group(self) -> Any:
        return self._driver.services.metric_group(self._driver.action.name, self._driver.port.is_replaying)

    # --- what replays the same ---

    @property
    def key(self) -> Any:
        return self._driver.port.key

    @property
    def run_id(self) -> str:
        return str(self._driver.port.run_id.hex())

    def now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._driver.port.ask_time() / 1000, datetime.timezone.utc)

    def random(self) -> random.Random:
        if self._random is None:
            self._random = random.Random(f"random {self._driver.port.id}")
        return self._random

    def uuid4(self) -> uuid.UUID:
        self._uuids += 1
        return derived_uuid(self._driver.port.id, b"uuid4", self._uuids)

    def _event_id(self) -> Callable[[], uuid.UUID]:
        self._events += 1
        return functools.partial(derived_uuid, self._driver.port.id, b"event", self._events)

    def _is_stepping(self) -> bool:
        return self._driver.thread == get_ident()


if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter  # subscriptable from Python 3.11 on


class ReplayAwareLogger(_Adapter):
    """Names job, key and action in each line, and keeps silent about what was said before the failure."""

    def __init__(self, logger: logging.Logger, prefix: str, is_replaying: Callable[[], bool]) -> None:
        super().__init__(logger, {})
        self._prefix = prefix
        self._is_replaying = is_replaying

    def isEnabledFor(self, level: int) -> bool:
        return not self._is_replaying() and super().isEnabledFor(level)

    def process(self, msg: Any, kwargs: Any) -> Any:
        return f"{self._prefix} {msg}", kwargs


def _spec(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallSpec:
    if kwargs and ("reconciler" in kwargs or "options" in kwargs):
        return _spec_with_keywords(func, args, kwargs)
    if type(func) is Configured:
        return CallSpec(func.function, args, kwargs, _checked_reconciler(func.reconciler), func.options)
    if not callable(func):
        raise TypeError(
            f"a durable call takes a function, not {func!r}: pass the function, and its arguments after it"
        )
    return CallSpec(func, args, kwargs)


def _spec_with_keywords(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallSpec:
    inner = func.function if type(func) is Configured else func
    if not callable(inner):
        raise TypeError(f"a durable call takes a function, not {inner!r}")
    for name in _RESERVED:
        if name in kwargs and has_parameter(inner, name):
            raise TypeError(
                f"{name}= is a keyword of the durable call, and {inner!r} has a parameter of that name:"
                " bind the function's own by functools.partial, or give the call's by configured(...)"
            )
    reconciler = kwargs.pop("reconciler", None)
    options = kwargs.pop("options", None)
    if type(func) is Configured:
        reconciler, options = reconciler or func.reconciler, options or func.options
    if options is not None and not isinstance(options, CallOptions):
        raise TypeError(f"options= takes CallOptions, not {options!r}")
    return CallSpec(inner, args, kwargs, _checked_reconciler(reconciler), options)


def _checked_reconciler(reconciler: Any) -> Any:
    if reconciler is None:
        return None
    if not callable(reconciler):
        raise TypeError(f"reconciler= takes a function without parameters, not {reconciler!r}")
    if needs_arguments(reconciler):
        raise TypeError(
            f"reconciler {reconciler!r} has parameters that must be given: a reconciler is called without any,"
            " bind what it needs by functools.partial or a lambda"
        )
    return reconciler
