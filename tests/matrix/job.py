"""Submits a job of the matrix: a watched folder of cells, the agent, outputs in the log of the TaskManager.

python tests/matrix/job.py SPEC      a `Spec` as JSON; prints the id of the job
"""

from __future__ import annotations

import dataclasses
import json
import sys

from pyflink.common import Configuration, Duration, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat

from flink_agents_durable import AgentsExecutionEnvironment
from tests.matrix.agent import Cells


@dataclasses.dataclass(frozen=True)
class Spec:
    folder: str
    url: str
    parallelism: int
    options: dict[str, str]


def submit(spec: Spec) -> str:
    config = Configuration()
    for key, value in spec.options.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(spec.parallelism)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"file://{spec.folder}/inputs")
        .monitor_continuously(Duration.of_millis(200))
        .build()
    )
    cells = env.from_source(source, WatermarkStrategy.no_watermarks(), "cells").uid("cells")
    cells.set_parallelism(1)
    keyed = agents.from_datastream(cells, key_selector=str)
    outputs = keyed.apply(Cells(spec.folder, spec.url), uid="cells of the matrix")
    outputs.to_datastream(Types.STRING()).print()  # an operator of Python would make each restart longer
    return str(env.execute_async("matrix").get_job_id())


if __name__ == "__main__":
    print(json.dumps({"job": submit(Spec(**json.loads(sys.argv[1])))}))
