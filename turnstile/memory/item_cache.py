"""The working memory in Redis: one script and one round trip per call. While Redis is away, a call returns None or a false value.

Any item may be missing here: Postgres has the durable ones, all others may vanish.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from turnstile.backends.redis.client import script
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.settings import Settings
from turnstile.errors import SupersededError
from turnstile.memory import context_scripts, item_scripts
from turnstile.memory.changes import subscribed
from turnstile.memory.interface import MemoryChange
from turnstile.memory.item import (
    MAX_ITEMS,
    SEPARATOR,
    Item,
    Place,
    Query,
    Write,
    decode,
    encode,
    labels_of,
    read_labels,
)
from turnstile.memory.kinds import CONTEXT_LIFETIME, LOW_PRIORITY, Pressure, find_kind

VALUES_PER_ITEM = 7
"""Values for one item in the scripts' responses."""
NO_ROOM = -1
"""In place of a version: the session has reached its limit of items."""
CONFLICT = 0
"""In place of a version: the item's version was not the expected one."""


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The keys of a session's memory. The hash tag keeps them in one slot of a cluster."""

    stem: str
    fence: int
    """The fence of the calling turn: it can't write after a call with a higher fence."""

    @property
    def keys(self) -> list[str]:
        """The keys in the order that the scripts expect."""
        return [f"{self.stem}:{name}" for name in ("items", "values", "expiry", "index", "contexts", "state")]

    @property
    def channel(self) -> str:
        """The channel of the change events."""
        return f"{self.stem}:changes"


@dataclass(frozen=True, slots=True)
class Found:
    """The requested items that Redis has."""

    version: int
    """The session's version as of which its durable items are all here."""
    items: list[Item]


@dataclass(frozen=True, slots=True)
class Recorded:
    """The result of a durable write in Postgres, which the cache takes over."""

    version: int
    created_at: datetime
    expires_in_seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """The session's versions before and after a durable change."""

    before: int
    after: int


class ItemCache:
    """All Redis calls about items and contexts. One per process."""

    def __init__(
        self, settings: Settings, redis: Guarded, pressure: Callable[[], Pressure] = lambda: Pressure.NONE
    ) -> None:
        self._redis = redis
        self._prefix = settings.redis_prefix
        self._pressure = pressure

    @property
    def pressure(self) -> Pressure:
        """How full Redis is, as the memory watch last saw it."""
        return self._pressure()

    def session(self, tenant_id: str, session_id: str, fence: int) -> SessionKeys:
        """The keys of a session's memory."""
        return SessionKeys(f"{self._prefix}memory:{{{tenant_id}/{session_id}}}", fence)

    async def read(self, session: SessionKeys, places: Sequence[Place]) -> Found | None:
        """Those of the items that are here. Extends their contexts."""
        return _found(await self._run(item_scripts.READ, session, *(place.field for place in places)))

    async def find(self, session: SessionKeys, query: Query, limit: int) -> Found | None:
        """The matching items, the most important first. Extends the contexts of these items."""
        return _found(await self._run(item_scripts.FIND, session, limit, f"{query.min_priority:02d}", *query.labels))

    async def write(
        self, session: SessionKeys, writes: Sequence[Write], recorded: Sequence[Recorded] = (), step: Step | None = None
    ) -> list[int] | None:
        """Writes all; returns for each its version, CONFLICT or NO_ROOM. `recorded`: results of the same writes in Postgres.

        Raises SupersededError.
        """
        shed_up_to = LOW_PRIORITY if self.pressure is Pressure.CRITICAL else 0
        given: Sequence[Recorded | None] = recorded or [None] * len(writes)
        arguments = [
            argument
            for write, one in zip(writes, given, strict=True)
            for argument in _arguments(write, one, self.pressure)
        ]
        answer = await self._run(
            item_scripts.WRITE, session, session.fence, MAX_ITEMS, shed_up_to, *_span(step), *arguments
        )
        if answer is None:
            return None
        _refuse_superseded(answer[0])
        return [int(version) for version in answer[1:]]

    async def delete(
        self,
        session: SessionKeys,
        places: Sequence[tuple[Place, int | None]],
        recorded: Sequence[int] = (),
        step: Step | None = None,
    ) -> list[bool] | None:
        """Deletes items whose version is the given one (None: any); `recorded` are the versions of their deletion in Postgres.

        Raises SupersededError.
        """
        given: Sequence[int | None] = recorded or [None] * len(places)
        arguments = [
            argument
            for (place, expected), version in zip(places, given, strict=True)
            for argument in (place.field, _or_empty(expected), _or_empty(version))
        ]
        answer = await self._run(item_scripts.DELETE, session, session.fence, *_span(step), *arguments)
        if answer is None:
            return None
        _refuse_superseded(answer[0])
        return [bool(deleted) for deleted in answer[1:]]

    async def load(self, session: SessionKeys, version: int, items: Sequence[Item]) -> None:
        """Replaces all durable items of the session by those as of `version`."""
        arguments = [argument for item in items for argument in _stored(item)]
        await self._run(item_scripts.LOAD, session, version, *arguments)

    async def open_context(self, session: SessionKeys, name: str, seconds: float) -> bool:
        """Gives a context its own time to live, which restarts with each use. Raises SupersededError."""
        answer = await self._run(context_scripts.OPEN_CONTEXT, session, session.fence, name, int(seconds * 1000))
        if answer is not None:
            _refuse_superseded(answer)
        return answer is not None

    async def end_context(self, session: SessionKeys, name: str) -> bool:
        """Ends a context. True if there was one. Raises SupersededError."""
        answer = await self._run(context_scripts.END_CONTEXT, session, session.fence, name)
        if answer is not None:
            _refuse_superseded(answer)
        return bool(answer)

    async def contexts(self, session: SessionKeys) -> dict[str, float]:
        """The active contexts, each with its remaining seconds."""
        answer = await self._run(context_scripts.LIST_CONTEXTS, session) or []
        return {name: int(left) / 1000 for name, left in zip(answer[::2], answer[1::2], strict=True)}

    def changes(self, session: SessionKeys) -> AbstractAsyncContextManager[AsyncIterator[MemoryChange]]:
        """The changes to the session's memory from now on."""
        return subscribed(self._redis, session.channel)

    async def _run(self, text: str, session: SessionKeys, *arguments: str | int) -> Any:
        answers = await self._redis.run([script(text, session.keys, session.channel, *arguments)])
        return None if answers is None or isinstance(answers[0], Exception) else answers[0]


def _found(answer: list[str] | None) -> Found | None:
    if answer is None:
        return None
    places = range(1, len(answer), VALUES_PER_ITEM)
    return Found(int(answer[0]), [_item(*answer[place : place + VALUES_PER_ITEM]) for place in places])


def _item(field: str, version: str, created: str, updated: str, labels: str, left: str, text: str) -> Item:
    kind, _, key = field.partition(":")
    value, metadata = decode(text)
    return Item(
        key=key,
        kind=kind,
        value=value,
        metadata=metadata,
        version=int(version),
        created_at=_time(created),
        updated_at=_time(updated),
        expires_in_seconds=int(left) / 1000,
        **read_labels(labels),
    )


def _arguments(write: Write, recorded: Recorded | None, pressure: Pressure) -> tuple[str | int, ...]:
    seconds = recorded.expires_in_seconds if recorded else write.seconds(pressure)
    return (
        write.place.field,
        _or_empty(write.expected_version),
        recorded.version if recorded else "",
        _milliseconds(recorded.created_at) if recorded else "",
        int(seconds * 1000),
        SEPARATOR.join(write.labels),
        write.text,
        int(CONTEXT_LIFETIME.usual * 1000),
    )


def _stored(item: Item) -> tuple[str | int, ...]:
    kind = find_kind(item.kind)
    return (
        Place(kind, item.key).field,
        item.version,
        _milliseconds(item.created_at),
        _milliseconds(item.updated_at),
        int(item.expires_in_seconds * 1000),
        SEPARATOR.join(labels_of(kind, item.context, item.priority, item.tags)),
        encode(item.value, item.metadata),
    )


def _span(step: Step | None) -> tuple[str | int, str | int]:
    return (step.before, step.after) if step else ("", "")


def _or_empty(value: int | None) -> str | int:
    return "" if value is None else value


def _refuse_superseded(answer: str | int) -> None:
    if int(answer) < 0:
        raise SupersededError


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def _time(milliseconds: str) -> datetime:
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
