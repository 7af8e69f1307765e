"""What stands for the objects that a recorded exception held: plain data with the shape of the original."""

from __future__ import annotations

import json
import types
from collections.abc import Iterable
from typing import Any


class RecordedObject(types.SimpleNamespace):
    """Stands for an object that a recorded exception held; has its plain attributes."""

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value!r}"[:100] for name, value in vars(self).items())
        return f"<recorded {facts}>"


class RecordedResponse(RecordedObject):
    """Stands for an HTTP response: status, headers without credentials, and its text if it had been read."""

    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def is_success(self) -> bool:
        return 200 <= int(self.status_code) < 300

    @property
    def is_client_error(self) -> bool:
        return 400 <= int(self.status_code) < 500

    @property
    def is_server_error(self) -> bool:
        return 500 <= int(self.status_code) < 600

    @property
    def is_error(self) -> bool:
        return self.is_client_error or self.is_server_error

    @property
    def ok(self) -> bool:
        return not self.is_error


class RecordedHeaders(dict[str, str]):
    """Headers by name in any case."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__({str(name).lower(): value for name, value in pairs})

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)

    def __reduce__(self) -> Any:
        return RecordedHeaders, (list(self.items()),)


class RecordedTuple(tuple[Any, ...]):
    """Stands for a named tuple: a tuple with names."""

    _fields: tuple[str, ...]

    def __new__(cls, fields: Iterable[str], values: Iterable[Any]) -> RecordedTuple:
        self = tuple.__new__(cls, values)
        self._fields = tuple(map(str, fields))
        return self

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("_fields", ())
        if name not in fields:
            raise AttributeError(f"the recorded tuple has no field {name!r}")
        return self[fields.index(name)]

    def __reduce__(self) -> Any:
        return RecordedTuple, (self._fields, tuple(self))


class RecordedMetadata(tuple[tuple[str, Any], ...]):
    """Stands for the metadata of a remote procedure call: pairs, also to be read by name."""

    def get(self, name: str, default: Any = None) -> Any:
        return next((value for key, value in self if key == name), default)

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, str):
            return super().__getitem__(index)
        if all(key != index for key, _ in self):
            raise KeyError(index)
        return self.get(index)
