"""Resources: the named things that actions share, such as chat models, tools and prompts.

A resource is declared with the agent or the environment and made once per subtask, on first use.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from enum import Enum, EnumMeta
from typing import Any, NoReturn, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, PrivateAttr

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.unsupported import is_unsupported, unsupported

F = TypeVar("F")

RESOURCE_MARK = "_flink_agents_durable_resource_type"
"""Attribute that the decorators leave on a method of an agent; its value is a `ResourceType`."""


class _ExplainingEnum(EnumMeta):
    """Answers the kinds that flink-agents has and we do not with the way to go."""

    def __getattr__(cls, name: str) -> NoReturn:
        if is_unsupported(name):
            unsupported(name)
        raise AttributeError(name)


class ResourceType(Enum, metaclass=_ExplainingEnum):
    """The kinds of resources. A name is unique within its kind."""

    CHAT_MODEL = "chat_model"
    CHAT_MODEL_CONNECTION = "chat_model_connection"
    TOOL = "tool"
    PROMPT = "prompt"


class ResourceContext(Protocol):
    """What a resource sees of the others."""

    def get_resource(self, name: str, type: ResourceType) -> Resource:
        """The resource of this name and kind; made if it is not there yet."""


class Resource(BaseModel):
    """Base of all resources: fields are its configuration, `open` makes what cannot be pickled.

    `open` and `close` run on the task thread, methods that are called as durable functions do not. `close`
    may return an awaitable, which is awaited on the loop thread of the durable calls: the place to close an
    async client.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    _name: str | None = PrivateAttr(default=None)
    _context: ResourceContext | None = PrivateAttr(default=None)
    _metric_group: Any = PrivateAttr(default=None)

    @classmethod
    def resource_type(cls) -> ResourceType:
        """The kind of this class of resources."""
        raise NotImplementedError(f"{cls.__qualname__} does not say its kind: override resource_type()")

    @property
    def resource_name(self) -> str | None:
        """The name under which this resource was registered, None before."""
        return self._name

    @property
    def durable_id(self) -> str | None:
        """`<type>:<name>`, by which durable calls of its methods are told apart on replay. Keeps D3."""
        return None if self._name is None else f"{self.resource_type().value}:{self._name}"

    @property
    def resource_context(self) -> ResourceContext:
        """The other resources of the agent."""
        if self._context is None:
            raise RuntimeError(
                f"{type(self).__name__} is not registered: take it from `ctx.get_resource(name, type)` "
                "instead of using the declared object"
            )
        return self._context

    def bind(self, name: str, context: ResourceContext) -> None:
        """Tell the resource its name and where the others are. Called before `open`."""
        self._name = name
        self._context = context

    @property
    def metric_group(self) -> Any:
        """The metric group given by `set_metric_group`, None without one."""
        return self._metric_group

    def set_metric_group(self, metric_group: Any) -> None:
        """Give the resource a metric group to count in."""
        self._metric_group = metric_group

    def open(self) -> None:
        """Make what the resource needs; called once, when it is first used."""

    def close(self) -> Awaitable[None] | None:
        """Give back what `open` or the use of the resource took."""
        return None

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __getstate__(self) -> dict[Any, Any]:
        """Pickle the configuration alone: what was bound or opened belongs to one subtask."""
        state = dict(super().__getstate__())
        private: dict[str, Any] = dict(type(self).__private_attributes__)
        state["__pydantic_private__"] = {
            name: attr.default if attr.default_factory is None else attr.default_factory()
            for name, attr in private.items()
        }
        return state


class ResourceDescriptor:
    """Class and arguments of a resource that is made in the task.

    The class is given as a class or as `"module.Class"`; arguments as keywords or as the mapping `arguments`.
    """

    def __init__(
        self,
        /,
        *,
        clazz: type[Resource] | str | None = None,
        target_module: str | None = None,
        target_clazz: str | None = None,
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._clazz: type[Resource] | None = None
        if isinstance(clazz, str):
            target_module, _, target_clazz = clazz.rpartition(".")
        elif clazz is not None:
            _check_class(clazz, repr(clazz))
            self._clazz = clazz
            target_module, target_clazz = clazz.__module__, clazz.__qualname__
        if not target_module or not target_clazz:
            raise ConfigurationError(
                f"ResourceDescriptor needs its class, as a class or as 'module.Class'; got clazz={clazz!r}"
            )
        self.target_module: str = target_module
        self.target_clazz: str = target_clazz
        self.arguments: dict[str, Any] = {**(arguments or {}), **kwargs}

    @property
    def clazz(self) -> type[Resource]:
        """The class; imported when it was given by name."""
        if self._clazz is None:
            self._clazz = self._import()
        return self._clazz

    def _import(self) -> type[Resource]:
        path = f"{self.target_module}.{self.target_clazz}"
        try:
            found: Any = importlib.import_module(self.target_module)
            for part in self.target_clazz.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise ConfigurationError(
                f"the resource class {path} cannot be imported: {error}. Ship its module with the job "
                "(`env.add_python_file`) or install it where the tasks run"
            ) from error
        _check_class(found, path)
        checked: type[Resource] = found
        return checked

    def make(self) -> Resource:
        """A new resource of this description, not yet bound and opened."""
        return self.clazz(**self.arguments)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ResourceDescriptor):
            return NotImplemented
        return (self.target_module, self.target_clazz, self.arguments) == (
            other.target_module,
            other.target_clazz,
            other.arguments,
        )

    def __hash__(self) -> int:
        return hash((self.target_module, self.target_clazz, tuple(sorted(self.arguments))))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_shown(name, value)}" for name, value in self.arguments.items())
        path = f"{self.target_module}.{self.target_clazz}"
        return f"ResourceDescriptor(clazz={path!r}{', ' if shown else ''}{shown})"


def _shown(name: str, value: object) -> str:
    """A value for repr: a key or a token never ends in a log."""
    secret = any(word in name.lower() for word in ("key", "token", "secret", "password", "headers"))
    return "'***'" if secret else repr(value)


def _check_class(found: object, path: str) -> None:
    if not (isinstance(found, type) and issubclass(found, Resource)):
        raise ConfigurationError(f"{path} is not a resource class: it does not derive from Resource")


def mark_resource(function: F, kind: ResourceType) -> F:
    """Mark a method of an agent, also a static one in either order, as the declaration of a resource."""
    setattr(getattr(function, "__func__", function), RESOURCE_MARK, kind)
    return function


def chat_model_connection(function: F) -> F:
    """The decorated method of an agent returns the descriptor or the instance of a chat model connection."""
    return mark_resource(function, ResourceType.CHAT_MODEL_CONNECTION)


def chat_model_setup(function: F) -> F:
    """The decorated method of an agent returns the descriptor or the instance of a chat model."""
    return mark_resource(function, ResourceType.CHAT_MODEL)


def mcp_server(function: Callable[..., object]) -> NoReturn:
    """Not supported yet; the error names the way."""
    unsupported("mcp_server")


def skills(function: Callable[..., object]) -> NoReturn:
    """Not supported yet; the error names the way."""
    unsupported("skills")


def vector_store(function: Callable[..., object]) -> NoReturn:
    """Not supported yet; the error names the way."""
    unsupported("vector_store")


def embedding_model_connection(function: Callable[..., object]) -> NoReturn:
    """Not supported yet; the error names the way."""
    unsupported("embedding_model_connection")


def embedding_model_setup(function: Callable[..., object]) -> NoReturn:
    """Not supported yet; the error names the way."""
    unsupported("embedding_model_setup")


class _ExplainingNames(type):
    """Names of clients that flink-agents ships and we do not lead to the error with the way."""

    def __getattr__(cls, name: str) -> NoReturn:
        if name.isupper() or name == "Java":
            unsupported("chat_client")
        raise AttributeError(name)


class ResourceName:
    """Names of the resource classes of this package, for `ResourceDescriptor(clazz=...)`."""

    class ChatModel(metaclass=_ExplainingNames):
        """Chat models."""

        OPENAI_CONNECTION = "flink_agents_durable.models.openai.OpenAIChatModelConnection"
        OPENAI_SETUP = "flink_agents_durable.models.openai.OpenAIChatModelSetup"
        OPENAI_COMPLETIONS_CONNECTION = OPENAI_CONNECTION
        OPENAI_COMPLETIONS_SETUP = OPENAI_SETUP
