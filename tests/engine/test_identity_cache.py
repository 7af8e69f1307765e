from __future__ import annotations

import gc
import weakref

from flink_agents_durable.engine.identity_cache import IdentityCache


class Thing:
    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = None  # type: ignore[assignment]


def test_remembers_by_identity() -> None:
    cache: IdentityCache[str] = IdentityCache()
    one, other = Thing(), Thing()
    cache.put(one, "one")
    assert cache.get(one) == "one"
    assert cache.get(other) is None


def test_forgets_with_the_object() -> None:
    cache: IdentityCache[str] = IdentityCache()
    thing = Thing()
    alive = weakref.ref(thing)
    cache.put(thing, "x")
    del thing
    gc.collect()
    assert alive() is None
    assert cache._entries == {}


def test_an_entry_at_a_reused_address_does_not_count() -> None:
    cache: IdentityCache[str] = IdentityCache()
    old, new = Thing(), Thing()
    cache.put(old, "old")
    cache._entries[id(new)] = cache._entries[id(old)]
    assert cache.get(new) is None


def test_what_has_no_weak_references_is_not_remembered() -> None:
    cache: IdentityCache[str] = IdentityCache()
    cache.put("text", "x")
    assert cache.get("text") is None
