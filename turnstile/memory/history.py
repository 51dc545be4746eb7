"""The history of a session as its handlers read it: the last messages of its answered turns, from Redis if it has them,
otherwise from Postgres.

    version        from the claim: exactly what the handler must see
    read           the entry of that version; if it is missing or stale, the reader rebuilds it from Postgres
    append         after the settle, the turn's messages are added to the entry of the version that its claim returned

    history:session:{<tenant>/<session>}     the entry: see turnstile.memory.history_entry

The result is always the history at the requested version: Redis changes only how long it takes. An entry is used only
for the requested version, so an entry that is stale, lost, from a lagging replica or from before a restore of the
database costs one query. A history at one version never changes, so all writers of an entry write the same. The scripts
prevent that an older entry overwrites a newer one. Only the handler of a session's claimed turn reads, so a missing
entry has one reader.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import Command, script
from turnstile.config.settings import Settings
from turnstile.errors import ContentsUnreadableError
from turnstile.memory.history_entry import (
    MAX_CONTENT_BYTES,
    NO_MESSAGES,
    TAIL,
    WHOLE,
    Entry,
    Owner,
    decode_entry,
    decode_messages,
    encode_claim,
    encode_header,
    to_text,
)
from turnstile.queries.session_messages import read_history, read_history_as_text
from turnstile.telemetry.own_log import log
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import EMPTY_HISTORY, HistoryVersion, Message, StoredMessage

BATCH = 50

LOAD = """
local header = redis.call('LINDEX', KEYS[1], 0)
if not header then return 0 end
local seq, claim = string.match(header, '^(%d+) (%S+) ')
if claim == ARGV[2] then return redis.call('LRANGE', KEYS[1], 0, ARGV[3]) end
return seq and tonumber(seq) > tonumber(ARGV[1]) and -1 or 0
"""

STORE = """
local header = redis.call('LINDEX', KEYS[1], 0)
local seq = header and string.match(header, '^%d+')
if seq and tonumber(seq) > tonumber(ARGV[1]) then return 0 end
redis.call('DEL', KEYS[1])
for place = 3, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[place]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""

APPEND = """
local header = redis.call('LINDEX', KEYS[1], 0)
local reach = ARGV[6]
if header then
    local claim, reached = string.match(header, '^%d+ (%S+) (%a+)$')
    if claim == ARGV[3] then return 1 end
    if claim ~= ARGV[1] then
        redis.call('DEL', KEYS[1])
        return 0
    end
    if reached == 'tail' then reach = reached end
    redis.call('LPOP', KEYS[1])
elseif ARGV[1] ~= '-' then
    return 0
end
for place = 7, #ARGV do redis.call('LPUSH', KEYS[1], ARGV[place]) end
if redis.call('LLEN', KEYS[1]) > tonumber(ARGV[5]) then reach = 'tail' end
redis.call('LPUSH', KEYS[1], ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. reach)
redis.call('LTRIM', KEYS[1], 0, ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
"""


def history_key(prefix: str, tenant_id: str, session_id: str) -> str:
    """The key of a session's history."""
    return f"{prefix}history:session:{{{tenant_id}/{session_id}}}"


class History:
    """Reads and continues the histories of sessions, for one process. Simultaneous calls share a round trip to Redis.

    No call of Redis raises, or takes longer than two of its timeouts: a batch under way and its own.
    """

    def __init__(self, settings: Settings, database: Database, redis: GuardedRedis) -> None:
        self._database = database
        self._redis = redis
        self._prefix = settings.redis_prefix
        self._depth = settings.history_messages
        self._milliseconds = int(settings.history_ttl_seconds * 1000)
        self._run = Batcher(self._run_many, limit=BATCH)

    async def read(self, tenant_id: str, session_id: str, version: HistoryVersion, limit: int) -> list[Message]:
        """The last `limit` messages of the session at `version`, oldest first. Raises DatabaseUnavailableError."""
        if version == EMPTY_HISTORY:
            return []
        entry = await self._load(tenant_id, session_id, version, min(limit, self._depth))
        if entry is None:
            entry = await self._rebuild(tenant_id, session_id, version)
        if entry.reaches(limit):
            try:
                return decode_messages(entry.elements[:limit], self._owner(tenant_id, session_id), version)
            except (ValueError, ContentsUnreadableError) as error:
                log.warning("history.unreadable", session_id=session_id, error=str(error))
        return await read_history(self._database, tenant_id, session_id, limit=limit, before_seq=version.seq + 1)

    def append(self, turn: ClaimedTurn, reply: StoredMessage) -> "asyncio.Future[Any]":
        """Adds the messages of a turn that is SUCCEEDED by now to the entry that it was claimed with; deletes an entry of another
        version. Later reads of this process see them: they are sent later, or behind this call in the same round trip.

        A missing entry stays missing, unless the turn is the session's first that is answered. The result is never an error:
        without the messages the next reader asks Postgres.
        """
        owner = self._owner(turn.tenant_id, turn.session_id)
        added = Entry.of([reply, *map(to_text, reversed(turn.messages))], owner, whole=True)
        # Nothing stays behind a message that is too large.
        limit, reach = (self._depth, WHOLE) if added.whole else (len(added.elements), TAIL)
        key = self._key(turn.tenant_id, turn.session_id)
        versions = (encode_claim(turn.history_version.claim_id), turn.seq, encode_claim(turn.claim_id))
        return self._run(script(APPEND, [key], *versions, self._milliseconds, limit, reach, *added.elements[::-1]))

    async def _load(self, tenant_id: str, session_id: str, version: HistoryVersion, limit: int) -> Entry | None:
        """The entry with its last `limit` messages. None if there is none, or an older one: worth a rebuild. NO_MESSAGES if it is
        newer, or if Redis does not respond."""
        key = self._key(tenant_id, session_id)
        answer = await self._run(script(LOAD, [key], version.seq, encode_claim(version.claim_id), limit))
        if isinstance(answer, list):
            return decode_entry(*answer, limit=limit)
        return None if answer == 0 else NO_MESSAGES

    async def _rebuild(self, tenant_id: str, session_id: str, version: HistoryVersion) -> Entry:
        messages = await read_history_as_text(
            self._database,
            tenant_id,
            session_id,
            limit=self._depth,
            before_seq=version.seq + 1,
            max_bytes=MAX_CONTENT_BYTES,
        )
        entry = Entry.of(messages, self._owner(tenant_id, session_id), whole=len(messages) < self._depth)
        await self._store(tenant_id, session_id, version, entry)
        log.info("history.rebuilt", seq=version.seq, messages=len(messages))
        return entry

    async def _store(self, tenant_id: str, session_id: str, version: HistoryVersion, entry: Entry) -> None:
        key, header = self._key(tenant_id, session_id), encode_header(version, whole=entry.whole)
        await self._run(script(STORE, [key], version.seq, self._milliseconds, header, *entry.elements))

    def _owner(self, tenant_id: str, session_id: str) -> Owner:
        return Owner(self._database.contents, tenant_id, session_id)

    def _key(self, tenant_id: str, session_id: str) -> str:
        return history_key(self._prefix, tenant_id, session_id)

    async def _run_many(self, commands: Sequence[Command]) -> Sequence[Any]:
        answers = await self._redis.run(commands) or [None] * len(commands)
        return [None if isinstance(answer, Exception) else answer for answer in answers]
