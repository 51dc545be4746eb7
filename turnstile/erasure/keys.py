"""The Redis keys of a session, and their deletion.

The session lock and its waiting mark have ids only, and are gone within a lease: they are left alone.
"""

from collections.abc import Sequence
from uuid import UUID

from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.errors import TurnstileError
from turnstile.memory.history import history_key
from turnstile.memory.item_cache import SessionKeys
from turnstile.streaming.event import name_stream


class RedisAwayError(TurnstileError):
    """Redis did not delete the keys, or did not say so. Nothing of the session is taken for erased."""


class SessionKeysInRedis:
    """Deletes and counts the keys of sessions in the Redis of histories, memories and events."""

    def __init__(self, redis: GuardedRedis, prefix: str) -> None:
        self._redis = redis
        self._prefix = prefix

    def of_turns(self, tenant_id: str, session_id: str, turn_ids: Sequence[UUID]) -> list[str]:
        """The events of these turns."""
        return [name_stream(self._prefix, tenant_id, session_id, turn_id) for turn_id in turn_ids]

    def of_session(self, tenant_id: str, session_id: str) -> list[str]:
        """The history and the memory."""
        memory = SessionKeys(self._prefix, tenant_id, session_id, 0)
        return [history_key(self._prefix, tenant_id, session_id), *memory.keys]

    async def delete(self, keys: Sequence[str]) -> None:
        """Raises RedisAwayError."""
        if keys:
            await self._run("DEL", keys)

    async def count(self, keys: Sequence[str]) -> int:
        """How many of them exist. Raises RedisAwayError."""
        return sum(await self._run("EXISTS", keys)) if keys else 0

    async def _run(self, command: str, keys: Sequence[str]) -> list[int]:
        # One key each: a call about several needs them in one slot of a cluster.
        answers = await self._redis.run([(command, key) for key in keys], even_if_away=True)
        if answers is None or any(isinstance(answer, Exception) for answer in answers):
            raise RedisAwayError("Redis did not respond: the erasure goes on once it does")
        return [int(answer) for answer in answers]
