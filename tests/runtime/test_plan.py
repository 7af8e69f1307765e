"""The plan as it is shipped: by value where the task cannot import, and readable in another process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import flink_agents_durable
from flink_agents_durable.api.agent import ActionSpec, Agent
from flink_agents_durable.api.events import InputEvent
from flink_agents_durable.runtime.plan import AgentPlan


def act(event: object, ctx: object) -> None: ...


def plan(**changes: object) -> AgentPlan:
    agent = Agent().add_action("act", [InputEvent], act)
    return AgentPlan(agent, "agent", "p1", **changes)  # type: ignore[arg-type]


def test_log_ids_come_from_job_plan_and_uid() -> None:
    assert plan().explicit_log_id is None
    assert plan().first_log_id("job") == "job-p1:agent"
    assert plan(options={"agents.job-id": "mine"}).explicit_log_id == "mine:agent"


def test_built_in_actions_come_after_the_agents_own() -> None:
    extra = ActionSpec("extra", (InputEvent.EVENT_TYPE,), act)
    compiled = plan(extra_actions=(extra,)).compiled()
    assert list(compiled.by_name) == ["act", "extra"]
    assert [action.name for action in compiled.by_event[InputEvent.EVENT_TYPE]] == ["act", "extra"]


def test_something_else_than_a_plan_is_refused() -> None:
    with pytest.raises(TypeError, match="dict"):
        AgentPlan.load(b"\x80\x05}.")


def test_case_38_an_agent_of_the_submitted_script_runs_in_another_process(tmp_path: Path) -> None:
    """Its classes are told by isinstance after a round trip through the codec of the plan."""
    shipped = tmp_path / "plan"
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            from pathlib import Path
            from flink_agents_durable.api.agent import Agent, action
            from flink_agents_durable.api.events import InputEvent
            from flink_agents_durable.engine.plan_classes import collect_plan_classes
            from flink_agents_durable.runtime.plan import AgentPlan

            class Draft:
                def __init__(self, text):
                    self.text = text

            class ReviewAgent(Agent):
                @action(InputEvent)
                def review(self, event, ctx):
                    return Draft("x")

            agent = ReviewAgent()
            classes = collect_plan_classes(agent)
            Path(sys.argv[1]).write_bytes(AgentPlan(agent, "review", "p1", {}, {}, classes).dump())
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(flink_agents_durable.__file__).parents[1])}
    subprocess.run([sys.executable, str(script), str(shipped)], check=True, timeout=60, env=environment)
    loaded = AgentPlan.load(shipped.read_bytes())
    draft_class = loaded.classes["Draft"]
    assert loaded.agent.review(None, None).__class__ is draft_class  # type: ignore[attr-defined]
    assert list(loaded.compiled().by_name) == ["review"]
