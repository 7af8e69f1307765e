"""Failures of the operator as they reach Flink."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

MAX_TRACEBACK_CHARS = 65_536
"""Bounds the text of a failure in Flink's exception history."""


class TaskFailedError(RuntimeError):
    """Carries a formatted traceback: of a Python error only the first argument reaches Java."""


@contextmanager
def formatted() -> Iterator[None]:
    """Turn what is raised inside into a TaskFailedError."""
    try:
        yield
    except BaseException as error:
        raise as_failure(error) from None


def as_failure(error: BaseException) -> TaskFailedError:
    """The error with its traceback as text, cut in the middle if it is very long."""
    if isinstance(error, TaskFailedError):
        return error
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if len(text) > MAX_TRACEBACK_CHARS:
        half = MAX_TRACEBACK_CHARS // 2
        text = f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"
    return TaskFailedError(text)
