"""Looks at session locks without changing them, for operators."""

from collections.abc import Sequence

from turnstile.backends.redis.client import raise_first, script
from turnstile.backends.redis.operator_client import operator_client
from turnstile.config.settings import Settings
from turnstile.turn.wait_facts import SeenLock
from turnstile.worker.session_lock import name_lock

LOOK = "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}"


async def look_at_locks(settings: Settings, sessions: Sequence[tuple[str, str]]) -> list[SeenLock | None]:
    """The locks of these sessions (tenant, session), in their order; None: nobody has it. Raises RedisUnreachableError."""
    if not sessions:
        return []
    keys = [name_lock(settings, tenant_id, session_id, "").key for tenant_id, session_id in sessions]
    async with operator_client(settings.redis_url) as client:
        answers = raise_first(await client.run([script(LOOK, [key]) for key in keys]))
    return [
        # A token is the worker's id, a colon and a random part (`worker.processor`).
        SeenLock(key=key, worker_id=token.rpartition(":")[0], seconds_left=milliseconds / 1000) if token else None
        for key, (token, milliseconds) in zip(keys, answers, strict=True)
    ]
