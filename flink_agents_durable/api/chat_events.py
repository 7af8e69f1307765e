"""Events by which any action asks a chat model or tools; built-in actions answer them."""

from __future__ import annotations

import uuid
from typing import Any

from flink_agents_durable.api.chat import ChatMessage
from flink_agents_durable.api.events import Event, EventType


class ChatRequestEvent(Event):
    """Ask a chat model of the agent; a `ChatResponseEvent` answers.

    Tools that the model asks for are run before the answer is sent. With `output_schema` (a pydantic model, a
    dataclass or a `RowTypeInfo`) the answer's `extra_args["structured_output"]` holds the validated object.
    """

    EVENT_TYPE = EventType.ChatRequestEvent

    def __init__(
        self,
        model: str,
        messages: list[ChatMessage],
        prompt_args: dict[str, Any] | None = None,
        output_schema: Any = None,
    ) -> None:
        super().__init__(
            None,
            {
                "model": model,
                "messages": list(messages),
                "prompt_args": dict(prompt_args or {}),
                "output_schema": output_schema,
            },
        )

    @property
    def model(self) -> str:
        """Name of the chat model."""
        name: str = self.attributes["model"]
        return name

    @property
    def messages(self) -> list[ChatMessage]:
        """The conversation so far."""
        return [
            message if isinstance(message, ChatMessage) else ChatMessage.model_validate(message)
            for message in self.attributes["messages"]
        ]

    @property
    def prompt_args(self) -> dict[str, Any]:
        """Values for the prompt of the chat model."""
        return dict(self.attributes.get("prompt_args") or {})

    @property
    def output_schema(self) -> Any:
        """The type of the answer, None for text."""
        return self.attributes.get("output_schema")


class ChatResponseEvent(Event):
    """The answer to a `ChatRequestEvent`.

    The retry counts of flink-agents stay 0: attempts are journaled by the durable call itself.
    """

    EVENT_TYPE = EventType.ChatResponseEvent

    def __init__(
        self,
        request_id: uuid.UUID,
        response: ChatMessage,
        retry_count: int = 0,
        total_retry_wait_sec: int = 0,
    ) -> None:
        super().__init__(
            None,
            {
                "request_id": request_id,
                "response": response,
                "retry_count": retry_count,
                "total_retry_wait_sec": total_retry_wait_sec,
            },
        )

    @property
    def request_id(self) -> uuid.UUID:
        """Id of the request that this answers."""
        request: uuid.UUID = self.attributes["request_id"]
        return request

    @property
    def response(self) -> ChatMessage:
        """The last message of the model."""
        message = self.attributes["response"]
        return message if isinstance(message, ChatMessage) else ChatMessage.model_validate(message)

    @property
    def retry_count(self) -> int:
        """Number of retries outside of the durable call."""
        return int(self.attributes.get("retry_count") or 0)

    @property
    def total_retry_wait_sec(self) -> int:
        """Seconds waited between these retries."""
        return int(self.attributes.get("total_retry_wait_sec") or 0)


class ToolRequestEvent(Event):
    """Run tools, all at once; a `ToolResponseEvent` answers.

    Each call is `{"id": ..., "function": {"name": ..., "arguments": {...}}}`, as in `ChatMessage.tool_calls`.
    """

    EVENT_TYPE = EventType.ToolRequestEvent

    def __init__(self, model: str, tool_calls: list[dict[str, Any]]) -> None:
        super().__init__(None, {"model": model, "tool_calls": list(tool_calls)})

    @property
    def model(self) -> str:
        """Name of the chat model that asked."""
        name: str = self.attributes["model"]
        return name

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The calls."""
        return list(self.attributes["tool_calls"])


class ToolResponseEvent(Event):
    """What became of the calls of a `ToolRequestEvent`, by their ids."""

    EVENT_TYPE = EventType.ToolResponseEvent

    def __init__(
        self,
        request_id: uuid.UUID,
        responses: dict[str, Any],
        external_ids: dict[str, str | None],
        success: dict[str, bool] | None = None,
        error: dict[str, str] | None = None,
    ) -> None:
        super().__init__(
            None,
            {
                "request_id": request_id,
                "responses": dict(responses),
                "external_ids": dict(external_ids),
                "success": dict(success or {}),
                "error": dict(error or {}),
            },
        )

    @property
    def request_id(self) -> uuid.UUID:
        """Id of the request that this answers."""
        request: uuid.UUID = self.attributes["request_id"]
        return request

    @property
    def responses(self) -> dict[str, Any]:
        """Result of each call; of a failed one the text that the model would read."""
        return dict(self.attributes["responses"])

    @property
    def external_ids(self) -> dict[str, str | None]:
        """The `original_id` of each call, if it had one."""
        return dict(self.attributes["external_ids"])

    @property
    def success(self) -> dict[str, bool]:
        """Whether each call succeeded."""
        return dict(self.attributes["success"])

    @property
    def error(self) -> dict[str, str]:
        """Error text of each call that failed."""
        return dict(self.attributes["error"])
