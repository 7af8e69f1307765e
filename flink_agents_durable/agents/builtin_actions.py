"""Actions that every agent has: they answer the events that ask a chat model or tools."""

from __future__ import annotations

from flink_agents_durable.agents.conversation import converse
from flink_agents_durable.agents.output_schema import OutputSchema
from flink_agents_durable.agents.react_agent import with_schema
from flink_agents_durable.agents.tool_calls import run_tools
from flink_agents_durable.api.agent import ActionSpec
from flink_agents_durable.api.chat_events import (
    ChatRequestEvent,
    ChatResponseEvent,
    ToolRequestEvent,
    ToolResponseEvent,
)
from flink_agents_durable.api.context import RunnerContext
from flink_agents_durable.api.events import Event
from flink_agents_durable.api.tools import Tool


async def process_chat_request(event: Event, ctx: RunnerContext) -> None:
    """Answer a `ChatRequestEvent`, running the tools that the model asks for on the way."""
    request = ChatRequestEvent.from_event(event)
    schema = None if request.output_schema is None else OutputSchema(request.output_schema)
    messages = request.messages if schema is None else with_schema(request.messages, schema)
    answer = await converse(ctx, request.model, messages, prompt_args=request.prompt_args, schema=schema)
    ctx.send_event(ChatResponseEvent(request_id=request.id, response=answer))


async def process_tool_request(event: Event, ctx: RunnerContext) -> None:
    """Answer a `ToolRequestEvent`."""
    request = ToolRequestEvent.from_event(event)
    results = await run_tools(ctx, request.tool_calls, lambda name: ctx.get_resource(name, Tool))
    ctx.send_event(
        ToolResponseEvent(
            request_id=request.id,
            responses={r.call_id: r.value if r.error is None else f"error: {r.error}" for r in results},
            external_ids={r.call_id: r.external_id for r in results},
            success={r.call_id: r.error is None for r in results},
            error={r.call_id: r.error for r in results if r.error is not None},
        )
    )


def builtin_actions() -> list[ActionSpec]:
    """What is added to the actions of every agent."""
    return [
        ActionSpec("chat_model_action", (ChatRequestEvent.EVENT_TYPE,), process_chat_request),
        ActionSpec("tool_call_action", (ToolRequestEvent.EVENT_TYPE,), process_tool_request),
    ]
