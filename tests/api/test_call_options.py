"""CallOptions and RetryPolicy: checked when they are made."""

from __future__ import annotations

import dataclasses
import math
import pickle
from datetime import timedelta
from typing import Any

import pytest

from flink_agents_durable import CallOptions, RetryPolicy
from flink_agents_durable.engine.backoff import wait_after


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"max_attempts": 0}, ValueError, "at least 1"),
        ({"max_attempts": 2.5}, TypeError, "max_attempts"),
        ({"max_attempts": True}, TypeError, "max_attempts"),
        ({"initial_interval": -1}, ValueError, "initial_interval"),
        ({"initial_interval": math.nan}, ValueError, "finite"),
        ({"initial_interval": "1 s"}, TypeError, "seconds or a timedelta"),
        ({"initial_interval": 120}, ValueError, "max_interval"),
        ({"max_interval": timedelta(milliseconds=10)}, ValueError, "max_interval"),
        ({"backoff_factor": 0.5}, ValueError, "backoff_factor"),
        ({"backoff_factor": math.inf}, ValueError, "backoff_factor"),
        ({"retry_on": 3}, TypeError, "retry_on"),
        ({"retry_on": int}, TypeError, "retry_on"),
        ({"retry_on": (ValueError, 3)}, TypeError, "retry_on"),
        ({"retry_after": 3}, TypeError, "retry_after"),
    ],
)
def test_a_wrong_policy_is_an_error_when_it_is_made(wrong: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        RetryPolicy(**wrong)


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"timeout": 0}, ValueError, "timeout must be positive"),
        ({"total_timeout": -1}, ValueError, "total_timeout must be positive"),
        ({"total_timeout": math.inf}, ValueError, "total_timeout must be finite"),
        ({"timeout": "3"}, TypeError, "timeout takes seconds"),
        ({"retry": 3}, TypeError, "RetryPolicy"),
    ],
)
def test_wrong_options_are_an_error_when_they_are_made(wrong: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        CallOptions(**wrong)


def test_options_are_values() -> None:
    """Frozen, equal by content, and they travel."""
    policy = RetryPolicy(5, timedelta(seconds=2), 1.5, 30, jitter=False, retry_on=(OSError, ValueError))
    options = CallOptions(timeout=3, total_timeout=timedelta(minutes=5), retry=policy)
    assert pickle.loads(pickle.dumps(options)) == options
    assert (options.timeout_seconds, options.total_timeout_seconds) == (3.0, 300.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.max_attempts = 7  # type: ignore[misc]


def test_the_wait_grows_to_its_bound() -> None:
    """Also where the power has no float any more."""
    policy = RetryPolicy(10_000, 1, 3.0, 100, jitter=False)
    waits = [wait_after(policy, OSError(), 1, 0, attempt) for attempt in (1, 2, 3, 5, 6, 9_999)]
    assert waits == [1, 3, 9, 81, 100, 100]


def test_jitter_takes_up_to_a_half_and_is_the_same_again() -> None:
    policy = RetryPolicy(3, 10, 1, 10)
    waits = [
        wait_after(policy, OSError(), execution, slot, 1) for execution in range(30) for slot in range(30)
    ]
    assert waits == [
        wait_after(policy, OSError(), execution, slot, 1) for execution in range(30) for slot in range(30)
    ]
    assert 5 <= min(waits) < 5.1
    assert 9.9 < max(waits) <= 10
    assert 7.3 < sum(waits) / len(waits) < 7.7
