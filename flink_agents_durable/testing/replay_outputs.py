"""What an agent emits under `check_replay`: by which action, from which line, and what differs after a crash."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from flink_agents_durable.engine import execution as execution_module
from flink_agents_durable.engine.run import Execution

BELOW_ACTIONS = ("flink_agents_durable.engine.", "flink_agents_durable.testing.")
"""Modules between an action and what it emits."""

Sender = tuple[str, int, str]
"""Key, execution and action. The outputs of one keep their order after a crash; those of two that work at the same
time need not, as the first order was never seen by anybody."""

Outputs = dict[Sender, list[tuple[Any, str]]]
"""What each sender emitted, and where in its code."""


class ReplayDifferenceError(AssertionError):
    """An agent does not do the same after a crash. The text says where the crash was and what differs first."""


def compare_outputs(where: str, before: Outputs, after: Outputs) -> None:
    """Raise ReplayDifferenceError at the first output that is not what it was."""
    for sender in {**before, **after}:
        was, now = before.get(sender, []), after.get(sender, [])
        for place in range(max(len(was), len(now))):
            old, old_line = was[place] if place < len(was) else (None, "")
            new, new_line = now[place] if place < len(now) else (None, "")
            if not (old_line and new_line and repr(old) == repr(new)):
                key, _, action = sender
                raise ReplayDifferenceError(
                    f"{where}: output {place + 1} of action {action!r} for key {key} was"
                    f" {_output_text(old, old_line)} without the crash, and is {_output_text(new, new_line)} after it"
                )


def _output_text(value: Any, line: str) -> str:
    return f"{value!r}{line}" if line else "nothing"


def copy_outputs(outputs: Outputs) -> Outputs:
    """A copy to which more may be added."""
    return {sender: list(values) for sender, values in outputs.items()}


def sender() -> tuple[Execution, str]:
    """The execution whose output is being emitted, and the line of user code that sends it.

    Read from the frames, as the engine hands out an output while the code that sends it stands at its line.
    """
    frame = sys._getframe(1)
    execution: Any = None
    while frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if execution is None and name == execution_module.__name__:
            execution = frame.f_locals.get("execution")
        if not name.startswith(BELOW_ACTIONS):
            break
        frame = frame.f_back
    assert execution is not None, "an output is emitted for an execution"
    summary = traceback.FrameSummary(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    return execution, line_text(summary)


def line_text(summary: traceback.FrameSummary) -> str:
    """A line of code, as it is told after what stands there."""
    return f" (at {summary.filename}:{summary.lineno}: {summary.line})"
