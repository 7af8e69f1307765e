"""What cannot travel with the plan is named, with the way out (case 38)."""

from __future__ import annotations

import pickle
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from flink_agents_durable import Agent, InputEvent, action
from flink_agents_durable.api.errors import ConfigurationError
from flink_agents_durable.flink.shipping import make_plan
from flink_agents_durable.runtime.plan import AgentPlan

SCRIPT = """
import threading
from flink_agents_durable import Agent, InputEvent, action

client = threading.Lock()
numbers = [1, 2]

class Item:
    pass

def helper():
    return client

def calls_helper():
    return helper()

class UsesGlobal(Agent):
    @action(InputEvent)
    async def act(self, event, ctx):
        await ctx.durable_execute_async(calls_helper)

class HoldsIt(Agent):
    def __init__(self):
        self.client = threading.Lock()

    @action(InputEvent)
    async def act(self, event, ctx):
        return Item

class Works(Agent):
    @action(InputEvent)
    async def act(self, event, ctx):
        return Item(), numbers

def in_closure():
    connection = threading.Lock()

    class Nested(Agent):
        @action(InputEvent)
        async def act(self, event, ctx):
            return connection

    return Nested()
"""


@pytest.fixture
def script() -> Any:
    """A module that tasks cannot import, as `__main__` of a submitted script is."""
    module = types.ModuleType("submitted_script")
    sys.modules[module.__name__] = module
    exec(compile(SCRIPT, "script.py", "exec"), module.__dict__)
    cloudpickle.register_pickle_by_value(module)
    yield module
    cloudpickle.unregister_pickle_by_value(module)
    del sys.modules[module.__name__]


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda script: script.UsesGlobal(), r"the global variable 'client' used by helper, a _thread\.lock"),
        (lambda script: script.HoldsIt(), r"self\.client, a _thread\.lock"),
        (
            lambda script: script.in_closure(),
            r"the variable 'connection' used by .*Nested\.act, a _thread\.lock",
        ),
    ],
)
def test_what_cannot_be_pickled_is_named_with_the_way_out(
    script: Any, make: Callable[[Any], Agent], named: str
) -> None:
    with pytest.raises(ConfigurationError, match=named) as error:
        make_plan(AgentPlan(make(script), "uid", "plan"), {})
    assert "lazy(" in str(error.value)


def test_a_resource_that_cannot_be_pickled_is_named() -> None:
    class Quiet(Agent):
        @action(InputEvent)
        async def act(self, event: Any, ctx: Any) -> None:
            """Nothing."""

    plan = AgentPlan(Quiet(), "uid", "plan", resources={("prompt", "p"): threading.Lock()})
    with pytest.raises(ConfigurationError, match=r"\[\('prompt', 'p'\)\], a _thread\.lock"):
        make_plan(plan, {})


def test_case_38_classes_of_a_script_travel_by_value_and_are_known_by_name(script: Any) -> None:
    plan, data = make_plan(AgentPlan(script.Works(), "uid", "plan"), {"Item": script.Item})
    assert plan.classes["Item"] is script.Item
    assert "Works" in plan.classes
    assert b"submitted_script" in data
    loaded = AgentPlan.load(data)
    assert loaded.uid == "uid"
    assert pickle.loads(data).plan_id == "plan"
