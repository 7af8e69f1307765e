"""The operator with an agent whose durable functions call Java: each input names how, and what Java throws.

What the functions and the actions see is kept here, beyond the operators: the interpreters of a JVM share it.
"""

import pickle

import pemja

from flink_agents_durable import Agent, InputEvent, OutputEvent
from flink_agents_durable.runtime import operator
from flink_agents_durable.runtime.lasting_method import LastingMethod
from flink_agents_durable.runtime.plan import AgentPlan

thrower = None
healthy = False
made = []
caught = []


def throw(kind):
    """Call Java, and let through what it throws or what a library would make of it."""
    wrapping, _, kind = kind.rpartition("/")
    try:
        thrower.fail(kind)
    except RuntimeError as error:
        if wrapping == "from":
            raise ValueError("wrapped") from error
        if wrapping == "from from":
            try:
                raise ValueError("inner") from error
            except ValueError as inner:
                raise LookupError("outer") from inner
        if wrapping == "context":
            raise ValueError("in an except block")  # noqa: B904
        raise


def before(label):
    made.append(label)
    return "before"


def plain(label, kind):
    made.append(label)
    if not healthy:
        throw(kind)
    return "answer"


async def on_the_loop(label, kind):
    return plain(label, kind)


class Asking(Agent):
    def __init__(self):
        self.add_action("ask", [InputEvent], ask)


async def ask(event, ctx):
    mode, label, kind = InputEvent.from_event(event).input.split("|")
    await ctx.durable_execute_async(before, f"{label} before")
    try:
        answer = await MODES[mode](ctx, label, kind)
    except Exception as error:
        caught.append(error)
        chain = described(error)
        ctx.short_term_memory.set("swallowed", chain)
        ctx.send_event(OutputEvent(f"caught {chain}"))
        await ctx.durable_execute_async(before, f"{label} after")
        answer = "done"
    ctx.send_event(OutputEvent(answer))


def described(error):
    return type(error).__name__ if not isinstance(error, RuntimeError) else "RuntimeError"


async def synchronous(ctx, label, kind):
    return ctx.durable_execute(plain, label, kind)


async def synchronous_in_place(ctx, label, kind):
    """In its action's own thread: from the first synchronous call on, later steps have one."""
    ctx.durable_execute(before, f"{label} first")
    await ctx.durable_execute_async(before, f"{label} second")
    return ctx.durable_execute(plain, label, kind)


async def synchronous_on_the_loop(ctx, label, kind):
    return ctx.durable_execute(on_the_loop, label, kind)


async def on_a_worker(ctx, label, kind):
    return await ctx.durable_execute_async(plain, label, kind)


async def in_the_loop(ctx, label, kind):
    return await ctx.durable_execute_async(on_the_loop, label, kind)


async def gathered(ctx, label, kind):
    outcomes = await ctx.gather(
        ctx.durable_execute_async(before, f"{label} first"),
        ctx.durable_execute_async(plain, label, kind),
        ctx.durable_execute_async(on_the_loop, label, kind),
    )
    return [outcome.value for outcome in outcomes][-1]


async def reconciled(ctx, label, kind):
    """The first attempt leaves the call in doubt; then its reconciler meets what Java throws."""

    def reconcile():
        made.append(f"{label} reconciled")
        if not healthy:
            throw(kind)
        return "answer"

    return await ctx.durable_execute_async(doubtful, label, reconciler=reconcile)


def doubtful(label):
    made.append(f"{label} doubtful")
    throw("interrupted")


MODES = {
    "synchronous": synchronous,
    "synchronous in place": synchronous_in_place,
    "synchronous on the loop": synchronous_on_the_loop,
    "worker": on_a_worker,
    "loop": in_the_loop,
    "gather": gathered,
    "reconciler": reconciled,
}


class Driven:
    """The operator, with texts for what crosses; inputs that begin with `?` are answered at once."""

    def __init__(self, inner):
        self._inner = inner
        self.process = LastingMethod(self._process)
        self.restore_group = inner.restore_group
        self.restore_key = inner.restore_key
        self.snapshot = inner.snapshot

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def _process(self, key, group, payload, timestamp, stored):
        text = bytes(payload).decode()
        if text.startswith("?"):
            answer = QUESTIONS[text[1:]]()
            return (0, 0, 0, str(answer).encode(), None)
        value = pickle.dumps((key.decode(), text))
        return self._inner.process(key, group, value, timestamp, stored)


def become(state):
    global healthy
    healthy = state
    made.clear()
    caught.clear()
    return state


def is_original():
    """Whether the action caught Java's own throwable, maybe below what the function made of it."""
    error = caught[0] if caught else None
    while error is not None:
        if isinstance(error, RuntimeError) and type(error.args[0]).__name__ == "PyJObject":
            return True
        error = error.__cause__
    return False


QUESTIONS = {
    "made": lambda: ",".join(made),
    "caught": lambda: [repr(error) for error in caught],
    "original": is_original,
    "healthy": lambda: become(True),
    "failing": lambda: become(False),
}


def open_operator(host, settings):
    global thrower
    # Only here: threads that Python has started may call what was found, but find nothing.
    thrower = pemja.findClass("org.flinkagents.durable.Throwers")
    options = {
        "agents.store.type": "sqlite",
        "agents.store.sqlite.path": bytes(settings["plan"]).decode(),
        "agents.job-id": "interruptions",
    }
    plan = AgentPlan(Asking(), "uid", "plan", options, encode_output=lambda value: str(value).encode())
    return Driven(operator.open_operator(host, {**settings, "plan": plan.dump()}))
