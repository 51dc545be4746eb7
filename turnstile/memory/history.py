"""The history of a session as its handlers read it: the last messages of its answered turns, from Redis if it has them, else
from Postgres.

    version        from the claim: exactly what the handler must see
    read           the entry of that version; if it is missing or stale, the reader rebuilds it from Postgres
    append         after the settle, the turn's messages are added to the entry of the version that its claim returned

The result is always the history as of the requested version: Redis changes only how long it takes. Only the handler of a
session's claimed turn reads, so a missing entry has one reader (R7).
"""

import asyncio
from typing import Any

import structlog

from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.settings import Settings
from turnstile.memory.history_cache import HistoryCache
from turnstile.memory.history_entry import MAX_CONTENT_BYTES, Entry, decode_message
from turnstile.queries.history import read_history, read_history_as_text
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import NOTHING_SAID, HistoryVersion, Message, StoredMessage

log = structlog.get_logger("turnstile.history")


class History:
    """Reads and continues the histories of sessions, for one process."""

    def __init__(self, settings: Settings, database: Database, redis: Guarded) -> None:
        self._database = database
        self._depth = settings.history_messages
        self._cache = HistoryCache(settings, redis)

    async def read(self, tenant_id: str, session_id: str, version: HistoryVersion, limit: int) -> list[Message]:
        """The last `limit` messages of the session as of `version`, oldest first. Raises DatabaseUnavailableError."""
        if version == NOTHING_SAID:
            return []
        entry = await self._cache.load(tenant_id, session_id, version, min(limit, self._depth))
        if entry is None:
            entry = await self._rebuild(tenant_id, session_id, version)
        if entry.reaches(limit):
            try:
                return [decode_message(one) for one in reversed(entry.elements[:limit])]
            except ValueError as error:
                log.warning("history.unreadable", session_id=session_id, error=str(error))
        return await read_history(self._database, tenant_id, session_id, limit=limit, before_seq=version.seq + 1)

    def append(self, turn: ClaimedTurn, reply: StoredMessage) -> "asyncio.Future[Any]":
        """Adds the messages of a turn that is SUCCEEDED by now. Later reads of this process see them, also before the result.

        The result is never an error: without the messages the next reader asks Postgres.
        """
        return self._cache.append(turn, reply)

    async def _rebuild(self, tenant_id: str, session_id: str, version: HistoryVersion) -> Entry:
        messages = await read_history_as_text(
            self._database,
            tenant_id,
            session_id,
            limit=self._depth,
            before_seq=version.seq + 1,
            max_bytes=MAX_CONTENT_BYTES,
        )
        entry = Entry.of(messages, whole=len(messages) < self._depth)
        await self._cache.store(tenant_id, session_id, version, entry)
        log.info("history.rebuilt", seq=version.seq, messages=len(messages))
        return entry
