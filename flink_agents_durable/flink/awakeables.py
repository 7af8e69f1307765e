"""From a stream of resolutions to rows that travel with the inputs: (encoded key, nothing, resolution)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyflink.common import Row, Types
from pyflink.datastream import DataStream, KeyedStream

from flink_agents_durable.api.awakeables import AwakeableResolution
from flink_agents_durable.api.errors import DurableExecutionError
from flink_agents_durable.engine.keys import encode_key
from flink_agents_durable.flink import modes
from flink_agents_durable.flink.inputs import BYTES, EncodeFunction, before_partitioning, keep_order, shown
from flink_agents_durable.flink.values import reader


def encode(
    stream: DataStream,
    name: str,
    plan_id: str,
    plan_classes: Mapping[str, type],
    main_names: tuple[str, ...] = (),
) -> DataStream:
    """The rows of the stream `awakeables=`. The order of its elements is kept: the first resolution counts."""
    keyed = isinstance(stream, KeyedStream)
    if keyed:
        stream = before_partitioning(stream)
    kind = modes.type_of(stream)
    function = EncodeResolution(keyed, reader(kind), plan_id, plan_classes, main_names)
    rows = modes.process(stream, function, Types.ROW([BYTES] * 3), kind, name)
    keep_order(stream, rows)
    return rows


class EncodeResolution(EncodeFunction):
    """Runs in the tasks."""

    def __init__(
        self,
        keyed: bool,
        read: Callable[[Any], Any] | None,
        plan_id: str,
        plan_classes: Mapping[str, type],
        main_names: tuple[str, ...],
    ) -> None:
        super().__init__(plan_id, plan_classes, main_names)
        self._keyed = keyed
        self._read = read

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        if self._read is not None:
            value = self._read(value)
        if self._keyed:
            _, value = value
        if not isinstance(value, AwakeableResolution):
            raise DurableExecutionError(
                "the stream given as awakeables= takes what awakeable_result(key, id, value) and"
                f" awakeable_failure(key, id, message) make, and got {shown(value)}"
            )
        try:
            encoded = encode_key(value.key)
            resolution = self._dumps((value.id, value.value, value.failure))
        except Exception as error:
            raise DurableExecutionError(
                f"the stream given as awakeables= has an element that cannot be sent to the agent, {shown(value)}:"
                f" {type(error).__name__}: {error}"
            ) from error
        yield Row(encoded, None, resolution)
