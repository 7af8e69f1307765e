"""Tables in and out."""

from __future__ import annotations

from typing import Any

from pyflink.common.typeinfo import RowTypeInfo, TypeInformation
from pyflink.datastream import DataStream
from pyflink.java_gateway import get_gateway
from pyflink.table import Schema, StreamTableEnvironment, Table
from pyflink.table.types import DataType, RowType, _from_java_data_type

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.flink.types import of_table_type, type_info


def table_environment(env: Any, t_env: Any) -> StreamTableEnvironment:
    """The given one, or the one of this stream environment."""
    if t_env is None:
        return StreamTableEnvironment.create(env)
    if not isinstance(t_env, StreamTableEnvironment):
        raise ConfigurationError(
            f"t_env is a StreamTableEnvironment of the same job, not a {type(t_env).__name__}: "
            "StreamTableEnvironment.create(env)"
        )
    return t_env


def stream_of(table: Table, t_env: StreamTableEnvironment, schema: Schema | None) -> DataStream:
    """The rows of an append-only table."""
    if not isinstance(table, Table):
        raise ConfigurationError(f"from_table takes a Table, not a {type(table).__name__}")
    try:
        if schema is None:
            return t_env.to_data_stream(table)
        j_stream = t_env._j_tenv.toChangelogStream(table._j_table, schema._j_schema)
        _refuse_updates(t_env, table)
        return DataStream(j_stream)
    except ConfigurationError:
        raise
    except Exception as error:
        text = str(error)
        if "update" in text or "delete" in text:
            raise ConfigurationError(_updates(_cause(text))) from error
        raise ConfigurationError(f"the table cannot become a stream: {_cause(text)}") from error


def _refuse_updates(t_env: StreamTableEnvironment, table: Table) -> None:
    t_env.to_data_stream(table)  # raises for an updating table


def _updates(cause: str) -> str:
    return (
        "from_table needs a table that only appends, and this one updates rows it has emitted: an "
        "aggregation without a window, a join that keeps state, or a changelog source. An agent cannot "
        "take back what it did for a row. Remedy: aggregate in windows, or keep the first row of each key. "
        f"Flink says: {cause}"
    )


def _cause(text: str) -> str:
    """The message of a Java exception without its stack."""
    lines = [
        line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("at ")
    ]
    exceptions = [line for line in lines if "Exception:" in line]
    return (exceptions or lines or [text])[0][:500]


def row_type(schema: Schema | None, output_type: Any, t_env: StreamTableEnvironment) -> TypeInformation:
    """The type of the stream behind a table: from `output_type`, or from the schema's columns."""
    if output_type is not None:
        if isinstance(output_type, DataType) and not isinstance(output_type, RowType):
            raise ConfigurationError(f"to_table needs rows, not {output_type}")
        return type_info(output_type)
    if schema is None:
        raise ConfigurationError(
            "to_table needs a schema or an output_type: to_table(output_type=Answer) with a dataclass or a "
            "pydantic model, or to_table(Schema.new_builder().column('answer', DataTypes.STRING()).build())"
        )
    if isinstance(schema, (RowType, RowTypeInfo)) or not isinstance(schema, Schema):
        raise ConfigurationError(f"schema is a pyflink.table.Schema, not a {type(schema).__name__}")
    return _schema_type(schema, t_env)


def _schema_type(schema: Schema, t_env: StreamTableEnvironment) -> TypeInformation:
    """The physical columns; computed ones and metadata are Flink's business."""
    from pyflink.common import Types

    j_columns = list(schema._j_schema.getColumns())
    physical = get_gateway().jvm.Class.forName(
        "org.apache.flink.table.api.Schema$UnresolvedPhysicalColumn",
        True,
        get_gateway().jvm.Thread.currentThread().getContextClassLoader(),
    )
    factory = t_env._j_tenv.getCatalogManager().getDataTypeFactory()
    names, types = [], []
    for column in j_columns:
        if physical.isInstance(column):
            name = str(column.getName())
            names.append(name)
            data_type = _from_java_data_type(factory.createDataType(column.getDataType()))
            types.append(of_table_type(data_type, f"column {name}"))
    return Types.ROW_NAMED(names, types)
