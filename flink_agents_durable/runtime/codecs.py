"""The codec that the options ask for."""

from __future__ import annotations

from collections.abc import Mapping

from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions
from flink_agents_durable.engine.codec import Codec
from flink_agents_durable.engine.json_codec import JsonCodec
from flink_agents_durable.engine.payload import PayloadCodec


def make_codec(
    options: AgentConfiguration, plan_classes: Mapping[str, type] | None = None, plan_id: str = ""
) -> Codec:
    """Of `agents.payload`. With signed records no pickle is read that no signature covers (X5)."""
    if options.get(AgentOptions.PAYLOAD) == "json":
        return JsonCodec(plan_classes, plan_id)
    signed = options.get(AgentOptions.STORE_SIGNING_KEY_FILE) is not None
    return PayloadCodec(plan_classes, plan_id, reads_bare_pickles=not signed)
