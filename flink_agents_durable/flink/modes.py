"""In which mode the small Python operators around an agent run.

PyFlink's process mode sends records to another process in bundles: up to a second late by default. Thread
mode runs in the JVM, one record at a time, but does not convert all types. So our operators run in thread
mode wherever it works, unless the user chose a mode for all; the user's own operators keep theirs, and bundles
of the operators in process mode are kept short unless the user set their length.
"""

from __future__ import annotations

from typing import Any

from pyflink.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    _from_java_type,
)
from pyflink.datastream import DataStream, ProcessFunction
from pyflink.datastream.data_stream import _create_j_data_stream_python_function_info
from pyflink.fn_execution.flink_fn_execution_pb2 import UserDefinedDataStreamFunction
from pyflink.java_gateway import get_gateway
from pyflink.util.java_utils import get_j_env_configuration, is_local_deployment

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.flink.interpreter import runs_here

EXECUTION_MODE = "python.execution-mode"
BUNDLE_MILLIS = "python.fn-execution.bundle.time"
# Latency that a Python operator in process mode adds. Its rate is the same as with Flink's second.
SHORT_BUNDLE_MILLIS = "20"

_Arrays = (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


def process(
    stream: DataStream, function: ProcessFunction, output_type: TypeInformation, input_type: Any, name: str
) -> DataStream:
    """`stream.process(...)`, in thread mode where that works. `input_type`: of the elements."""
    config = get_j_env_configuration(stream._j_data_stream.getExecutionEnvironment())
    if not (_may_thread(config) and reads_in_threads(input_type) and writes_in_threads(output_type)):
        return stream.process(function, output_type).name(name)
    gateway = get_gateway()
    own_config = gateway.jvm.org.apache.flink.configuration.Configuration(config)
    own_config.setString(EXECUTION_MODE, "thread")
    j_type = output_type.get_java_type_info()
    operator = gateway.jvm.EmbeddedPythonProcessOperator(
        own_config,
        _create_j_data_stream_python_function_info(function, UserDefinedDataStreamFunction.PROCESS),
        stream._j_data_stream.getTransformation().getOutputType(),
        j_type,
    )
    return DataStream(stream._j_data_stream.transform(name, j_type, operator))


def _may_thread(config: Any) -> bool:
    """The user chose no mode, and the workers' interpreter is known.

    On another machine, thread mode finds pemja only by the PATH of the TaskManager; process mode runs whatever
    `python.executable` says.
    """
    values = dict(config.toMap())
    return EXECUTION_MODE not in values and runs_here(values, local=bool(is_local_deployment(config)))


def reads_in_threads(kind: Any) -> bool:
    """Whether thread mode turns Java values of this type into the Python values that process mode gives.

    What is left over (tuples for lists, decimals for big integers, Java instants) `values.py` puts right.
    """
    if isinstance(kind, BasicTypeInfo):
        return True
    if isinstance(kind, (RowTypeInfo, TupleTypeInfo)):
        return all(reads_in_threads(part) for part in kind.get_field_types())
    if isinstance(kind, MapTypeInfo):
        return reads_in_threads(kind._key_type_info) and reads_in_threads(kind._value_type_info)
    if isinstance(kind, _Arrays):
        return reads_in_threads(kind._element_type)
    if isinstance(kind, ListTypeInfo):
        return isinstance(kind.elem_type, BasicTypeInfo)
    return isinstance(kind, (PickledBytesTypeInfo, SqlTimeTypeInfo))


def writes_in_threads(kind: Any) -> bool:
    """Whether thread mode turns Python values into Java values of this type."""
    if isinstance(kind, BasicTypeInfo):
        return kind._basic_type not in (BasicType.INSTANT, BasicType.BIG_INT, BasicType.CHAR)
    if isinstance(kind, (RowTypeInfo, TupleTypeInfo)):
        return all(writes_in_threads(part) for part in kind.get_field_types())
    if isinstance(kind, MapTypeInfo):
        return writes_in_threads(kind._key_type_info) and writes_in_threads(kind._value_type_info)
    if isinstance(kind, ListTypeInfo):
        return isinstance(kind.elem_type, BasicTypeInfo) and writes_in_threads(kind.elem_type)
    if isinstance(kind, PrimitiveArrayTypeInfo):
        return is_bytes(kind)
    return isinstance(kind, (PickledBytesTypeInfo, SqlTimeTypeInfo))


def is_bytes(kind: Any) -> bool:
    """Whether this is the type of byte arrays, which are `bytes` in Python."""
    element = kind._element_type if isinstance(kind, PrimitiveArrayTypeInfo) else None
    return isinstance(element, BasicTypeInfo) and element._basic_type is BasicType.BYTE


def type_of(stream: DataStream) -> Any:
    """The type of the elements; a ConfigurationError names one that PyFlink cannot read."""
    j_type = stream._j_data_stream.getTransformation().getOutputType()
    try:
        kind = _from_java_type(j_type)
    except Exception as error:
        raise ConfigurationError(
            f"the input stream has elements of type {j_type.toString()}, which Python cannot read ({error}). "
            "Remedy: map it to a basic type, a row, a tuple, or to pickled Python objects before the agent"
        ) from None
    while isinstance(kind, ExternalTypeInfo):  # Flink's wrapper for types that come from a table
        kind = kind._type_info
    return kind
