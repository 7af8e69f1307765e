"""Code written in Java, as a Python agent names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flink_agents_durable.api.errors import ConfigurationError


@dataclass(frozen=True)
class JavaFunction:
    """A Java method `(Event, RunnerContext)` as an action: `agent.add_action("name", InputEvent, JavaFunction(...))`,
    or a static method of any parameters as what a durable call of a Python action runs, by position.

    The class is found by the job's class loader: send its jar with the job. The method is static, or of an object
    that is made once a subtask by the constructor without parameters. Its durable calls have the same guarantees
    and the same journal as those of Python.
    """

    class_name: str
    method: str

    def __post_init__(self) -> None:
        for name, value in (("class name", self.class_name), ("method", self.method)):
            if not isinstance(value, str) or not value:
                raise ConfigurationError(f"JavaFunction takes the {name} as a text, not {value!r}")

    @property
    def durable_id(self) -> str:
        """Stands for the method in the identity of durable calls."""
        return f"java:{self}"

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self} runs in Java: only the durable calls of a Flink job can call it")

    def __str__(self) -> str:
        return f"{self.class_name}.{self.method}"


class JavaCallError(RuntimeError):
    """An exception of Java code, as plain data: what a durable call or an action written in Java threw.

    Its text is `"<class>: <message>"`. `java_class`, `java_message`, `java_lineage` (the classes from its own to
    Throwable), `java_fields`, `java_stack` and `java_causes` tell more.
    """

    def __init__(self, failure: dict[str, Any]) -> None:
        super().__init__(failure)
        self.java_class: str = failure["class"]
        self.java_message: str | None = failure["message"]
        self.java_lineage: list[str] = failure["lineage"]
        self.java_fields: dict[str, Any] = failure["fields"]
        self.java_own: bool = failure["own"]
        self.java_stack: list[str] = failure["stack"]
        self.java_causes: list[dict[str, Any]] = failure["causes"]

    def __str__(self) -> str:
        return f"{self.java_class}: {self.java_message or ''}"
