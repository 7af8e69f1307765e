"""Which durable failures are the reason why an action ended (P14)."""

from __future__ import annotations

import asyncio


def uncaught_slots(error: BaseException, delivered: dict[int, tuple[BaseException, int]]) -> list[int]:
    """Slots whose delivered failure ended the action: the exception is it, groups it, or has it as `__cause__`.

    -1 stands for the deadline that fired last, when the chain shows that a cancellation ended the action.
    """
    slots: set[int] = set()
    seen: set[int] = set()
    left: list[BaseException] = [error]
    while left:
        current = left.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if id(current) in delivered:
            slots.add(delivered[id(current)][1])
        if isinstance(current, asyncio.CancelledError):
            slots.add(-1)
        left.extend(
            member for member in getattr(current, "exceptions", ()) if isinstance(member, BaseException)
        )
        if current.__cause__ is not None:
            left.append(current.__cause__)
    return sorted(slots)
