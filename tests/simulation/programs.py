"""Random agents: a program of nested statements, made from the seed, and an action that carries it out.

Every value that a statement gets is observed, branches depend on it, every output is expected once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from dataclasses import dataclass, field
from typing import Any

from flink_agents_durable import Agent, CallOptions, Event, InputEvent, RetryPolicy
from flink_agents_durable.api.errors import CallTimeoutError, DurableSerializationError
from flink_agents_durable.testing.simulation import Result, World

MAX_DEPTH = 2
LEAVES = (
    "call",
    "call",
    "call",
    "pay",
    "failing",
    "sync",
    "sync_pay",
    "batch",
    "sleep",
    "time",
    "emit",
    "write",
    "read",
    "forget",
    "send",
    "bounded",
    "retried",
    "wrong",
    "again",
)
NESTS = (
    "all",
    "race",
    "wait_for",
    "as_completed",
    "if",
    "try",
    "spawn",
    "block",
    "group",
    "shield",
    "queue",
    "cancel",
)
BLOCKS = {"if": 2, "try": 1, "spawn": 1, "block": 1, "wait_for": 1, "shield": 1, "cancel": 1}
"""How many blocks a statement has, if not two or three."""

SYNCHRONOUS = ("sync", "sync_pay", "emit", "time", "write", "read", "forget", "send")
"""What a plain function can do."""
YIELDED = ("call", "pay", "failing", "sleep", "emit", "bounded", "sync")
"""What a generator action can do."""


class Sent(Event):
    """Triggers the action of its depth."""

    EVENT_TYPE = "sent"


@dataclass
class Statement:
    """One statement; `id` is its place in the program."""

    kind: str
    id: str
    number: int = 0
    blocks: list[list[Statement]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"

    def lines(self, indent: str) -> list[str]:
        """As an indented outline."""
        told = [f"{indent}{self.kind} {self.id} ({self.number})"]
        for place, block in enumerate(self.blocks):
            told += [f"{indent}  {'abc'[place]}:"] if len(self.blocks) > 1 else []
            told += outline(block, indent + "    ")
        return told


def outline(block: list[Statement], indent: str = "    ") -> list[str]:
    """A block in lines."""
    return [line for statement in block for line in statement.lines(indent)]


def simple(source: random.Random, id: str, kinds: tuple[str, ...]) -> list[Statement]:
    """A random block without nesting."""
    count = source.randint(1, 4)
    return [Statement(source.choice(kinds), f"{id}{i}", source.randint(1, 3)) for i in range(count)]


def program(source: random.Random, id: str, depth: int = 0, sends: bool = True) -> list[Statement]:
    """A random block."""
    block = []
    for place in range(source.randint(1, 4 if depth == 0 else 2)):
        nest = depth < MAX_DEPTH and source.random() < 0.4
        kind = source.choice(NESTS if nest else LEAVES)
        if kind == "send" and not sends:
            kind = "call"
        statement = Statement(kind, f"{id}{place}", source.randint(1, 3))
        if kind in NESTS:
            count = BLOCKS.get(kind, source.randint(2, 3))
            statement.blocks = [
                program(source, f"{statement.id}{'abc'[i]}", depth + 1, sends) for i in range(count)
            ]
        block.append(statement)
    return block


class Interpreter:
    """One execution of a program."""

    def __init__(self, world: World, ctx: Any, value: str) -> None:
        self.world = world
        self.ctx = ctx
        self.value = value
        self.last = 0
        self.delivered = False

    def see(self, statement: Statement, value: Any) -> None:
        """Observe what a statement got; later branches depend on it."""
        self.world.observe(self.ctx, statement.id, value)
        if isinstance(value, Result):
            self.delivered = True
            self.last = value.nonce
            own = value.label == self.label(statement)
            self.world.check(self.ctx, own, f"{statement} got the result of another call: {value}")

    async def run(self, block: list[Statement]) -> None:
        """Carry out a block."""
        for statement in block:
            await getattr(self, "do_" + statement.kind)(statement)

    def label(self, statement: Statement) -> str:
        return f"{statement.id} of {self.value}"

    def call(self, statement: Statement, fail: float = 0.0) -> Any:
        return self.ctx.durable_execute_async(self.world.call, self.label(statement), fail)

    async def do_call(self, statement: Statement) -> None:
        self.see(statement, await self.call(statement))

    async def do_failing(self, statement: Statement) -> None:
        self.see(statement, await self.call(statement, 0.3))

    async def do_pay(self, statement: Statement) -> None:
        label = self.label(statement)
        paid = self.ctx.durable_execute_async(self.world.call, label, reconciler=lambda: Result(label, 0))
        self.see(statement, await paid)

    async def do_sync(self, statement: Statement) -> None:
        self.see(statement, self.ctx.durable_execute(self.world.call, self.label(statement)))

    async def do_sync_pay(self, statement: Statement) -> None:
        label = self.label(statement)
        self.see(
            statement,
            self.ctx.durable_execute(self.world.call, label, reconciler=lambda: Result(label, 0)),
        )

    async def do_batch(self, statement: Statement) -> None:
        calls = []
        for i in range(statement.number):
            label = f"{statement.id}.{i} of {self.value}"
            if i == 1:
                calls.append(
                    self.ctx.durable_execute_async(
                        self.world.call, label, reconciler=lambda label=label: Result(label, 0)
                    )
                )
            else:
                calls.append(self.ctx.durable_execute_async(self.world.call, label, 0.2))
        timeout = statement.number if statement.number != 2 else None
        outcomes = await self.ctx.gather(*calls, timeout=timeout)
        self.see(statement, [o.value if o.is_success() else repr(o.error) for o in outcomes])
        self.last = sum(o.is_success() for o in outcomes)

    async def do_bounded(self, statement: Statement) -> None:
        """A call that may take too long; the first kind lets that through (P14)."""
        options = CallOptions(timeout=statement.number)
        try:
            self.see(
                statement,
                await self.ctx.durable_execute_async(self.world.call, self.label(statement), options=options),
            )
        except CallTimeoutError:
            if statement.number == 1:
                raise
            self.see(statement, "too long")

    async def do_retried(self, statement: Statement) -> None:
        options = CallOptions(retry=RetryPolicy(max_attempts=statement.number, jitter=False))
        try:
            self.see(
                statement,
                await self.ctx.durable_execute_async(
                    self.world.call, self.label(statement), 0.5, options=options
                ),
            )
        except ConnectionError as error:
            self.see(statement, str(error))

    async def do_wrong(self, statement: Statement) -> None:
        """Failures of each kind; the action sees the same one on every attempt."""
        try:
            await self.ctx.durable_execute_async(wrong, self.label(statement), statement.number)
        except LookupError as error:
            self.see(statement, ("lookup", str(error.args)))
        except DurableSerializationError:
            self.see(statement, "not serialisable")
        except Odd as error:
            self.see(statement, ("odd", error.code))

    async def do_again(self, statement: Statement) -> None:
        """A batch whose calls are awaited once more (F5)."""
        calls = [
            self.ctx.durable_execute_async(self.world.call, f"{statement.id}.{i} of {self.value}")
            for i in range(2)
        ]
        timeout = statement.number if statement.number != 2 else None
        outcomes = await self.ctx.gather(*calls, timeout=timeout)
        seen: list[Any] = []
        for call in calls:
            try:
                seen.append(await call)
            except CallTimeoutError:
                seen.append("too long")
        same = [o.value if o.is_success() else "too long" for o in outcomes] == seen
        self.world.check(self.ctx, same, f"{statement} awaited again is another: {seen}, {outcomes}")
        self.see(statement, seen)

    async def do_sleep(self, statement: Statement) -> None:
        await asyncio.sleep(statement.number)
        self.delivered = True

    async def do_time(self, statement: Statement) -> None:
        seen = (self.ctx.uuid4(), self.ctx.random().random())
        if self.delivered:
            self.see(statement, (*seen, self.ctx.now()))

    async def do_emit(self, statement: Statement) -> None:
        self.world.emit(self.ctx, statement.id, self.value, self.last)

    async def do_write(self, statement: Statement) -> None:
        self.world.remember(self.ctx, f"m{statement.number}", f"{statement.id} of {self.value}")

    async def do_read(self, statement: Statement) -> None:
        value = self.world.recall(self.ctx, f"m{statement.number}")
        self.world.observe(self.ctx, statement.id, value)
        self.last = len(value or "")

    async def do_forget(self, statement: Statement) -> None:
        self.ctx.short_term_memory.remove(f"m{statement.number}")

    async def do_send(self, statement: Statement) -> None:
        self.ctx.send_event(Sent(attributes={"v": self.value, "id": statement.id, "n": statement.number}))

    async def do_if(self, statement: Statement) -> None:
        await self.run(statement.blocks[self.last % 2])

    async def do_block(self, statement: Statement) -> None:
        await self.run(statement.blocks[0])

    async def do_try(self, statement: Statement) -> None:
        try:
            await self.run(statement.blocks[0])
        except Exception as error:
            self.see(statement, repr(error))

    async def do_all(self, statement: Statement) -> None:
        await asyncio.gather(*map(self.run, statement.blocks))

    async def do_group(self, statement: Statement) -> None:
        if hasattr(asyncio, "TaskGroup"):
            async with asyncio.TaskGroup() as tasks:
                for block in statement.blocks:
                    tasks.create_task(self.run(block))
        else:
            await self.do_all(statement)

    async def do_race(self, statement: Statement) -> None:
        tasks = [asyncio.ensure_future(self.run(block)) for block in statement.blocks]
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        self.see(statement, sorted(tasks.index(task) for task in done))
        for task in done:
            task.result()

    async def do_as_completed(self, statement: Statement) -> None:
        async def numbered(number: int) -> int:
            await self.run(statement.blocks[number])
            return number

        order = []
        for ready in asyncio.as_completed([numbered(i) for i in range(len(statement.blocks))]):
            order.append(await ready)
        self.see(statement, order)

    async def do_queue(self, statement: Statement) -> None:
        """Blocks meet in a queue, in the order in which they end."""
        queue: asyncio.Queue[int] = asyncio.Queue(1)

        async def produce(number: int) -> None:
            await self.run(statement.blocks[number])
            await queue.put(number)

        tasks = [asyncio.ensure_future(produce(i)) for i in range(len(statement.blocks))]
        done = asyncio.ensure_future(asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION))
        order = []
        try:
            while not (done.done() and queue.empty()):
                get = asyncio.ensure_future(queue.get())
                await asyncio.wait([get, done], return_when=asyncio.FIRST_COMPLETED)
                if get.done():
                    order.append(get.result())
                else:
                    get.cancel()
        except asyncio.CancelledError:
            for task in (get, *tasks):
                task.cancel()  # nobody takes any more what they put
            raise
        self.see(statement, order)
        ended = [task for task in tasks if task.done()]
        for task in tasks:
            task.cancel()  # nobody takes any more what they put
        for task in ended:
            task.result()

    async def do_cancel(self, statement: Statement) -> None:
        """A task that has only so much time, unlike `wait_for` without waiting for its end."""
        task = asyncio.ensure_future(self.run(statement.blocks[0]))
        await asyncio.sleep(statement.number)
        done = task.done()
        self.see(statement, done)
        if done:
            task.result()
        else:
            task.cancel()

    async def do_wait_for(self, statement: Statement) -> None:
        try:
            await asyncio.wait_for(self.run(statement.blocks[0]), statement.number)
        except asyncio.TimeoutError:
            if statement.number == 1:
                raise
            self.see(statement, "timeout")

    async def do_shield(self, statement: Statement) -> None:
        task = asyncio.ensure_future(self.run(statement.blocks[0]))
        await asyncio.shield(task)

    async def do_spawn(self, statement: Statement) -> None:
        task = asyncio.ensure_future(self.run(statement.blocks[0]))
        task.set_name(statement.id)


class Odd(Exception):
    """A failure that is pickled, and cannot be made again from that."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


def wrong(label: str, number: int) -> Any:
    """A durable function that has no good outcome."""
    if number == 1:
        raise LookupError(label, "not there")
    if number == 2:
        return threading.Lock()
    raise Odd(code=7)


def generated(world: World) -> Agent:
    """An agent by the seed of the world: actions of inputs, and one that sent events trigger."""
    source = random.Random(f"program {world.seed}")
    blocks = {"x": program(source, "x")}
    if source.random() < 0.5:
        blocks["y"] = program(source, "y")
    kinds = {"plain": SYNCHRONOUS, "yields": YIELDED}
    for name, leaves in kinds.items():
        if source.random() < 0.2:
            blocks[name] = simple(source, name, leaves)
    children = [program(source, f"z{n}", 1, sends=False) for n in range(4)]
    policy = "skip" if source.random() < 0.15 else None

    def coroutine(block: list[Statement]) -> Any:
        async def act(event: Any, ctx: Any) -> None:
            await Interpreter(world, ctx, event.input).run(block)
            world.completes(ctx)

        return act

    def function(block: list[Statement]) -> Any:
        def act(event: Any, ctx: Any) -> None:
            with contextlib.suppress(StopIteration):
                Interpreter(world, ctx, event.input).run(block).send(None)
            world.completes(ctx)

        return act

    def generator(block: list[Statement]) -> Any:
        def act(event: Any, ctx: Any) -> Any:
            interpreter = Interpreter(world, ctx, event.input)
            for statement in block:
                yield interpreter.run([statement])
            world.completes(ctx)

        return act

    makers = {"plain": function, "yields": generator}
    agent = Agent()
    for name, block in blocks.items():
        agent.add_action(name, [InputEvent], makers.get(name, coroutine)(block), on_failure=policy)
        world.program += [f"action {name}, on failure: {policy or 'fail'}", *outline(block)]

    async def child(event: Any, ctx: Any) -> None:
        number, sender = event.get_attr("n"), event.get_attr("id")
        block = _renamed(children[number], sender)
        await Interpreter(world, ctx, event.get_attr("v")).run(block)
        world.completes(ctx)

    for number, block in enumerate(children):
        world.program += [f"action child, of event {number}", *outline(block)]
    return agent.add_action("child", [Sent], child)


def _renamed(block: list[Statement], sender: str) -> list[Statement]:
    """The block with places of its own for each event that triggers it."""
    return [
        Statement(
            statement.kind,
            f"{sender}>{statement.id}",
            statement.number,
            [_renamed(inner, sender) for inner in statement.blocks],
        )
        for statement in block
    ]
