"""Histories that showed a fault once: agent, seed, and what was wrong.

A seed stays meaningful only while the simulator draws its random numbers in the same order; each fault is known
by a test of its own as well, or is covered by fresh seeds.
"""

from __future__ import annotations

REGRESSIONS: list[tuple[str, int, str]] = []
