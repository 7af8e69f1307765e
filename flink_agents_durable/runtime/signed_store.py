"""Whether the records of the store are signed."""

from __future__ import annotations

from flink_agents_durable.api.configuration import AgentConfiguration, AgentOptions
from flink_agents_durable.store.protocol import ActionStateStore
from flink_agents_durable.store.signing import SignedStore


def sign_if_asked(store: ActionStateStore, options: AgentConfiguration) -> ActionStateStore:
    """The store, with signed records if `agents.store.signing-key-file` is set and there are any."""
    key_file = options.get(AgentOptions.STORE_SIGNING_KEY_FILE)
    return store if key_file is None or not store.durable else SignedStore(store, key_file)
