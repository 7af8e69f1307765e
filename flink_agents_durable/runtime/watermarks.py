"""Holds watermarks and watermark status behind the inputs that came before them."""

from __future__ import annotations

Item = int | bool
"""A watermark (epoch milliseconds), or a status: True active, False idle. A bool is told by its type."""


class _Segment:
    """Inputs between two held items, and the items after them."""

    __slots__ = ("after", "before", "id", "items", "open")

    def __init__(self, id: int, before: _Segment | None) -> None:
        self.id = id
        self.before = before
        self.after: _Segment | None = None
        self.open = 0
        self.items: list[Item] = []


class WatermarkGate:
    """Watermarks and their status never overtake the inputs admitted before them. Keeps S8 and K4.

    With `hold=False` they pass at once. Memory is bounded by the unfinished inputs: items between which none
    is left are merged.
    """

    def __init__(self, hold: bool = True) -> None:
        self._hold = hold
        self._first = self._last = _Segment(0, None)
        self._segments = {0: self._first}
        self._ready: list[Item] = []

    def admit(self) -> int:
        """An input comes, or comes back with the snapshot (K4); gives its segment, for `done`."""
        self._last.open += 1
        return self._last.id

    def done(self, segment: int) -> None:
        """All that one input of this segment causes has happened."""
        found = self._segments.get(segment)
        if found is None:
            return
        if found.open > 0:
            found.open -= 1
        if found.open == 0 and found is not self._last:
            self._close(found)

    def watermark(self, timestamp: int) -> None:
        self._add(timestamp)

    def status(self, active: bool) -> None:
        self._add(active)

    def take(self) -> list[Item]:
        """What may be emitted now, in order."""
        if not self._ready:
            return []
        ready, self._ready = self._ready, []
        return ready

    @property
    def is_empty(self) -> bool:
        """Nothing is held."""
        return self._first is self._last and not self._first.items and not self._ready

    def _add(self, item: Item) -> None:
        if not self._hold or (self._first is self._last and self._first.open == 0):
            _push(self._ready, item)
        elif self._last.open > 0:
            self._last.items.append(item)
            self._open_next()
        else:
            before = self._last.before
            assert before is not None
            _push(before.items, item)  # no input since the last item: it belongs to the segment before

    def _open_next(self) -> None:
        following = _Segment(self._last.id + 1, self._last)
        self._last.after = following
        self._segments[following.id] = following
        self._last = following

    def _close(self, segment: _Segment) -> None:
        """Its inputs are done: its items go out, or join those of the segment before."""
        del self._segments[segment.id]
        before, after = segment.before, segment.after
        assert after is not None
        target = self._ready if before is None else before.items
        for item in segment.items:
            _push(target, item)
        after.before = before
        if before is not None:
            before.after = after
        else:
            self._first = after


def _push(items: list[Item], item: Item) -> None:
    """Append; of two watermarks, or two statuses, with nothing between them the later one says it all."""
    if items and isinstance(items[-1], bool) == isinstance(item, bool):
        items[-1] = item if isinstance(item, bool) else max(items[-1], item)
    else:
        items.append(item)
