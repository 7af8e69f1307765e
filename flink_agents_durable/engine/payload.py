"""How user values become bytes and values again.

Plain pickle, except for the classes that came with the plan by value (`plan_classes.py`): those are written
as a plan id and a name, so that a value read in another process is an instance of the class that the actions
there know. Lambdas and local functions inside a value go by value, through cloudpickle.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from flink_agents_durable.api.errors import DurableSerializationError, UnreadableRecordError
from flink_agents_durable.engine import plan_classes as plans
from flink_agents_durable.engine.plan_classes import collect_plan_classes, register_plan_classes
from flink_agents_durable.engine.unpicklable import describe_culprit

PROTOCOL = 5
_PICKLE = b"\x80"  # how every pickle since protocol 2 begins
_ATOMS = frozenset({type(None), bool, int, float, str, bytes})
# A payload that holds neither of these names no class of a plan, and needs no resolver of our own.
_PLAN_MARK = plans.resolve_plan_class.__name__.encode()
_MAIN_MARK = b"__main__"


class PayloadCodec:
    """Encodes and decodes user values for one plan."""

    trusts_records = True

    def __init__(
        self,
        plan_classes: Mapping[str, type] | None = None,
        plan_id: str = "",
        *,
        reads_bare_pickles: bool = True,
    ) -> None:
        self.plan_id = plan_id
        self.reads_bare_pickles = reads_bare_pickles
        self.plan_classes: Mapping[str, type] = dict(plan_classes or {})
        self._names = {id(cls): name for name, cls in self.plan_classes.items()}
        # Classes that substitutes.py has made; here, so that they live no longer than the plan.
        self.substitutes: dict[tuple[type, ...], type[BaseException]] = {}

    @property
    def inputs(self) -> PayloadCodec:
        return self

    def dumps(self, value: object) -> bytes:
        """Raises DurableSerializationError that names what cannot be serialised, and where it is."""
        try:
            if not self._names:
                return pickle.dumps(value, PROTOCOL)
            return self.dumps_by_reference(value)
        except Exception as first:
            try:
                return self._dumps_by_value(value)
            except Exception:
                raise DurableSerializationError(self._refusal(value, first)) from first

    def dumps_by_reference(self, value: object) -> bytes:
        """Without cloudpickle: classes and functions by name only. Raises whatever pickle raises."""
        if not self._names or type(value) in _ATOMS:
            return pickle.dumps(value, PROTOCOL)
        buffer = io.BytesIO()
        _Pickler(buffer, self).dump(value)
        return buffer.getvalue()

    def _dumps_by_value(self, value: object) -> bytes:
        buffer = io.BytesIO()
        _ByValuePickler(buffer, self).dump(value)
        return buffer.getvalue()

    def loads(self, data: bytes) -> object:
        """Raises UnreadableRecordError for bytes that cannot be read, or whose classes are gone."""
        try:
            if _PLAN_MARK in data or _MAIN_MARK in data:
                return _Unpickler(io.BytesIO(data), self).load()
            return pickle.loads(data)
        except Exception as error:
            text = f"a recorded value cannot be read: {type(error).__name__}: {error}"
            if data[:1] != _PICKLE:
                text += ". It is no pickle: was the job started with another agents.payload?"
            raise UnreadableRecordError(text) from error

    def plan_name(self, cls: type) -> str | None:
        """The name under which the plan brought this class; None for all others."""
        return self._names.get(id(cls))

    def reduce_class(self, obj: Any) -> Any:
        """How picklers write a class of the plan; NotImplemented for everything else."""
        name = self._names.get(id(obj))
        if name is None:
            return NotImplemented
        return plans.resolve_plan_class, (self.plan_id, name)

    def find_plan_class(self, plan_id: str, name: str) -> type:
        """The class of this name in this plan; an older plan's record means the class that replaced it."""
        cls = self.plan_classes.get(name)
        return cls if cls is not None else plans.resolve_plan_class(plan_id, name)

    def _refusal(self, value: object, error: Exception) -> str:
        return f"a value cannot be serialised: {describe_culprit(value, self._dumps_by_value, error)}"


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, codec: PayloadCodec) -> None:
        super().__init__(buffer, PROTOCOL)
        self._codec = codec

    def reducer_override(self, obj: Any) -> Any:
        return self._codec.reduce_class(obj)


class _ByValuePickler(cloudpickle.CloudPickler):  # type: ignore[misc]
    def __init__(self, buffer: io.BytesIO, codec: PayloadCodec) -> None:
        super().__init__(buffer, PROTOCOL)
        self._codec = codec

    def reducer_override(self, obj: Any) -> Any:
        reduced = self._codec.reduce_class(obj)
        return super().reducer_override(obj) if reduced is NotImplemented else reduced


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, codec: PayloadCodec) -> None:
        super().__init__(buffer)
        self._codec = codec

    def find_class(self, module: str, name: str) -> Any:
        if module == plans.__name__ and name == plans.resolve_plan_class.__name__:
            return self._codec.find_plan_class
        if module == "__main__" and name in self._codec.plan_classes:
            return self._codec.plan_classes[name]
        return super().find_class(module, name)


__all__ = ["PayloadCodec", "collect_plan_classes", "register_plan_classes"]
