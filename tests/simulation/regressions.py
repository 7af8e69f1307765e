"""Histories that showed a fault once, of the engine or of the simulator: agent, seed, and what was wrong.

A seed stays meaningful only while the simulator draws its random numbers in the same order. Each of these is the
seed at which the fault, put back by a mutant of `mutants.py`, is seen at present; look it up again
(`test_protocol.py` prints how many schedules it takes) when that order changes.
"""

from __future__ import annotations

REGRESSIONS: list[tuple[str, int, str]] = [
    (
        "synchronous",
        54,
        "a savepoint had outputs of a synchronous call without its outcome; a fork emitted others",
    ),
    ("lossy", 210, "records behind a gap came back once their numbers were given again"),
    ("versions", 287, "voided records left the state before the cut was in the log"),
    ("joined", 5, "the end of a batch that nobody waited for any more reached none of its calls"),
    ("late_timeout", 1, "a time-out that was raised later than in the step of its deadline was not reopened"),
    ("forked", 48, "in a fork, inputs that waited with records got ids that their records did not fit"),
    (
        "retrying_versions",
        1140004122,
        "the simulator took a failed attempt of a zombie for one of the code before it",
    ),
    ("retrying_versions", 1150000353, "the simulator counted a failed attempt that a cut had voided"),
    (
        "retrying_uncaught",
        1150000267,
        "the simulator learned failed attempts in another order than they had failed",
    ),
    (
        "wait_for",
        1400011894,
        "the simulator forgot a lost record that only a later restore, of an older state, missed",
    ),
    (
        "generated",
        1600008266,
        "the simulator took slots for those that they had been in a log before the fork",
    ),
    ("generated", 1150000090, "an agent left a task that waited for room in a queue that nobody emptied"),
]
