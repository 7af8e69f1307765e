"""What may go wrong in a history, and how often."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Faults:
    """Probabilities, by step or by crash point. `NONE` is a history without faults."""

    crashes: int = 3
    """At most so many failures that the simulator makes; those of the agent itself are not counted."""
    crash: float = 0.12
    """Crash between two steps, each time that a step is chosen."""
    crash_inside: float = 0.012
    """Crash at a port of the engine: before or after an append, a call's start, an output, a timer, a read."""
    zombie: float = 0.5
    """A subtask of a crashed attempt goes on unknowingly, until it is fenced."""
    older: float = 0.3
    """Restore from the older one of two retained checkpoints."""
    rescale: float = 0.3
    """Restore at another parallelism."""
    interrupt: float = 0.01
    """A call is interrupted instead of ending (I2)."""
    timeout: float = 0.3
    """A call with `CallOptions(timeout=)` takes longer than that."""
    unknown_fate: float = 0.01
    """An append fails, written or not (P20)."""
    lost_notification: float = 0.3
    """`notifyCheckpointComplete` does not arrive (P23)."""
    wake_up: float = 0.1
    """A wake-up that comes twice, late or too early."""
    stop: float = 0.02
    """Stop with a savepoint, and go on from it."""
    lag: float = 0.2
    """The position in a snapshot lies before the last applied record, so that the tail overlaps it (P8)."""
    fork: float = 0.0
    """Restore under another log id: what lies after the checkpoint is gone."""
    flip: float = 0.0
    """The code changes at a restart (`World.version`, 1 or 2)."""
    lost_head: float = 0.0
    """At a restart the head of the log is gone too far."""
    lost_end: float = 0.0
    """At a restart the log ends earlier than it did."""


NONE = Faults(0, *(0.0,) * 16)
