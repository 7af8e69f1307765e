"""From the pickled outputs of the Java operator to a stream that PyFlink's own operators read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyflink.common import Types
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import DataStream
from pyflink.java_gateway import get_gateway

from flink_agents_durable.flink import modes
from flink_agents_durable.flink.values import Convert, writer
from flink_agents_durable.flink.workers import WorkerFunction


def pickled(j_stream: Any) -> DataStream:
    """The stream of Python objects. Elements are pickles already, so only the type has to say so."""
    return DataStream(j_stream.returns(Types.PICKLED_BYTE_ARRAY().get_java_type_info()))


def dead_letters(stream: DataStream) -> DataStream:
    """The side output of the operator behind this stream, of Python objects as well."""
    entry = get_gateway().jvm.org.flinkagents.durable.DurableAgents
    return DataStream(
        entry.deadLetters(stream._j_data_stream, Types.PICKLED_BYTE_ARRAY().get_java_type_info())
    )


def typed(stream: DataStream, output_type: TypeInformation, name: str) -> DataStream:
    """The stream with elements of this type; timestamps stay."""
    convert = WriteOutput(writer(output_type))
    return modes.process(stream, convert, output_type, Types.PICKLED_BYTE_ARRAY(), name)


class WriteOutput(WorkerFunction):
    """Runs in the tasks."""

    def __init__(self, convert: Convert) -> None:
        self._convert = convert

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield self._convert(value)
