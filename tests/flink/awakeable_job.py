"""A job whose agent waits for answers; tests meet it in a folder, as in `failover_job.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Duration, JobClient, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat

from flink_agents_durable import (
    Agent,
    AgentsExecutionEnvironment,
    AwakeableFailedError,
    AwakeableResolution,
    Event,
    InputEvent,
    OutputEvent,
    RunnerContext,
    action,
    awakeable_failure,
    awakeable_result,
)
from tests.flink.failover_job import OPTIONS, Written, is_first, note


def tell(folder: str, question: str, id: str) -> None:
    """Where the test learns the id; a second line would be a recorded call that ran again."""
    note(folder, "asked", f"{question}: {id}")


class Approval(Agent):
    """One awakeable for each input."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @action(InputEvent)
    async def approve(self, event: Event, ctx: RunnerContext) -> None:
        question = InputEvent.from_event(event).input
        id, result = ctx.awakeable()
        await ctx.durable_execute_async(tell, self.folder, question, id)
        try:
            answer = await result
        except AwakeableFailedError as error:
            answer = f"failed: {error}"
        if answer == "fault" and is_first(self.folder, "failed"):
            raise RuntimeError("failed on purpose")
        ctx.send_event(OutputEvent(output=[question, answer]))


def answer(folder: Path, question: str, id: str, value: str) -> None:
    """Answer a question: a file in the folder that the source watches."""
    name = f"{len(list(folder.glob('answers/*')))}"
    hidden = folder / f".{name}"
    hidden.write_text(json.dumps([question.split()[0], id, value]) + "\n")
    hidden.rename(folder / "answers" / name)


def resolution(line: str) -> AwakeableResolution:
    key, id, value = json.loads(line)
    return awakeable_failure(key, id, value) if value == "no" else awakeable_result(key, id, value)


def submit(
    folder: str, name: str, inputs: list[str], options: Mapping[str, str], parallelism: int = 2
) -> JobClient:
    """Start the job: inputs from a file, keyed by their first word; the answers never end."""
    config = Configuration()
    settings = {
        **OPTIONS,
        "agents.store.sqlite.path": f"{folder}/store",
        "execution.checkpointing.dir": f"file://{folder}/checkpoints",
        "io.tmp.dirs": folder,
        **options,
    }
    for key, value in settings.items():
        config.set_string(key, value)
    Path(folder, "inputs").write_text("".join(f"{line}\n" for line in inputs))
    Path(folder, "answers").mkdir(exist_ok=True)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(parallelism)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)

    def lines(path: str, watched: bool) -> Any:
        files = FileSource.for_record_stream_format(
            StreamFormat.text_line_format(), f"file://{folder}/{path}"
        )
        source = (files.monitor_continuously(Duration.of_millis(100)) if watched else files).build()
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), path)
        return stream.uid(path).set_parallelism(1)

    answers = lines("answers", True).map(resolution).set_parallelism(1)
    keyed = agents.from_datastream(
        lines("inputs", False), key_selector=lambda line: line.split()[0], awakeables=answers
    )
    sink = (
        FileSink.for_row_format(f"file://{folder}/sink", Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    outputs = keyed.apply(Approval(folder)).to_datastream()
    written = outputs.map(Written(folder, f"outputs-{name}"), Types.STRING()).uid("lines").set_parallelism(1)
    written.sink_to(sink).uid("sink").set_parallelism(1)
    return env.execute_async(name)
