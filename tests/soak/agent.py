"""The agent of the soak: every kind of durable call for each input, over real HTTP, counted in a ledger.

Each answer has a nonce of its own, and what an input has been answered so far goes on with its later calls: a
recorded call that ran again, or replayed as something else, is seen by its nonce.
"""

from __future__ import annotations

import asyncio
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from flink_agents_durable import (
    Agent,
    CallOptions,
    Event,
    InputEvent,
    OutputEvent,
    RetryPolicy,
    RunnerContext,
    action,
    lazy,
)
from tests.soak.notes import note

HTTP_SECONDS = 2.0
"""After so long an answer is given up: below the time for which the server stalls."""
PAUSE_SECONDS = 0.3
"""A durable timer; long enough to be under way when something is killed."""
IMPATIENT_SECONDS = 0.3
"""About what an answer takes, so that it is a race."""
BATCH_SECONDS = 20.0
"""Bounds a batch while the model server is away."""

PHASES = 6

RETRIED = CallOptions(
    timeout=2 * HTTP_SECONDS,
    # Enough for a server that is away for minutes: the soak has no failures but those it makes.
    retry=RetryPolicy(
        max_attempts=1000,
        initial_interval=0.1,
        backoff_factor=2.0,
        max_interval=2.0,
        retry_on=(httpx.HTTPError, TimeoutError),
    ),
)


def plain_client() -> httpx.Client:
    return httpx.Client(trust_env=False, timeout=HTTP_SECONDS)


def async_client() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=HTTP_SECONDS)


plainly, asynchronously = lazy(plain_client), lazy(async_client)

Carried = list[str]


def begin(folder: str, question: str, phase: int, name: str, carried: Carried) -> None:
    note(folder, "starts", question, phase, name, carried, os.getpid())


def nonce_of(response: httpx.Response) -> str:
    response.raise_for_status()
    return str(response.json()["nonce"])


def ask_plainly(folder: str, url: str, question: str, phase: int, name: str, carried: Carried) -> str:
    begin(folder, question, phase, name, carried)
    return nonce_of(plainly().get(url, params={"question": f"{question}: {name}"}))


async def ask(folder: str, url: str, question: str, phase: int, name: str, carried: Carried) -> str:
    begin(folder, question, phase, name, carried)
    return nonce_of(await asynchronously().get(url, params={"question": f"{question}: {name}"}))


def pay(folder: str, question: str, phase: int, name: str, carried: Carried) -> str:
    """An effect outside that must not be had twice."""
    begin(folder, question, phase, name, carried)
    note(folder, "effects", f"{question}: {name}")
    return f"{name} of {question}"


def find_payment(folder: str, question: str, name: str) -> str:
    """The reconciler of `pay`: had it the effect? If not, now."""
    note(folder, "reconciled", question, name)
    line = json.dumps([f"{question}: {name}"])
    effects = Path(folder, "effects")
    if not effects.exists() or line not in effects.read_text().splitlines():
        note(folder, "effects", f"{question}: {name}")
    return f"{name} of {question}"


class Assistant(Agent):
    def __init__(self, folder: str, url: str) -> None:
        self.folder, self.url = folder, url

    @action(InputEvent)
    async def handle(self, event: Event, ctx: RunnerContext) -> None:
        question = InputEvent.from_event(event).input
        carried: Carried = []

        def asked(function: Any, phase: int, name: str, options: CallOptions | None = RETRIED) -> Any:
            arguments = (self.folder, self.url, question, phase, name, list(carried))
            return ctx.durable_execute_async(function, *arguments, options=options)

        def paid(phase: int, name: str) -> Any:
            reconciler = partial(find_payment, self.folder, question, name)
            arguments = (self.folder, question, phase, name, list(carried))
            return ctx.durable_execute_async(pay, *arguments, reconciler=reconciler)

        carried.append(self.at_once(question, ctx))
        carried.append(await asked(ask, 1, "model"))
        await asyncio.sleep(PAUSE_SECONDS)
        carried.append(await paid(2, "paid"))
        batch = await ctx.gather(
            asked(ask, 3, "left"),
            asked(ask_plainly, 3, "right"),
            asked(ask, 3, "fallible", None),
            paid(3, "paid too"),
            timeout=BATCH_SECONDS,
        )
        carried += [o.value if o.is_success() else failure_of(o.error) for o in batch]
        try:
            carried.append(await asyncio.wait_for(asked(ask, 4, "impatient"), IMPATIENT_SECONDS))
        except TimeoutError as error:
            carried.append(failure_of(error))
        carried.append(await asked(ask, 5, "last"))
        place = ctx.short_term_memory.get("place", 0) + 1
        previous = ctx.short_term_memory.get("previous")
        ctx.short_term_memory.set("place", place)
        ctx.short_term_memory.set("previous", question)
        ctx.send_event(OutputEvent(output=json.dumps([question, place, previous, carried])))

    def at_once(self, question: str, ctx: RunnerContext) -> str:
        """A synchronous call; its failures are the action's to handle."""
        try:
            return ctx.durable_execute(ask_plainly, self.folder, self.url, question, 0, "at once", [])
        except httpx.HTTPStatusError as error:
            return f"status {error.response.status_code}"
        except httpx.HTTPError as error:
            return failure_of(error)


def failure_of(error: BaseException | None) -> str:
    """By what `except` clauses see, which is the same for the original and for its replay."""
    kinds = (httpx.HTTPStatusError, httpx.TimeoutException, httpx.TransportError, TimeoutError)
    return next(
        (f"failed: {kind.__name__}" for kind in kinds if isinstance(error, kind)), f"failed: {error!r}"
    )
