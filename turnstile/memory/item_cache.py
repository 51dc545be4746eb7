"""The items that are not durable, and all contexts, in Redis: one script and one round trip per call. While Redis is away, a call
returns None or a false value. Any item may vanish at any moment.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import script
from turnstile.config.settings import Settings
from turnstile.errors import ContentsUnreadableError, SupersededError
from turnstile.memory import session_scripts
from turnstile.memory.changes import subscribed
from turnstile.memory.durable_items import Change
from turnstile.memory.interface import MemoryChange
from turnstile.memory.item import MAX_ITEMS, Item, Place, Query, Write
from turnstile.memory.kinds import CONTEXT_LIFETIME, LOW_PRIORITY, Kind, Pressure
from turnstile.sealing.contents import PLAIN, Contents
from turnstile.sealing.place import Place as SealedPlace
from turnstile.sealing.place import item_column
from turnstile.telemetry.own_log import log

NO_ROOM = -1
"""In place of a version: the session has reached its limit of items."""
CONFLICT = 0
"""In place of a version: the item's version was not the expected one."""

_SEPARATOR = "\x1f"
"""Separates labels: no name may contain it."""
_CONTEXT_MILLISECONDS = int(CONTEXT_LIFETIME.usual * 1000)
"""The time to live of a context that a write opens."""


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The keys of a session's memory. The hash tag keeps them in one slot of a cluster."""

    prefix: str
    tenant_id: str
    session_id: str
    fence: int
    """The fence of the calling turn: it can't write after a call with a higher fence."""

    @property
    def stem(self) -> str:
        return f"{self.prefix}memory:{{{self.tenant_id}/{self.session_id}}}"

    def place(self, kind: str, key: str) -> SealedPlace:
        """What the seal of an item is bound to."""
        return SealedPlace(self.tenant_id, self.session_id, None, item_column(kind, key))

    @property
    def keys(self) -> list[str]:
        """The keys in the order that the scripts expect."""
        return [f"{self.stem}:{name}" for name in ("heads", "values", "contexts", "state")]

    @property
    def channel(self) -> str:
        return f"{self.stem}:changes"


class ItemCache:
    """All Redis calls about items and contexts. One per process."""

    def __init__(
        self,
        settings: Settings,
        redis: GuardedRedis,
        pressure: Callable[[], Pressure] = lambda: Pressure.NONE,
        contents: Contents = PLAIN,
    ) -> None:
        self._redis = redis
        self._contents = contents
        self._prefix = settings.redis_prefix
        self.pressure = pressure
        """How full Redis is, as the memory watch last saw it."""

    def session(self, tenant_id: str, session_id: str, fence: int) -> SessionKeys:
        return SessionKeys(self._prefix, tenant_id, session_id, fence)

    async def read(self, session: SessionKeys, places: Sequence[Place]) -> list[Item]:
        """Those of the items that are here. Extends their contexts."""
        return self._found(session, await self._run(session_scripts.READ, session, *(place.field for place in places)))

    async def find(self, session: SessionKeys, query: Query, limit: int) -> list[Item]:
        """The matching items, the most important first. Extends the contexts of these items."""
        asked = (("kind", query.kind), ("context", query.context), ("tag", query.tag))
        labels = [_labels([f"{what}:{name}"]) for what, name in asked if name is not None]
        found = await self._run(session_scripts.FIND, session, limit, query.min_priority, *labels)
        return self._found(session, found)

    async def write(self, session: SessionKeys, writes: Sequence[Write]) -> list[int] | None:
        """Writes items that are not durable; returns for each its version, CONFLICT or NO_ROOM. Raises SupersededError."""
        pressure = self.pressure()
        shed_up_to = LOW_PRIORITY if pressure is Pressure.CRITICAL else 0
        arguments = [
            argument
            for write in writes
            for argument in (
                write.place.field,
                _or_empty(write.expected_version),
                int(write.seconds(pressure) * 1000),
                f"{write.priority} {_labels_of(write.place.kind, write.context, write.tags)}",
                self._contents.seal(write.text, session.place(write.kind, write.key)),
            )
        ]
        return await self._change(
            session_scripts.WRITE, session, MAX_ITEMS, shed_up_to, _CONTEXT_MILLISECONDS, *arguments
        )

    async def delete(self, session: SessionKeys, places: Sequence[tuple[Place, int | None]]) -> list[int] | None:
        """Deletes items that are not durable, if their version is the given one (None: any); returns 1 for each that was there.

        Raises SupersededError.
        """
        arguments = [argument for place, expected in places for argument in (place.field, _or_empty(expected))]
        return await self._change(session_scripts.DELETE, session, *arguments)

    async def follow(self, session: SessionKeys, changes: Sequence[Change]) -> None:
        """Publishes changes of durable items; opens or extends their contexts."""
        if not changes:
            return
        arguments = [
            argument
            for change in changes
            for argument in (change.context or "", change.event, change.place.field, change.version)
        ]
        await self._run(session_scripts.FOLLOW, session, _CONTEXT_MILLISECONDS, *arguments)

    async def extend(self, session: SessionKeys, contexts: Collection[str]) -> None:
        """Extends those contexts that are open: durable items in them were read."""
        arguments = [argument for context in contexts for argument in (context, "", "", "")]
        await self._run(session_scripts.FOLLOW, session, "", *arguments)

    async def open_context(self, session: SessionKeys, name: str, seconds: float) -> bool:
        """Gives a context its own time to live, which restarts with each use. Raises SupersededError."""
        return await self._change(session_scripts.OPEN_CONTEXT, session, name, int(seconds * 1000)) is not None

    async def end_context(self, session: SessionKeys, name: str) -> None:
        """Ends a context. Raises SupersededError."""
        await self._change(session_scripts.END_CONTEXT, session, name)

    async def contexts(self, session: SessionKeys) -> dict[str, float]:
        answer = await self._run(session_scripts.LIST_CONTEXTS, session) or []
        return {name: int(left) / 1000 for name, left in zip(answer[::2], answer[1::2], strict=True)}

    def changes(self, session: SessionKeys) -> AbstractAsyncContextManager[AsyncIterator[MemoryChange]]:
        return subscribed(self._redis, session.channel)

    async def _change(self, text: str, session: SessionKeys, *arguments: str | int) -> list[int] | None:
        answer = await self._run(text, session, session.fence, *arguments)
        if answer is None:
            return None
        superseded, *results = answer
        if superseded:
            raise SupersededError
        return [int(result) for result in results]

    async def _run(self, text: str, session: SessionKeys, *arguments: str | int) -> Any:
        answers = await self._redis.run([script(text, session.keys, session.channel, *arguments)])
        return None if answers is None or isinstance(answers[0], Exception) else answers[0]

    def _found(self, session: SessionKeys, answer: list[str] | None) -> list[Item]:
        now, *values = answer or ["0"]
        found = []
        for field, head, stored in zip(values[::3], values[1::3], values[2::3], strict=False):
            kind, _, key = field.partition(":")
            try:
                text = self._contents.open_sealed(stored, session.place(kind, key))
                found.append(_item(int(now), kind, key, head, text))
            except (
                ContentsUnreadableError, ValueError, TypeError, OverflowError, OSError, RecursionError,
            ) as error:  # fmt: skip
                # Of another version of this program, or of no worker. Any item may vanish: this one has.
                log.warning("memory.unreadable", error=type(error).__name__)
        return found


def _item(now: int, kind: str, key: str, head: str, text: str) -> Item:
    ends, version, created, updated, priority, labels = head.split(" ", 5)
    pairs = [label.partition(":")[::2] for label in labels.split(_SEPARATOR)]
    return Item(
        key=key,
        kind=kind,
        text=text,
        context=dict(pairs).get("context"),
        priority=int(priority),
        tags=frozenset(name for what, name in pairs if what == "tag"),
        version=int(version),
        created_at=_time(created),
        updated_at=_time(updated),
        expires_in_seconds=(int(ends) - now) / 1000,
    )


def _labels_of(kind: Kind, context: str | None, tags: Collection[str]) -> str:
    contexts = [] if context is None else [f"context:{context}"]
    return _labels([f"kind:{kind.name}", *(f"tag:{tag}" for tag in tags), *contexts])


def _labels(labels: Sequence[str]) -> str:
    return _SEPARATOR.join(["", *labels, ""])


def _or_empty(value: int | None) -> str | int:
    return "" if value is None else value


def _time(milliseconds: str) -> datetime:
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
