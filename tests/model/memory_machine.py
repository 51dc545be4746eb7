"""The Hypothesis machine of the working memory: random calls and accidents, compared with a plain dict and a clock.

The dict knows what was kept, with which version, and when it ends. A flush takes from it all that is not durable.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.memory.session_memory import Room
from turnstile.errors import SupersededError
from turnstile.memory.item import MAX_ITEMS, Item, Verdict, Write
from turnstile.memory.kinds import KINDS, Pressure, time_to_live

KEYS = st.sampled_from("abc")
KIND_NAMES = st.sampled_from(["item", "state", "fact", "fact"])
TAGS = st.sets(st.sampled_from(["t", "u"]), max_size=2)
CONTEXTS = st.none() | st.sampled_from(["one", "two"])
PRIORITIES = st.integers(1, 10)
TIMES = st.none() | st.sampled_from([1.0, 90.0, 4000.0, 100_000.0])
EXPECTED = st.sampled_from(["any", "any", "any", "present", "present", "none", "other"])
SLACK_SECONDS = 20.0
"""Real time goes on during an example: what ends within so little of now may be there or not, and is not looked at."""

Answer = TypeVar("Answer")


@dataclass
class Kept:
    """What an item should be."""

    value: int
    version: int
    context: str | None
    priority: int
    tags: frozenset[str]
    ends_at: float


class MemoryMachine(RuleBasedStateMachine):
    """Subclassed by its test, which sets `runner` and `room`."""

    runner: asyncio.Runner
    room: Room

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._kept: dict[tuple[str, str], Kept] = {}
        self._versions: dict[tuple[str, str], int] = {}
        self._number = 0

    def _run(self, call: Awaitable[Answer]) -> Answer:
        async def awaited() -> Answer:
            return await call

        return self.runner.run(awaited())

    @initialize()
    def begin(self) -> None:
        self._run(self.room.start_over())

    def _alive(self) -> dict[tuple[str, str], Kept]:
        return {place: kept for place, kept in self._kept.items() if kept.ends_at > self._now}

    # --- calls

    @rule(key=KEYS, kind=KIND_NAMES, context=CONTEXTS, priority=PRIORITIES, tags=TAGS, ttl=TIMES, expected=EXPECTED)
    def write(self, key: str, kind: str, expected: str, ttl: float | None, **fields: Any) -> None:
        self._number += 1
        present = self._alive().get((kind, key))
        version = self._version_meant(expected, present)
        write = Write(key=key, kind=kind, value=self._number, ttl=ttl, expected_version=version, **fields)

        written = self._run(self.room.memory.set_many([write]))[0]

        fits = version is None or version == (present.version if present else 0)
        assert written.verdict is (Verdict.KEPT if fits else Verdict.CONFLICT)
        if fits:
            self._note(write, written.version)

    @rule(kind=KIND_NAMES, keys=st.sets(KEYS, min_size=1), priority=PRIORITIES, tags=TAGS)
    def write_many(self, kind: str, keys: set[str], **fields: Any) -> None:
        self._number += 1
        writes = [Write(key=key, kind=kind, value=self._number, **fields) for key in sorted(keys)]

        for write, written in zip(writes, self._run(self.room.memory.set_many(writes)), strict=True):
            assert written
            self._note(write, written.version)

    def _note(self, write: Write, version: int) -> None:
        place = (write.kind, write.key)
        assert version > self._versions.get(place, 0)
        self._versions[place] = version
        seconds = time_to_live(KINDS[write.kind], write.ttl, write.priority, Pressure.NONE)
        self._kept[place] = Kept(
            write.value, version, write.context, write.priority, frozenset(write.tags), self._now + seconds
        )

    @rule(key=KEYS, kind=KIND_NAMES, expected=EXPECTED)
    def delete(self, key: str, kind: str, expected: str) -> None:
        present = self._alive().get((kind, key))
        version = self._version_meant(expected, present)

        deleted = self._run(self.room.memory.delete(key, kind=kind, expected_version=version))

        assert deleted is (present is not None and version in (None, present.version))
        if deleted:
            del self._kept[kind, key]

    def _version_meant(self, expected: str, present: Kept | None) -> int | None:
        match expected:
            case "present":
                return present.version if present else 0
            case "none":
                return 0
            case "other":
                return present.version + 1 if present else 7
        return None

    @rule(tag=st.sampled_from(["t", "u"]), kind=st.none() | KIND_NAMES)
    def invalidate(self, tag: str, kind: str | None) -> None:
        hit = [place for place, kept in self._alive().items() if tag in kept.tags and kind in (None, place[0])]

        assert self._run(self.room.memory.invalidate(tag=tag, kind=kind)) == len(hit)

        for place in hit:
            del self._kept[place]

    @rule(kind=st.none() | KIND_NAMES, context=CONTEXTS, tag=st.none() | st.sampled_from(["t", "u"]), least=PRIORITIES)
    def find(self, kind: str | None, context: str | None, tag: str | None, least: int) -> None:
        found = self._run(self.room.memory.find(kind=kind, context=context, tag=tag, min_priority=least))

        assert {(item.kind, item.key) for item in found} == {
            place
            for place, kept in self._alive().items()
            if kind in (None, place[0])
            and context in (None, kept.context)
            and (tag is None or tag in kept.tags)
            and kept.priority >= least
        }
        assert [item.priority for item in found] == sorted((item.priority for item in found), reverse=True)

    # --- what comes from outside

    @rule(seconds=st.sampled_from([1.0, 61.0, 1000.0, 4100.0, 90_000.0]))
    def pass_time(self, seconds: float) -> None:
        # Not so near to an end that the test's own time decides.
        while any(abs(kept.ends_at - self._now - seconds) < SLACK_SECONDS for kept in self._kept.values()):
            seconds += SLACK_SECONDS
        self._now += seconds
        self._run(self.room.pass_time(seconds))

    @rule()
    def flush(self) -> None:
        self._run(self.room.forget())
        self._kept = {place: kept for place, kept in self._kept.items() if KINDS[place[0]].durable}

    @rule()
    def go_on_to_the_next_turn(self) -> None:
        self._run(self.room.go_on())

    @rule(key=KEYS)
    def write_without_redis(self, key: str) -> None:
        """A durable write of a worker that does not reach Redis: the items in Redis are behind from now on."""
        self._number += 1
        write = Write(key=key, kind="fact", value=self._number)

        [written] = self._run(self.room.cut_off().set_many([write]))

        assert written
        self._note(write, written.version)
        # It knows of its own write; the others learn of it with their claim.
        self._run(self.room.go_on())

    @rule(key=KEYS)
    def write_after_a_takeover(self, key: str) -> None:
        stale = self.room.memory
        self._run(self.room.take_over())
        try:
            self._run(stale.set(key, -1, kind="fact"))
        except SupersededError:
            return
        raise AssertionError("a superseded turn has written")

    # --- what must hold

    @invariant()
    def what_is_found_is_what_was_kept(self) -> None:
        expected = self._alive()
        found = {(item.kind, item.key): item for item in self._run(self.room.memory.find(limit=MAX_ITEMS))}

        assert {place: _seen(item) for place, item in found.items()} == {
            place: (kept.value, kept.version, kept.context, kept.priority, kept.tags)
            for place, kept in expected.items()
        }
        for place, item in found.items():
            assert abs(self._now + item.expires_in_seconds - expected[place].ends_at) < SLACK_SECONDS
        for kind in ("item", "state", "fact"):
            by_key = self._run(self.room.memory.get_many("abc", kind=kind))
            assert {(kind, key): _seen(item) for key, item in by_key.items()} == {
                place: _seen(item) for place, item in found.items() if place[0] == kind
            }
        assert not self._run(self.room.half_items())


def _seen(item: Item) -> tuple[Any, ...]:
    return item.value, item.version, item.context, item.priority, item.tags
