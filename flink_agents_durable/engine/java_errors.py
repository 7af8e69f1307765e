"""Java throwables inside Python exceptions, by their looks: the engine knows neither Java nor its bridge.

A Java error reaches Python as a RuntimeError whose argument is the throwable, an object that has Java's
methods and cannot be pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

# Bounds the walk over causes that form a ring, over superclasses, and over stacks that a recursion filled.
MAX_CAUSES = 16
MAX_SUPERCLASSES = 32
_MAX_FRAMES = 64
_MAX_TEXT = 16_384


@dataclass(frozen=True)
class JavaError:
    """A throwable as plain data."""

    class_name: str
    message: str
    stack: list[str]
    causes: list[tuple[str, str]] = field(default_factory=list)

    def attributes(self, clean: Callable[[str], str]) -> dict[str, Any]:
        """As the attributes of the exception that replays, with every text cleaned of credentials."""
        return {
            "java_class": self.class_name,
            "java_message": clean(self.message),
            "java_stack": [clean(frame) for frame in self.stack],
            "java_causes": [[name, clean(message)] for name, message in self.causes],
        }


def is_throwable(value: object) -> bool:
    """Whether a value looks like a Java throwable. Never raises."""
    if value is None or isinstance(value, (str, int, float, bytes, list, tuple, dict, BaseException, type)):
        return False
    if type(value).__name__ == "PyJObject":
        return True
    try:
        return all(callable(getattr(value, name, None)) for name in ("getClass", "getCause", "getMessage"))
    except BaseException:
        return False


def throwables(exc: BaseException) -> list[Any]:
    """The throwables among an exception's arguments. Never raises."""
    try:
        return [argument for argument in exc.args if is_throwable(argument)]
    except BaseException:
        return []


def class_name(throwable: Any) -> str:
    return _text(throwable.getClass().getName())


def class_names(throwable: Any) -> Iterator[str]:
    """The names of its class and of the superclasses."""
    cls = throwable.getClass()
    for _ in range(MAX_SUPERCLASSES):
        if cls is None:
            return
        yield _text(cls.getName())
        cls = cls.getSuperclass()


def causes(throwable: Any) -> Iterator[Any]:
    """The throwable and its causes; a ring ends at its bound."""
    for _ in range(MAX_CAUSES):
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()


def describe_exception(exc: BaseException) -> JavaError | None:
    """The Java error that an exception carries. Keeps X9. Never raises."""
    for throwable in throwables(exc):
        try:
            return _describe(throwable)
        except BaseException:
            continue
    return None


def _describe(throwable: Any) -> JavaError:
    chain = [(class_name(cause), _message(cause)) for cause in causes(throwable)]
    unique = list(dict.fromkeys(chain[1:]))
    return JavaError(chain[0][0], chain[0][1], _stack(throwable), unique)


def _message(throwable: Any) -> str:
    message = throwable.getMessage()
    return "" if message is None else _text(message)


def _stack(throwable: Any) -> list[str]:
    try:
        return [_text(frame)[:500] for frame in list(throwable.getStackTrace())[:_MAX_FRAMES]]
    except BaseException:
        return []


def _text(value: object) -> str:
    if isinstance(value, str):
        return value[:_MAX_TEXT].encode("utf-8", "replace").decode()
    to_string = getattr(value, "toString", None)
    text = to_string() if callable(to_string) else str(value)
    return text[:_MAX_TEXT] if isinstance(text, str) else ""
