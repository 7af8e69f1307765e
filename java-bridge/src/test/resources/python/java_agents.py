"""The operator with an agent whose actions are written in Java. The plan says which, as JSON."""

import json
import pickle

from flink_agents_durable import Agent, Event, InputEvent, JavaFunction, OutputEvent
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


def remote(label):
    return f"{label}?"


async def act(event, ctx):
    """What became an action in Java: its first call is recorded, its second one never ends."""
    ctx.send_event(OutputEvent(await ctx.durable_execute_async(remote, "a")))
    await ctx.awakeable()[1]


def encode(value):
    return json.dumps(value, sort_keys=True, default=repr).encode()


class Driven:
    """The operator, whose inputs are JSON."""

    def __init__(self, inner):
        self._inner = inner
        self.process = LastingMethod(self._process)
        self.restore_group = inner.restore_group
        self.restore_key = inner.restore_key
        self.snapshot = inner.snapshot

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def _process(self, key, group, payload, timestamp, stored):
        value = pickle.dumps((key.decode(), json.loads(bytes(payload))))
        return self._inner.process(key, group, value, timestamp, stored)


def open_operator(host, settings):
    what = json.loads(bytes(settings["plan"]))
    agent = JavaAgent()
    for name, trigger, class_name, method in what["actions"]:
        agent.add_action(name, trigger, JavaFunction(class_name, method), config_value=7)
    agent.add_action("listen", "to_python", listen)
    if what.get("python"):
        agent.add_action("act", InputEvent, act)
    if what.get("greet"):
        agent.add_action("greet", InputEvent, greet)
    options = {"agents.store.type": "none", **what.get("options", {})}
    plan = AgentPlan(agent, "uid", "plan", options, encode_output=encode)
    return Driven(operator.open_operator(host, {**settings, "plan": plan.dump()}))
