"""Events: what actions are triggered by and what they send."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any, ClassVar

from flink_agents_durable.api._current import current_or_none


class EventType:
    """Type names of the built-in events."""

    InputEvent = "_input_event"
    OutputEvent = "_output_event"
    ChatRequestEvent = "_chat_request_event"
    ChatResponseEvent = "_chat_response_event"
    ToolRequestEvent = "_tool_request_event"
    ToolResponseEvent = "_tool_response_event"


class Event:
    """Something that happened, with a type that actions are triggered by and attributes.

    A subclass is a user event; its type is its qualified name unless it defines `EVENT_TYPE`. The id is fixed
    when the event is made. Inside an action it is derived from the action execution, so that it is the same on
    replay; elsewhere it is random.
    """

    EVENT_TYPE: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "EVENT_TYPE" not in cls.__dict__:
            cls.EVENT_TYPE = f"{cls.__module__}.{cls.__qualname__}"

    def __init__(self, type: str | None = None, attributes: dict[str, Any] | None = None) -> None:
        self.type: str = type or self.EVENT_TYPE
        if not self.type:
            raise ValueError("an event needs a type: Event('my_event', {...}), or a subclass of Event")
        self.attributes: dict[str, Any] = {} if attributes is None else dict(attributes)
        self.source_timestamp: int | None = None
        context = current_or_none()
        self._id: uuid.UUID | Callable[[], uuid.UUID] = uuid.uuid4 if context is None else context._event_id()

    @property
    def id(self) -> uuid.UUID:
        """The id of this event, kept when it is sent."""
        if not isinstance(self._id, uuid.UUID):
            self._id = self._id()
        return self._id

    def get_attr(self, name: str) -> Any:
        """The attribute of this name, or None."""
        return self.attributes.get(name)

    def set_attr(self, name: str, value: Any) -> None:
        """Set an attribute; what is set after the event was sent has no effect on the sent one."""
        self.attributes[name] = value

    @classmethod
    def from_event(cls, event: Event) -> Any:
        """View an event of this type as this class (events keep their class, so it is the event itself)."""
        if event.type != cls.EVENT_TYPE:
            raise TypeError(f"an event of type {event.type!r} is no {cls.__name__} ({cls.EVENT_TYPE!r})")
        if isinstance(event, cls):
            return event
        view = cls.__new__(cls)
        view.__dict__.update(event.__dict__)
        return view

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_id": self.id}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(type={self.type!r}, attributes={self.attributes!r})"


class InputEvent(Event):
    """The event that an input of the stream causes."""

    EVENT_TYPE = EventType.InputEvent

    def __init__(self, input: Any) -> None:
        super().__init__(None, {"input": input})

    @property
    def input(self) -> Any:
        """The input record."""
        return self.attributes["input"]


class OutputEvent(Event):
    """Sent by an action to emit a record to the output stream."""

    EVENT_TYPE = EventType.OutputEvent

    def __init__(self, output: Any) -> None:
        super().__init__(None, {"output": output})

    @property
    def output(self) -> Any:
        """The output record."""
        return self.attributes["output"]
