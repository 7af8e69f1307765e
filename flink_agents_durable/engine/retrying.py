"""Attempts of durable calls: counting, waiting, and giving up.

A failed attempt that another one follows is one ATTEMPT record. Its back-off begins when the record is durable
and ends at the record's time plus the delay that it holds, so that a restart waits only for the rest (P11, P19).
During a back-off a call holds its slot and an entry among the timers, nothing else.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from flink_agents_durable.api.errors import CallTimeoutError
from flink_agents_durable.engine.attempts import (
    Attempts,
    Deadline,
    FailedAttempt,
    decode_attempt,
    encode_attempt,
)
from flink_agents_durable.engine.backoff import is_retried, wait_after
from flink_agents_durable.engine.failures import failure_text
from flink_agents_durable.engine.records import ATTEMPT, OUTCOME, Record
from flink_agents_durable.engine.reopening import remember
from flink_agents_durable.engine.run import BACKOFF, NEW, RECORDED, RUNNING, Run, Slot, drop_numbers

if TYPE_CHECKING:
    from flink_agents_durable.engine.engine import Engine
    from flink_agents_durable.engine.execution import Stepper
    from flink_agents_durable.engine.journal import Entry

logger = logging.getLogger(__name__)

MAX_TEXT = 1_000
"""Characters of a failure in an ATTEMPT record: its whole record comes with the last attempt only."""


class Retrying:
    """Keeps P19: only attempts that ran and failed count, and a failed one clears the doubt."""

    def __init__(self, engine: Engine, stepper: Stepper) -> None:
        self._engine = engine
        self._stepper = stepper

    # --- before an attempt ---

    def restore(self, slot: Slot, record: Record) -> None:
        """Go on behind the last failed attempt that was recorded."""
        image = decode_attempt(record)
        attempts = slot.attempts = Attempts()
        attempts.failed, attempts.last = image.failed, image.text
        attempts.resume_at = record.time + image.delay
        attempts.numbers = [record.number]
        if not self._engine.ports.store_durable:
            remember(slot.execution, record)

    def hold(self, slot: Slot) -> bool:
        """Whether an attempt cannot start yet, or any more; a timer or an outcome brings the call on."""
        attempts = self._prepare(slot)
        if attempts is None:
            return False
        if attempts.expires_at is not None and attempts.expires_at <= self._engine.now:
            self._expire(slot)
            return True
        if attempts.resume_at > self._engine.now:
            self._back_off(slot)
            self._engine.timers.arm(Deadline(slot, attempts.resume_at, total=False))
            return True
        return False

    def _prepare(self, slot: Slot) -> Attempts | None:
        """What is kept for the attempts of this call; its `total_timeout` runs from here on."""
        options = slot.spec.options
        if options.retry is None and options.total_timeout is None:
            return None
        attempts = slot.attempts
        if attempts is None:
            attempts = slot.attempts = Attempts()
        if options.total_timeout is not None and attempts.expires_at is None:
            begun = max(slot.spec.started, slot.execution.reopened.get(slot.index, 0))
            attempts.expires_at = begun + math.ceil(options.total_timeout_seconds * 1000)
            if slot.index in slot.execution.slots:  # a synchronous call is watched by the executor alone
                self._engine.timers.arm(Deadline(slot, attempts.expires_at, total=True))
        return attempts

    def time_left(self, slot: Slot, timeout: float | None) -> float | None:
        """How long the attempt that starts now may take, in seconds."""
        attempts = slot.attempts
        if attempts is None or attempts.expires_at is None:
            return timeout
        left = max(0.001, (attempts.expires_at - self._engine.now) / 1000)
        attempts.shortened = timeout is None or left < timeout
        return left if attempts.shortened else timeout

    # --- after an attempt ---

    def failed(self, slot: Slot, error: Any) -> None:
        """An attempt of an awaited call failed: another one follows, or the failure is recorded as the outcome."""
        delay, final = self._decide(slot, error)
        if final is None:
            self._record(slot, error, delay)
            self._back_off(slot)
            self._engine.recount(slot.execution.run.key)
        else:
            slot.state = RECORDED
            self._engine.write_outcome(OUTCOME, slot, False, final)
            self.settle(slot)
        if slot.batch is not None:
            self._stepper.start_next_of_batch(slot.batch)

    def _decide(self, slot: Slot, error: Any) -> tuple[int, BaseException | None]:
        """The delay before the next attempt in ms, or the failure that is final."""
        attempts, options = slot.attempts, slot.spec.options
        if attempts is None:
            return 0, error
        # A time-out says nothing about what became of the call, and a reconciler's failure is the outcome (R2).
        reconciled = slot.pending and slot.spec.reconciler is not None
        attempts.settled = not reconciled and not isinstance(error, CallTimeoutError)
        over = attempts.expires_at is not None and attempts.expires_at <= self._engine.now
        if (attempts.shortened or over) and isinstance(error, CallTimeoutError):
            return 0, self._too_late(slot)
        policy = options.retry
        attempt = attempts.failed + 1
        if policy is None or reconciled or attempt >= policy.max_attempts:
            return 0, error
        try:
            if not is_retried(policy, error):
                return 0, error
            wait = wait_after(policy, error, slot.execution.id, slot.index, attempt)
        except BaseException as raised:
            if isinstance(raised, (KeyboardInterrupt, SystemExit)):
                self._engine.ended = raised  # the attempt is over, with nothing recorded (I5)
                raise
            logger.exception(
                "%s: the retry policy raised when it was asked about a failure of attempt %d, which is final now",
                self._where(slot),
                attempt,
            )
            return 0, error
        delay = math.ceil(wait * 1000)
        if attempts.expires_at is not None and self._engine.now + delay >= attempts.expires_at:
            attempts.failed, attempts.last = attempt, failure_text(error, MAX_TEXT)
            late = self._too_late(slot)
            late.__cause__ = error
            return 0, late
        return delay, None

    def _record(self, slot: Slot, error: BaseException, delay: int) -> None:
        """Append the failed attempt: it counts, and the call is not in doubt any more. Keeps P19."""
        engine, attempts = self._engine, slot.attempts
        assert attempts is not None
        attempts.failed += 1
        attempts.last = failure_text(error, MAX_TEXT)
        slot.pending = False
        payload = encode_attempt(FailedAttempt(attempts.failed, delay, attempts.last))
        run = slot.execution.run
        entry = engine.journal.write(run, ATTEMPT, engine.now, slot, ok=False, payload=payload)
        attempts.resume_at = entry.time + delay
        engine.stats.calls_retried += 1
        logger.warning(
            "%s: attempt %d of %d failed with %s; the next one starts in %g s",
            self._where(slot),
            attempts.failed,
            slot.spec.options.retry.max_attempts,
            attempts.last,
            delay / 1000,
        )

    def settle(self, slot: Slot) -> None:
        """Behind a final failure: should it be reopened, the call is made again, not its reconciler (P14, P19)."""
        attempts, spec = slot.attempts, slot.spec
        if attempts is not None and attempts.settled and spec.options.retry and spec.reconciler is not None:
            payload = encode_attempt(FailedAttempt(attempts.failed, 0, attempts.last))
            run = slot.execution.run
            self._engine.journal.write(run, ATTEMPT, self._engine.now, slot, ok=False, payload=payload)

    def applied(self, entry: Entry) -> None:
        """A failed attempt is durable: its back-off begins, and what was recorded of earlier ones may go."""
        slot = entry.slot
        assert slot is not None
        attempts, execution = slot.attempts, slot.execution
        assert attempts is not None
        drop_numbers(execution.run, attempts.numbers)
        execution.numbers = [number for number in execution.numbers if number not in attempts.numbers]
        attempts.numbers = [entry.number]
        if slot.state == BACKOFF:
            self._engine.timers.arm(Deadline(slot, attempts.resume_at, total=False))

    # --- waiting ---

    def _back_off(self, slot: Slot) -> None:
        """From here on the call waits for time alone: it is not in flight, as a timer is not."""
        slot.state = BACKOFF
        slot.execution.run.open_calls -= 1

    def leave(self, slot: Slot) -> None:
        """The call waits no more, whatever comes now; the caller sets its new state."""
        slot.execution.run.open_calls += 1

    def due(self, deadline: Deadline) -> Run | None:
        """A back-off or a `total_timeout` has ended. Gives the run if it has to go on."""
        if deadline.state != RUNNING:
            return None  # what fired before it in this step has ended the call
        slot = deadline.slot
        run = slot.execution.run
        if deadline.total:
            self._expire(slot)
        else:
            self.leave(slot)
            slot.state = NEW
            run.fresh.append(slot)
        return run

    def _expire(self, slot: Slot) -> None:
        """The `total_timeout` is over: that is the outcome, whatever the call is doing (case 34)."""
        self._stepper.forget_call(slot)
        slot.state = RECORDED
        self._engine.write_outcome(OUTCOME, slot, False, self._too_late(slot))

    # --- synchronous calls ---

    def wait_for_turn(self, slot: Slot) -> BaseException | None:
        """Wait, interruptibly and without a worker, until an attempt may start; a failure if none may (P17)."""
        engine = self._engine
        attempts = self._prepare(slot)
        if attempts is None:
            return None
        while True:
            if attempts.expires_at is not None and attempts.expires_at <= engine.now:
                attempts.shortened = True  # to nothing
                return self._too_late(slot)
            if attempts.resume_at <= engine.now:
                return None
            engine.ports.wait_until(attempts.resume_at)
            engine.now = max(engine.now, engine.ports.now())

    def failed_blocking(self, slot: Slot, error: Any) -> BaseException | None:
        """The final failure of a synchronous call, or None if another attempt follows; then this one is durable."""
        delay, final = self._decide(slot, error)
        if final is not None:
            return final
        self._record(slot, error, delay)
        if self._engine.ports.store_durable:
            self._engine.journal.hand_over_and_wait()
            self._engine.waited()
        return None

    # --- texts ---

    def _where(self, slot: Slot) -> str:
        execution = slot.execution
        return (
            f"job {self._engine.services.job_name}, key {execution.run.key_object!r}, action"
            f" {execution.action.name}, durable call {slot.spec.function_id}"
        )

    def _too_late(self, slot: Slot) -> CallTimeoutError:
        attempts, options = slot.attempts, slot.spec.options
        assert attempts is not None
        failed = f"{attempts.failed} attempts failed, the last one with {attempts.last}"
        if attempts.failed <= 1:
            failed = f"one attempt failed, with {attempts.last}" if attempts.failed else "no attempt ended"
        return CallTimeoutError(
            f"the durable call {slot.spec.function_id} did not succeed within its total_timeout of"
            f" {options.total_timeout_seconds:g} s: {failed}"
        )
