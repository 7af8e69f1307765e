"""Action state stores: the append-only logs that keep journal records between Flink checkpoints."""

from flink_agents_durable.store.none import NoActionStateStore
from flink_agents_durable.store.protocol import (
    NOTHING_TO_READ,
    ActionStateStore,
    Record,
    StoreFencedError,
    UnknownFateError,
)
from flink_agents_durable.store.sqlite import SqliteActionStateStore

__all__ = [
    "NOTHING_TO_READ",
    "ActionStateStore",
    "NoActionStateStore",
    "Record",
    "SqliteActionStateStore",
    "StoreFencedError",
    "UnknownFateError",
]
