"""The last messages of sessions, in Redis. All its calls about histories.

    history:session:{<tenant>/<session>}             the entry: see turnstile.memory.history_entry
    history:session:{<tenant>/<session>}:rebuild     who is building it anew: two seconds at most

Nothing depends on it. An entry is only ever answered for the version that is asked for, so one that is stale, lost, from a
replica that lags behind or of another life of the database costs a query; and as of one version a history never changes, so
whoever writes an entry writes the same. What the scripts see to is that newer entries are not overwritten by older ones.

Calls that are made at the same moment share a round trip.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import structlog

from turnstile.backends.batcher import Batcher
from turnstile.backends.redis.client import Command, script
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.settings import Settings
from turnstile.memory.history_entry import Entry, decode, encode_claim, encode_header, encode_message
from turnstile.turn.conversation import HistoryVersion, StoredMessage

BATCH = 50
REBUILD_SECONDS = 2.0
"""After so long somebody else may try; also the longest that a reader who died in mid-rebuild holds up the others."""

LOAD = """
local header = redis.call('LINDEX', KEYS[1], 0)
if header then
    local seq, claim = string.match(header, '^(%d+) (%S+) ')
    if claim == ARGV[2] then return redis.call('LRANGE', KEYS[1], 0, ARGV[3]) end
    if seq and tonumber(seq) > tonumber(ARGV[1]) then return -1 end
end
if redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[4]) then return 1 end
return 0
"""

STORE = """
redis.call('DEL', KEYS[2])
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
local reach = 'whole'
if header then
    local claim, reached = string.match(header, '^%d+ (%S+) (%a+)$')
    if claim == ARGV[3] then return 1 end
    if claim ~= ARGV[1] then
        redis.call('DEL', KEYS[1])
        return 0
    end
    reach = reached
    redis.call('LPOP', KEYS[1])
elseif ARGV[1] ~= '-' then
    return 0
end
for place = 6, #ARGV do redis.call('LPUSH', KEYS[1], ARGV[place]) end
if redis.call('LLEN', KEYS[1]) > tonumber(ARGV[5]) then
    redis.call('LTRIM', KEYS[1], 0, ARGV[5] - 1)
    reach = 'tail'
end
redis.call('LPUSH', KEYS[1], ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. reach)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1
"""

log = structlog.get_logger("turnstile.history")


class Missing(StrEnum):
    """Why there is no entry for a version."""

    OURS_TO_REBUILD = "ours to rebuild"
    BEING_REBUILT = "being rebuilt"
    """By another reader, who was told so within the last two seconds."""
    BEHIND = "behind"
    """What stands there is newer than what was asked for."""
    AWAY = "away"
    """Redis does not answer, or with nonsense."""


_MISSING = {1: Missing.OURS_TO_REBUILD, 0: Missing.BEING_REBUILT, -1: Missing.BEHIND}


class HistoryCache:
    """The entries of all sessions. No call raises, and none waits longer than Redis is waited for."""

    def __init__(self, settings: Settings, redis: Guarded) -> None:
        self._redis = redis
        self._prefix = settings.redis_prefix
        self._limit = settings.history_messages
        self._milliseconds = int(settings.history_ttl_seconds * 1000)
        self._run = Batcher(self._run_many, limit=BATCH)

    async def load(self, tenant_id: str, session_id: str, version: HistoryVersion, limit: int) -> Entry | Missing:
        """The entry as of `version`, with its last `limit` messages."""
        arguments = (version.seq, encode_claim(version), limit, int(REBUILD_SECONDS * 1000))
        answer = await self._run(script(LOAD, self._keys(tenant_id, session_id), *arguments))
        if not isinstance(answer, list):
            return Missing.AWAY if answer is None else _MISSING[answer]
        try:
            return decode(answer, limit)
        except ValueError as error:
            # As another version of this program writes it.
            log.warning("history.unreadable", session_id=session_id, error=str(error))
            return Missing.AWAY

    async def store(self, tenant_id: str, session_id: str, version: HistoryVersion, entry: Entry) -> None:
        """Puts an entry that was built anew, unless a newer one has come meanwhile."""
        header = encode_header(version, whole=entry.whole)
        elements = map(encode_message, entry.messages)
        keys = self._keys(tenant_id, session_id)
        await self._run(script(STORE, keys, version.seq, self._milliseconds, header, *elements))

    async def append(
        self,
        tenant_id: str,
        session_id: str,
        before: HistoryVersion,
        after: HistoryVersion,
        messages: Sequence[StoredMessage],
    ) -> None:
        """Makes the entry of `before` that of `after` by what was said between; any other is deleted, and none left none."""
        key, _ = self._keys(tenant_id, session_id)
        elements = map(encode_message, messages)
        versions = (encode_claim(before), after.seq, encode_claim(after))
        await self._run(script(APPEND, [key], *versions, self._milliseconds, self._limit, *elements))

    def _keys(self, tenant_id: str, session_id: str) -> tuple[str, str]:
        key = f"{self._prefix}history:session:{{{tenant_id}/{session_id}}}"
        return key, f"{key}:rebuild"

    async def _run_many(self, commands: Sequence[Command]) -> Sequence[Any]:
        answers = await self._redis.run(commands) or [None] * len(commands)
        return [None if isinstance(answer, Exception) else answer for answer in answers]
