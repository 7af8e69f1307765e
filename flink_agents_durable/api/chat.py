"""The messages of a conversation with a chat model."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel, Field


class MessageRole(str, Enum):
    """Who speaks: the instructions, the user, the model, or a tool that answers the model."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"

    def __str__(self) -> str:
        return self.value


class ChatMessage(BaseModel):
    """One message.

    `tool_calls` holds what a model asks for, each as
    `{"id": ..., "type": "function", "function": {"name": ..., "arguments": {...}}}`. `extra_args` holds what
    belongs to the message but is not said: the token usage of an answer (`model_name`, `promptTokens`,
    `completionTokens`), its `finish_reason`, the `tool_call_id` that a tool's message answers.
    """

    role: MessageRole = MessageRole.USER
    content: str = ""
    tool_calls: list[dict[str, Any]] = Field(default_factory=list)
    extra_args: dict[str, Any] = Field(default_factory=dict)

    def __init__(
        self,
        role: MessageRole | str = MessageRole.USER,
        content: str | None = "",
        tool_calls: list[dict[str, Any]] | None = None,
        extra_args: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            role=role,
            content="" if content is None else content,
            tool_calls=tool_calls or [],
            extra_args=extra_args or {},
        )

    @property
    def text(self) -> str:
        """The text of the message."""
        return self.content

    @classmethod
    def system(cls, content: str, **kwargs: Any) -> ChatMessage:
        """A message of instructions."""
        return cls(MessageRole.SYSTEM, content, **kwargs)

    @classmethod
    def user(cls, content: str, **kwargs: Any) -> ChatMessage:
        """A message of the user."""
        return cls(MessageRole.USER, content, **kwargs)

    @classmethod
    def assistant(cls, content: str, **kwargs: Any) -> ChatMessage:
        """A message of the model."""
        return cls(MessageRole.ASSISTANT, content, **kwargs)

    @classmethod
    def tool(cls, content: str, **kwargs: Any) -> ChatMessage:
        """A tool's answer to the model; `extra_args={"tool_call_id": ...}` names the call."""
        return cls(MessageRole.TOOL, content, **kwargs)

    def __str__(self) -> str:
        return f"{self.role.value}: {self.content}"
