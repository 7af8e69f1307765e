"""What the Java operator that encodes inputs calls: many records in one crossing of the interpreter lock."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from pyflink.fn_execution.datastream.embedded.runtime_context import StreamingRuntimeContext
from pyflink.fn_execution.embedded.converters import from_type_info_proto
from pyflink.fn_execution.embedded.operation_utils import parse_coder_proto

from flink_agents_durable.flink.inputs import EncodeInput


class RunningEncoder:
    """One subtask. Methods take at most one argument, so that they may raise: see `runtime.lasting_method`."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._function: EncodeInput = pickle.loads(bytes(settings["encoder"]))
        coder = parse_coder_proto(bytes(settings["input_type"]))
        self._to_python = from_type_info_proto(coder.raw_type.type_info).to_internal
        parameters = settings["job_parameters"]
        self._function.open(StreamingRuntimeContext.of(settings["runtime_context"], parameters))

    def encode(self, values: Sequence[Any]) -> tuple[bytes | None, ...]:
        """The fields of the rows, one row behind the other."""
        to_python, encode = self._to_python, self._function.encode
        encoded: list[bytes | None] = []
        for value in values:
            encoded += encode(to_python(value))
        return tuple(encoded)

    def close(self) -> bool:
        self._function.close()
        return True


def open_encoder(settings: Mapping[str, Any]) -> RunningEncoder:
    """Called by Java when the operator opens."""
    return RunningEncoder(settings)
