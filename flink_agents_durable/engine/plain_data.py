"""The plain part of an exception's state, as msgpack, and its return as attributes of a substitute.

Scalars, containers and the stdlib's values keep their type. An HTTP response becomes a small stand-in
(status, headers without credentials, text), a request its method and address, a user's data object its plain
fields, a member of an enum its class and name. Everything else is left out.
"""

from __future__ import annotations

import contextlib
import enum
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from flink_agents_durable.engine.canonical import object_state
from flink_agents_durable.engine.scrubbing import (
    REMOVED,
    Scrubber,
    is_http_object,
    is_sensitive_name,
    is_sensitive_pair,
)
from flink_agents_durable.engine.stand_ins import (
    RecordedHeaders,
    RecordedMetadata,
    RecordedObject,
    RecordedResponse,
    RecordedTuple,
)
from flink_agents_durable.engine.stdlib_values import from_texts, to_texts

_VALUE, _TUPLE, _SET, _FROZENSET, _PAIRS, _OBJECT, _RESPONSE, _HEADERS, _ENUM, _NAMED, _METADATA = range(
    1, 12
)

# Bound the record of an exception that carries a whole document or a deep structure.
_MAX_TEXT = 16_384
_MAX_TOTAL = 65_536
_MAX_DEPTH = 8

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made by a class statement
_MEMBERS = (types.MemberDescriptorType, types.GetSetDescriptorType)
_HTTP_FACTS = (
    "status_code", "status", "code", "reason_phrase", "reason", "http_version", "method", "encoding",
)  # fmt: skip
_RPC_FACTS = ("code", "details", "debug_error_string", "initial_metadata", "trailing_metadata")


class NotPlain(Exception):
    """A value is no plain data."""


# --- recording


class Plainer:
    """Turns values into plain data, within one budget for all of them."""

    def __init__(self, scrubber: Scrubber, reference: Callable[[type], str]) -> None:
        self._scrubber = scrubber
        self._reference = reference
        self._left = _MAX_TOTAL

    def attributes(self, exc: BaseException) -> dict[str, Any]:
        """The attributes of an exception that are plain. Never raises."""
        result: dict[str, Any] = {}
        for name, value in _attributes(exc):
            try:
                plain = REMOVED if is_sensitive_name(name) and value else self.plain(value, 0)
                result[name.encode("utf-8", "replace").decode()] = plain
            except BaseException:
                continue
        return result

    def arguments(self, exc: BaseException) -> list[Any] | None:
        """The arguments of an exception, or None when one of them is not plain."""
        try:
            return [self.plain(argument, 0) for argument in exc.args]
        except BaseException:
            return None

    def plain(self, value: Any, depth: int) -> Any:
        self._spend(1)
        if value is None or value is True or value is False:
            return value
        if isinstance(value, enum.Enum):
            return self._enum(value, depth)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, (bytes, bytearray)):
            self._spend(len(value))
            if self._scrubber.clean(text := bytes(value).decode("latin-1")) != text:
                raise NotPlain
            return bytes(value)
        if isinstance(value, int):
            number = int(value)
            return number if -(1 << 63) <= number < 1 << 64 else _extension(_VALUE, to_texts(number))
        if isinstance(value, float):
            return float(value)
        texts = to_texts(value)
        if texts is not None:
            return _extension(_VALUE, texts)
        if depth >= _MAX_DEPTH:
            raise NotPlain
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return self._named(value, depth + 1)
        if is_http_object(value):
            return self._http(value, depth)
        return self._container(value, depth + 1)

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise NotPlain

    def _text(self, value: str) -> Any:
        text = self._scrubber.clean(str.__str__(value)[: 4 * _MAX_TEXT])[:_MAX_TEXT]
        self._spend(len(text))
        try:
            text.encode()
        except UnicodeEncodeError:
            return _extension(_VALUE, to_texts(text))
        return text

    def _container(self, value: Any, depth: int) -> Any:
        if is_sensitive_pair(value):
            value = type(value)([value[0], REMOVED])
        if isinstance(value, dict):
            return self._mapping(value, depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            items = [self.plain(item, depth) for item in value]
            if isinstance(value, list):
                return items
            code = _TUPLE if isinstance(value, tuple) else _SET if isinstance(value, set) else _FROZENSET
            return _extension(code, items)
        state = object_state(value)
        if state is None:
            raise NotPlain
        return _extension(_OBJECT, self._fields(state, depth))

    def _mapping(self, value: dict[Any, Any], depth: int) -> Any:
        pairs = []
        for key, item in value.items():
            name = self.plain(key, depth)
            try:
                plain = REMOVED if is_sensitive_name(key) and item else self.plain(item, depth)
            except NotPlain:
                if self._left < 0:
                    raise
                continue
            pairs.append((name, plain))
        if all(type(key) is str for key, _ in pairs):
            return dict(pairs)
        return _extension(_PAIRS, pairs)

    def _enum(self, value: enum.Enum, depth: int) -> Any:
        """By class and name, and the value in case that the class is gone."""
        name = value.name  # None where flags are combined
        return _extension(_ENUM, [self._reference(type(value)), name, self._enum_value(value, depth)])

    def _enum_value(self, value: enum.Enum, depth: int) -> Any:
        try:
            return self.plain(value.value, depth + 1)
        except NotPlain:
            return None

    def _named(self, value: Any, depth: int) -> Any:
        """A named tuple. What is not plain in it leaves its place empty."""
        sensitive = is_sensitive_pair(value)
        values = []
        for place, (name, item) in enumerate(zip(value._fields, value, strict=False)):
            try:
                hidden = item and (is_sensitive_name(name) or (sensitive and place == 1))
                values.append(REMOVED if hidden else self.plain(item, depth))
            except NotPlain:
                values.append(None)
        return _extension(_NAMED, [[self._text(str(name)) for name in value._fields], values])

    def _fields(self, state: Mapping[str, Any], depth: int) -> dict[str, Any]:
        result = {}
        for name, value in state.items():
            try:
                result[name] = REMOVED if is_sensitive_name(name) and value else self.plain(value, depth)
            except NotPlain:
                continue
        return result

    # --- http

    def _http(self, value: Any, depth: int) -> Any:
        kind = type(value).__name__
        if "url" in kind.lower():
            return self._text(str(value))
        if any(word in kind for word in ("Headers", "MultiDict", "HTTPMessage", "CaseInsensitiveDict")):
            return self._headers(value)
        if kind == "Metadata":
            return _extension(_METADATA, [self._pair(pair, depth) for pair in list(value)[:100]])
        if "RPCState" in kind:
            return _extension(
                _OBJECT, self._fields({name: getattr(value, name) for name in _RPC_FACTS}, depth)
            )
        facts = {}
        for name in _HTTP_FACTS:
            fact = _safe_attribute(value, name)
            if isinstance(fact, (int, str)):
                facts[name] = self.plain(fact, depth)
        url = _safe_attribute(value, "url") or _safe_attribute(value, "real_url")
        if url is not None and not callable(url):
            facts["url"] = self._text(str(url))
        if "Response" in kind:
            facts.update(self._response(value))
            return _extension(_RESPONSE, facts)
        if "Request" in kind:
            return _extension(_OBJECT, facts)
        raise NotPlain

    def _response(self, value: Any) -> dict[str, Any]:
        facts = {}
        headers = _safe_attribute(value, "headers")
        if headers is not None:
            facts["headers"] = self._headers(headers)
        # Only a body that has been read: to look at another one would be I/O.
        if isinstance(_safe_attribute(value, "_content"), bytes):
            text = _safe_attribute(value, "text")
            if isinstance(text, str) and len(text) <= _MAX_TEXT:
                facts["text"] = self._text(text)
        return facts

    def _pair(self, pair: Any, depth: int) -> list[Any]:
        name, content = pair
        return [self._text(str(name)), REMOVED if is_sensitive_pair(pair) else self.plain(content, depth + 1)]

    def _headers(self, headers: Any) -> Any:
        pairs = []
        for name, content in list(headers.items())[:100]:
            if isinstance(name, str) and isinstance(content, str) and not is_sensitive_name(name):
                pairs.append((self._text(name), self._text(content[:1_000])))
        return _extension(_HEADERS, pairs)


_encode = msgspec.msgpack.encode


def _extension(code: int, content: object) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(code, _encode(content))


def _safe_attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except BaseException:
        return None


def _attributes(exc: BaseException) -> Iterator[tuple[str, object]]:
    """Instance attributes, and the members that classes written in C and slots have."""
    yield from list(object.__getattribute__(exc, "__dict__").items())
    for cls in type(exc).__mro__:
        if cls not in (BaseException, object):
            yield from _members(exc, cls)


def _members(exc: BaseException, cls: type) -> Iterator[tuple[str, object]]:
    """What the slots of one class, or its C structure, hold."""
    for name, member in list(vars(cls).items()):
        if name[:2] != "__" and isinstance(member, _MEMBERS):
            try:
                yield name, member.__get__(exc, type(exc))
            except BaseException:
                continue


def own_attributes(exc: BaseException) -> dict[str, object]:
    """The instance attributes and slots of user classes, which a pickle may lose or a constructor may set."""
    state = dict(object.__getattribute__(exc, "__dict__"))
    for cls in type(exc).__mro__:
        if cls.__flags__ & _HEAP_TYPE:
            state.update(_members(exc, cls))
    return state


# --- replay


def revive(plain: Any, find: Callable[[str], type | None]) -> Any:
    """Plain data as it was recorded, with the values that its extension items stand for.

    `find` gives the class that a reference names, None when there is none.
    """

    def from_extension(code: int, data: memoryview) -> Any:
        content = msgspec.msgpack.decode(data, ext_hook=from_extension)
        return _member(find, *content) if code == _ENUM else _from_extension(code, content)

    return msgspec.msgpack.decode(_encode(plain), ext_hook=from_extension)


def _member(find: Callable[[str], type | None], reference: str, name: str | None, value: Any) -> Any:
    """The member of an enum, or its value when the class or the member is gone."""
    cls = find(reference)
    if cls is None or not issubclass(cls, enum.Enum):
        return value
    if name is not None and name in cls.__members__:
        return cls.__members__[name]
    try:
        return cls(value) if issubclass(cls, enum.Flag) and isinstance(value, int) else value
    except ValueError:
        return value


def _from_extension(code: int, content: Any) -> Any:
    if code == _VALUE:
        return from_texts(*content)
    if code == _TUPLE:
        return tuple(content)
    if code == _SET:
        return set(content)
    if code == _FROZENSET:
        return frozenset(content)
    if code == _PAIRS:
        return dict(content)
    if code == _OBJECT:
        return RecordedObject(**content)
    if code == _RESPONSE:
        return RecordedResponse(**content)
    if code == _HEADERS:
        return RecordedHeaders(content)
    if code == _NAMED:
        return RecordedTuple(*content)
    if code == _METADATA:
        return RecordedMetadata((name, value) for name, value in content)
    raise ValueError(f"an extension item of the unknown kind {code}")


def restore_attributes(exc: BaseException, attributes: Mapping[str, Any]) -> None:
    """Give an exception its recorded attributes; members of C classes and slots by their descriptors."""
    state = vars(exc)
    for name, value in attributes.items():
        member = getattr(type(exc), name, None)
        if isinstance(member, _MEMBERS):
            try:
                member.__set__(exc, value)
                continue
            except (AttributeError, TypeError):
                if isinstance(member, types.MemberDescriptorType):
                    continue  # read-only: the constructor has set it
        state[name] = value


def restore_missing_members(exc: BaseException, attributes: Mapping[str, Any]) -> None:
    """Give an unpickled exception what its class does not pickle, such as `AttributeError.name`."""
    for name, value in attributes.items():
        member = getattr(type(exc), name, None)
        if value is not None and isinstance(member, _MEMBERS):
            with contextlib.suppress(Exception):
                if member.__get__(exc, type(exc)) is None:
                    member.__set__(exc, value)
