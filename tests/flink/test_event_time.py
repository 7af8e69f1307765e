"""Windows behind an agent, with SQL on both sides (S8, K4)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import MapFunction
from pyflink.table import Schema, StreamTableEnvironment

from flink_agents_durable import (
    Agent,
    AgentsExecutionEnvironment,
    Event,
    InputEvent,
    OutputEvent,
    RunnerContext,
    action,
)
from tests.flink.jobs import environment

WINDOW_SECONDS = 10
GATE_SECONDS = 60
"""After so long the held call goes on, so that a test that failed leaves nothing behind for ever."""
RECORD_PAUSE = 0.02
"""Between two records Flink's periodic watermark comes, each millisecond."""
FIRST, LAST = "first", "last"
REVIEWS = [
    (FIRST, "anna", 1_000),
    ("other", "bob", 2_000),
    *(("other", user, 1000 * second) for second in range(11, 60, 6) for user in ("anna", "bob")),
    (LAST, "carl", 65_000),
]


class Paced(MapFunction):  # type: ignore[misc]
    def map(self, value: Any) -> Any:
        time.sleep(RECORD_PAUSE)
        return value


class EventTime(TimestampAssigner):  # type: ignore[misc]
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[2])


def judge(folder: str, text: str) -> int:
    """The first review is judged only when the last one has been, long after its window."""
    gate = Path(folder, "gate")
    if text == LAST:
        gate.touch()
    end = time.monotonic() + GATE_SECONDS
    while text == FIRST and not gate.exists() and time.monotonic() < end:
        time.sleep(0.01)
    return len(text)


class Judge(Agent):
    def __init__(self, folder: str) -> None:
        self.folder = folder

    @action(InputEvent)
    async def judge(self, event: Event, ctx: RunnerContext) -> None:
        row = InputEvent.from_event(event).input
        length = await ctx.durable_execute_async(judge, self.folder, row["text"])
        ctx.send_event(OutputEvent(output={"user": row["user"], "length": length}))


def counts(folder: Path, **options: str) -> dict[int, int]:
    """Judged reviews in each window: a stream, SQL, the agent, SQL."""
    env, _ = environment({"pipeline.auto-watermark-interval": "1 ms", **options})
    t_env = StreamTableEnvironment.create(env)
    agents = AgentsExecutionEnvironment.get_execution_environment(env, t_env)
    kind = Types.ROW_NAMED(["text", "user", "ms"], [Types.STRING(), Types.STRING(), Types.LONG()])
    stream = env.from_collection([Row(*review) for review in REVIEWS], kind).map(Paced(), kind)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(EventTime())
    timed = (
        Schema.new_builder()
        .column_by_metadata("at", "TIMESTAMP_LTZ(3)", "rowtime")
        .watermark("at", "SOURCE_WATERMARK()")
    )
    reviews = t_env.from_data_stream(
        stream.assign_timestamps_and_watermarks(strategy),
        timed.column("text", "STRING").column("user", "STRING").build(),
    )
    t_env.create_temporary_view("reviews", reviews)
    asked = t_env.sql_query("SELECT `text`, `user`, `at` FROM reviews WHERE `user` <> 'nobody'")
    judged = agents.from_table(asked, key_selector=lambda row: row["user"]).apply(Judge(str(folder)))
    out = (
        Schema.new_builder()
        .column("user", "STRING")
        .column("length", "BIGINT")
        .column_by_metadata("at", "TIMESTAMP_LTZ(3)", "rowtime")
        .watermark("at", "SOURCE_WATERMARK()")
    )
    t_env.create_temporary_view("judged", judged.to_table(out.build()))
    windows = t_env.sql_query(
        "SELECT UNIX_TIMESTAMP(CAST(window_start AS STRING)) AS start_, COUNT(*) AS number "
        f"FROM TABLE(TUMBLE(TABLE judged, DESCRIPTOR(`at`), INTERVAL '{WINDOW_SECONDS}' SECOND)) "
        "GROUP BY window_start, window_end"
    )
    with windows.execute().collect() as rows:
        return {int(row[0]): int(row[1]) for row in rows}


def expected() -> dict[int, int]:
    found: dict[int, int] = {}
    for _, _, ms in REVIEWS:
        start = ms // 1000 // WINDOW_SECONDS * WINDOW_SECONDS
        found[start] = found.get(start, 0) + 1
    return found


def test_s8_k4_windows_behind_an_agent_wait_for_its_slow_runs(tmp_path: Path) -> None:
    assert counts(tmp_path, **{"table.local-time-zone": "UTC"}) == expected()


def test_s8_without_holding_them_the_late_output_misses_its_window(tmp_path: Path) -> None:
    """What `agents.watermark.hold=false` is: and that the test above can fail."""
    found = counts(tmp_path, **{"table.local-time-zone": "UTC", "agents.watermark.hold": "false"})
    assert found.get(0, 0) < expected()[0]
