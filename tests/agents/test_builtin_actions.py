"""Any agent may ask a chat model or tools by events; the built-in actions answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from scripted_model_server import ModelServer, completion

from flink_agents_durable.agents.conversation import STRUCTURED_OUTPUT
from flink_agents_durable.api.agent import Agent, action
from flink_agents_durable.api.chat import ChatMessage
from flink_agents_durable.api.chat_events import (
    ChatRequestEvent,
    ChatResponseEvent,
    ToolRequestEvent,
    ToolResponseEvent,
)
from flink_agents_durable.api.context import RunnerContext
from flink_agents_durable.api.events import Event, InputEvent, OutputEvent
from flink_agents_durable.api.prompts import Prompt
from flink_agents_durable.api.resources import (
    ResourceDescriptor,
    chat_model_connection,
    chat_model_setup,
)
from flink_agents_durable.api.tools import ToolResponse, tool
from flink_agents_durable.models.openai import OpenAIChatModelConnection, OpenAIChatModelSetup
from flink_agents_durable.testing.local_runner import LocalRunner


class Point(BaseModel):
    x: int


class Asking(Agent):
    def __init__(self, base_url: str) -> None:
        self.base_url = base_url

    @chat_model_connection
    def server(self) -> ResourceDescriptor:
        return ResourceDescriptor(clazz=OpenAIChatModelConnection, base_url=self.base_url)

    @chat_model_setup
    @staticmethod
    def model() -> ResourceDescriptor:
        return ResourceDescriptor(
            clazz=OpenAIChatModelSetup,
            connection="server",
            prompt=Prompt.from_text("about {topic}"),
            tools=["double"],
        )

    @tool
    @staticmethod
    def double(x: int) -> int:
        return 2 * x

    @tool
    @staticmethod
    async def refuse() -> ToolResponse:
        return ToolResponse.failure("not today")

    @action(InputEvent)
    @staticmethod
    def ask(event: InputEvent, ctx: RunnerContext) -> None:
        request = ChatRequestEvent(
            model="model",
            messages=[ChatMessage.user(event.input)],
            prompt_args={"topic": "points"},
            output_schema=Point,
        )
        ctx.sensory_memory.set("request", request.id)
        ctx.send_event(request)

    @action(ChatResponseEvent)
    @staticmethod
    def answered(event: Event, ctx: RunnerContext) -> None:
        response = ChatResponseEvent.from_event(event)
        assert response.request_id == ctx.sensory_memory.get("request")
        ctx.send_event(OutputEvent(output=response.response.extra_args[STRUCTURED_OUTPUT]))

    @action("tools")
    @staticmethod
    def ask_tools(event: Event, ctx: RunnerContext) -> None:
        ctx.send_event(ToolRequestEvent("model", event.get_attr("calls")))


class AskingTools(Asking):
    @staticmethod
    def ask(event: InputEvent, ctx: RunnerContext) -> None:  # type: ignore[override]
        ctx.send_event(ToolRequestEvent("model", event.input))

    @action(ToolResponseEvent)
    @staticmethod
    def ran(event: Event, ctx: RunnerContext) -> None:
        response = ToolResponseEvent.from_event(event)
        ctx.send_event(
            OutputEvent([response.responses, response.success, response.error, response.external_ids])
        )


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


def run(agent: Agent, value: Any) -> Any:
    with LocalRunner(agent) as runner:
        runner.process("key", value)
        runner.run_until_idle(timeout=30)
        ((_, output),) = runner.outputs
        return output


def test_chat_request_is_answered_after_tools(server: ModelServer) -> None:
    def answer(request: Any) -> Any:
        if request["messages"][-1]["role"] == "tool":
            return completion(request, json.dumps({"x": int(request["messages"][-1]["content"])}))
        call = {"id": "c", "type": "function", "function": {"name": "double", "arguments": '{"x": 4}'}}
        return completion(request, None, [call])

    server.answer = answer
    assert run(Asking(server.base_url), "twice four") == Point(x=8)
    first = server.requests[0]["messages"]
    assert first[0] == {"role": "system", "content": "about points"}
    assert first[-1] == {"role": "user", "content": "twice four"}


def test_tool_request_is_answered_call_by_call(server: ModelServer) -> None:
    calls = [
        {"id": "a", "function": {"name": "double", "arguments": {"x": 1}}, "original_id": "o"},
        {"id": "b", "function": {"name": "double", "arguments": {}}},
        {"id": "c", "function": {"name": "refuse", "arguments": {}}},
        {"id": "d", "function": {"name": "dubble", "arguments": {}}},
    ]
    responses, success, error, external = run(AskingTools(server.base_url), calls)
    assert responses["a"] == 2
    assert success == {"a": True, "b": False, "c": False, "d": False}
    assert error["c"] == "not today"
    assert "Field required" in error["b"]
    assert "did you mean 'double'" in error["d"]
    assert external == {"a": "o", "b": None, "c": None, "d": None}


def test_messages_may_be_plain_data() -> None:
    message = ChatMessage.user("hi")
    event = ChatRequestEvent("m", [message.model_dump()])  # type: ignore[list-item]
    assert event.messages == [message]
    assert ChatMessage.model_validate_json(message.model_dump_json()) == message
