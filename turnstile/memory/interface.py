"""What a handler may ask of its session's working memory: the `ctx.memory` of `handlers.handler.Context`. Pure.

    visitor = await ctx.memory.get("visitor", kind="fact")
    await ctx.memory.set("draft", text, context="letter", priority=8, tags=("unsent",))

Items of the durable kinds (`memory.kinds.KINDS`) are as safe as the turn itself. All others are a cache: they end with their
time to live, and may be gone at any moment before. With Redis away they are not found and not kept, and nothing is raised.

Every call raises ValueError for what it can't take, and those that write raise SupersededError when the turn has gone to
another worker; of durable items nothing is written then.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from turnstile.memory.item import Item, Write, Written
from turnstile.memory.kinds import LOWEST_PRIORITY, NEUTRAL_PRIORITY

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A hint that something has changed (H4). Some are never told: they carry no work."""

    of: str
    """`item` or `context`."""
    event: str
    """`created`, `updated`, `deleted`, `expired` (told by whoever notices) or `evicted`."""
    kind: str | None
    """Of an item."""
    name: str
    """The item's key, or the context's name."""
    version: int | None


class Memory(Protocol):
    """One session's working memory, for the turn under way."""

    async def get(self, key: str, *, kind: str = "item") -> Item | None:
        """The item, if it is (still) there."""
        ...

    async def get_many(self, keys: Collection[str], *, kind: str = "item") -> Mapping[str, Item]:
        """Those of the items that are there, by key, in one round trip."""
        ...

    async def set(
        self,
        key: str,
        value: Any,
        *,
        kind: str = "item",
        context: str | None = None,
        priority: int = NEUTRAL_PRIORITY,
        ttl: float | None = None,
        tags: Collection[str] = (),
        metadata: Mapping[str, Any] = NOTHING,
        expected_version: int | None = None,
    ) -> Written:
        """Keeps a JSON value of up to 100 KB for `ttl` seconds (in the bounds of its kind), or as long as its kind usually lives.

        With `expected_version` only if that is the item's version (H8); 0: only if there is none. Raises MemoryFullError.
        """
        ...

    async def set_many(self, writes: Sequence[Write]) -> Sequence[Written]:
        """Several in one round trip (H9), each key once; answers in their order. Raises MemoryFullError."""
        ...

    async def delete(self, key: str, *, kind: str = "item", expected_version: int | None = None) -> bool:
        """Whether the item was there, with that version if one was given, and is no more."""
        ...

    async def find(
        self,
        *,
        kind: str | None = None,
        context: str | None = None,
        tag: str | None = None,
        min_priority: int = LOWEST_PRIORITY,
        limit: int = 50,
    ) -> Sequence[Item]:
        """The items that fit all of it, the most important first, among equals the latest first (H2)."""
        ...

    async def invalidate(
        self,
        *,
        kind: str | None = None,
        context: str | None = None,
        tag: str | None = None,
        before_version: int | None = None,
    ) -> int:
        """Deletes all items that fit (R1), and says how many. With `before_version`, which needs a kind: only the older ones."""
        ...

    async def open_context(self, name: str, *, ttl: float | None = None) -> bool:
        """A context that ends `ttl` seconds after something in it was last read or written (H3). False if Redis is away.

        A write into a context opens it too, for the usual time.
        """
        ...

    async def end_context(self, name: str) -> int:
        """Ends a context and deletes its items; says how many there were."""
        ...

    async def contexts(self) -> Mapping[str, float]:
        """The active contexts, and the seconds that are left to each."""
        ...

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[MemoryChange]]:
        """Changes from now on, whoever makes them. Ends when Redis goes away."""
        ...
