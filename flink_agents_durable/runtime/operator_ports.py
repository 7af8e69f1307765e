"""The surroundings of the engine in a Flink task: `Ports` over executor, store, host and timer."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from flink_agents_durable.api.dead_letters import DeadLetter
from flink_agents_durable.api.errors import CallTimeoutError
from flink_agents_durable.engine.ports import INTERRUPTED, CallStart, Completion, StateEntry
from flink_agents_durable.runtime.action_thread import ActionThread
from flink_agents_durable.runtime.deferred_starts import DeferredStarts
from flink_agents_durable.runtime.durable_timer import DurableTimer, wall_clock
from flink_agents_durable.runtime.executor import CallExecutor
from flink_agents_durable.runtime.host import HostLink
from flink_agents_durable.runtime.loop_thread import Notifier
from flink_agents_durable.runtime.watermarks import WatermarkGate
from flink_agents_durable.store.protocol import ActionStateStore

Encode = Callable[[Any], bytes]


def pickled(output: object) -> bytes:
    """An output for a Python operator behind this one; classes of the submitted script go by value."""
    try:
        return pickle.dumps(output, protocol=5)
    except Exception:
        data: bytes = cloudpickle.dumps(output, protocol=5)
        return data


class StoreLink:
    """The action state store and the way of its acknowledgements.

    Writer thread -> loop thread, coalesced by one flag -> Java: the writer itself never calls Java.
    """

    def __init__(self, store: ActionStateStore, executor: CallExecutor, link: HostLink) -> None:
        self.store = store
        self.batches = 0
        """How many batches were handed over."""
        self._link = link
        self._waiting = False
        self._progress = Notifier(executor.thread, self._tell)

    def on_ack(self) -> None:
        """On the writer thread, after each commit and when the writer fails."""
        self._progress.notify()

    def append(self, records: list[tuple[int, bytes]]) -> None:
        self.batches += 1
        self.store.append(records)

    def append_and_wait(self, records: list[tuple[int, bytes]]) -> None:
        """Interruptible; an interruption, a fenced or a broken writer end the attempt."""
        self.append(records)
        self._waiting = True  # before the store looks, so that a later commit signals
        try:
            self.store.wait_acknowledged(self.batches, self._link.wait)
        finally:
            self._waiting = False

    def _tell(self) -> None:
        if self._waiting:
            self._link.signal()
        self._link.wake()  # also then: the acknowledgement still has to be applied


class OperatorPorts:
    """Implements `Ports`. Outputs gather in `items` until the entry point returns them."""

    def __init__(
        self,
        link: HostLink,
        executor: CallExecutor,
        store: StoreLink,
        timer: DurableTimer,
        gate: WatermarkGate,
        encode: Encode,
        actions: ActionThread,
    ) -> None:
        self.store_durable = store.store.durable
        self._store = store.store
        self.append = store.append
        self.append_and_wait = store.append_and_wait
        self.items: list[Any] = []
        self._link = link
        self._executor = executor
        self._timer = timer
        self._gate = gate
        self._encode = encode
        self._actions = actions
        self.has_blocked = False
        """Whether an action has made a synchronous call."""
        self._starts = DeferredStarts(executor, link.wake)
        self.start_calls = self._starts.add
        self.flush_starts = self._starts.flush

    @property
    def max_record_bytes(self) -> int | None:
        """Some stores know it only once they are open."""
        return self._store.max_record_bytes

    def cancel_calls(self, ids: list[int]) -> None:
        self._starts.flush()  # an executor that does not know a call yet cannot cancel it
        self._executor.cancel(ids)

    def run_blocking(self, call: CallStart, expires: int | None) -> Completion:
        self._starts.flush()
        self.has_blocked = True
        here = self._actions.is_current()
        wait = self._link.wait if expires is None else partial(self._wait_in_time, call.name, expires)
        completion = self._executor.run_blocking(call, wait, here and expires is None)
        if here and self._actions.interruption is not None:  # while the function ran (I4)
            return call.id, INTERRUPTED, self._actions.interruption
        return completion

    def _wait_in_time(self, name: str, expires: int) -> None:
        """Until the `total_timeout` is over, which a call that its limit holds back would not notice."""
        left = expires - wall_clock()
        if left <= 0:
            raise CallTimeoutError(f"the durable call {name} had no result when its total_timeout was over")
        self._link.wait(left / 1_000)

    def wait_until(self, when: int) -> None:
        self._link.wait(max(0.0, (when - wall_clock()) / 1_000))

    def emit(self, key: object, output: object, timestamp: int | None) -> None:
        self.items.append(self._encode(output))
        self.items.append(timestamp)

    def emit_dead_letter(self, letter: DeadLetter, timestamp: int | None) -> None:
        self.items.append((self._encode(letter), timestamp))  # a pair is for the side output

    def input_done(self, segment: int) -> None:
        self._gate.done(segment)
        self.items.extend(self._gate.take())  # here, so that the outputs of this input come first

    def admit_restored(self) -> int:
        return self._gate.admit()

    def now(self) -> int:
        return wall_clock()

    def set_timer(self, when: int | None) -> None:
        self._timer.set(when)

    def load_key(self, key: bytes) -> Sequence[StateEntry]:
        return self._link.load_key(key)

    def load_memory(self, key: bytes) -> Sequence[tuple[str, bytes]]:
        return self._link.load_memory(key)

    def take(self) -> list[Any]:
        """What may be emitted, in order: bytes and timestamp, pairs of them, watermarks, statuses."""
        self.items.extend(self._gate.take())
        items, self.items = self.items, []
        return items
