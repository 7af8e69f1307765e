"""Making a failing history short, so that a human reads it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from flink_agents_durable.testing.simulation.world import Violation

TRIES = 300
"""Reruns at most: a minute or so, after which a longer history is good enough."""


def shortest(
    run: Callable[..., object], violation: Violation, inputs: Sequence[Any], crashes: int
) -> Violation:
    """The violation of the same kind with the fewest steps, by reruns with fewer inputs, crashes and steps.

    `run(seed=, inputs=, crashes=, steps=)` raises the violation, or does not.
    """
    kind, best = _kind(violation), violation
    tries = 0
    for steps in (5, 10, 20, 40, 80, 160):
        for subset in _subsets(list(inputs)):
            for fewer in range(crashes + 1):
                for seed in range(violation.seed, violation.seed + 3):
                    tries += 1
                    if tries > TRIES:
                        return best
                    found = _violation(run, seed=seed, inputs=subset, crashes=fewer, steps=steps)
                    if found and _kind(found) == kind and len(found.history) < len(best.history):
                        best = found
        if best is not violation:
            break
    return best


def _violation(run: Callable[..., object], **changes: Any) -> Violation | None:
    try:
        run(**changes)
    except Violation as violation:
        return violation
    except Exception:  # the engine fell over: another failure than the one that is looked for
        return None
    return None


def _subsets(inputs: list[Any]) -> list[list[Any]]:
    return [inputs[:count] for count in range(1, len(inputs) + 1)]


def _kind(violation: Violation) -> str:
    return re.sub(r"[0-9a-f]{4,}|\d+", "", violation.text)[:60]
