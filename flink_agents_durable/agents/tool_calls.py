"""Running the tools that a model asks for: all at once, each a durable call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flink_agents_durable.api.chat import ChatMessage
from flink_agents_durable.api.context import RunnerContext
from flink_agents_durable.api.errors import CallTimeoutError, DurableExecutionError, RecordedCallError
from flink_agents_durable.api.futures import DurableFuture, Outcome
from flink_agents_durable.api.tools import Tool, ToolArgumentError, ToolResponse, render_result
from flink_agents_durable.engine.failures import decode_failure, encode_failure, safe_text
from flink_agents_durable.engine.payload import PayloadCodec

MAX_ERROR_TEXT = 2_000
"""Characters of an error that a model is told, so that one stack of text does not fill its context."""


@dataclass(frozen=True)
class ToolResult:
    """What became of one call: a value, or the text of an error."""

    call_id: str
    name: str
    value: Any = None
    error: str | None = None
    external_id: str | None = None

    def to_message(self) -> ChatMessage:
        """The answer to the model."""
        text = render_result(self.value) if self.error is None else f"error: {self.error}"
        return ChatMessage.tool(text, extra_args={"tool_call_id": self.external_id or self.call_id})


async def run_tools(
    ctx: RunnerContext, calls: Sequence[Mapping[str, Any]], find_tool: Callable[[str], Tool]
) -> list[ToolResult]:
    """Run tool calls in parallel; results in the order of the calls.

    What the model got wrong (an unknown tool, arguments that do not fit) and what a tool raises is a result
    with an error. What the runtime refuses, such as a result that cannot be recorded, is raised: no model can
    help it.
    """
    results: list[ToolResult | None] = [None] * len(calls)
    started: list[int] = []
    futures: list[DurableFuture[Any]] = []
    for index, call in enumerate(calls):
        try:
            futures.append(_future(ctx, call, find_tool))
            started.append(index)
        except (LookupError, ToolArgumentError) as error:
            results[index] = _failed(call, str(error))
    outcomes = await ctx.gather(*futures) if futures else []
    for index, outcome in zip(started, outcomes, strict=True):
        results[index] = _result(calls[index], outcome)
    return [result for result in results if result is not None]


def _future(
    ctx: RunnerContext, call: Mapping[str, Any], find_tool: Callable[[str], Tool]
) -> DurableFuture[Any]:
    function = call["function"]
    tool = find_tool(str(function["name"]))
    arguments = function.get("arguments") or {}
    tool.validate_arguments(arguments)
    return ctx.durable_execute_async(tool.durable_call, dict(arguments), options=tool.call_options)


def _result(call: Mapping[str, Any], outcome: Outcome[Any]) -> ToolResult:
    error = outcome.error
    if error is None:
        value = outcome.value
        if isinstance(value, ToolResponse):
            return _failed(call, value.error) if value.error is not None else _succeeded(call, value.result)
        return _succeeded(call, value)
    if not isinstance(error, Exception):
        raise error
    if isinstance(error, DurableExecutionError) and not isinstance(error, CallTimeoutError):
        raise error
    return _failed(call, error_text(error))


def _succeeded(call: Mapping[str, Any], value: Any) -> ToolResult:
    return ToolResult(call_id(call), str(call["function"]["name"]), value, None, call.get("original_id"))


def _failed(call: Mapping[str, Any], error: str) -> ToolResult:
    return ToolResult(
        call_id(call), str(call["function"]["name"]), None, error[:MAX_ERROR_TEXT], call.get("original_id")
    )


def call_id(call: Mapping[str, Any]) -> str:
    """The id of a call."""
    return str(call["id"])


def error_text(error: Exception) -> str:
    """Class and message of an error, the same when it is raised and when it is replayed.

    The text becomes part of the next request's arguments. A replayed error may be a substitute, whose text
    has the class in front; so the text is that of the error after a round through its record. Keeps D1.
    """
    codec = PayloadCodec()
    replayed = decode_failure(encode_failure(error, codec), codec)
    if isinstance(replayed, RecordedCallError):
        return str(replayed)
    cls = type(replayed)
    return f"{cls.__module__}.{cls.__qualname__}: {safe_text(replayed)}"
