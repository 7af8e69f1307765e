"""The agent of the matrix. Each key is a cell, whose call is made twice.

The `first` call ends before the job is lost: its outcome replays. The `doubt` call waits for a gate while the job
is lost: it runs again, or its reconciler does. A synchronous call would hold the whole subtask there, so that in
its place a plain function waits.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai

from flink_agents_durable import Agent, Event, InputEvent, OutputEvent, RunnerContext, action
from tests.matrix.cells import INTERRUPTIONS, JAVA_FAILURE, Cell
from tests.soak.notes import note

FIRST, DOUBT = "first", "doubt"
FAULT = "fault"
"""The input that makes its action, and so the job, fail once."""
ANSWER = "answer"
OUTPUT = "output of the cell "
HELD_SECONDS = 900
"""After so long a held call goes on, so that a run that failed leaves nothing behind for ever."""
LOOK_SECONDS = 0.2

_thrower: Any = None


class LockedError(Exception):
    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message)
        self.limit = limit
        self.lock = threading.Lock()


class QuotaError(Exception):
    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message, limit)
        self.limit = limit


CLAUSES: tuple[type[Exception], ...] = (
    httpx.HTTPStatusError,
    httpx.HTTPError,
    openai.RateLimitError,
    openai.APIStatusError,
    anthropic.RateLimitError,
    anthropic.APIStatusError,
    LockedError,
    QuotaError,
)
"""What an `except` of the action may name. Not RuntimeError: it matches substitutes as well, which is documented."""


def is_first(folder: str, name: str) -> bool:
    """Whether nobody has asked before, in whatever attempt."""
    try:
        os.close(os.open(os.path.join(folder, name.replace("/", "-")), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def find_thrower() -> None:
    """On the task thread: threads that Python has started may call what was found, but find nothing."""
    global _thrower
    if _thrower is None:
        import pemja

        _thrower = pemja.findClass("org.flinkagents.durable.Throwers")


# ---- the durable functions


def plain(folder: str, url: str, name: str, stage: str, outcome: str, member: str = "") -> str:
    note(folder, "calls", name, stage, member)
    wait(folder, stage)
    return give(folder, url, name, stage, outcome)


async def on_the_loop(folder: str, url: str, name: str, stage: str, outcome: str, member: str = "") -> str:
    note(folder, "calls", name, stage, member)
    end = time.monotonic() + HELD_SECONDS
    while is_held(folder, stage) and time.monotonic() < end:
        await asyncio.sleep(LOOK_SECONDS)
    if outcome == "httpx":
        async with httpx.AsyncClient(trust_env=False) as client:
            (await client.get(f"{url}/status/429")).raise_for_status()
    if outcome == "openai":
        async with openai.AsyncOpenAI(base_url=f"{url}/status/429", api_key="none", max_retries=0) as model:
            await model.models.list()
    if outcome == "anthropic":
        async with anthropic.AsyncAnthropic(
            base_url=f"{url}/status/429", api_key="none", max_retries=0
        ) as claude:
            await claude.models.list()
    return give(folder, url, name, stage, outcome)


def reconcile(folder: str, url: str, name: str, stage: str, outcome: str) -> str:
    note(folder, "reconciled", name, stage)
    wait(folder, stage)
    return give(folder, url, name, stage, outcome)


def wait(folder: str, stage: str) -> None:
    """In a thread, while calls in doubt are held."""
    end = time.monotonic() + HELD_SECONDS
    while is_held(folder, stage) and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)


def is_held(folder: str, stage: str) -> bool:
    return stage == DOUBT and not Path(folder, "open").exists()


def give(folder: str, url: str, name: str, stage: str, outcome: str) -> str:
    """The outcome of a call, by real clients and by Java."""
    if outcome == "httpx":
        httpx.get(f"{url}/status/429", trust_env=False).raise_for_status()
    if outcome == "openai":
        with openai.OpenAI(base_url=f"{url}/status/429", api_key="none", max_retries=0) as model:
            model.models.list()
    if outcome == "anthropic":
        with anthropic.Anthropic(base_url=f"{url}/status/429", api_key="none", max_retries=0) as claude:
            claude.models.list()
    if outcome == "lock":
        raise LockedError("it holds a lock", limit=7)
    if outcome == "attributes":
        raise QuotaError("no quota", limit=9)
    if outcome == "java-failure":
        _thrower.fail(JAVA_FAILURE)
    if outcome in INTERRUPTIONS and stage == FIRST and is_first(folder, f"interrupted {name}"):
        interrupt(INTERRUPTIONS[outcome][0])
    return ANSWER


def interrupt(kind: str) -> None:
    """Let through what Java throws, or what a library would make of it."""
    wrapping, _, kind = kind.rpartition("/")
    try:
        _thrower.fail(kind)
    except RuntimeError as error:
        if wrapping == "from":
            raise ValueError("wrapped") from error
        if wrapping == "from from":
            try:
                raise ValueError("inner") from error
            except ValueError as inner:
                raise LookupError("outer") from inner
        raise


# ---- the action


class Cells(Agent):
    def __init__(self, folder: str, url: str) -> None:
        self.folder, self.url = folder, url

    @action(InputEvent)
    async def run(self, event: Event, ctx: RunnerContext) -> None:
        name = InputEvent.from_event(event).input
        if name == FAULT:
            if is_first(self.folder, FAULT):
                raise RuntimeError("failed on purpose")
            return
        find_thrower()
        note(self.folder, "lives", name)
        for stage in (FIRST, DOUBT):
            seen = await self.call(Cell.parse(name), stage, ctx)
            note(self.folder, "seen", name, stage, seen)
        ctx.send_event(OutputEvent(output=f"{OUTPUT}{name}"))

    async def call(self, cell: Cell, stage: str, ctx: RunnerContext) -> dict[str, Any]:
        arguments = (self.folder, self.url, cell.name, stage, cell.outcome)
        keep: dict[str, Any] = {"reconciler": partial(reconcile, *arguments)} if cell.reconciler else {}
        try:
            if cell.form == "gather":
                return await self.batch(arguments, keep, ctx)
            if cell.form == "sync" and stage == FIRST:
                answer = ctx.durable_execute(plain, *arguments, **keep)
            else:
                function = on_the_loop if cell.form == "async" else plain
                answer = await ctx.durable_execute_async(function, *arguments, **keep)
        except Exception as error:
            return view_of(error)
        return {"clauses": [], "answer": answer}

    async def batch(self, arguments: Any, keep: dict[str, Any], ctx: RunnerContext) -> dict[str, Any]:
        """The call in the middle of others, which succeed."""
        easy = (*arguments[:-1], "success")
        outcomes = await ctx.gather(
            ctx.durable_execute_async(plain, *easy, "before"),
            ctx.durable_execute_async(plain, *arguments, **keep),
            ctx.durable_execute_async(on_the_loop, *easy, "after"),
        )
        assert [outcomes[0].value, outcomes[2].value] == [ANSWER, ANSWER]
        if outcomes[1].is_failure():
            return view_of(outcomes[1].error)
        return {"clauses": [], "answer": outcomes[1].value}


def view_of(error: Any) -> dict[str, Any]:
    """What the action can see of a failure: classes that an `except` may name, attributes, its text."""
    response = getattr(error, "response", None)
    return {
        "clauses": [
            cls.__module__.split(".")[0] + "." + cls.__name__ for cls in CLAUSES if isinstance(error, cls)
        ],
        "status": getattr(response, "status_code", None),
        "retry_after": response.headers["retry-after"] if response is not None else None,
        "limit": getattr(error, "limit", None),
        "runtime": isinstance(error, RuntimeError),
        "text": str(error),
    }
