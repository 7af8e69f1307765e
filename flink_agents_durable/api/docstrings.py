"""Reads what a function's docstring says about it and its parameters, for the schema of a tool."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_SPHINX = re.compile(r":param(?:\s+[^:]+?)?\s+\*{0,2}(\w+)\s*:\s*(.*)")
_SPHINX_OTHER = re.compile(r":(?:returns?|rtype|raises?|type)\b.*:")
_GOOGLE_HEADER = re.compile(r"(Args|Arguments|Parameters|Params)\s*:\s*$")
_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_SECTION = re.compile(r"(Returns?|Raises|Yields?|Examples?|Notes?|Attributes|See Also|Warnings?)\s*:?\s*$")


@dataclass
class Described:
    """The text before the sections, and the text of each parameter."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def describe(function: object, names: Iterable[str]) -> Described:
    """Description of a function with parameters of these names; NumPy, Google and Sphinx style."""
    lines = (inspect.getdoc(function) or "").splitlines()
    known = set(names)
    described = Described()
    body: list[str] = []
    index = 0
    while index < len(lines):
        if _is_underlined(lines, index):
            if lines[index].strip().lower() in ("parameters", "args", "arguments"):
                _numpy(lines[index + 2 :], known, described)
            break
        line = lines[index].strip()
        if _GOOGLE_HEADER.match(line):
            _google(lines[index + 1 :], known, described)
            break
        if _SPHINX.match(line) or _SPHINX_OTHER.match(line):
            _sphinx(lines[index:], known, described)
            break
        if _SECTION.match(line) and (line.endswith(":") or _is_underlined(lines, index)):
            break
        body.append(lines[index])
        index += 1
    described.text = "\n".join(body).strip()
    return described


def _is_underlined(lines: list[str], index: int) -> bool:
    if index + 1 >= len(lines) or not lines[index].strip():
        return False
    return re.match(r"\s*-{3,}\s*$", lines[index + 1]) is not None


def _numpy(lines: list[str], known: set[str], described: Described) -> None:
    current: str | None = None
    for index, line in enumerate(lines):
        if _is_underlined(lines, index):
            return
        if line and not line[0].isspace():
            name = re.split(r"[\s:,]", line.lstrip("*"), maxsplit=1)[0]
            current = name if name in known else None
        elif current is not None:
            _append(described, current, line)


def _google(lines: list[str], known: set[str], described: Described) -> None:
    current: str | None = None
    for line in lines:
        if line and not line[0].isspace():
            return
        entry = _ENTRY.match(line.strip())
        if entry and entry.group(1) in known:
            current = entry.group(1)
            _append(described, current, entry.group(2))
        elif current is not None:
            _append(described, current, line)


def _sphinx(lines: list[str], known: set[str], described: Described) -> None:
    current: str | None = None
    for line in lines:
        entry = _SPHINX.match(line.strip())
        if entry:
            current = entry.group(1) if entry.group(1) in known else None
            if current is not None:
                _append(described, current, entry.group(2))
        elif line.strip().startswith(":"):
            current = None
        elif current is not None:
            _append(described, current, line)


def _append(described: Described, name: str, line: str) -> None:
    text = f"{described.parameters.get(name, '')} {line.strip()}".strip()
    if text:
        described.parameters[name] = text
