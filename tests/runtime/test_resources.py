"""The registry: resources are made once, on first use, found by name and kind, and closed."""

from __future__ import annotations

import asyncio
import pickle
import threading
from typing import Any

import pytest

from flink_agents_durable.api.agent import Agent
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.api.prompts import Prompt, prompt
from flink_agents_durable.api.resources import (
    Resource,
    ResourceDescriptor,
    ResourceName,
    ResourceType,
    chat_model_connection,
    chat_model_setup,
    mcp_server,
)
from flink_agents_durable.api.tools import Tool, tool
from flink_agents_durable.models.chat_model import BaseChatModelConnection, BaseChatModelSetup
from flink_agents_durable.runtime.resources import ResourceRegistry, UnknownResourceError

PATH = f"{__name__}.Connection"


class Connection(BaseChatModelConnection):
    address: str = "here"
    opened: int = 0
    closed: list[str] = []  # noqa: RUF012 - pydantic copies it

    def open(self) -> None:
        self.opened += 1

    def close(self) -> None:
        self.closed.append(self.address)


class Setup(BaseChatModelSetup):
    pass


class Base(Agent):
    @tool
    @staticmethod
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @staticmethod
    @tool
    def multiply(a: int, b: int) -> int:
        return a * b

    @tool
    def with_self(self, a: int) -> int:
        return a + len(type(self).__name__)

    @prompt
    @staticmethod
    def ask() -> Prompt:
        return Prompt.from_text("{x}")

    @chat_model_connection
    @staticmethod
    def server() -> ResourceDescriptor:
        return ResourceDescriptor(clazz=Connection, address="there")

    @chat_model_setup
    def model(self) -> ResourceDescriptor:
        return ResourceDescriptor(clazz=Setup, connection="server", model="m", tools=["add"], prompt="ask")


class Derived(Base):
    def add(self, a: int, b: int) -> int:  # type: ignore[override]
        """Add more."""
        return a + b + 1


def test_made_once_on_first_use() -> None:
    registry = ResourceRegistry.of(Base())
    connection = registry.get_resource("server", Connection)
    assert registry.get_resource("server", ResourceType.CHAT_MODEL_CONNECTION) is connection
    assert (connection.address, connection.opened) == ("there", 1)


def test_decorated_methods_and_what_they_name() -> None:
    registry = ResourceRegistry.of(Base())
    model = registry.get_resource("model", Setup)
    assert list(model.resolved_tools) == ["add"]
    assert model.resolved_tools["add"] is registry.get_resource("add", Tool)
    assert registry.get_resource("multiply", Tool).invoke({"a": 2, "b": 3}) == 6
    assert registry.get_resource("with_self", Tool).invoke({"a": 2}) == 6
    assert registry.get_resource("ask", Prompt).format_string(x=1) == "1"


def test_an_override_without_a_decorator_keeps_the_kind() -> None:
    added = ResourceRegistry.of(Derived()).get_resource("add", Tool)
    assert added.invoke({"a": 1, "b": 1}) == 3
    assert added.describe().description == "Add more."


def test_d3_durable_id_is_type_and_name() -> None:
    registry = ResourceRegistry.of(Base())
    assert registry.get_resource("add", Tool).durable_id == "tool:add"
    assert registry.get_resource("model", Setup).durable_id == "chat_model:model"
    assert Tool.from_callable(Base.add).durable_id is None


def test_unknown_resource_names_the_nearest() -> None:
    registry = ResourceRegistry.of(Base())
    with pytest.raises(
        UnknownResourceError, match=r"no chat_model_connection named 'sever'; did you mean 'server'"
    ):
        registry.get_resource("sever", ResourceType.CHAT_MODEL_CONNECTION)
    with pytest.raises(UnknownResourceError, match="there is a tool of this name"):
        registry.get_resource("add", ResourceType.PROMPT)
    with pytest.raises(KeyError):  # as in flink-agents
        registry.get_resource("nothing", ResourceType.PROMPT)
    with pytest.raises(TypeError, match="by a ResourceType or a resource class"):
        registry.get_resource("add", "tool")  # type: ignore[call-overload]


def test_check_finds_names_that_lead_nowhere_without_making_anything() -> None:
    agent = Agent()
    agent.add_resource(
        "m", ResourceType.CHAT_MODEL, ResourceDescriptor(clazz="no.such.Model", connection="x")
    )
    with pytest.raises(UnknownResourceError, match=r"chat model 'm'.*no chat_model_connection named 'x'"):
        ResourceRegistry.of(agent).check()


def test_check_warns_of_a_class_that_only_the_tasks_may_have(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent()
    agent.add_resource("m", ResourceType.CHAT_MODEL, ResourceDescriptor(clazz="no.such.Model"))
    agent.add_resource("server", ResourceType.CHAT_MODEL_CONNECTION, ResourceDescriptor(clazz=PATH))
    ResourceRegistry.of(agent).check()
    assert [record.getMessage() for record in caplog.records] == [
        "chat_model 'm': this program finds no module 'no.such'; where the tasks run it must be there"
    ]


def test_the_agents_own_resources_go_first() -> None:
    shared = {
        "server": ResourceDescriptor(clazz=PATH, address="shared"),
        "other": ResourceDescriptor(clazz=PATH),
    }
    registry = ResourceRegistry.of(Base(), shared)
    assert registry.get_resource("server", Connection).address == "there"
    assert registry.get_resource("other", Connection).address == "here"


def test_a_resource_twice_is_an_error() -> None:
    agent = Base()
    agent.add_resource("ask", ResourceType.PROMPT, Prompt.from_text("x"))
    with pytest.raises(ConfigurationError, match="prompt 'ask' is declared by a method and by add_resource"):
        ResourceRegistry.of(agent)


def test_errors_say_what_cannot_be_made() -> None:
    agent = Agent()
    agent.add_resource(
        "a", ResourceType.CHAT_MODEL_CONNECTION, ResourceDescriptor(clazz=Connection, adress="x")
    )
    agent.add_resource("b", ResourceType.CHAT_MODEL_CONNECTION, ResourceDescriptor(clazz="no.such.Model"))
    agent.add_resource("c", ResourceType.TOOL, Prompt.from_text("x"))
    registry = ResourceRegistry.of(agent)
    with pytest.raises(ConfigurationError, match=r"(?s)chat_model_connection 'a' cannot be made.*adress"):
        registry.get_resource("a", Connection)
    with pytest.raises(ConfigurationError, match=r"no\.such\.Model cannot be imported"):
        registry.get_resource("b", Connection)
    with pytest.raises(ConfigurationError, match="registered as a tool and is a prompt"):
        registry.get_resource("c", Tool)


def test_closed_in_reverse_and_async_ones_on_the_loop() -> None:
    order: list[Any] = []

    class Client(Connection):
        def close(self) -> Any:
            if self.address == "broken":
                raise OSError("gone")

            async def close() -> None:
                order.append((self.address, threading.current_thread().name))

            return close()

    agent = Agent()
    for address in ("a", "broken", "b"):
        agent.add_resource(address, ResourceType.CHAT_MODEL_CONNECTION, Client(address=address))
    registry = ResourceRegistry.of(agent)
    for address in ("a", "broken", "b"):
        registry.get_resource(address, Client)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="loop")
    thread.start()
    try:
        registry.close(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert order == [("b", "loop"), ("a", "loop")]
    with pytest.raises(RuntimeError, match="after the operator was closed"):
        registry.get_resource("a", Client)


def test_a_close_that_hangs_is_left_after_the_timeout() -> None:
    class Client(Connection):
        def close(self) -> Any:
            return asyncio.sleep(3600)

    registry = ResourceRegistry.of(Agent().add_resource("a", ResourceType.CHAT_MODEL_CONNECTION, Client()))
    registry.get_resource("a", Client)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    registry.close(loop, timeout=0.05)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    assert not thread.is_alive()
    loop.close()


def test_what_was_bound_and_opened_is_not_pickled() -> None:
    registry = ResourceRegistry.of(Base())
    model = pickle.loads(pickle.dumps(registry.get_resource("model", Setup)))
    assert model.durable_id is None
    assert model.resolved_tools == {}
    with pytest.raises(RuntimeError, match="not registered"):
        _ = model.resource_context


def test_resources_need_each_other_in_a_circle() -> None:
    class Needy(Resource):
        @classmethod
        def resource_type(cls) -> ResourceType:
            return ResourceType.PROMPT

        def open(self) -> None:
            self.resource_context.get_resource("b" if self.resource_name == "a" else "a", ResourceType.PROMPT)

    agent = Agent()
    agent.add_resource("a", ResourceType.PROMPT, Needy()).add_resource("b", ResourceType.PROMPT, Needy())
    with pytest.raises(ConfigurationError, match="circle: a -> b -> a"):
        ResourceRegistry.of(agent).get_resource("a", ResourceType.PROMPT)


def test_descriptors_hide_keys_and_compare() -> None:
    descriptor = ResourceDescriptor(clazz=PATH, api_key="sk-secret", address="x")
    assert "sk-secret" not in repr(descriptor)
    assert descriptor == ResourceDescriptor(
        target_module=__name__, target_clazz="Connection", arguments={"api_key": "sk-secret", "address": "x"}
    )
    assert hash(descriptor) == hash(ResourceDescriptor(clazz=PATH, address="x", api_key="sk-secret"))
    with pytest.raises(ConfigurationError, match="needs its class"):
        ResourceDescriptor()
    with pytest.raises(ConfigurationError, match="not a resource class"):
        ResourceDescriptor(clazz=dict)  # type: ignore[arg-type]


def test_what_is_not_there_yet_names_the_way() -> None:
    with pytest.raises(ConfigurationError, match=r"MCP.*Tool\.from_callable"):
        _ = ResourceType.MCP_SERVER
    with pytest.raises(ConfigurationError, match=r"vector stores.*durable function"):
        _ = ResourceType.VECTOR_STORE
    with pytest.raises(ConfigurationError, match=r"MCP"):
        mcp_server(lambda: None)
    with pytest.raises(ConfigurationError, match=r"base_url"):
        _ = ResourceName.ChatModel.OLLAMA_CONNECTION
    with pytest.raises(ConfigurationError, match=r"skills"):
        Setup(connection="c", model="m", skills=["x"])
    with pytest.raises(AttributeError):
        _ = ResourceType.NOTHING
