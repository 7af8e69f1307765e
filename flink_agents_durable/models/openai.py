"""Chat models that are reached by the OpenAI protocol, with the `openai` package.

vLLM, Ollama, llama.cpp and most providers speak it: give their address as `base_url`.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import weakref
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, PrivateAttr

from flink_agents_durable.api.chat import ChatMessage
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.tools import Tool
from flink_agents_durable.models import openai_protocol as protocol
from flink_agents_durable.models.chat_model import (
    BaseChatModelConnection,
    BaseChatModelSetup,
    StructuredOutput,
)

logger = logging.getLogger(__name__)

DEFAULT_MODEL = "gpt-4o-mini"
DEFAULT_TIMEOUT = 60.0
"""Seconds after which a request counts as lost, so that a server that hangs does not hold a run for ever."""

_NO_KEY = "none"


class OpenAIChatModelConnection(BaseChatModelConnection):
    """A connection to a server that speaks the OpenAI protocol.

    The key is read where the task runs, from the environment variable `api_key_env`; a server of your own
    needs none. Without `base_url` the address is that of `OPENAI_BASE_URL` or of OpenAI. The client does not
    retry: that belongs to the journal.
    """

    base_url: str | None = None
    api_key: str | None = Field(default=None, repr=False)
    api_key_env: str = "OPENAI_API_KEY"
    timeout: float = Field(default=DEFAULT_TIMEOUT, gt=0)
    max_retries: int = Field(default=0, ge=0)
    default_headers: dict[str, str] | None = Field(default=None, repr=False)
    structured_output: Literal["auto", "always", "never"] = "auto"

    _clients: Any = PrivateAttr(default=None)
    _spare: Any = PrivateAttr(default=None)
    _refuses_schema: bool = PrivateAttr(default=False)

    def __init__(self, *, api_base_url: str | None = None, **kwargs: Any) -> None:
        if api_base_url is not None:
            kwargs.setdefault("base_url", api_base_url)
        super().__init__(**kwargs)

    def open(self) -> None:
        """Make a client, so that a missing package or key is said before the first request."""
        # Made here, as loading certificates takes longer than a short timeout of the first request leaves.
        self._spare = self._new_client()
        if self.api_key is not None:
            logger.warning(
                "%s has its api_key in the plan of the job, where others may read it; set the environment "
                "variable %s of the tasks instead",
                self.durable_id,
                self.api_key_env,
            )

    @property
    def is_openai(self) -> bool:
        """Whether the server is OpenAI's own."""
        address = self.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
        host = address.split("://")[-1].split("/")[0].split(":")[0]
        return host.endswith((".openai.com", ".openai.azure.com"))

    async def chat(
        self,
        messages: Sequence[ChatMessage],
        tools: list[Tool] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        strict: bool = False,
        **kwargs: Any,
    ) -> ChatMessage:
        """One request. It runs on the loop thread, where the client lives.

        A server that refuses `response_format` is asked again without it, and from then on always.
        """
        request: dict[str, Any] = {
            "messages": [protocol.to_message(message) for message in messages],
            **kwargs,
        }
        if tools:
            request["tools"] = [protocol.to_tool(tool, strict=strict) for tool in tools]
        if output_schema is not None and self.structured_output != "never" and not self._refuses_schema:
            request["response_format"] = protocol.to_response_format(output_schema)
        try:
            completion = await self._client().chat.completions.create(**request)
        except _import_openai().APIStatusError as error:
            if not self._is_refusal_of_schema(request, error):
                raise
            self._refuses_schema = True
            logger.info("%s refuses response_format (%s); asked without it", self.durable_id, error)
            request.pop("response_format")
            completion = await self._client().chat.completions.create(**request)
        return protocol.from_completion(completion, str(kwargs.get("model", "")))

    def _is_refusal_of_schema(self, request: Mapping[str, Any], error: Any) -> bool:
        return (
            "response_format" in request
            and self.structured_output == "auto"
            and error.status_code in (400, 404, 415, 422, 500, 501)
            and any(word in str(error).lower() for word in ("response_format", "schema", "grammar"))
        )

    def _client(self) -> Any:
        """The client of the running loop; an AsyncOpenAI must not be used from two loops."""
        if self._clients is None:
            self._clients = weakref.WeakKeyDictionary()
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client, self._spare = self._spare or self._new_client(), None
            self._clients[loop] = client
        return client

    def _new_client(self) -> Any:
        return _import_openai().AsyncOpenAI(**self._client_arguments())

    def _client_arguments(self) -> dict[str, Any]:
        key = self.api_key or os.environ.get(self.api_key_env)
        if not key and self.is_openai:
            raise ConfigurationError(
                f"no API key: set the environment variable {self.api_key_env} where the tasks run, or give "
                "base_url for a server that needs no key"
            )
        arguments: dict[str, Any] = {
            "api_key": key or _NO_KEY,
            "timeout": self.timeout,
            "max_retries": self.max_retries,
            "default_headers": self.default_headers,
        }
        if self.base_url is not None:
            arguments["base_url"] = self.base_url
        return arguments

    def close(self) -> Awaitable[None] | None:
        """Close the clients; awaited on the loop thread."""
        clients, self._clients, self._spare = dict(self._clients or {}), None, None
        return _close_all(list(clients.values())) if clients else None


class OpenAIChatModelSetup(BaseChatModelSetup):
    """A chat model of an `OpenAIChatModelConnection`. What is None is left to the server."""

    model: str = DEFAULT_MODEL
    temperature: float | None = Field(default=None, ge=0.0, le=2.0)
    max_tokens: int | None = Field(default=None, gt=0)
    logprobs: bool | None = None
    top_logprobs: int = Field(default=0, ge=0, le=20)
    additional_kwargs: dict[str, Any] = Field(default_factory=dict)
    strict: bool = False
    reasoning_effort: str | None = None

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """Parameters of each request."""
        kwargs: dict[str, Any] = {"model": self.model}
        for name in ("temperature", "max_tokens", "reasoning_effort"):
            value = getattr(self, name)
            if value is not None:
                kwargs[name] = value
        if self.logprobs:
            kwargs.update(logprobs=True, top_logprobs=self.top_logprobs)
        if self.strict:
            kwargs["strict"] = True
        return {**kwargs, **self.additional_kwargs}

    @property
    def structured_output(self) -> StructuredOutput:
        """OpenAI's own server takes a schema beside tools; others only if the connection says so."""
        connection = self._connection
        if not isinstance(connection, OpenAIChatModelConnection) or connection.structured_output == "never":
            return "never"
        return (
            "always" if connection.structured_output == "always" or connection.is_openai else "without_tools"
        )


async def _close_all(clients: list[Any]) -> None:
    for client in clients:
        await client.close()


def _import_openai() -> Any:
    """The `openai` package; imported late, as only the tasks need it."""
    try:
        return importlib.import_module("openai")
    except ImportError as error:
        raise ConfigurationError(
            "OpenAIChatModelConnection needs the package `openai` where the tasks run: "
            "pip install 'flink-agents-durable[openai]'"
        ) from error
