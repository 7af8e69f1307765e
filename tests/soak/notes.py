"""Files that all processes of this machine share: one JSON list a line, in the order of writing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def note(folder: str | Path, name: str, *fields: object) -> None:
    """One line more: in one write, so that lines of several threads and processes stay whole."""
    file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, (json.dumps(fields) + "\n").encode())
    finally:
        os.close(file)


def lines(folder: str | Path, name: str) -> list[list[Any]]:
    path = Path(folder, name)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
