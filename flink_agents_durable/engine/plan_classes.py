"""The classes that a plan ships by value: of `__main__`, of closures, of notebooks.

Each subtask makes them anew from the plan, so a record must not carry a copy of its own: `isinstance` and
`except` would not hold. Records name them by plan and qualified name instead, and the subtask registers what
the plan brought under that name when it opens.
"""

from __future__ import annotations

import io
import re
import sys
import threading
import types
from collections.abc import Mapping
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from flink_agents_durable.engine.dataclass_fields import restore_marks

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
_PREFIX = "flink_agents_durable._plan_"

_lock = threading.Lock()
_plans: dict[str, dict[str, type]] = {}
_users: dict[str, int] = {}


def register_plan_classes(plan_id: str, classes: Mapping[str, type]) -> types.ModuleType:
    """Make the classes of a plan known under their names, until they are unregistered as many times."""
    with _lock:
        _plans.setdefault(plan_id, {}).update(classes)
        _users[plan_id] = _users.get(plan_id, 0) + 1
        name = _PREFIX + re.sub(r"\W", "_", plan_id)
        module = sys.modules.get(name)
        if module is None:
            module = sys.modules[name] = types.ModuleType(name, "The classes that a plan brought by value.")
        for qualname, cls in classes.items():
            restore_marks(cls)
            setattr(module, qualname, cls)
        return module


def unregister_plan_classes(plan_id: str) -> None:
    """Forget a plan, once for each time that it was registered. Keeps K11."""
    with _lock:
        left = _users.get(plan_id, 0) - 1
        if left > 0:
            _users[plan_id] = left
            return
        _users.pop(plan_id, None)
        _plans.pop(plan_id, None)
        sys.modules.pop(_PREFIX + re.sub(r"\W", "_", plan_id), None)


def resolve_plan_class(plan_id: str, name: str) -> type:
    """What a record calls to get a class of a plan. Its own name is part of recorded bytes."""
    try:
        return _plans[plan_id][name]
    except KeyError:
        raise LookupError(f"the class {name} came with the plan {plan_id!r} and is not in this one") from None


def collect_plan_classes(obj: object) -> dict[str, type]:
    """The classes that cloudpickle ships by value with this object, by qualified name.

    Classes of one name get a number, in the order in which the object reaches them.
    """
    collector = _Collector(io.BytesIO())
    collector.dump(obj)
    classes: dict[str, type] = {}
    for cls in collector.found:
        name, number = cls.__qualname__, 2
        while name in classes:
            name, number = f"{cls.__qualname__}#{number}", number + 1
        classes[name] = cls
    return classes


class _Collector(cloudpickle.CloudPickler):  # type: ignore[misc]
    """Sees every class that cloudpickle reduces; the bytes are thrown away."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer)
        self.found: list[type] = []

    def reducer_override(self, obj: Any) -> Any:
        reduced = super().reducer_override(obj)
        # A class by name is reduced to its name (a string), or left to pickle; by value it is a tuple.
        # Classes written in C are never shipped, but some of them are reduced to a tuple as well.
        if issubclass(type(obj), type) and isinstance(reduced, tuple) and obj.__flags__ & _HEAP_TYPE:
            self.found.append(obj)
        return reduced
