"""The table of the Fluss store: made when it is absent, and refused when it is not what the store needs."""

from __future__ import annotations

from typing import Any

from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.store.fluss_client import FlussSettings, bounded, library
from flink_agents_durable.store.fluss_errors import NotReadyError, name_of

COLUMNS = [("bucket", "int"), ("stamp", "bytes"), ("records", "bytes")]
"""`bucket` is what leads to the bucket of the key group, `stamp` see Stamp, `records` a list in msgpack."""

_REPLICATION = "table.replication.factor"


async def ensure_table(admin: Any, settings: FlussSettings) -> Any:
    """The TableInfo of the table, which is made if it is not there.

    Raises FlussError and NotReadyError for what may pass, and ConfigurationError for a table that does not fit.
    """
    fluss = library()
    path = fluss.TablePath(settings.database, settings.table)
    try:
        info = await bounded(admin.get_table_info(path))
    except fluss.FlussError as error:
        if name_of(error) not in ("TABLE_NOT_EXIST", "DATABASE_NOT_EXIST"):
            raise
        await _create(admin, settings, path)
        raise NotReadyError("the table is being made") from error
    _check(info, settings)
    return info


def replicas(info: Any) -> int | None:
    factor = info.get_properties().get(_REPLICATION)
    return int(factor) if factor is not None else None


async def _create(admin: Any, settings: FlussSettings, path: Any) -> None:
    import pyarrow as pa

    fluss = library()
    kinds = {"int": pa.int32(), "bytes": pa.binary()}
    descriptor = fluss.TableDescriptor(
        fluss.Schema(pa.schema([(name, kinds[kind]) for name, kind in COLUMNS])),
        bucket_count=settings.buckets,
        bucket_keys=["bucket"],
        comment="an action state store of flink-agents-durable",
        properties={_REPLICATION: str(settings.replication_factor)} if settings.replication_factor else {},
    )
    await bounded(admin.create_database(settings.database, ignore_if_exists=True))
    await bounded(admin.create_table(path, descriptor, True))


def _check(info: Any, settings: FlussSettings) -> None:
    if info.num_buckets != settings.buckets:
        raise ConfigurationError(
            f"the {settings} has {info.num_buckets} buckets, and the agent {settings.buckets} key groups (its max "
            "parallelism). Remedy: another table (agents.store.fluss.table), or the max parallelism that the "
            "table was made for"
        )
    columns = [(name, kind.lower().split(" ")[0]) for name, kind in info.get_schema().get_columns()]
    fits = (
        columns == COLUMNS
        and list(info.get_bucket_keys()) == ["bucket"]
        and not info.has_primary_key()
        and not info.is_partitioned()
    )
    if not fits:
        raise ConfigurationError(
            f"the {settings} is not one that the action state store can use: it has to be a log table with the "
            f"columns {', '.join(f'{name} {kind}' for name, kind in COLUMNS)} and the bucket key bucket. Remedy: "
            "another table (agents.store.fluss.table), or leave it to the store to make one"
        )
