"""What was recorded as a delivery and is asked for in a frame that cannot wait for it.

A frame of a Java action may pin its task on one JVM and not on another, or only until its class is initialised. So
an outcome that was delivered in one attempt is asked for at once in the next, as one of a synchronous call is.
What cannot be kept is when one action sees the memory of another of its run if both wait in such frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flink_agents_durable.engine.records import BATCH_END, TIMER, Record
from flink_agents_durable.engine.reopening import remember
from flink_agents_durable.engine.replay import fits
from flink_agents_durable.engine.run import Execution, Run, Slot

if TYPE_CHECKING:
    from flink_agents_durable.engine.engine import Engine
    from flink_agents_durable.engine.execution import Stepper


def take_outcome(engine: Engine, stepper: Stepper, slot: Slot) -> Record | None:
    """The delivery of a call's outcome that was recorded, made now."""
    known = slot.execution.recorded
    record = None if known is None else known.outcomes.get(slot.index)
    if record is None or not fits(record, slot):
        return None
    engine.stats.calls_replayed += 1
    return _deliver(engine, stepper, slot.execution, record)


def take_firing(engine: Engine, stepper: Stepper, execution: Execution, index: int) -> bool:
    """Whether the journal has the firing of this timer, or the end of this batch by its time-out."""
    execution.next_slot = max(execution.next_slot, index + 1)
    record = _recorded_firing(execution, index)
    if record is None:
        return False
    _deliver(engine, stepper, execution, record)
    return True


def late_calls(execution: Execution, end: int) -> list[int]:
    """The calls of a batch that had not ended when its time was over (P18)."""
    execution.next_slot = max(execution.next_slot, end + 1)
    record = _recorded_firing(execution, end)
    return [] if record is None else record.slots


def _recorded_firing(execution: Execution, index: int) -> Record | None:
    known = execution.recorded
    record = None if known is None else known.outcomes.get(index)
    return record if record is not None and record.kind in (TIMER, BATCH_END) else None


def _deliver(engine: Engine, stepper: Stepper, execution: Execution, record: Record) -> Record:
    """Keeps P1 and P16: what others were given before comes first, and memory is that of this delivery."""
    run = execution.run
    _catch_up(stepper, execution, record.number)
    if record in run.replay:
        run.replay.remove(record)
        if not engine.ports.store_durable:
            remember(execution, record)
    if execution.recorded is not None:
        execution.recorded.outcomes.pop(record.slot, None)
    run.delivered = max(run.delivered, record.number)
    if run.memory.commits:
        execution.version = max(execution.version, run.memory.version_before(record.number))
    execution.time = max(execution.time, record.time)
    return record


def _catch_up(stepper: Stepper, execution: Execution, number: int) -> None:
    """Let the other executions of the run have what they were given before this number.

    What is for an execution in whose frame all this happens has to wait for the frame.
    """
    run = execution.run
    stepper.in_frame.add(execution.id)
    try:
        while True:
            record = next(
                (r for r in run.replay if r.number < number and r.execution not in stepper.in_frame), None
            )
            if record is None:
                return
            _begin(stepper, run, record.execution)
            if record in run.replay and record is not run.replay[0]:
                run.replay.remove(record)
                run.replay.appendleft(record)
            if record in run.replay:
                stepper.replay_next(run)
    finally:
        stepper.in_frame.discard(execution.id)


def _begin(stepper: Stepper, run: Run, id: int) -> None:
    """Start an execution, and before it those that came before it and may trigger it."""
    while run.starting and id not in run.done:
        execution = run.executions.get(id)
        if execution is not None and execution.driver is not None:
            return
        stepper.start(run.starting.pop(0))
