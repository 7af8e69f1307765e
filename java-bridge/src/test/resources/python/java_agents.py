"""The operator with an agent whose actions are written in Java. The plan says which, as JSON."""

import json
import pickle
import time

from pydantic import BaseModel

from flink_agents_durable import (
    Agent,
    Event,
    InputEvent,
    JavaCallError,
    JavaFunction,
    OutputEvent,
    ResourceType,
    Tool,
)
from flink_agents_durable.runtime import operator
from flink_agents_durable.runtime.lasting_method import LastingMethod
from flink_agents_durable.runtime.plan import AgentPlan


class JavaAgent(Agent):
    pass


def listen(event, ctx):
    """A Python action beside the Java ones."""
    ctx.send_event(
        OutputEvent({"python": event.get_attr("value"), "type": type(event.get_attr("value")).__name__})
    )


async def greet(event, ctx):
    """A Python action that a Java one answers."""
    ctx.short_term_memory.set("from_python", {"a": 1})
    ctx.send_event(Event("to_java", {"bytes": b"\x00\xff", "pair": (1, 2)}))


class Point(BaseModel):
    x: int
    y: int


def price(item: str, count: int) -> dict:
    """A tool in Python."""
    made.append(item)
    return {"total": len(item) * count, "point": Point(x=1, y=2)}


made = []
TEST_ACTIONS = "org.flinkagents.durable.JavaTestActions"


async def use_java(event, ctx):
    """A Python action that calls Java: a method, one that fails, and a tool."""
    seen = [await ctx.durable_execute_async(JavaFunction(TEST_ACTIONS, "add"), 1, 2)]
    seen.append(ctx.durable_execute(JavaFunction(TEST_ACTIONS, "add"), 20, 3))
    try:
        await ctx.durable_execute_async(JavaFunction(TEST_ACTIONS, "refuse"), "why")
    except JavaCallError as error:
        seen.append([str(error), error.java_class])
    # In its action's own thread, as that has made a synchronous call before; Java answers to the task thread.
    seen.append(ctx.durable_execute(JavaFunction(TEST_ACTIONS, "add"), 30, 4))
    tool = ctx.get_resource("norm", Tool)
    first, second = await ctx.gather(
        ctx.durable_execute_async(tool.durable_call, {"x": 3, "y": 4}),
        ctx.durable_execute_async(remote, "python"),
    )
    seen += [first.value, second.value]
    ctx.send_event(OutputEvent(seen))
    await ctx.durable_execute_async(JavaFunction(TEST_ACTIONS, "held"))
    ctx.send_event(OutputEvent("end"))


def remote(label):
    return f"{label}?"


async def act(event, ctx):
    """What became an action in Java: its first call is recorded, its second one never ends."""
    ctx.send_event(OutputEvent(await ctx.durable_execute_async(remote, "a")))
    await ctx.awakeable()[1]


def relaying(owner):
    """A Python action between two Java ones, with a call in each language."""

    async def relay(event, ctx):
        name = event.get_attr("name")
        relayed = await ctx.durable_execute_async(JavaFunction(owner, "relay"), name)
        assert await ctx.durable_execute_async(remote, name) == f"{name}?"
        attributes = {"name": name, "first": event.get_attr("first"), "relayed": relayed}
        ctx.send_event(Event("to_end", attributes))

    return relay


def encode(value):
    return json.dumps(value, sort_keys=True, default=repr).encode()


class Driven:
    """The operator, whose inputs are JSON; keys are texts, or JSON too."""

    def __init__(self, inner, json_keys):
        self._inner = inner
        self._json_keys = json_keys
        self.process = LastingMethod(self._process)
        self.restore_group = inner.restore_group
        self.restore_key = inner.restore_key
        self.snapshot = inner.snapshot

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def _process(self, key, group, payload, timestamp, stored):
        name = json.loads(key) if self._json_keys else key.decode()
        content = json.loads(bytes(payload))
        if isinstance(content, dict) and "crossings" in content:
            return 0, 0, 0, encode(self._seconds_of_a_crossing(content["crossings"])), None
        value = pickle.dumps((name, content))
        return self._inner.process(key, group, value, timestamp, stored)

    def _seconds_of_a_crossing(self, count):
        """From Python to Java and back, with the bytes of an answer, and nothing to do there."""
        java = self._inner._java
        java.prepare()
        begin = time.perf_counter()
        for _ in range(count):
            java.take_completions(1)
        return (time.perf_counter() - begin) / count


def open_operator(host, settings):
    what = json.loads(bytes(settings["plan"]))
    agent = JavaAgent()
    for name, trigger, class_name, method in what["actions"]:
        agent.add_action(name, trigger, JavaFunction(class_name, method), config_value=7)
    agent.add_action("listen", "to_python", listen)
    if what.get("python"):
        agent.add_action("act", InputEvent, act)
    agent.add_resource("price", ResourceType.TOOL, price)
    norm = JavaFunction(TEST_ACTIONS, "norm")
    agent.add_resource(
        "norm", ResourceType.TOOL, Tool.from_java(norm, name="norm", description="x + y", args_schema=Point)
    )
    if what.get("use_java"):
        agent.add_action("use_java", InputEvent, use_java)
    if what.get("relay"):
        agent.add_action("relay", "to_relay", relaying(what["relay"]))
    if what.get("greet"):
        agent.add_action("greet", InputEvent, greet)
    options = {"agents.store.type": "none", **what.get("options", {})}
    plan = AgentPlan(agent, "uid", "plan", options, encode_output=encode)
    inner = operator.open_operator(host, {**settings, "plan": plan.dump()})
    return Driven(inner, what.get("json_keys", False))
