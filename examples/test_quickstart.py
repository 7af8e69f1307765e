"""How to test an agent: without Flink, with fakes for its calls, through a crash."""

from pathlib import Path

from quickstart import REVIEWS, ReviewAgent, call_model

from flink_agents_durable import SqliteActionStateStore
from flink_agents_durable.testing import LocalRunner


def test_the_agent_answers_with_a_fake_model() -> None:
    fakes = {call_model: lambda text: f"<{text}>"}
    with LocalRunner(ReviewAgent(), fakes=fakes, key_selector=lambda r: r["user"]) as runner:
        for review in REVIEWS:
            runner.process(review)
        runner.run_until_idle()
        assert sorted(runner.outputs) == [("anna", "anna: <a great book>"), ("bob", "bob: <I fell asleep>")]


def test_after_a_crash_the_model_is_not_called_again(tmp_path: Path) -> None:
    store = SqliteActionStateStore(tmp_path)
    with LocalRunner(ReviewAgent(), store=store) as runner:
        checkpoint = runner.checkpoint()
        runner.process("anna", REVIEWS[0])
        runner.run_until_idle()
        assert len(runner.calls) == 1
        runner.crash()
    with LocalRunner.restore(ReviewAgent(), checkpoint, store=store) as runner:
        runner.process("anna", REVIEWS[0])  # the source sends it again
        runner.run_until_idle()
        assert runner.outputs == [("anna", "anna: positive")]
        assert runner.calls == []
