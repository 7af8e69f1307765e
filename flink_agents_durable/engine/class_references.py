"""Classes by name in records that are no pickles, and the classes that such names stand for."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flink_agents_durable.engine.codec import Codec


def class_reference(cls: type, codec: Codec) -> str:
    """`module:qualname`, or `:name` for a class that the plan brought."""
    name = codec.plan_name(cls)
    reference = f":{name}" if name is not None else f"{cls.__module__}:{cls.__qualname__}"
    return reference.encode("utf-8", "replace").decode()


def find_class(reference: str, codec: Codec) -> type | None:
    """The class of a name, None when it does not exist here.

    A codec that reads data only (`agents.payload=json`) imports nothing that a record names and runs no code of
    a module to find it: the class is one that the agent has imported already, or there is none.
    """
    module, _, qualname = reference.partition(":")
    if not module:
        return codec.plan_classes.get(qualname)
    found = _import(module, qualname) if codec.trusts_records else _look_up(module, qualname)
    if found is None and module == "__main__":
        found = codec.plan_classes.get(qualname)
    return found if isinstance(found, type) else None


def _import(module: str, qualname: str) -> object:
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit):
        return None
    return found


def _look_up(module: str, qualname: str) -> object:
    """By dictionaries alone: neither a module's `__getattr__` nor a descriptor runs."""
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = _namespace(found).get(part)
    return found


def _namespace(owner: object) -> Mapping[str, object]:
    if isinstance(owner, types.ModuleType):
        return types.ModuleType.__getattribute__(owner, "__dict__")  # type: ignore[no-any-return]
    if isinstance(owner, type):
        return type.__dict__["__dict__"].__get__(owner)  # type: ignore[no-any-return]
    return {}
