"""A session's working memory as its handlers use it: the `ctx.memory` of `handlers.handler.Context`. Pure.

    visitor = await ctx.memory.get("visitor", kind="fact")
    await ctx.memory.set("draft", text, context="letter", priority=8, tags=("unsent",))

Items of the durable kinds (`memory.kinds.KINDS`) are as safe as the turn itself; each read of them is a query. All others are a
cache: they end with their time to live, and may vanish at any moment before. While Redis is away they are neither found nor kept,
and no error is raised.

Every call raises ValueError for invalid arguments. Calls that write raise SupersededError if another worker has taken over
the turn; then no durable item is written.
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
    """A hint about a change. Hints may get lost: no work depends on them."""

    of: str
    """`item` or `context`."""
    event: str
    """`created`, `updated`, `deleted`, `evicted`; or `expired`, from the next script that notices, and for no durable item."""
    kind: str | None
    """The kind of an item; None for a context."""
    name: str
    """The item's key, or the context's name."""
    version: int | None


class Memory(Protocol):
    """One session's working memory, for the turn under way."""

    async def get(self, key: str, *, kind: str = "item") -> Item | None:
        """The item; None if it is not there (any more)."""
        return (await self.get_many([key], kind=kind)).get(key)

    async def get_many(self, keys: Collection[str], *, kind: str = "item") -> Mapping[str, Item]:
        """The items that are there, by key, in one round trip."""
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
        """Keeps a JSON value of up to 100 KB for `ttl` seconds (in the bounds of its kind), by default for the kind's usual time.

        `expected_version`: writes only if the item has this version; 0: only if there is none. Raises MemoryFullError.
        """
        write = Write(
            key=key,
            value=value,
            kind=kind,
            context=context,
            priority=priority,
            ttl=ttl,
            tags=tags,
            metadata=metadata,
            expected_version=expected_version,
        )
        return (await self.set_many([write]))[0]

    async def set_many(self, writes: Sequence[Write]) -> Sequence[Written]:
        """Several writes in one round trip, each key once; the results have their order. Raises MemoryFullError."""
        ...

    async def delete(self, key: str, *, kind: str = "item", expected_version: int | None = None) -> bool:
        """Deletes an item. True if it was there, with `expected_version` if one is given."""
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
        """The items that match all arguments, the most important first, among equals the latest first."""
        ...

    async def invalidate(
        self,
        *,
        kind: str | None = None,
        context: str | None = None,
        tag: str | None = None,
        before_version: int | None = None,
    ) -> int:
        """Deletes all matching items, returns their number. `before_version`, which needs a kind: only older versions."""
        ...

    async def open_context(self, name: str, *, ttl: float | None = None) -> bool:
        """Opens a context, which ends `ttl` seconds after the last read or write of an item in it. False if Redis is away.

        A write into a context opens it too, for the usual time.
        """
        ...

    async def end_context(self, name: str) -> int:
        """Ends a context and deletes its items; returns their number."""
        ...

    async def contexts(self) -> Mapping[str, float]:
        """The active contexts, each with its remaining seconds."""
        ...

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[MemoryChange]]:
        """Changes from now on, by any writer. Ends when the connection to Redis is lost."""
        ...
