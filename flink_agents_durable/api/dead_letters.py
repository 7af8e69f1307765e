"""What remains of an input that was given up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DeadLetter:
    """An execution of an action that ended with an exception under `dead-letter`: one letter for each.

    It is emitted once, as outputs are: after a failure of the job it comes again only if the first one was rolled
    back. To try again, send `input` into the agent once more: that is a run of its own.
    """

    key: Any
    input: Any
    """The input of the run, as it came in."""
    action: str
    error: str
    """`"<class path>: <message>"`. Credentials are removed, as they are from records."""
    traceback: str
    """As Python prints it, without credentials. A failure that was replayed has the frames of the action only."""
    run_id: str
    """The `ctx.run_id` of the run; a run may have several letters, of several actions or events."""
