"""The last messages of sessions, in Redis. All Redis calls about histories.

    history:session:{<tenant>/<session>}     the entry: see turnstile.memory.history_entry

Nothing depends on it. An entry is returned only for the requested version, so an entry that is stale, lost, from a lagging
replica or from before a restore of the database costs one query. A history as of one version never changes, so all writers of an
entry write the same. The scripts prevent that an older entry overwrites a newer one.

Simultaneous calls share a round trip.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from turnstile.backends.batcher import Batcher
from turnstile.backends.redis.client import Command, script
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.settings import Settings
from turnstile.memory.history_entry import (
    NO_MESSAGES,
    TAIL,
    WHOLE,
    Entry,
    decode_entry,
    encode_claim,
    encode_header,
    to_text,
)
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import HistoryVersion, StoredMessage

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


class HistoryCache:
    """The entries of all sessions. No call raises, or takes longer than two Redis timeouts: a batch under way and its own."""

    def __init__(self, settings: Settings, redis: Guarded) -> None:
        self._redis = redis
        self._prefix = settings.redis_prefix
        self._limit = settings.history_messages
        self._milliseconds = int(settings.history_ttl_seconds * 1000)
        self._run = Batcher(self._run_many, limit=BATCH)

    async def load(self, tenant_id: str, session_id: str, version: HistoryVersion, limit: int) -> Entry | None:
        """The entry as of `version`, with its last `limit` messages. None if there is none, or an older one: worth a rebuild.
        NO_MESSAGES if the entry is newer, or if Redis does not respond."""
        key = self._key(tenant_id, session_id)
        answer = await self._run(script(LOAD, [key], version.seq, encode_claim(version), limit))
        if isinstance(answer, list):
            return decode_entry(*answer, limit=limit)
        return None if answer == 0 else NO_MESSAGES

    async def store(self, tenant_id: str, session_id: str, version: HistoryVersion, entry: Entry) -> None:
        """Stores a rebuilt entry, unless there is a newer one by now."""
        header = encode_header(version, whole=entry.whole)
        key = self._key(tenant_id, session_id)
        await self._run(script(STORE, [key], version.seq, self._milliseconds, header, *entry.elements))

    def append(self, turn: ClaimedTurn, reply: StoredMessage) -> "asyncio.Future[Any]":
        """Adds a turn's messages to the entry that it was claimed with; deletes an entry of another version. Calls that are made
        later find the effect: they are sent later, or behind it in the same round trip.

        A missing entry stays missing, unless the turn is the session's first that is answered.
        """
        key = self._key(turn.tenant_id, turn.session_id)
        added = Entry.of([reply, *map(to_text, reversed(turn.messages))], whole=True)
        # Nothing stays behind a message that is too large.
        limit, reach = (self._limit, WHOLE) if added.whole else (len(added.elements), TAIL)
        after = HistoryVersion(turn.seq, turn.claim_id)
        versions = (encode_claim(turn.history_version), after.seq, encode_claim(after))
        return self._run(script(APPEND, [key], *versions, self._milliseconds, limit, reach, *added.elements[::-1]))

    def _key(self, tenant_id: str, session_id: str) -> str:
        return f"{self._prefix}history:session:{{{tenant_id}/{session_id}}}"

    async def _run_many(self, commands: Sequence[Command]) -> Sequence[Any]:
        answers = await self._redis.run(commands) or [None] * len(commands)
        return [None if isinstance(answer, Exception) else answer for answer in answers]
