"""Messages, tools and schemas as the OpenAI protocol has them. Plain data; no package is needed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from flink_agents_durable.api.chat import ChatMessage, MessageRole
from flink_agents_durable.api.tools import Tool


def to_message(message: ChatMessage) -> dict[str, Any]:
    """A message as it is sent."""
    sent: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.role is MessageRole.TOOL:
        call_id = message.extra_args.get("tool_call_id", message.extra_args.get("external_id"))
        if call_id is None:
            raise ValueError(
                "a message of a tool needs extra_args={'tool_call_id': ...}: the call that it answers"
            )
        sent["tool_call_id"] = str(call_id)
    if message.tool_calls:
        sent["tool_calls"] = [_to_tool_call(call) for call in message.tool_calls]
        sent["content"] = message.content or None
    return sent


def _to_tool_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = function.get("arguments", {})
    return {
        "id": str(call.get("original_id") or call["id"]),
        "type": "function",
        "function": {
            "name": function["name"],
            "arguments": arguments
            if isinstance(arguments, str)
            else json.dumps(arguments, ensure_ascii=False),
        },
    }


def to_tool(tool: Tool, *, strict: bool) -> dict[str, Any]:
    """A tool as it is offered."""
    metadata = tool.describe()
    parameters = metadata.get_parameters_dict()
    function: dict[str, Any] = {
        "name": tool.name,
        "description": metadata.description,
        "parameters": to_strict_schema(parameters) if strict else parameters,
    }
    if strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def to_response_format(output_schema: Mapping[str, Any]) -> dict[str, Any]:
    """The demand that the answer keeps to a schema."""
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", str(output_schema["name"]))[:64]
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": to_strict_schema(output_schema["schema"]), "strict": True},
    }


def to_strict_schema(schema: Any) -> Any:
    """A JSON schema in the strict form: each object closed, all its properties required, no defaults."""
    if isinstance(schema, list):
        return [to_strict_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    strict: dict[str, Any] = {}
    for name, value in schema.items():
        if name in ("properties", "$defs", "definitions") and isinstance(value, Mapping):
            strict[name] = {key: to_strict_schema(item) for key, item in value.items()}
        elif name in ("default", "enum", "const", "examples"):
            if name in ("enum", "const"):
                strict[name] = value
        else:
            strict[name] = to_strict_schema(value)
    if isinstance(strict.get("properties"), dict):
        strict["additionalProperties"] = False
        strict["required"] = list(strict["properties"])
    return strict


def from_completion(completion: Any, model: str) -> ChatMessage:
    """The answer of a completion; its token usage is in `extra_args`."""
    if not getattr(completion, "choices", None):
        raise RuntimeError(f"the model server answered without a choice: {_error_of(completion)}")
    choice = completion.choices[0]
    extra: dict[str, Any] = {"model_name": model or completion.model}
    if completion.usage is not None:
        extra["promptTokens"] = completion.usage.prompt_tokens
        extra["completionTokens"] = completion.usage.completion_tokens
    if choice.finish_reason:
        extra["finish_reason"] = choice.finish_reason
    refusal = getattr(choice.message, "refusal", None)
    if refusal:
        extra["refusal"] = refusal
    return ChatMessage(
        MessageRole.ASSISTANT,
        choice.message.content or refusal or "",
        tool_calls=[
            _from_tool_call(call, index) for index, call in enumerate(choice.message.tool_calls or ())
        ],
        extra_args=extra,
    )


def _from_tool_call(call: Any, index: int) -> dict[str, Any]:
    """A tool call with its arguments read. What is no JSON stays text: the model will be told so."""
    text = call.function.arguments or "{}"
    try:
        arguments = json.loads(text)
    except ValueError:
        arguments = text
    return {
        "id": call.id or f"call_{index}",
        "type": "function",
        "function": {"name": call.function.name, "arguments": arguments},
    }


def _error_of(completion: Any) -> str:
    text = repr(getattr(completion, "error", None) or completion)
    return text if len(text) <= 500 else text[:500] + "..."
