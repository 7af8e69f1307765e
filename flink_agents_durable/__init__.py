"""The durable runtime for AI agents on Apache Flink.

Everything public is importable from here; testing helpers from `flink_agents_durable.testing`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_LAZY = {
    # All are loaded on first use. pyflink and pydantic take a second to import, and workers need only some of them.
    # And the operators of a job import parts of this package at once, by several threads: if it imported its own
    # parts, one thread would hold a part and wait for the package, the other the reverse (a _DeadlockError).
    "Agent": "api.agent",
    "action": "api.agent",
    "Awakeable": "api.awakeables",
    "AwakeableResolution": "api.awakeables",
    "awakeable_failure": "api.awakeables",
    "awakeable_result": "api.awakeables",
    "CallOptions": "api.call_options",
    "RetryPolicy": "api.call_options",
    "configured": "api.call_options",
    "AgentConfiguration": "api.configuration",
    "AgentOptions": "api.configuration",
    "RunnerContext": "api.context",
    "current_context": "api.context",
    "DeadLetter": "api.dead_letters",
    "ActionFailedError": "api.errors",
    "AttemptEndedError": "api.errors",
    "AwakeableFailedError": "api.errors",
    "CallTimeoutError": "api.errors",
    "ConfigurationError": "api.errors",
    "DurableExecutionError": "api.errors",
    "DurableSerializationError": "api.errors",
    "MaxStepsExceededError": "api.errors",
    "NonDeterministicActionError": "api.errors",
    "RealIOError": "api.errors",
    "RecordedCallError": "api.errors",
    "RecordTooLargeError": "api.errors",
    "StalledActionError": "api.errors",
    "StoreUnavailableError": "api.errors",
    "UnreadableRecordError": "api.errors",
    "UnresolvedAwakeablesError": "api.errors",
    "Event": "api.events",
    "EventType": "api.events",
    "InputEvent": "api.events",
    "OutputEvent": "api.events",
    "DurableFuture": "api.futures",
    "Outcome": "api.futures",
    "JavaCallError": "api.java",
    "JavaFunction": "api.java",
    "lazy": "api.lazy",
    "MemoryObject": "api.memory",
    "retry_after_header": "api.retry_after",
    "AgentsExecutionEnvironment": "flink.environment",
    "BaseChatModelConnection": "models.chat_model",
    "BaseChatModelSetup": "models.chat_model",
    "ChatMessage": "api.chat",
    "ChatRequestEvent": "api.chat_events",
    "ChatResponseEvent": "api.chat_events",
    "FlussActionStateStore": "store.fluss",
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
    from flink_agents_durable.api.agent import Agent as Agent
    from flink_agents_durable.api.agent import action as action
    from flink_agents_durable.api.awakeables import Awakeable as Awakeable
    from flink_agents_durable.api.awakeables import AwakeableResolution as AwakeableResolution
    from flink_agents_durable.api.awakeables import awakeable_failure as awakeable_failure
    from flink_agents_durable.api.awakeables import awakeable_result as awakeable_result
    from flink_agents_durable.api.call_options import CallOptions as CallOptions
    from flink_agents_durable.api.call_options import RetryPolicy as RetryPolicy
    from flink_agents_durable.api.call_options import configured as configured
    from flink_agents_durable.api.chat import ChatMessage as ChatMessage
    from flink_agents_durable.api.chat import MessageRole as MessageRole
    from flink_agents_durable.api.chat_events import ChatRequestEvent as ChatRequestEvent
    from flink_agents_durable.api.chat_events import ChatResponseEvent as ChatResponseEvent
    from flink_agents_durable.api.chat_events import ToolRequestEvent as ToolRequestEvent
    from flink_agents_durable.api.chat_events import ToolResponseEvent as ToolResponseEvent
    from flink_agents_durable.api.configuration import AgentConfiguration as AgentConfiguration
    from flink_agents_durable.api.configuration import AgentOptions as AgentOptions
    from flink_agents_durable.api.context import RunnerContext as RunnerContext
    from flink_agents_durable.api.context import current_context as current_context
    from flink_agents_durable.api.dead_letters import DeadLetter as DeadLetter
    from flink_agents_durable.api.errors import ActionFailedError as ActionFailedError
    from flink_agents_durable.api.errors import AttemptEndedError as AttemptEndedError
    from flink_agents_durable.api.errors import AwakeableFailedError as AwakeableFailedError
    from flink_agents_durable.api.errors import CallTimeoutError as CallTimeoutError
    from flink_agents_durable.api.errors import ConfigurationError as ConfigurationError
    from flink_agents_durable.api.errors import DurableExecutionError as DurableExecutionError
    from flink_agents_durable.api.errors import DurableSerializationError as DurableSerializationError
    from flink_agents_durable.api.errors import MaxStepsExceededError as MaxStepsExceededError
    from flink_agents_durable.api.errors import NonDeterministicActionError as NonDeterministicActionError
    from flink_agents_durable.api.errors import RealIOError as RealIOError
    from flink_agents_durable.api.errors import RecordedCallError as RecordedCallError
    from flink_agents_durable.api.errors import RecordTooLargeError as RecordTooLargeError
    from flink_agents_durable.api.errors import StalledActionError as StalledActionError
    from flink_agents_durable.api.errors import StoreUnavailableError as StoreUnavailableError
    from flink_agents_durable.api.errors import UnreadableRecordError as UnreadableRecordError
    from flink_agents_durable.api.errors import UnresolvedAwakeablesError as UnresolvedAwakeablesError
    from flink_agents_durable.api.events import Event as Event
    from flink_agents_durable.api.events import EventType as EventType
    from flink_agents_durable.api.events import InputEvent as InputEvent
    from flink_agents_durable.api.events import OutputEvent as OutputEvent
    from flink_agents_durable.api.futures import DurableFuture as DurableFuture
    from flink_agents_durable.api.futures import Outcome as Outcome
    from flink_agents_durable.api.java import JavaCallError as JavaCallError
    from flink_agents_durable.api.java import JavaFunction as JavaFunction
    from flink_agents_durable.api.lazy import lazy as lazy
    from flink_agents_durable.api.memory import MemoryObject as MemoryObject
    from flink_agents_durable.api.prompts import Prompt as Prompt
    from flink_agents_durable.api.prompts import prompt as prompt
    from flink_agents_durable.api.resources import Resource as Resource
    from flink_agents_durable.api.resources import ResourceDescriptor as ResourceDescriptor
    from flink_agents_durable.api.resources import ResourceType as ResourceType
    from flink_agents_durable.api.resources import chat_model_connection as chat_model_connection
    from flink_agents_durable.api.resources import chat_model_setup as chat_model_setup
    from flink_agents_durable.api.retry_after import retry_after_header as retry_after_header
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
    from flink_agents_durable.store.fluss import FlussActionStateStore as FlussActionStateStore
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
    "FlussActionStateStore",
    "InputEvent",
    "InvalidAnswerError",
    "JavaCallError",
    "JavaFunction",
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
