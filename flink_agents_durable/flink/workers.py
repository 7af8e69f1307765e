"""Functions of ours on workers: one that arrives where this package is missing says so, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
from pyflink.datastream import ProcessFunction


class WorkerFunction(ProcessFunction):  # type: ignore[misc]
    """A function that travels together with the code that loads it."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[bytes]]:
        return load_in_worker, (cloudpickle.dumps((type(self), self.__dict__)),)


def load_in_worker(data: bytes) -> Any:
    """Travels by value, so it may use nothing of this module. Raises RuntimeError with the remedy."""
    import socket
    import sys

    import cloudpickle

    try:
        import flink_agents_durable  # noqa: F401
    except ImportError as error:
        version = "{}.{}".format(*sys.version_info[:2])
        raise RuntimeError(
            f"the Python {version} of this worker ({sys.executable} on {socket.gethostname()}) cannot run durable "
            f"agents: {error}. Remedy: {sys.executable} -m pip install flink-agents-durable, on every machine of "
            "the cluster; or name another Python by python.executable; or send one with the job: "
            "-pyarch environment.tar.gz -pyexec environment.tar.gz/bin/python"
        ) from error
    cls, state = cloudpickle.loads(data)
    function = cls.__new__(cls)
    if hasattr(cls, "__setstate__"):
        function.__setstate__(state)
    else:
        function.__dict__.update(state)
    return function


cloudpickle.register_pickle_by_value(sys.modules[__name__])
