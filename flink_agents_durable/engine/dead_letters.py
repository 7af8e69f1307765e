"""The letter about an action that failed for good.

No record of it is needed: that an action fails follows from the numbered deliveries, and the end of its execution
is in the same snapshot as the emission. A crash before that snapshot rolls both back, and the replay fails again;
after it the execution counts as done and never starts again (P14, P15).
"""

from __future__ import annotations

from typing import Any

from flink_agents_durable.api.dead_letters import DeadLetter
from flink_agents_durable.engine.codec import Codec
from flink_agents_durable.engine.failures import describe_failure
from flink_agents_durable.engine.run import Execution


def dead_letter(execution: Execution, error: BaseException, codec: Codec) -> DeadLetter:
    """Describe the failure of an execution; the input is as it came, whatever the action did to it (X8)."""
    run = execution.run
    value: Any = codec.inputs.loads(run.payload)
    text, trace = describe_failure(error, codec)
    return DeadLetter(run.key_object, value[1], execution.action.name, text, trace, run.id.hex())
