"""A session's working memory for the handler of one turn: `ctx.memory`.

Items of durable kinds are in Postgres, and are written under the turn's fence. All others are in Redis.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import uuid4

from turnstile.backends.postgres.database import Database
from turnstile.memory.durable_items import MAX_ITEMS as MAX_DURABLE_ITEMS
from turnstile.memory.durable_items import Change, delete_items, read_items, write_items
from turnstile.memory.interface import Memory, MemoryChange
from turnstile.memory.item import (
    MAX_BATCH,
    MAX_ITEMS,
    Item,
    MemoryFullError,
    Place,
    Query,
    Verdict,
    Write,
    Written,
    check_limit,
    check_name,
    in_order,
)
from turnstile.memory.item_cache import CONFLICT, NO_ROOM, ItemCache
from turnstile.memory.kinds import CONTEXT_LIFETIME, LOWEST_PRIORITY, Pressure, find_kind, is_shed
from turnstile.telemetry.metrics import MEMORY_WRITES_CUT
from turnstile.turn.claimed_turn import ClaimedTurn

RetryWhileDown = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""Repeats a call while the database is away."""


class WorkingMemory(Memory):
    """For one attempt."""

    def __init__(
        self, cache: ItemCache, database: Database, turn: ClaimedTurn, retry_while_down: RetryWhileDown
    ) -> None:
        self._cache = cache
        self._database = database
        self._turn = turn
        self._retry_while_down = retry_while_down
        self._session = cache.session(turn.tenant_id, turn.session_id, turn.fence)

    # --- reading

    async def get_many(self, keys: Collection[str], *, kind: str = "item") -> Mapping[str, Item]:
        check_limit("keys", len(keys), MAX_BATCH)
        for key in keys:
            check_name("key", key)
        if not keys:
            return {}
        if find_kind(kind).durable:
            items = await self._read_durable(Query(kind=kind), keys)
        else:
            items = await self._cache.read(self._session, [Place(find_kind(kind), key) for key in keys])
        return {item.key: item for item in items}

    async def find(
        self,
        *,
        kind: str | None = None,
        context: str | None = None,
        tag: str | None = None,
        min_priority: int = LOWEST_PRIORITY,
        limit: int = 50,
    ) -> Sequence[Item]:
        check_limit("limit", limit, MAX_ITEMS)
        return await self._find(Query(kind=kind, context=context, tag=tag, min_priority=min_priority), limit)

    async def _find(self, query: Query, limit: int) -> Sequence[Item]:
        found: list[Item] = []
        if query.kind is None or not find_kind(query.kind).durable:
            found += await self._cache.find(self._session, query, limit)
        if query.kind is None or find_kind(query.kind).durable:
            found += await self._read_durable(query)
        return in_order(found)[:limit]

    async def _read_durable(self, query: Query, keys: Collection[str] | None = None) -> list[Item]:
        turn = self._turn
        items: list[Item] = await self._retry_while_down(
            lambda: read_items(self._database, turn.tenant_id, turn.session_id, keys)
        )
        found = [item for item in items if query.fits(item)]
        if contexts := {item.context for item in found if item.context is not None}:
            await self._cache.extend(self._session, contexts)
        return found

    # --- writing

    async def set_many(self, writes: Sequence[Write]) -> Sequence[Written]:
        check_limit("writes", len(writes), MAX_BATCH)
        if len({write.place for write in writes}) < len(writes):
            raise ValueError("each key may be written only once in a batch")
        durable = [write for write in writes if write.place.kind.durable]
        volatile = [write for write in writes if not write.place.kind.durable]
        answers: dict[Place, Written] = {}
        if durable:
            answers |= await self._record(durable)
        if volatile:
            answers |= await self._keep(volatile)
        return [answers[write.place] for write in writes]

    async def _record(self, writes: Sequence[Write]) -> dict[Place, Written]:
        # One for all tries: a repeated call finds the writes of the first one.
        write_id = uuid4()
        changes = await self._retry_while_down(lambda: write_items(self._database, self._turn, writes, write_id))
        await self._cache.follow(self._session, changes)
        versions = {change.place: change.version for change in changes}
        return {write.place: _written(versions.get(write.place, CONFLICT)) for write in writes}

    async def _keep(self, writes: Sequence[Write]) -> dict[Place, Written]:
        pressure = self._cache.pressure()
        if pressure is not Pressure.NONE:
            low = [write for write in writes if is_shed(write.place.kind, write.priority, Pressure.CRITICAL)]
            MEMORY_WRITES_CUT.add(len(low), pressure.name.lower())
        kept = [write for write in writes if not is_shed(write.place.kind, write.priority, pressure)]
        versions = await self._cache.write(self._session, kept)
        answers = {write.place: Written(Verdict.NOT_KEPT) for write in writes}
        for write, version in zip(kept, versions or (), strict=versions is not None):
            answers[write.place] = _written(version)
        if versions and NO_ROOM in versions:
            keys = ", ".join(write.key for write, version in zip(kept, versions, strict=True) if version == NO_ROOM)
            raise MemoryFullError(f"the session has {MAX_ITEMS} items already; not kept: {keys:.200}")
        return answers

    # --- deleting

    async def delete(self, key: str, *, kind: str = "item", expected_version: int | None = None) -> bool:
        check_name("key", key)
        return bool(await self._delete([(Place(find_kind(kind), key), expected_version)]))

    async def invalidate(
        self,
        *,
        kind: str | None = None,
        context: str | None = None,
        tag: str | None = None,
        before_version: int | None = None,
    ) -> int:
        if before_version is not None and kind is None:
            raise ValueError("before_version needs a kind: versions of different kinds are not to be compared")
        # The most that a session can have.
        items = await self._find(Query(kind=kind, context=context, tag=tag), MAX_ITEMS + MAX_DURABLE_ITEMS)
        # An item that is written between the read and the deletion stays: it has another version.
        return await self._delete(
            [
                (Place(find_kind(item.kind), item.key), item.version)
                for item in items
                if before_version is None or item.version < before_version
            ]
        )

    async def _delete(self, places: Sequence[tuple[Place, int | None]]) -> int:
        durable = [pair for pair in places if pair[0].kind.durable]
        volatile = [pair for pair in places if not pair[0].kind.durable]
        changes: list[Change] = []
        if durable:
            write_id = uuid4()
            changes = await self._retry_while_down(lambda: delete_items(self._database, self._turn, durable, write_id))
            await self._cache.follow(self._session, changes)
        gone = await self._cache.delete(self._session, volatile) if volatile else None
        return len(changes) + sum(gone or ())

    # --- contexts

    async def open_context(self, name: str, *, ttl: float | None = None) -> bool:
        check_name("context", name)
        return await self._cache.open_context(self._session, name, CONTEXT_LIFETIME.chosen(ttl))

    async def end_context(self, name: str) -> int:
        check_name("context", name)
        deleted = await self.invalidate(context=name)
        await self._cache.end_context(self._session, name)
        return deleted

    async def contexts(self) -> Mapping[str, float]:
        return await self._cache.contexts(self._session)

    # --- changes

    def changes(self) -> AbstractAsyncContextManager[AsyncIterator[MemoryChange]]:
        return self._cache.changes(self._session)


def _written(version: int) -> Written:
    return Written(Verdict.CONFLICT) if version == CONFLICT else Written(Verdict.KEPT, version)
