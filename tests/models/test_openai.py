"""Chat models by the OpenAI protocol: the real package against a real server over HTTP."""

from __future__ import annotations

import asyncio
import builtins
import importlib
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest
from relay import UpstreamError
from scripted_model_server import ModelServer, completion

from flink_agents_durable.agents.react_agent import ReActAgent
from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.chat import ChatMessage, MessageRole
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.prompts import Prompt
from flink_agents_durable.api.resources import ResourceDescriptor, ResourceName, ResourceType
from flink_agents_durable.api.tools import Tool
from flink_agents_durable.models.chat_model import BaseChatModelConnection, BaseChatModelSetup
from flink_agents_durable.models.openai import OpenAIChatModelConnection, OpenAIChatModelSetup
from flink_agents_durable.models.openai_protocol import to_strict_schema
from flink_agents_durable.runtime.resources import ResourceRegistry
from flink_agents_durable.testing.local_runner import LocalRunner

SCHEMA = {"name": "Point", "schema": {"type": "object", "properties": {"x": {"type": "integer"}}}}


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


def says(text: str) -> Callable[[Any], Any]:
    return lambda request: completion(request, text)


def chat_model(base_url: str, **setup: Any) -> OpenAIChatModelSetup:
    agent = Agent()
    for name in ("structured_output", "timeout", "max_retries"):
        if name in setup:
            setup.setdefault("_connection", {})[name] = setup.pop(name)
    agent.add_resource(
        "server",
        ResourceType.CHAT_MODEL_CONNECTION,
        ResourceDescriptor(
            clazz=ResourceName.ChatModel.OPENAI_CONNECTION, base_url=base_url, **setup.pop("_connection", {})
        ),
    )
    agent.add_resource("add", ResourceType.TOOL, Tool.from_callable(add))
    agent.add_resource(
        "model",
        ResourceType.CHAT_MODEL,
        ResourceDescriptor(clazz=OpenAIChatModelSetup, connection="server", **{"model": "m", **setup}),
    )
    return ResourceRegistry.of(agent).get_resource("model", OpenAIChatModelSetup)


def ask(model: OpenAIChatModelSetup, *messages: ChatMessage, **kwargs: Any) -> ChatMessage:
    async def run() -> ChatMessage:
        result = model.chat(list(messages), **kwargs)
        assert not isinstance(result, ChatMessage)
        try:
            return await result
        finally:
            closing = model._connection and model._connection.close()
            if closing is not None:
                await closing

    return asyncio.run(run())


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(says("hello")) as running:
        yield running


def test_answer_with_token_usage(server: ModelServer) -> None:
    answer = ask(chat_model(server.base_url, temperature=0.5, max_tokens=7), ChatMessage.user("hi"))
    assert (answer.role, answer.content, answer.tool_calls) == (MessageRole.ASSISTANT, "hello", [])
    assert answer.extra_args["model_name"] == "m"
    assert answer.extra_args["promptTokens"] > 0
    assert answer.extra_args["completionTokens"] == 1
    assert answer.extra_args["finish_reason"] == "stop"
    assert server.requests == [
        {
            "model": "m",
            "temperature": 0.5,
            "max_tokens": 7,
            "messages": [{"role": "user", "content": "hi"}],
        }
    ]


def test_tools_are_offered_and_calls_read(server: ModelServer) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}
    broken = {"id": "c2", "type": "function", "function": {"name": "add", "arguments": "{a: 2"}}
    server.answer = lambda request: completion(request, None, [call, broken])
    answer = ask(chat_model(server.base_url, tools=["add"], strict=True), ChatMessage.user("2 + 1"))
    assert [c["function"]["arguments"] for c in answer.tool_calls] == [{"a": 2}, "{a: 2"]
    (offered,) = server.requests[0]["tools"]
    assert offered["function"]["name"] == "add"
    assert offered["function"]["description"] == "Add two numbers."
    assert offered["function"]["strict"] is True
    assert offered["function"]["parameters"]["required"] == ["a", "b"]
    assert "strict" not in server.requests[0]


def test_tool_calls_and_results_are_sent_back(server: ModelServer) -> None:
    calls = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": {"a": 2}}}]
    ask(
        chat_model(server.base_url),
        ChatMessage.user("2 + 1"),
        ChatMessage.assistant("", tool_calls=calls),
        ChatMessage.tool("3", extra_args={"tool_call_id": "c1"}),
    )
    _, asked, result = server.requests[0]["messages"]
    assert json.loads(asked["tool_calls"][0]["function"]["arguments"]) == {"a": 2}
    assert result == {"role": "tool", "content": "3", "tool_call_id": "c1"}


def test_prompt_of_the_model_comes_first(server: ModelServer) -> None:
    model = chat_model(server.base_url, prompt=Prompt.from_text("be {how}"))
    ask(model, ChatMessage.user("hi"), prompt_args={"how": "brief"})
    assert server.requests[0]["messages"][0] == {"role": "system", "content": "be brief"}


def test_structured_output_of_the_server(server: ModelServer) -> None:
    model = chat_model(server.base_url)
    assert model.structured_output == "without_tools"
    ask(model, ChatMessage.user("hi"), output_schema=SCHEMA)
    sent = server.requests[0]["response_format"]
    assert sent["json_schema"]["strict"] is True
    assert sent["json_schema"]["schema"]["required"] == ["x"]
    assert chat_model(server.base_url, structured_output="always").structured_output == "always"
    assert chat_model(server.base_url, structured_output="never").structured_output == "never"


def test_a_server_without_structured_output_is_asked_without_it(server: ModelServer) -> None:
    def answer(request: Any) -> Any:
        if "response_format" in request:
            raise UpstreamError(400, {"error": {"message": "response_format is not supported"}})
        return completion(request, "hello")

    server.answer = answer
    model = chat_model(server.base_url)
    for _ in range(2):
        assert ask(model, ChatMessage.user("hi"), output_schema=SCHEMA).content == "hello"
    assert ["response_format" in request for request in server.requests] == [True, False, False]


def test_the_client_does_not_retry(server: ModelServer) -> None:
    server.fail_first = 1
    with pytest.raises(openai.InternalServerError):
        ask(chat_model(server.base_url), ChatMessage.user("hi"))
    assert len(server.requests) == 1


class Echo(BaseChatModelConnection):
    """A connection as users write one: a plain method, parameters as keywords."""

    def chat(self, messages: Any, tools: Any = None, **kwargs: Any) -> ChatMessage:
        return ChatMessage.assistant(f"{messages[-1].content} {sorted(kwargs)}")


class EchoSetup(BaseChatModelSetup):
    pass


def test_connections_of_users_may_be_plain_functions() -> None:
    agent = ReActAgent(chat_model=ResourceDescriptor(clazz=EchoSetup, connection="echo", model="m"))
    agent.add_resource("echo", ResourceType.CHAT_MODEL_CONNECTION, Echo())
    with LocalRunner(agent) as runner:
        runner.process("key", "hello")
        runner.run_until_idle(timeout=30)
        assert runner.outputs == [("key", "hello ['model']")]


def test_requests_have_a_timeout(server: ModelServer) -> None:
    server.delay = 60
    with pytest.raises(openai.APITimeoutError):
        ask(chat_model(server.base_url, timeout=0.1), ChatMessage.user("hi"))


def test_one_client_per_loop(server: ModelServer) -> None:
    model = chat_model(server.base_url)
    for _ in range(2):
        assert asyncio.run(model._connection.chat([ChatMessage.user("hi")], model="m")).content == "hello"  # type: ignore[union-attr,arg-type]


def test_key_comes_from_the_environment_of_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = OpenAIChatModelConnection()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert b"sk-secret" not in pickle.dumps(connection)
    assert connection._client_arguments()["api_key"] == "sk-secret"
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    assert OpenAIChatModelConnection(api_key_env="OTHER_KEY")._client_arguments()["api_key"] == "sk-other"
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(
        ConfigurationError, match="set the environment variable OPENAI_API_KEY where the tasks run"
    ):
        connection.open()
    OpenAIChatModelConnection(base_url="http://localhost:1/v1").open()


def test_a_key_in_the_plan_works_and_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    connection = OpenAIChatModelConnection(api_key="sk-secret", api_base_url="http://localhost:1/v1")
    connection.open()
    assert "OPENAI_API_KEY" in caplog.text
    assert "sk-secret" not in caplog.text + repr(connection)
    assert connection._client_arguments()["base_url"] == "http://localhost:1/v1"


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name == "openai":
            raise builtins.ImportError("No module named 'openai'")
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigurationError, match=r"pip install 'flink-agents-durable\[openai\]'"):
        OpenAIChatModelConnection(base_url="http://localhost:1/v1").open()


def test_the_address_decides_what_the_server_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert OpenAIChatModelConnection().is_openai
    assert not OpenAIChatModelConnection(base_url="http://openai.com.example:80/v1").is_openai
    assert not OpenAIChatModelConnection(base_url="http://notopenai.com/v1").is_openai
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:11434/v1")
    assert not OpenAIChatModelConnection().is_openai


def test_strict_schema_closes_every_object() -> None:
    schema = {
        "type": "object",
        "properties": {
            "default": {"type": "string", "default": "x"},
            "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        },
        "$defs": {"Item": {"type": "object", "properties": {"n": {"enum": [{"properties": 1}]}}}},
    }
    strict = to_strict_schema(schema)
    assert strict["required"] == ["default", "items"]
    assert strict["additionalProperties"] is False
    assert strict["properties"]["default"] == {"type": "string"}
    assert strict["$defs"]["Item"]["required"] == ["n"]
    assert strict["$defs"]["Item"]["properties"]["n"] == {"enum": [{"properties": 1}]}


def test_close_gives_the_sockets_back(server: ModelServer) -> None:
    model = chat_model(server.base_url)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        chat: Any = model.chat([ChatMessage.user("hi")])
        asyncio.run_coroutine_threadsafe(chat, loop).result(30)
        client = model._connection._clients[loop]  # type: ignore[union-attr]
        model.resource_context.close(loop)  # type: ignore[attr-defined]
        assert client.is_closed()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
