"""The history of a session: the last messages of its answered turns, from Redis if it has them, else from Postgres.

    version        from the claim, or read from Postgres: exactly what a reader must see
    read           the entry of that version; if it is missing or stale, one reader of a process rebuilds it while others wait
    append         after the settle, the turn's messages are added to the entry of the version that its claim returned

The result is always the history as of the requested version: Redis changes only how long it takes.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import assert_never

import structlog

from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.settings import Settings
from turnstile.memory.history_cache import HistoryCache, Missing
from turnstile.memory.history_entry import MAX_CONTENT_BYTES, Entry, to_message, to_text
from turnstile.queries.history import read_contents, read_history, read_history_as_text, read_history_page
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import NOTHING_SAID, HistoryVersion, Message, StoredMessage

PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of a page's contents, as JSON. Without a limit, a hundred messages may be a hundred megabytes for each client."""

Flight = asyncio.Task[Entry]

log = structlog.get_logger("turnstile.history")


class History:
    """Reads and continues the histories of sessions, for one process."""

    def __init__(self, settings: Settings, database: Database, redis: Guarded) -> None:
        self._database = database
        self._depth = settings.history_messages
        self._cache = HistoryCache(settings, redis)
        self._flights: dict[tuple[str, str, HistoryVersion], Flight] = {}
        self._appends: dict[tuple[str, str], asyncio.Task[None]] = {}

    def close(self) -> None:
        """Cancels the rebuilds and appends under way."""
        for under_way in (*self._flights.values(), *self._appends.values()):
            under_way.cancel()

    async def read(self, tenant_id: str, session_id: str, version: HistoryVersion, limit: int) -> list[Message]:
        """The last `limit` messages of the session as of `version`, oldest first. Raises DatabaseUnavailableError."""
        if version == NOTHING_SAID:
            return []
        entry = await self._find(tenant_id, session_id, version, limit)
        if entry is not None and entry.reaches(limit):
            messages = await self._with_contents(entry.messages[:limit])
            if messages is not None:
                return messages
        return await read_history(self._database, tenant_id, session_id, limit=limit, before_seq=version.seq + 1)

    async def read_page(
        self,
        tenant_id: str,
        session_id: str,
        version: HistoryVersion,
        limit: int,
        before: tuple[int, int] | None = None,
    ) -> tuple[list[Message], bool]:
        """The same before a place (`seq`, ordinal), up to PAGE_BYTES; and whether there are earlier messages."""
        if version == NOTHING_SAID:
            return [], False
        # One message more shows whether there are earlier ones.
        entry = None if before else await self._find(tenant_id, session_id, version, limit + 1)
        if entry is not None and entry.reaches(limit):
            shown = entry.messages[:limit]
            # The size of a content that only the table has is unknown here.
            texts = [one.text for one in shown if one.text is not None]
            messages = None
            if len(texts) == len(shown) and sum(len(text.encode()) for text in texts) <= PAGE_BYTES:
                messages = await self._with_contents(shown)
            if messages is not None:
                return messages, not entry.whole or len(entry.messages) > limit
        return await read_history_page(
            self._database,
            tenant_id,
            session_id,
            limit=limit,
            before=before or (version.seq + 1, 0),
            max_bytes=PAGE_BYTES,
        )

    async def append(self, turn: ClaimedTurn, reply: StoredMessage | None) -> None:
        """Adds the messages of a turn that is SUCCEEDED by now. Never raises: without it the next reader asks Postgres.

        `reply` is None if the response to the settle was lost; the entry then stays at its old version.
        """
        if reply is None:
            return
        said = [*map(to_text, turn.messages), reply]
        after = HistoryVersion(turn.seq, turn.claim_id)
        await self._cache.append(turn.tenant_id, turn.session_id, turn.history_version, after, said)

    def begin_append(self, turn: ClaimedTurn, reply: StoredMessage | None) -> None:
        """The same in the background; a read of the session waits for it. Appends are made in the order of their calls."""
        session = turn.tenant_id, turn.session_id
        append = self._appends[session] = asyncio.create_task(self.append(turn, reply))
        append.add_done_callback(lambda done: self._end_append(session, done))

    def _end_append(self, session: tuple[str, str], append: asyncio.Task[None]) -> None:
        # A later append may have taken its place.
        if self._appends.get(session) is append:
            del self._appends[session]

    async def _find(self, tenant_id: str, session_id: str, version: HistoryVersion, limit: int) -> Entry | None:
        if append := self._appends.get((tenant_id, session_id)):
            # The append makes the entry that this read needs.
            await asyncio.wait({append})
        key = (tenant_id, session_id, version)
        if flight := self._flights.get(key):
            return await asyncio.shield(flight)
        found = await self._cache.load(tenant_id, session_id, version, min(limit, self._depth))
        match found:
            case Entry():
                return found
            case Missing.AWAY | Missing.BEHIND:
                return None
            case Missing.LOST:
                return await asyncio.shield(self._flights.get(key) or self._begin_flight(key))
            case _:
                assert_never(found)

    def _begin_flight(self, key: tuple[str, str, HistoryVersion]) -> Flight:
        # A separate task: the reader that began it may be cancelled while others still wait for it.
        flight = self._flights[key] = asyncio.create_task(self._rebuild(*key))
        flight.add_done_callback(lambda done: self._land(key, done))
        return flight

    def _land(self, key: tuple[str, str, HistoryVersion], flight: Flight) -> None:
        del self._flights[key]
        if not flight.cancelled():
            # Marks the exception as retrieved, or asyncio logs it if no reader is left.
            flight.exception()

    async def _rebuild(self, tenant_id: str, session_id: str, version: HistoryVersion) -> Entry:
        messages = await read_history_as_text(
            self._database,
            tenant_id,
            session_id,
            limit=self._depth,
            before_seq=version.seq + 1,
            max_bytes=MAX_CONTENT_BYTES,
        )
        entry = Entry(tuple(messages), whole=len(messages) < self._depth)
        await self._cache.store(tenant_id, session_id, version, entry)
        log.info("history.rebuilt", seq=version.seq, messages=len(messages))
        return entry

    async def _with_contents(self, newest_first: Sequence[StoredMessage]) -> list[Message] | None:
        """The messages, oldest first; None if Postgres does not have one of the contents."""
        large = [(one.turn_id, one.ordinal) for one in newest_first if one.text is None]
        contents = await read_contents(self._database, large) if large else {}
        if len(contents) < len(large):
            return None
        return [
            to_message(one, contents[one.turn_id, one.ordinal] if one.text is None else json.loads(one.text))
            for one in reversed(newest_first)
        ]
