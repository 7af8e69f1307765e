"""Which durable failures are the reason why an action ended (P14)."""

from __future__ import annotations

import asyncio

Delivered = dict[int, tuple[BaseException, int]]
"""Exceptions by their id, and the slot that brought each."""


def uncaught_slots(error: BaseException, delivered: Delivered, timed_out: Delivered) -> list[int]:
    """Slots whose delivered failure ended the action: the exception is it, groups it, or has it as `__cause__`.

    A deadline shows by a cancellation in the chain. Which one it was is known when a task of its own ended by it
    (`timed_out`); otherwise -1 stands for the one that fired last.
    """
    slots: set[int] = set()
    deadlines: set[int] = set()
    cancelled = False
    seen: set[int] = set()
    left: list[BaseException] = [error]
    while left:
        current = left.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if id(current) in delivered:
            slots.add(delivered[id(current)][1])
        if id(current) in timed_out:
            deadlines.add(timed_out[id(current)][1])
        cancelled = cancelled or isinstance(current, asyncio.CancelledError)
        left.extend(
            member for member in getattr(current, "exceptions", ()) if isinstance(member, BaseException)
        )
        if current.__cause__ is not None:
            left.append(current.__cause__)
    if cancelled and deadlines:
        slots |= deadlines
    elif cancelled and not slots:
        slots.add(-1)
    return sorted(slots)
