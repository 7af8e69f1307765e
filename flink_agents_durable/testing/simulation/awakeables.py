"""A world with awakeables: a second source, from which resolutions come early, late, twice, and again."""

from __future__ import annotations

from typing import Any

from flink_agents_durable.engine.records import AWAKENED, decode_record
from flink_agents_durable.testing.simulation.attempt import Attempt
from flink_agents_durable.testing.simulation.checkpoints import CheckpointImage
from flink_agents_durable.testing.simulation.stage import _counts
from flink_agents_durable.testing.simulation.world import Move, World

Answer = tuple[Any, str, Any]
"""Key, id and value of one element."""


class AwakeableWorld(World):
    """Actions ask by `ask` and report what they got by `answered`.

    Whoever is asked answers each id once or twice, with different values. What was answered stays in its stream,
    which is read again from the offset of the checkpoint, whatever the inputs do.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.answers: list[Answer] = []
        self._given: dict[str, list[Any]] = {}
        self._offset = 0
        self._offsets: dict[int, int] = {}  # by checkpoint
        self._durable: set[tuple[str, bytes]] = set()
        super().__init__(*args, **kwargs)

    # --- what agents under simulation use ---

    def ask(self, ctx: Any, id: str) -> None:
        """An action makes an id known; it may be answered from now on."""
        if id in self._given:
            return
        self._given[id] = [f"answer {number} to {id}" for number in range(1, self.random.randint(1, 2) + 1)]
        self.answers += [(ctx.key, id, value) for value in self._given[id]]

    def answered(self, ctx: Any, place: str, id: str, value: Any) -> None:
        """An action got an answer: the first to its own question, the same on every attempt, and durable."""
        if not _counts(ctx):
            return
        if value != self._given[id][0]:
            self.violation(f"at {place!r} the action got {value!r}, and the first one for {id} was another")
        if self.store_durable and (id, self.codec.dumps(value)) not in self._durable:
            self.violation(f"at {place!r} the action saw {value!r}, which is not durable")
        self.observe(ctx, place, value)

    # --- the second source ---

    def append(self, attempt: Attempt, batch: list[tuple[int, bytes]]) -> int:
        before = attempt.log.end
        end = super().append(attempt, batch)
        if end != before:
            for _, data in batch:
                record = decode_record(data)
                if record.kind == AWAKENED:
                    self._durable.add((record.function_id, record.payload))
        return end

    def _add_moves(self, choices: list[tuple[Move, Attempt]], attempt: Attempt) -> None:
        super()._add_moves(choices, attempt)
        if self._offset < len(self.answers) and self.groups[self.answers[self._offset][0]] in attempt.groups:
            choices.append((self._answer, attempt))

    def _answer(self, attempt: Attempt) -> None:
        key, id, value = self.answers[self._offset]
        self._offset += 1
        self.history.append(("[{}] resolution {}", attempt.number, value))
        payload = self.codec.inputs.dumps((id, value, None))
        attempt.engine.awaken(self.encoded[key], self.groups[key], payload, self.now)

    def _snapshot(self) -> CheckpointImage:
        image = super()._snapshot()
        self._offsets[image.id] = self._offset
        return image

    def _restart(self, failed: Attempt | None, zombies: float | None = None) -> None:
        super()._restart(failed, zombies)
        self._offset = self._offsets[self.checkpoints[-1].id] if self.checkpoints else 0
