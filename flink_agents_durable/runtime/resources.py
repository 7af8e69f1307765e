"""The resources of one subtask: found by name, made on first use, closed with the operator."""

from __future__ import annotations

import asyncio
import difflib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, overload

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.resources import RESOURCE_MARK, Resource, ResourceDescriptor, ResourceType
from flink_agents_durable.api.tools import Tool

logger = logging.getLogger(__name__)

R = TypeVar("R", bound=Resource)
ResourceKey = tuple[ResourceType, str]
Declaration = Any
"""A descriptor, an instance, a method of an agent that returns one of them, or for tools a function."""

REFERENCES = {
    "connection": ResourceType.CHAT_MODEL_CONNECTION,
    "prompt": ResourceType.PROMPT,
    "tools": ResourceType.TOOL,
}
"""Arguments of a chat model's descriptor that name other resources."""


def _is_found(module: str) -> bool:
    if module in sys.modules:
        return True
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


class UnknownResourceError(ConfigurationError, KeyError):
    """There is no resource of this name and kind."""

    def __str__(self) -> str:
        return str(self.args[0])


class ResourceRegistry:
    """The resources that an agent sees; used on the task thread alone."""

    def __init__(self, declared: Mapping[ResourceKey, Declaration]) -> None:
        self._declared = dict(declared)
        self._made: dict[ResourceKey, Resource] = {}
        self._making: list[ResourceKey] = []
        self._closed = False

    @classmethod
    def of(cls, agent: Agent, shared: Mapping[Any, Any] | None = None) -> ResourceRegistry:
        """The registry of an agent with those of its environment; the agent's own go first."""
        return cls({**normalized(shared or {}), **collect_resources(agent)})

    @overload
    def get_resource(self, name: str, type: ResourceType) -> Resource: ...
    @overload
    def get_resource(self, name: str, type: type[R]) -> R: ...
    def get_resource(self, name: str, type: Any) -> Any:
        """The resource of this name, by its `ResourceType` or, typed, by its class. Made on first use."""
        if self._closed:
            raise RuntimeError(f"resource {name!r} is asked for after the operator was closed")
        if isinstance(type, ResourceType):
            return self._get(type, name)
        if not (isinstance(type, _class) and issubclass(type, Resource)):
            raise TypeError(f"a resource is asked for by a ResourceType or a resource class, not by {type!r}")
        resource = self._get(type.resource_type(), name)
        if not isinstance(resource, type):
            raise TypeError(f"resource {name!r} is a {resource.__class__.__name__}, not a {type.__name__}")
        return resource

    def _get(self, kind: ResourceType, name: str) -> Resource:
        key = (kind, name)
        resource = self._made.get(key)
        if resource is None:
            if key not in self._declared:
                raise UnknownResourceError(self._unknown(kind, name))
            resource = self._make(key)
        return resource

    def _make(self, key: ResourceKey) -> Resource:
        kind, name = key
        if key in self._making:
            circle = " -> ".join(name for _, name in [*self._making, key])
            raise ConfigurationError(f"resources need each other in a circle: {circle}")
        self._making.append(key)
        try:
            resource = make_resource(kind, name, self._declared[key])
            resource.bind(name, self)
            resource.open()
        except ConfigurationError:
            raise
        except Exception as error:
            raise ConfigurationError(f"{kind.value} {name!r} cannot be made: {error}") from error
        finally:
            self._making.pop()
        self._made[key] = resource
        return resource

    def check(self) -> None:
        """Check at submission what can be checked without making anything: names that lead nowhere.

        Raises UnknownResourceError for a resource; a class that cannot be found here is a warning, as the tasks
        may have what this program has not.
        """
        for (kind, name), declaration in self._declared.items():
            if isinstance(declaration, ResourceDescriptor) and not _is_found(declaration.target_module):
                logger.warning(
                    "%s %r: this program finds no module %r; where the tasks run it must be there",
                    kind.value,
                    name,
                    declaration.target_module,
                )
            if isinstance(declaration, ResourceDescriptor) and kind is ResourceType.CHAT_MODEL:
                self._check_references(name, declaration.arguments)

    def _check_references(self, owner: str, arguments: Mapping[str, Any]) -> None:
        for argument, kind in REFERENCES.items():
            given = arguments.get(argument)
            for name in given if isinstance(given, (list, tuple)) else [given]:
                if isinstance(name, str) and (kind, name) not in self._declared:
                    raise UnknownResourceError(f"chat model {owner!r}: {self._unknown(kind, name)}")

    def _unknown(self, kind: ResourceType, name: str) -> str:
        names = [known for known_kind, known in self._declared if known_kind is kind]
        near = difflib.get_close_matches(name, names, n=1)
        elsewhere = [other.value for other, known in self._declared if known == name]
        if near:
            hint = f"; did you mean {near[0]!r}?"
        elif elsewhere:
            hint = f"; there is a {elsewhere[0]} of this name"
        else:
            hint = f"; known: {', '.join(sorted(names))}" if names else "; none of this kind is registered"
        return f"there is no {kind.value} named {name!r}{hint}"

    def close(self, loop: asyncio.AbstractEventLoop | None = None, timeout: float = 5.0) -> None:
        """Close what was made, last made first. Never raises.

        What a resource closes asynchronously is awaited on `loop` (the loop thread of the durable calls) for
        at most `timeout` seconds in all, so that a server that is gone does not hold the operator.
        """
        self._closed = True
        pending: list[Awaitable[None]] = []
        while self._made:
            (kind, name), resource = self._made.popitem()
            try:
                closing = resource.close()
            except Exception:
                logger.warning("%s %r failed to close", kind.value, name, exc_info=True)
                continue
            if closing is not None:
                pending.append(closing)
        if pending:
            _close_on(loop, pending, timeout)


_class = type


def _close_on(loop: asyncio.AbstractEventLoop | None, pending: list[Awaitable[None]], timeout: float) -> None:
    async def close_all() -> None:
        for result in await asyncio.gather(*pending, return_exceptions=True):
            if isinstance(result, Exception):
                logger.warning("a resource failed to close: %r", result)

    if loop is None or not loop.is_running():
        for awaitable in pending:
            if inspect.iscoroutine(awaitable):
                awaitable.close()
        return
    closing = asyncio.run_coroutine_threadsafe(close_all(), loop)
    try:
        closing.result(timeout)
    except Exception:
        closing.cancel()
        logger.warning("resources did not close within %s s; left to the garbage collector", timeout)


def make_resource(kind: ResourceType, name: str, declaration: Declaration) -> Resource:
    """The resource of a declaration, not yet bound and opened."""
    if isinstance(declaration, DeclaredByMethod):
        declaration = declaration.method if kind is ResourceType.TOOL else declaration.method()
    if isinstance(declaration, ResourceDescriptor):
        resource = declaration.make()
    elif isinstance(declaration, Resource):
        resource = declaration
    elif kind is ResourceType.TOOL and callable(declaration):
        resource = Tool.from_callable(declaration)
    else:
        raise ConfigurationError(
            f"{kind.value} {name!r} is declared by {declaration!r}: give a ResourceDescriptor or an instance"
        )
    if resource.resource_type() is not kind:
        raise ConfigurationError(
            f"{name!r} is registered as a {kind.value} and is a {resource.resource_type().value} "
            f"({type(resource).__name__})"
        )
    return resource


class DeclaredByMethod:
    """A resource declared by a decorated method, which is called in the task to see its environment."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method


def collect_resources(agent: Agent) -> dict[ResourceKey, Declaration]:
    """All resources that an agent declares: by decorated methods, then by `add_resource`.

    An override without a decorator keeps the kind of what it overrides, as actions do.
    """
    declared: dict[ResourceKey, Declaration] = {}
    marks: dict[str, ResourceType] = {}
    for cls in reversed(type(agent).__mro__):
        for name, attribute in vars(cls).items():
            kind = getattr(getattr(attribute, "__func__", attribute), RESOURCE_MARK, None)
            if isinstance(kind, ResourceType):
                marks[name] = kind
    for name, kind in marks.items():
        declared[(kind, name)] = DeclaredByMethod(getattr(agent, name))
    added: Mapping[ResourceKey, Declaration] = agent.__dict__.get("_added_resources", {})
    for key, declaration in normalized(added).items():
        if key in declared:
            raise ConfigurationError(f"{key[0].value} {key[1]!r} is declared by a method and by add_resource")
        declared[key] = declaration
    return declared


def normalized(resources: Mapping[Any, Any]) -> dict[ResourceKey, Declaration]:
    """Resources by kind and name, from any of the forms in which they are given.

    `{(kind, name): declaration}`, `{kind: {name: declaration}}`, or `{name: declaration}` where the
    declaration says its kind itself.
    """
    found: dict[ResourceKey, Declaration] = {}
    for key, value in resources.items():
        if isinstance(key, tuple):
            found[(_kind(key[0]), str(key[1]))] = value
        elif isinstance(key, ResourceType):
            found.update({(key, str(name)): declaration for name, declaration in value.items()})
        else:
            found[(kind_of(value), str(key))] = value
    return found


def kind_of(declaration: Declaration) -> ResourceType:
    """The kind of a declaration; a function is a tool."""
    if isinstance(declaration, ResourceDescriptor):
        return declaration.clazz.resource_type()
    if isinstance(declaration, Resource):
        return declaration.resource_type()
    if callable(declaration):
        return ResourceType.TOOL
    raise ConfigurationError(f"{declaration!r} is no resource: give a ResourceDescriptor or an instance")


def _kind(given: Any) -> ResourceType:
    if not isinstance(given, ResourceType):
        raise ConfigurationError(f"resource types are members of ResourceType, not {given!r}")
    return given
