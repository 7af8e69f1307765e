"""Closes the lazy objects of a subtask where they were used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from flink_agents_durable.api.lazy import LazyObjects

_log = logging.getLogger(__name__)


def close_lazies(lazies: LazyObjects, loop: asyncio.AbstractEventLoop, timeout: float) -> None:
    """Bounded, for each by half of the rest; one that fails to close does not keep the others open (S10).

    Without its loop, after a crash, there is nothing that could close them.
    """
    if loop.is_closed():
        return
    for close in lazies.close():
        timeout /= 2
        try:
            ending = close()
            if ending is not None:
                asyncio.run_coroutine_threadsafe(_ended(ending), loop).result(timeout)
        except BaseException:
            _log.warning("closing a lazy object", exc_info=True)


async def _ended(ending: Awaitable[object]) -> None:
    await ending
