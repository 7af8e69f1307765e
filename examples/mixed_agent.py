"""A Python agent one action of which is written in Java: it answers an event, and its calls are durable as well.

The class is examples/java/src/main/java/org/example/Prices.java. Its jar goes with the job:

    mvn -f examples/java package          # docs/java.md says what has to be installed for it
    python mixed_agent.py [JAR]
"""

import sys
from pathlib import Path

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_durable import (
    Agent,
    AgentsExecutionEnvironment,
    Event,
    InputEvent,
    JavaFunction,
    OutputEvent,
    RunnerContext,
    action,
)

JAR = Path(__file__).parent / "java" / "target" / "durable-reviews-1.0.jar"


def understand(text: str) -> str:
    """Stands for a model that finds out what a customer wants."""
    return text.split()[-1]


class OrderAgent(Agent):
    def __init__(self) -> None:
        self.add_action("price", "price_wanted", JavaFunction("org.example.Prices", "price"))

    @action(InputEvent)
    async def order(self, event: InputEvent, ctx: RunnerContext) -> None:
        item = await ctx.durable_execute_async(understand, event.input["text"])
        ctx.send_event(Event("price_wanted", {"item": item}))

    @action("priced")
    async def answer(self, event: Event, ctx: RunnerContext) -> None:
        spent = ctx.short_term_memory.get("spent", 0) + event.get_attr("cents")
        ctx.short_term_memory.set("spent", spent)
        ctx.send_event(
            OutputEvent(f"{ctx.key}: {event.get_attr('item')}, {event.get_attr('cents')} cents of {spent}")
        )


ORDERS = [
    {"user": "anna", "text": "a cup of tea"},
    {"user": "bob", "text": "some cake"},
    {"user": "anna", "text": "and cake"},
]

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_jars(Path(sys.argv[1] if len(sys.argv) > 1 else JAR).resolve().as_uri())
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    orders = agents.from_datastream(env.from_collection(ORDERS), key_selector=lambda order: order["user"])
    orders.apply(OrderAgent()).to_datastream(Types.STRING()).print()
    agents.execute("orders")
