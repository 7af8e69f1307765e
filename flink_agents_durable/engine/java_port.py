"""What the driver of a Java action needs of Java. The operator implements it, and so does a simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class JavaPort(Protocol):
    """Java executions by their handles. All methods are called on the task thread."""

    def prepare(self) -> None:
        """Durable calls that run in Java are about to be made."""

    def new_handle(self) -> int:
        """A number for an execution, from 1 on."""

    def start(self, handle: int, message: bytes, serve: Callable[[bytes], bytes]) -> bytes:
        """Begin an execution; gives its commands. `serve` answers commands from a frame that cannot wait."""

    def step(self, handle: int, answer: bytes, serve: Callable[[bytes], bytes]) -> bytes:
        """Give an execution what it waits for; gives its next commands."""

    def interrupt(self, handle: int, error: BaseException) -> bool:
        """The next step throws the Java original of this error; False if it has none."""

    def call(self, handle: int, number: int, reconcile: bool) -> Callable[[], object]:
        """The code of a call of an execution, or its reconciler, for the executor."""

    def abandon(self, handle: int) -> None:
        """Unwind an execution that is suspended; one that has ended stays as it is."""

    def release(self, handle: int) -> None:
        """Forget an execution that has ended."""


class JavaCall:
    """The code of a durable call that lives in Java: a number of an execution, or its reconciler. Never called here."""

    __slots__ = ("handle", "number", "reconcile")

    def __init__(self, handle: int, number: int, reconcile: bool) -> None:
        self.handle = handle
        self.number = number
        self.reconcile = reconcile

    def __call__(self) -> object:
        raise TypeError("a durable call of a Java action runs in Java")


class JavaInterruptedError(Exception):
    """A durable call of a Java action was interrupted; the original waits in Java under the id of the call."""

    def __init__(self, call: int) -> None:
        super().__init__(f"the Java call {call} was interrupted")
        self.call = call
