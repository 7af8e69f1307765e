"""Submits the job of the soak: a topic of inputs, the agent, an exactly-once topic of outputs.

python tests/soak/job.py SPEC      a `Spec` as JSON; prints the id of the job
"""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.util.java_utils import add_jars_to_context_class_loader

from flink_agents_durable import AgentsExecutionEnvironment
from tests.soak.agent import Assistant

TRANSACTION_MS = 600_000
"""Above the longest time between the last write of a task and its commit after a recovery; a transaction that the
broker gives up before is lost output."""


@dataclasses.dataclass(frozen=True)
class Spec:
    folder: str
    broker: str
    inputs: str
    outputs: str
    model_url: str
    parallelism: int
    connector_jar: str
    """The cluster has it in its own folder of libraries."""
    options: dict[str, str]


def key_of(question: str) -> str:
    return question.rsplit(" ", 1)[0]


def source_of(spec: Spec) -> KafkaSource:
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(spec.broker)
        .set_topics(spec.inputs)
        .set_group_id("soak")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .build()
    )


def sink_of(spec: Spec) -> KafkaSink:
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic(spec.outputs)
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    return (
        KafkaSink.builder()
        .set_bootstrap_servers(spec.broker)
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix("soak")
        .set_property("transaction.timeout.ms", str(TRANSACTION_MS))
        .build()
    )


def submit(spec: Spec) -> str:
    add_jars_to_context_class_loader([Path(spec.connector_jar).as_uri()])
    config = Configuration()
    for key, value in spec.options.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(spec.parallelism)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    questions = env.from_source(source_of(spec), WatermarkStrategy.no_watermarks(), "questions").uid(
        "questions"
    )
    keyed = agents.from_datastream(questions, key_selector=key_of)
    answers = keyed.apply(Assistant(spec.folder, spec.model_url), uid="assistant")
    answers.to_datastream(Types.STRING()).sink_to(sink_of(spec)).uid("answers")
    return str(env.execute_async("soak").get_job_id())


if __name__ == "__main__":
    print(json.dumps({"job": submit(Spec(**json.loads(sys.argv[1])))}))
