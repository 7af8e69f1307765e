"""Histories that showed a fault once: agent, seed, and what was wrong.

A seed stays meaningful only while the simulator draws its random numbers in the same order; each fault is known
by a test of its own as well, or is covered by fresh seeds.
"""

from __future__ import annotations

REGRESSIONS: list[tuple[str, int, str]] = [
    (
        "swallowing",
        167,
        "a savepoint had outputs of a synchronous call without its outcome; a fork emitted others",
    ),
    ("synchronous", 557, "the same while other calls were in flight"),
    ("lossy", 178, "records behind a gap came back once their numbers were given again"),
    ("lossy", 1461, "the same, and a recorded call ran again"),
    ("versions", 279, "voided records left the state before the cut was in the log"),
    ("versions", 7000255, "a replay by other code emitted, and the next snapshot did not know"),
    ("versions", 433, "the same with an older checkpoint"),
]
