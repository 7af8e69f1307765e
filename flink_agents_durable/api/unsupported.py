"""What flink-agents has and this package does not yet: each use is an error that names the way."""

from __future__ import annotations

from typing import NoReturn

from flink_agents_durable.api.errors import ConfigurationError

_EMBEDDING_WAY = "call the embedding server in a durable function: `ctx.durable_execute_async(embed, text)`"
_VECTOR_WAY = "query the vector store in a durable function, or give the model a tool that queries it"
_MCP_WAY = "wrap the calls of the MCP client in tools: `Tool.from_callable(function)`, `def` or `async def`"
_SKILLS_WAY = "write the instructions into the prompt, the scripts as tools: `Tool.from_callable(function)`"
_MEMORY_WAY = (
    "keep facts of a key in `ctx.short_term_memory`, or call the memory service in a durable function: "
    "`await ctx.durable_execute_async(search, query)`"
)
_YAML_WAY = "define the agent in Python: a subclass of `Agent`, or `Agent().add_action(...)`"
_ROUTER_WAY = "choose the chat model in an action and send its name in a `ChatRequestEvent`"
_CLIENT_WAY = (
    "use `OpenAIChatModelConnection(base_url=...)` with the server's OpenAI-compatible address (Ollama, "
    "vLLM, llama.cpp and most providers have one), or write a subclass of `BaseChatModelConnection`"
)

WAYS: dict[str, tuple[str, str]] = {
    "EMBEDDING_MODEL": ("embedding models", _EMBEDDING_WAY),
    "EMBEDDING_MODEL_CONNECTION": ("embedding models", _EMBEDDING_WAY),
    "embedding_model_connection": ("embedding models", _EMBEDDING_WAY),
    "embedding_model_setup": ("embedding models", _EMBEDDING_WAY),
    "VECTOR_STORE": ("vector stores", _VECTOR_WAY),
    "vector_store": ("vector stores", _VECTOR_WAY),
    "ContextRetrievalRequestEvent": ("vector stores", _VECTOR_WAY),
    "ContextRetrievalResponseEvent": ("vector stores", _VECTOR_WAY),
    "MCP_SERVER": ("MCP servers", _MCP_WAY),
    "MCPServer": ("MCP servers", _MCP_WAY),
    "mcp_server": ("MCP servers", _MCP_WAY),
    "SKILLS": ("skills", _SKILLS_WAY),
    "Skills": ("skills", _SKILLS_WAY),
    "skills": ("skills", _SKILLS_WAY),
    "MODEL_ROUTER": ("model routers", _ROUTER_WAY),
    "AGENT": ("sub-agents", "connect the agents by streams, or write one agent with the actions of both"),
    "long_term_memory": ("long-term memory", _MEMORY_WAY),
    "BaseLongTermMemory": ("long-term memory", _MEMORY_WAY),
    "load_yaml": ("agents in YAML", _YAML_WAY),
    "chat_client": ("the client of this provider", _CLIENT_WAY),
    "condition": (
        "trigger conditions in CEL",
        "trigger on the event type and test the condition in the action's first line",
    ),
}
"""Name of the missing thing -> what it is, and the way to get there without it."""


def is_unsupported(name: str) -> bool:
    """Whether flink-agents has something of this name that is missing here."""
    return name in WAYS


def unsupported(name: str) -> NoReturn:
    """Raise the error for a missing thing of this name."""
    what, way = WAYS[name]
    raise ConfigurationError(f"`{name}`: not supported yet ({what}). The way: {way}.")
