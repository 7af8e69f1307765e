"""Keeps credentials out of failure records (X8).

HTTP client exceptions carry the request that failed: its headers, its cookies, its body. None of it is
recorded. Where such a value shows up elsewhere (in a message, in a traceback's source line) it is replaced.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

REMOVED = "[removed]"

# Bounds the walk over what an exception holds; a larger state is treated as one that holds a client.
_MAX_OBJECTS = 2_000
# Shorter values would be found in innocent text.
_SHORTEST_SECRET = 6
_SHORTEST_PROSE = 16

_HTTP_PACKAGES = frozenset(
    {"aiohttp", "anthropic", "boto3", "botocore", "cohere", "google", "grpc", "h11", "h2", "http", "httpcore"}
    | {"httpcore2", "httplib2", "httpx", "httpx2", "mistralai", "multidict", "ollama", "openai", "pycurl"}
    | {"requests", "tornado", "urllib", "urllib3", "websockets", "yarl"}
)
_HTTP_NAME = re.compile(r"(Request|Response|Client|Session|Connection|Headers|Cookies?|CookieJar|Transport)$")
_SENSITIVE_NAME = re.compile(
    r"(^|[-_])(auth|authorization|token|secret|passw(or)?d|cookies?|credentials?|signature)($|[-_])"
    r"|api[-_]?key|access[-_]?key|private[-_]?key|session[-_]?id"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_NAMED = r"(?:proxy-)?authorization|(?:x-)?(?:\w+-)?api[-_]?key|x-\w+-token|(?:access|refresh|auth)[-_]token"
_TEXT_PATTERNS = [
    (re.compile(rf"""(?i)\b({_NAMED})(["']?\s*[:=,]\s*(?:b["']|["'])?)(?:(?:bearer|basic|token|digest)\s+)?[^\s"',;&)}}]+"""),
     rf"\1\2{REMOVED}"),
    (re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]{8,}"), rf"\1{REMOVED}"),
    (re.compile(r"""(?i)\b((?:set-)?cookie)(["']?\s*[:=,]\s*["']?)[^\r\n"'}]+"""), rf"\1\2{REMOVED}"),
    (re.compile(r"\bsk-[\w-]{12,}"), REMOVED),
    (re.compile(r"(://)[^/\s@:'\"]*:[^/\s@'\"]+@"), rf"\1{REMOVED}@"),
    (re.compile(r"(?i)([?&](?:[\w-]*key|[\w-]*token|sig|[\w-]*signature|[\w-]*credential|password|secret)=)[^&\s'\"#]+"),
     rf"\1{REMOVED}"),
]  # fmt: skip
# One cheap look, so that the patterns run over few texts only.
_SUSPICIOUS = re.compile(r"(?i)authorization|key|token|bearer|cookie|sk-|@|sig|secret|password|credential")


def is_sensitive_name(name: object) -> bool:
    """Whether a header, a dict key or an attribute of this name holds a credential."""
    if not isinstance(name, str):
        return False
    return _SENSITIVE_NAME.search(_CAMEL.sub("_", name).lower()) is not None


def is_sensitive_pair(value: object) -> bool:
    """Whether a value is a header as a pair of its name and its content."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    name, content = value
    if isinstance(name, bytes):
        name = name.decode("latin-1")
    return is_sensitive_name(name) and isinstance(content, (str, bytes)) and bool(content)


def is_http_object(value: object) -> bool:
    """Whether a value is a client, a request, a response or a part of one."""
    cls = type(value)
    if isinstance(value, (BaseException, enum.Enum, type)) or _is_model(cls):
        return False
    if (cls.__module__ or "").partition(".")[0] in _HTTP_PACKAGES:
        return True
    if dataclasses.is_dataclass(cls) or isinstance(value, (str, bytes, int, float, tuple, list)):
        return False
    return _HTTP_NAME.search(cls.__name__) is not None


def _is_model(cls: type) -> bool:
    return isinstance(getattr(cls, "__pydantic_fields__", None), dict)


class Scrubber:
    """Knows the credentials that one exception carries, causes and group members included."""

    def __init__(self, exc: BaseException) -> None:
        self._secrets: set[str] = set()
        self._tainted: set[int] = set()
        for current in _family(exc):
            try:
                tainted = self._walk(current)
            except BaseException:
                tainted = True  # what cannot be looked at is not written
            if tainted:
                self._tainted.add(id(current))
        self._ordered = sorted(self._secrets, key=len, reverse=True)
        self._cleaned: dict[str, str] = {}  # one text is met as message, argument and in the traceback

    def is_tainted(self, exc: BaseException) -> bool:
        """Whether the exception's own state reaches an HTTP object or a credential."""
        return id(exc) in self._tainted

    def clean(self, text: str) -> str:
        known = self._cleaned.get(text)
        if known is None:
            known = self._cleaned[text] = self._clean(text)
        return known

    def _clean(self, text: str) -> str:
        for secret in self._ordered:
            if secret in text:
                text = text.replace(secret, REMOVED)
        if _SUSPICIOUS.search(text) is None:
            return text
        for pattern, replacement in _TEXT_PATTERNS:
            text = pattern.sub(replacement, text)
        return text

    def _walk(self, exc: BaseException) -> bool:
        tainted = False
        seen = {id(exc)}
        todo: list[object] = [exc.args, *_state(exc).items()]
        while todo:
            value = todo.pop()
            if isinstance(value, str):
                tainted = tainted or self._looks_like_credential(value)
                continue
            if value is None or isinstance(value, (int, float, type, enum.Enum)) or id(value) in seen:
                continue
            seen.add(id(value))
            if len(seen) > _MAX_OBJECTS:
                return True
            if isinstance(value, bytes):
                todo.append(value[:65_536].decode("utf-8", "replace"))
            elif is_http_object(value):
                tainted = True
                self._learn(value, set())
            else:
                tainted = tainted or _has_sensitive_name(value)
                todo.extend(_parts(value))
        return tainted

    def _looks_like_credential(self, text: str) -> bool:
        text = text[:65_536]
        if _SUSPICIOUS.search(text) is None:
            return False
        return any(pattern.search(text) is not None for pattern, _ in _TEXT_PATTERNS)

    def _learn(self, value: object, seen: set[int]) -> None:
        """Remember the credentials and the body of a request, wherever the object keeps it."""
        if id(value) in seen or len(seen) > 50:
            return
        seen.add(id(value))
        state = _state(value)
        for name in ("headers", "cookies", "_cookies", "hdrs", "_headers", "request_info"):
            self._learn_pairs(state.get(name))
        self._learn_pairs(value)
        if "Request" in type(value).__name__:
            for name in ("_content", "content", "body", "data", "_body"):
                self._learn_body(state.get(name))
        for name in ("request", "_request", "response", "history", "request_info", "api_key", "auth"):
            part = state.get(name)
            if isinstance(part, str) and is_sensitive_name(name):
                self._add(part)
            for item in part if isinstance(part, (list, tuple)) else [part]:
                if item is not None and not isinstance(item, (str, bytes)):
                    self._learn(item, seen)

    def _learn_pairs(self, headers: Any) -> None:
        try:
            pairs = list(headers.items())
        except Exception:
            return
        for name, content in pairs[:500]:
            if is_sensitive_name(name) and isinstance(content, (str, bytes)):
                self._learn_header(name, content if isinstance(content, str) else content.decode("latin-1"))

    def _learn_body(self, body: object) -> None:
        """The body as a whole; and the prose and the credentials in it, which an error message may quote."""
        if isinstance(body, (bytes, bytearray)):
            body = bytes(body).decode("utf-8", "replace")
        if not isinstance(body, str):
            return
        self._add(body)
        try:
            self._learn_content(json.loads(body), 0)
        except Exception:
            self._learn_content(dict(parse_qsl(body[:65_536])), 0)

    def _learn_content(self, content: object, depth: int, sensitive: bool = False) -> None:
        if depth > 20:
            return
        if isinstance(content, dict):
            for name, item in content.items():
                self._learn_content(item, depth + 1, is_sensitive_name(name))
        elif isinstance(content, list):
            for item in content:
                self._learn_content(item, depth + 1, sensitive)
        elif isinstance(content, str) and (sensitive or (len(content) >= _SHORTEST_PROSE and " " in content)):
            self._add(content)

    def _learn_header(self, name: str, content: str) -> None:
        if "cookie" in name.lower():
            # "set-cookie" has one cookie before its attributes, "cookie" has several.
            pairs = content.split(";")[: 1 if "set" in name.lower() else None]
            for pair in pairs:
                self._add(pair.partition("=")[2].strip())
        else:
            self._add(content.rpartition(" ")[2])  # without the scheme: "Bearer ..."
        self._add(content)

    def _add(self, secret: str) -> None:
        if len(secret) >= _SHORTEST_SECRET:
            self._secrets.add(secret)


def _family(exc: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    todo: list[Any] = [exc]
    while todo and len(seen) < 256:
        current = todo.pop()
        if not isinstance(current, BaseException) or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        todo += [current.__cause__, current.__context__]
        try:
            members = getattr(current, "exceptions", None)
        except BaseException:
            continue
        todo += members if isinstance(members, (list, tuple)) else ()


def _state(value: Any) -> dict[str, Any]:
    """The instance attributes of an object, of its slots too, without running its code."""
    try:
        state = dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError, ValueError):
        state = {}
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else tuple(slots):
            try:
                state[name] = object.__getattribute__(value, name)
            except AttributeError:
                continue
    return state


def _parts(value: Any) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from dict.keys(value) if isinstance(value, dict) else ()
        yield from dict.values(value) if isinstance(value, dict) else ()
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    elif isinstance(value, BaseException):
        yield BaseException.args.__get__(value)  # type: ignore[attr-defined]
    yield from _state(value).values()


def _has_sensitive_name(value: object) -> bool:
    """A dict, an object or an attribute pair whose credential is named as one."""
    if is_sensitive_pair(value):
        return True
    names = [*(dict.keys(value) if isinstance(value, dict) else ()), *_state(value)]
    names += getattr(type(value), "_fields", ()) if isinstance(value, tuple) else ()
    return any(is_sensitive_name(name) for name in names)
