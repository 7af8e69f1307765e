"""The durable runtime for AI agents on Apache Flink.

Everything public is importable from here; testing helpers from `flink_agents_durable.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flink_agents_durable.api.agent import Agent, action
from flink_agents_durable.api.awakeables import (
    Awakeable,
    AwakeableResolution,
    awakeable_failure,
    awakeable_result,
)
from flink_agents_durable.api.call_options import CallOptions, RetryPolicy, configured
from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions
from flink_agents_durable.api.context import RunnerContext, current_context
from flink_agents_durable.api.dead_letters import DeadLetter
from flink_agents_durable.api.errors import (
    ActionFailedError,
    AttemptEndedError,
    AwakeableFailedError,
    CallTimeoutError,
    ConfigurationError,
    DurableExecutionError,
    DurableSerializationError,
    MaxStepsExceededError,
    NonDeterministicActionError,
    RealIOError,
    RecordedCallError,
    RecordTooLargeError,
    StalledActionError,
    StoreUnavailableError,
    UnreadableRecordError,
    UnresolvedAwakeablesError,
)
from flink_agents_durable.api.events import Event, EventType, InputEvent, OutputEvent
from flink_agents_durable.api.futures import DurableFuture, Outcome
from flink_agents_durable.api.lazy import lazy
from flink_agents_durable.api.memory import MemoryObject
from flink_agents_durable.api.retry_after import retry_after_header

__version__ = "0.1.0"

_LAZY = {
    # Loaded on first use: pyflink and pydantic take a second to import, and workers need only some of them.
    "AgentsExecutionEnvironment": "flink.environment",
    "BaseChatModelConnection": "models.chat_model",
    "BaseChatModelSetup": "models.chat_model",
    "ChatMessage": "api.chat",
    "ChatRequestEvent": "api.chat_events",
    "ChatResponseEvent": "api.chat_events",
    "KafkaActionStateStore": "store.kafka",
    "MessageRole": "api.chat",
    "ToolResponse": "api.tools",
    "InvalidAnswerError": "agents.conversation",
    "NoActionStateStore": "store.none",
    "OpenAIChatModelConnection": "models.openai",
    "OpenAIChatModelSetup": "models.openai",
    "Prompt": "api.prompts",
    "ReActAgent": "agents.react_agent",
    "Resource": "api.resources",
    "ResourceDescriptor": "api.resources",
    "ResourceType": "api.resources",
    "SqliteActionStateStore": "store.sqlite",
    "Tool": "api.tools",
    "ToolRequestEvent": "api.chat_events",
    "ToolResponseEvent": "api.chat_events",
    "chat_model_connection": "api.resources",
    "chat_model_setup": "api.resources",
    "prompt": "api.prompts",
    "tool": "api.tools",
}

if TYPE_CHECKING:
    from flink_agents_durable.agents.conversation import InvalidAnswerError as InvalidAnswerError
    from flink_agents_durable.agents.react_agent import ReActAgent as ReActAgent
    from flink_agents_durable.api.chat import ChatMessage as ChatMessage
    from flink_agents_durable.api.chat import MessageRole as MessageRole
    from flink_agents_durable.api.chat_events import ChatRequestEvent as ChatRequestEvent
    from flink_agents_durable.api.chat_events import ChatResponseEvent as ChatResponseEvent
    from flink_agents_durable.api.chat_events import ToolRequestEvent as ToolRequestEvent
    from flink_agents_durable.api.chat_events import ToolResponseEvent as ToolResponseEvent
    from flink_agents_durable.api.prompts import Prompt as Prompt
    from flink_agents_durable.api.prompts import prompt as prompt
    from flink_agents_durable.api.resources import Resource as Resource
    from flink_agents_durable.api.resources import ResourceDescriptor as ResourceDescriptor
    from flink_agents_durable.api.resources import ResourceType as ResourceType
    from flink_agents_durable.api.resources import chat_model_connection as chat_model_connection
    from flink_agents_durable.api.resources import chat_model_setup as chat_model_setup
    from flink_agents_durable.api.tools import Tool as Tool
    from flink_agents_durable.api.tools import ToolResponse as ToolResponse
    from flink_agents_durable.api.tools import tool as tool
    from flink_agents_durable.flink.environment import (
        AgentsExecutionEnvironment as AgentsExecutionEnvironment,
    )
    from flink_agents_durable.models.chat_model import BaseChatModelConnection as BaseChatModelConnection
    from flink_agents_durable.models.chat_model import BaseChatModelSetup as BaseChatModelSetup
    from flink_agents_durable.models.openai import OpenAIChatModelConnection as OpenAIChatModelConnection
    from flink_agents_durable.models.openai import OpenAIChatModelSetup as OpenAIChatModelSetup
    from flink_agents_durable.store.kafka import KafkaActionStateStore as KafkaActionStateStore
    from flink_agents_durable.store.none import NoActionStateStore as NoActionStateStore
    from flink_agents_durable.store.sqlite import SqliteActionStateStore as SqliteActionStateStore

__all__ = [
    "ActionFailedError",
    "Agent",
    "AgentConfiguration",
    "AgentOptions",
    "AgentsExecutionEnvironment",
    "AttemptEndedError",
    "Awakeable",
    "AwakeableFailedError",
    "AwakeableResolution",
    "BaseChatModelConnection",
    "BaseChatModelSetup",
    "CallOptions",
    "CallTimeoutError",
    "ChatMessage",
    "ChatRequestEvent",
    "ChatResponseEvent",
    "ConfigurationError",
    "DeadLetter",
    "DurableExecutionError",
    "DurableFuture",
    "DurableSerializationError",
    "Event",
    "EventType",
    "InputEvent",
    "InvalidAnswerError",
    "KafkaActionStateStore",
    "MaxStepsExceededError",
    "MemoryObject",
    "MessageRole",
    "NoActionStateStore",
    "NonDeterministicActionError",
    "OpenAIChatModelConnection",
    "OpenAIChatModelSetup",
    "Outcome",
    "OutputEvent",
    "Prompt",
    "ReActAgent",
    "RealIOError",
    "RecordTooLargeError",
    "RecordedCallError",
    "Resource",
    "ResourceDescriptor",
    "ResourceType",
    "RetryPolicy",
    "RunnerContext",
    "SqliteActionStateStore",
    "StalledActionError",
    "StoreUnavailableError",
    "Tool",
    "ToolRequestEvent",
    "ToolResponse",
    "ToolResponseEvent",
    "UnreadableRecordError",
    "UnresolvedAwakeablesError",
    "action",
    "awakeable_failure",
    "awakeable_result",
    "chat_model_connection",
    "chat_model_setup",
    "configured",
    "current_context",
    "lazy",
    "prompt",
    "retry_after_header",
    "tool",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is not None:
        value = getattr(import_module(f"{__name__}.{module}"), name)
        globals()[name] = value
        return value
    from flink_agents_durable.api.unsupported import is_unsupported, unsupported

    if is_unsupported(name):
        unsupported(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
