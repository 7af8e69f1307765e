"""Chat models: a connection to a server, and the setup that names model, tools and prompt."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, PrivateAttr

from flink_agents_durable.api.call_options import CallOptions
from flink_agents_durable.api.chat import ChatMessage, MessageRole
from flink_agents_durable.api.prompts import Prompt
from flink_agents_durable.api.resources import Resource, ResourceType
from flink_agents_durable.api.tools import Tool
from flink_agents_durable.api.unsupported import unsupported

StructuredOutput = Literal["never", "without_tools", "always"]
"""At most servers a schema silences the tools, so that asking for both gives an answer too early."""


class BaseChatModelConnection(Resource):
    """Base of connections to a model server; several chat models may share one.

    A subclass implements `chat`, as `def` (it runs on a worker) or `async def` (on the loop thread).
    """

    @classmethod
    def resource_type(cls) -> ResourceType:
        """Connections are of the kind CHAT_MODEL_CONNECTION."""
        return ResourceType.CHAT_MODEL_CONNECTION

    def chat(
        self, messages: Sequence[ChatMessage], tools: list[Tool] | None = None, **kwargs: Any
    ) -> ChatMessage | Awaitable[ChatMessage]:
        """One request to the server; `kwargs` are the setup's parameters.

        With `output_schema` in `kwargs` (`{"name": ..., "schema": <JSON schema>}`) the server is asked to
        keep to that schema; it is there only if the setup's `structured_output` says so.
        """
        raise NotImplementedError(f"{type(self).__qualname__} does not implement chat()")


class BaseChatModelSetup(Resource):
    """Base of chat models: a connection, the name of a model, and what belongs to each request.

    `connection`, `prompt` and `tools` name other resources; prompt and tools may also be given themselves.
    `call_options` are the options of the durable call that asks the model, such as its timeout.
    """

    connection: str
    model: str
    prompt: Prompt | str | None = None
    tools: list[str | Tool] = Field(default_factory=list)
    call_options: CallOptions | None = None
    skills: list[str] | None = Field(default=None, exclude=True)

    _connection: BaseChatModelConnection | None = PrivateAttr(default=None)
    _prompt: Prompt | None = PrivateAttr(default=None)
    _tools: dict[str, Tool] = PrivateAttr(default_factory=dict)

    @classmethod
    def resource_type(cls) -> ResourceType:
        """Chat models are of the kind CHAT_MODEL."""
        return ResourceType.CHAT_MODEL

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """Parameters of each request."""
        return {"model": self.model}

    @property
    def structured_output(self) -> StructuredOutput:
        """Whether the server keeps to a schema: never, in requests without tools, or always."""
        return "never"

    def model_post_init(self, context: Any, /) -> None:
        """Refuse what is not there yet."""
        super().model_post_init(context)
        if self.skills:
            unsupported("skills")

    def open(self) -> None:
        """Look up the resources that this one names."""
        others = self.resource_context
        connection = others.get_resource(self.connection, ResourceType.CHAT_MODEL_CONNECTION)
        if not isinstance(connection, BaseChatModelConnection):
            raise TypeError(
                f"{self.connection!r} is no chat model connection but a {type(connection).__name__}"
            )
        self._connection = connection
        if isinstance(self.prompt, str):
            named = others.get_resource(self.prompt, ResourceType.PROMPT)
            self._prompt = named if isinstance(named, Prompt) else None
        else:
            self._prompt = self.prompt
        self._tools = {}
        for given in self.tools:
            tool = others.get_resource(given, ResourceType.TOOL) if isinstance(given, str) else given
            assert isinstance(tool, Tool)
            if tool.resource_name is None:
                tool.bind(tool.describe().name, others)
                tool.open()
            self._tools[tool.name] = tool

    @property
    def resolved_tools(self) -> Mapping[str, Tool]:
        """The tools of this model by the names that the model uses."""
        return self._tools

    def chat(
        self,
        messages: Sequence[ChatMessage],
        prompt_args: Mapping[str, Any] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        with_tools: bool = True,
    ) -> ChatMessage | Awaitable[ChatMessage]:
        """One request: the prompt filled with `prompt_args`, then the messages.

        This method is the durable call of a model, so all that may change between requests is an argument.
        """
        if self._connection is None:
            raise RuntimeError("the chat model is not open: take it from `ctx.get_resource(name, type)`")
        request = [*self._instructions(prompt_args), *messages]
        kwargs = dict(self.model_kwargs)
        if output_schema is not None:
            kwargs["output_schema"] = output_schema
        tools = list(self._tools.values()) if with_tools else []
        return self._connection.chat(request, tools or None, **kwargs)

    def _instructions(self, prompt_args: Mapping[str, Any] | None) -> list[ChatMessage]:
        return [] if self._prompt is None else self._prompt.render(prompt_args or {}, MessageRole.SYSTEM)
