"""A ReAct agent over product reviews that survives failures without asking its model anything twice.

Reviews from a file are analysed (score, reasons) by a chat model; when the shipping went wrong, the model
asks for a tool that notifies the shipping manager. The job is failed on purpose while model calls are in
flight, and by a model call that exceeds its timeout. At the end the answers are compared with the inputs, and
the requests that reached the model server with each other.

    python examples/react_agent_example.py                        # scripted answers, no model
    python examples/react_agent_example.py --model local          # a small real model, installed from PyPI
    python examples/react_agent_example.py --model http://localhost:11434/v1 --model-name qwen3:8b
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from local_model import LocalModel
from pydantic import BaseModel, Field
from pyflink.common import Configuration, Types, WatermarkStrategy
from pyflink.common.serialization import Encoder
from pyflink.datastream import MapFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat
from relay import Relay
from scripted_model_server import ModelServer

from flink_agents_durable import (
    AgentOptions,
    AgentsExecutionEnvironment,
    CallOptions,
    ChatMessage,
    OpenAIChatModelConnection,
    OpenAIChatModelSetup,
    Prompt,
    ReActAgent,
    ResourceDescriptor,
    ResourceType,
    Tool,
)

REVIEWS = Path(__file__).resolve().parent / "data" / "reviews.jsonl"

PROMPT = Prompt.from_messages(
    [
        ChatMessage.system(
            "You analyse product reviews: a score from 1 (unhappy) to 5 (happy), and the reasons for being "
            "unhappy in a few words each. If something went wrong with the shipping, first notify the "
            "shipping manager by the tool."
        ),
        ChatMessage.user("Review {id} of {product}:\n{review}"),
    ]
)


class Analysis(BaseModel):
    """The answer of the model."""

    score: int = Field(ge=1, le=5)
    reasons: list[Annotated[str, Field(max_length=60)]] = Field(max_length=3)


class ReviewAgent(ReActAgent):
    """A ReAct agent that puts the review's id beside the model's answer."""

    def make_output(self, input: Any, answer: Any) -> Any:
        return {"id": input["id"], "score": answer.score, "reasons": answer.reasons}


def post(address: str, body: dict[str, Any]) -> Any:
    """One request to the example's own server."""
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as response:
        return json.load(response)


def shipping_tool(server: str) -> Callable[..., Any]:
    """The tool; it leaves its notes with the example's server, so that they can be counted."""

    def notify_shipping_manager(id: str, review: str) -> str:
        """Notify the shipping manager that something went wrong with the shipping of a product.

        Args:
            id: The id of the review.
            review: What the customer wrote.
        """
        post(f"{server}/notifications", {"id": id, "review": review})
        return f"the shipping manager knows about review {id}"

    return notify_shipping_manager


class ComingIn(MapFunction):
    """Reads the reviews one by one, and fails on purpose at some of them.

    What was done already the server knows, for this object starts anew with each attempt of the job.
    """

    def __init__(self, server: str, options: argparse.Namespace, ids: list[str]) -> None:
        self.server, self.ids, self.pace = server, ids, options.pace
        self.request = {"timeout": options.model_timeout, "ongoing": options.ongoing}
        self.places = [
            len(ids) * (number + 1) // (options.failover + 1) for number in range(options.failover)
        ]

    def map(self, value: str) -> dict[str, Any]:
        review: dict[str, Any] = json.loads(value)
        time.sleep(self.pace)
        place = self.ids.index(review["id"])
        due = sum(at <= place for at in self.places)
        if due:
            last = place == len(self.ids) - 1
            calls = post(f"{self.server}/failover", {**self.request, "due": due, "last": last})[
                "calls_in_flight"
            ]
            if calls is not None:
                raise RuntimeError(f"failed on purpose at {review['id']}, with {calls} model calls in flight")
        return review


def build(options: argparse.Namespace, server: ModelServer, reviews: list[dict[str, Any]], work: Path) -> Any:
    """The job: reviews from a file, the agent, answers into files that appear with the checkpoints."""
    config = Configuration()
    for key, value in {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": str(options.failover + 10),
        "restart-strategy.fixed-delay.delay": "200 ms",
        "python.execution-mode": "thread",
    }.items():
        config.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(2)
    env.enable_checkpointing(500)
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    agents.get_config().set(AgentOptions.STORE_TYPE, options.store)
    if options.max_concurrency:
        agents.get_config().set(AgentOptions.CALL_MAX_CONCURRENCY, options.max_concurrency)
    if options.store == "sqlite":
        agents.get_config().set(AgentOptions.STORE_SQLITE_PATH, str(work / "store"))

    ids = [review["id"] for review in reviews]
    source = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), options.reviews.as_uri()
    ).build()
    stream = (
        env.from_source(source, WatermarkStrategy.no_watermarks(), "reviews")
        .set_parallelism(1)
        .map(ComingIn(server.address, options, ids), Types.PICKLED_BYTE_ARRAY())
        .set_parallelism(1)
    )
    agent = ReviewAgent(
        chat_model=ResourceDescriptor(
            clazz=OpenAIChatModelSetup,
            connection="model_server",
            model=options.model_name,
            tools=["notify_shipping_manager"],
            call_options=CallOptions(timeout=options.model_timeout),
            **options.model_settings,
        ),
        prompt=PROMPT,
        output_schema=Analysis,
    )
    agents.add_resource(
        "model_server",
        ResourceType.CHAT_MODEL_CONNECTION,
        ResourceDescriptor(
            clazz=OpenAIChatModelConnection,
            base_url=server.base_url,
            timeout=600,
            **options.connection_settings,
        ),
    ).add_resource(
        "notify_shipping_manager", ResourceType.TOOL, Tool.from_callable(shipping_tool(server.address))
    )
    answers = (
        agents.from_datastream(stream, key_selector=lambda review: review["product"])
        .apply(agent)
        .to_datastream()
    )
    sink = (
        FileSink.for_row_format((work / "answers").as_uri(), Encoder.simple_string_encoder())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    answers.map(json.dumps, Types.STRING()).sink_to(sink)
    return agents


def read_answers(work: Path) -> list[dict[str, Any]]:
    """The answers that were committed."""
    files = [path for path in (work / "answers").rglob("part-*") if not path.name.startswith(".")]
    return [json.loads(line) for path in sorted(files) for line in path.read_text().splitlines()]


@contextmanager
def progress(options: argparse.Namespace, server: ModelServer, inputs: int, work: Path) -> Iterator[None]:
    """One line a second (two on a terminal that shows one) on what goes on."""
    done = threading.Event()
    started = time.monotonic()

    def show() -> None:
        last = ""
        while not done.wait(1.0):
            log, answers = server.log, len(read_answers(work))
            line = (
                f"model calls: {log.count('answered')} answered, {len(log.in_flight())} in flight; "
                f"failovers: {len(log.failovers)} of {options.failover}; answers: {answers} of {inputs}"
            )
            if sys.stdout.isatty():
                print(f"\r{time.monotonic() - started:4.0f} s  {line}  ", end="", flush=True)
            elif line != last:
                print(f"{time.monotonic() - started:4.0f} s  {line}", flush=True)
            last = line

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if sys.stdout.isatty():
            print()


def report(
    options: argparse.Namespace, server: ModelServer, reviews: list[dict[str, Any]], work: Path
) -> bool:
    """The table, the failovers, and the last line. True when all is as it should be."""
    log = server.log
    answers = read_answers(work)
    by_id: dict[str, list[dict[str, Any]]] = {}
    for answer in answers:
        by_id.setdefault(answer["id"], []).append(answer)
    print(f"\n{'input':<38} {'answer':<52} {'model calls':>11} {'replayed after failover':>24}")
    for review in reviews:
        given = by_id.get(review["id"], [])
        text = (
            "; ".join(f"{a['score']}/5 {', '.join(a['reasons']) or 'no complaint'}" for a in given)
            or "NO ANSWER"
        )
        label = f"{review['id']} {review['product']}: {review['review']}"
        print(
            f"{_cut(label, 38):<38} {_cut(text, 52):<52} {log.answered_calls(review['id']):>11} "
            f"{log.replayed(review['id']):>24}"
        )
    print()
    for number, failover in enumerate(log.failovers, 1):
        cause = {
            "task failure": "an operator of the job failed",
            "model timeout": f"a model call exceeded its {options.model_timeout:g} s and nobody handled it",
        }[failover.kind]
        print(f"failover {number}: {cause}; {failover.calls_in_flight} model calls were in flight")
    notified = Counter(str(note.get("id")) for note in server.notifications)
    print(f"shipping manager notified about: {', '.join(sorted(notified)) or 'nothing'}")
    print(f"asked again because the failover came before the answer: {log.asked_again()}")
    kinds = {failover.kind for failover in log.failovers}
    wanted = {"task failure", "model timeout"} if options.failover >= 2 else kinds
    once = all(len(by_id.get(review["id"], ())) == 1 for review in reviews) and len(answers) == len(reviews)
    fine = once and log.repeated() == 0 and len(log.failovers) >= options.failover and kinds >= wanted
    print(
        f"{'OK' if fine else 'FAILED'}: inputs {len(reviews)}, answers {len(answers)}, "
        f"failovers {len(log.failovers)}, model calls repeated {log.repeated()}"
    )
    return fine


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


@contextmanager
def model_server(options: argparse.Namespace) -> Iterator[ModelServer]:
    """The server that the job asks: it answers itself, or hands on to a real one, and counts."""
    if options.model == "scripted":
        print(
            "model: SCRIPTED. No language model takes part: answers are computed from words of the reviews."
        )
        with ModelServer(delay=options.delay) as server:
            yield server
    elif options.model == "local":
        with LocalModel() as local:
            print(f"model: {local.description}")
            with ModelServer(relay=Relay(local.base_url)) as server:
                yield server
    else:
        print(f"model: {options.model_name} at {options.model}")
        with ModelServer(relay=Relay(options.model)) as server:
            yield server


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options, with what depends on the model filled in."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="scripted", help="scripted, local, or the address of a server")
    parser.add_argument("--model-name", help="name of the model at that server")
    parser.add_argument("--model-timeout", type=float, help="seconds that a model call may take")
    parser.add_argument("--store", default="sqlite", help="action state store: sqlite or none")
    parser.add_argument("--failover", type=int, default=2, metavar="N", help="failovers to force")
    parser.add_argument(
        "--reviews", type=Path, default=REVIEWS, help="file with a review as JSON on each line"
    )
    parser.add_argument("--delay", type=float, default=0.6, help="seconds that a scripted answer takes")
    options = parser.parse_args(arguments)
    if options.failover < 0:
        parser.error("--failover must not be negative")
    options.reviews = options.reviews.resolve()
    scripted, local = options.model == "scripted", options.model == "local"
    if not (scripted or local or "://" in options.model):
        parser.error(f"--model is scripted, local or an address, not {options.model!r}")
    options.model_name = options.model_name or ("scripted" if scripted else "local" if local else "default")
    options.model_timeout = options.model_timeout or (3.0 if scripted else 45.0)
    options.max_concurrency = 1 if local else None  # of each of two subtasks: more would wait in the server
    options.pace = 0.25 * max(1, options.failover - 1) if scripted else 1.0
    # Scripted answers to these reviews lead to conversations of two calls; the first must be replayed.
    options.ongoing = scripted and options.reviews == REVIEWS
    options.connection_settings = LocalModel.CONNECTION if local else {}
    options.model_settings = LocalModel.SETTINGS if local else {}
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    reviews = [json.loads(line) for line in options.reviews.read_text().splitlines() if line.strip()]
    if options.failover >= len(reviews):
        raise SystemExit(
            f"--failover {options.failover} needs more reviews than the {len(reviews)} of the file"
        )
    with tempfile.TemporaryDirectory(prefix="react-agent-") as folder, model_server(options) as server:
        work = Path(folder)
        print(f"store: {options.store}; {len(reviews)} reviews; {options.failover} failovers will be forced")
        server.finished = lambda: frozenset(answer["id"] for answer in read_answers(work))
        agents = build(options, server, reviews, work)
        with progress(options, server, len(reviews), work):
            agents.execute("review analysis")
        return 0 if report(options, server, reviews, work) else 1


if __name__ == "__main__":
    sys.exit(main())
