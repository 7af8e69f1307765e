"""Properties that a user hands through to the client library of a store: some are refused, some are secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from flink_agents_durable.api.errors import ConfigurationError


def refuse_own(store: str, own: Set[str], properties: Mapping[str, str]) -> None:
    """Raises ConfigurationError for those that the store sets itself."""
    found = sorted(own & properties.keys())
    if found:
        raise ConfigurationError(
            f"agents.store.{store}.properties: the store sets {', '.join(found)} itself, since its guarantees "
            "depend on it. Remedy: leave it out"
        )


def redact(text: str, properties: Mapping[str, str], secret: re.Pattern[str]) -> str:
    """The text without the values of properties whose names say that they may be secrets."""
    for key, value in properties.items():
        if value and secret.search(key):
            text = text.replace(value, "***")
    return text
