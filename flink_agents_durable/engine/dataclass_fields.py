"""Fields of dataclasses, also of those that were shipped by value.

cloudpickle before 3.0, which PyFlink pins, copies the marks of `dataclasses` that are known by identity: in
another process `dataclasses.fields` of a class of `__main__` is empty. Two different values would have one
digest, and two keys one encoding.
"""

from __future__ import annotations

import dataclasses
from typing import Any

_MARKS = {
    mark.name: mark
    for mark in (getattr(dataclasses, name) for name in ("_FIELD", "_FIELD_CLASSVAR", "_FIELD_INITVAR"))
}
_MISSING = type(dataclasses.MISSING)


def dataclass_fields(cls: Any) -> list[dataclasses.Field[Any]]:
    """What `dataclasses.fields` should give."""
    fields: dict[str, Any] = cls.__dataclass_fields__
    return [field for field in fields.values() if field._field_type.name == "_FIELD"]


def restore_marks(cls: type) -> None:
    """Put the marks of this process into a class that came by value, so that `asdict` works on it."""
    for field in getattr(cls, "__dataclass_fields__", {}).values():
        field._field_type = _MARKS.get(field._field_type.name, field._field_type)
        for name in ("default", "default_factory", "kw_only"):
            if isinstance(getattr(field, name, None), _MISSING):
                setattr(field, name, dataclasses.MISSING)
