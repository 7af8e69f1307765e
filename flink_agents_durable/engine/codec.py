"""What the engine needs of a codec of user values: one implementation a value of `agents.payload`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Codec(Protocol):
    """Encodes and decodes user values for one plan."""

    plan_classes: Mapping[str, type]
    """The classes that the plan brought by value, by their names in records."""
    substitutes: dict[tuple[type, ...], type[BaseException]]
    """Classes that substitutes.py has made; here, so that they live no longer than the plan."""

    @property
    def trusts_records(self) -> bool:
        """Whether what a record says may be imported and run, as pickles are."""

    @property
    def reads_bare_pickles(self) -> bool:
        """Whether a failure may be a pickle without a marker, as the reference wrote them (X5)."""

    @property
    def inputs(self) -> Codec:
        """The codec of what comes over Flink's network, which is always pickled."""

    def dumps(self, value: object) -> bytes:
        """Raises DurableSerializationError that names what cannot be serialised, and where it is."""

    def dumps_by_reference(self, value: object) -> bytes | None:
        """A pickle with classes and functions by name only, None where values are not pickled."""

    def loads(self, data: bytes) -> object:
        """Raises UnreadableRecordError for bytes that cannot be read, or whose classes are gone."""

    def plan_name(self, cls: type) -> str | None:
        """The name under which the plan brought this class; None for all others."""
