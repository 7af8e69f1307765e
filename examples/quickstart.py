"""An agent with one durable call. Run it: python quickstart.py"""

from pyflink.common import Types
from pyflink.datastream import StreamExecutionEnvironment

from flink_agents_durable import Agent, AgentsExecutionEnvironment, InputEvent, OutputEvent, action


def call_model(text):
    """Stands for the call of a model, an API, a database: slow, costly, not to be made twice."""
    return "positive" if "great" in text else "negative"


class ReviewAgent(Agent):
    @action(InputEvent)
    async def review(self, event, ctx):
        mood = await ctx.durable_execute_async(call_model, event.input["text"])
        ctx.send_event(OutputEvent(output=f"{ctx.key}: {mood}"))


REVIEWS = [{"user": "anna", "text": "a great book"}, {"user": "bob", "text": "I fell asleep"}]

if __name__ == "__main__":
    env = StreamExecutionEnvironment.get_execution_environment()
    agents = AgentsExecutionEnvironment.get_execution_environment(env)
    reviews = agents.from_datastream(env.from_collection(REVIEWS), key_selector=lambda r: r["user"])
    reviews.apply(ReviewAgent()).to_datastream(Types.STRING()).print()
    agents.execute("quickstart")
