"""Refunds that wait for a human, each with a deadline. Run it: python human_approval.py

The agent asks by a durable call, which leaves a request in a folder; the answers come from another folder, as
they would come from a topic that a web page writes to. The human is a thread with a script.
"""

import asyncio
import json
import tempfile
import threading
import time
from pathlib import Path

from pyflink.common import Configuration, Duration, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat

from flink_agents_durable import (
    Agent,
    AgentsExecutionEnvironment,
    AwakeableFailedError,
    InputEvent,
    OutputEvent,
    action,
    awakeable_failure,
    awakeable_result,
)

REFUNDS = [
    {"order": "A-17", "amount": 40, "deadline": 172_800},
    {"order": "B-23", "amount": 15, "deadline": 172_800},
    {"order": "C-42", "amount": 900, "deadline": 172_800},
    {"order": "D-99", "amount": 65, "deadline": 3},
]
"""Deadlines in seconds: two days, and one that shows what happens when it passes."""
SCRIPT = {"A-17": (1.0, "approve"), "B-23": (0.5, "approve"), "C-42": (0.2, "reject")}
"""Seconds until the human answers, and how; nobody answers for D-99."""


def ask(folder, order, amount, id):
    """Stands for a mail, a ticket, a message in a chat, with a link that has the id in it."""
    write(Path(folder, "requests"), order, {"order": order, "amount": amount, "id": id})


class RefundAgent(Agent):
    def __init__(self, folder):
        self.folder = folder

    @action(InputEvent)
    async def refund(self, event, ctx):
        order, amount = event.input["order"], event.input["amount"]
        id, answer = ctx.awakeable()
        await ctx.durable_execute_async(ask, self.folder, order, amount, id)
        try:
            verdict = await asyncio.wait_for(answer, event.input["deadline"])
        except AwakeableFailedError as rejection:
            verdict = f"rejected: {rejection}"
        except asyncio.TimeoutError:
            verdict = "no answer in time"
        ctx.send_event(OutputEvent(output={"order": order, "amount": amount, "verdict": verdict}))


def human(folder, stop):
    """Answers what is in the script, each request some time after it came."""
    requests, due = Path(folder, "requests"), {}
    while not stop.wait(0.05):
        for path in requests.glob("[!.]*"):
            due.setdefault(path.name, time.monotonic() + SCRIPT.get(path.name, (1e9, ""))[0])
        for order in [order for order, when in due.items() if when <= time.monotonic()]:
            due[order] = float("inf")
            id = json.loads((requests / order).read_text())["id"]
            write(Path(folder, "answers"), order, {"key": order, "id": id, "answer": SCRIPT[order][1]})


def resolution(line):
    """From a line of an answer to what the agent waits for."""
    answer = json.loads(line)
    if answer["answer"] == "reject":
        return awakeable_failure(answer["key"], answer["id"], "too much for one order")
    return awakeable_result(answer["key"], answer["id"], "approved")


def write(folder, name, content):
    """A file that is there as a whole or not at all."""
    hidden = folder / f".{name}"
    hidden.write_text(json.dumps(content) + "\n")
    hidden.rename(folder / name)


def main(folder):
    for name in ("requests", "answers"):
        Path(folder, name).mkdir()
    config = Configuration()
    config.set_string("python.execution-mode", "thread")  # no other process for one small map
    env = StreamExecutionEnvironment.get_execution_environment(config)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"file://{folder}/answers")
    source = files.monitor_continuously(Duration.of_millis(200)).build()
    answers = env.from_source(source, WatermarkStrategy.no_watermarks(), "answers").map(resolution)
    refunds = env.from_collection(REFUNDS)
    builder = agents.from_datastream(refunds, key_selector=lambda r: r["order"], awakeables=answers)
    verdicts = builder.apply(RefundAgent(folder)).to_datastream()
    stop = threading.Event()
    threading.Thread(target=human, args=(folder, stop), daemon=True).start()
    print(f"{'order':<6} {'amount':>6}  verdict")
    with verdicts.execute_and_collect("human approval") as results:  # the answers never end: it is cancelled
        for _, verdict in zip(REFUNDS, results, strict=False):
            print(f"{verdict['order']:<6} {verdict['amount']:>6}  {verdict['verdict']}", flush=True)
    stop.set()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
