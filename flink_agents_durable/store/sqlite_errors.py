"""What an error of SQLite means for an append, and what a user can do about it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from flink_agents_durable.api.errors import StoreUnavailableError


def is_certainly_unwritten(error: sqlite3.Error) -> bool:
    """SQLITE_BUSY, LOCKED, PROTOCOL and FULL leave nothing behind; everything else may have been written.

    By message, since Python 3.10 does not give the code.
    """
    text = str(error)
    return isinstance(error, sqlite3.OperationalError) and (
        "is locked" in text or "locking protocol" in text or is_full(error)
    )


def is_full(error: sqlite3.Error) -> bool:
    return "disk is full" in str(error)


def unavailable(path: Path, error: Exception) -> StoreUnavailableError:
    text = str(error)
    if "disk is full" in text:
        remedy = "free space on its disk"
    elif "is locked" in text:
        remedy = "another process holds its lock; end it (a shell with an open transaction, a backup)"
    else:
        remedy = "set agents.store.sqlite.path to a folder on a local disk, writable and with free space"
    return StoreUnavailableError(
        f"the action state store sqlite at {path} cannot be written: {text}. Remedy: {remedy}"
    )
