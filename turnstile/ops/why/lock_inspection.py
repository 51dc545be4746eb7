"""Looks at session locks without changing them, for operators."""

import math
from collections.abc import Sequence
from typing import Any

from turnstile.backends.redis.operator_client import operator_client
from turnstile.backends.redis.redis_client import raise_first, script
from turnstile.config.settings import Settings
from turnstile.ops.why.wait_facts import SeenLock
from turnstile.worker.session_lock import is_foreign, lock_key, name_lock

LOOK = "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}"
BATCH = 100


async def look_at_locks(settings: Settings, sessions: Sequence[tuple[str, str]]) -> list[SeenLock | None]:
    """The locks of these sessions (tenant, session), in their order; None: nobody has it. Raises RedisUnreachableError."""
    if not sessions:
        return []
    keys = [name_lock(settings, tenant_id, session_id, "").key for tenant_id, session_id in sessions]
    async with operator_client(settings.redis_url) as client:
        answers = raise_first(await client.run([script(LOOK, [key]) for key in keys]))
    return [_seen(key, *answer) for key, answer in zip(keys, answers, strict=True)]


async def find_foreign_locks(settings: Settings, limit: int) -> list[SeenLock]:
    """Those among `limit` locks that no worker has set. Raises RedisUnreachableError.

    Goes through the key space in small steps, as SCAN does.
    """
    keys: list[str] = []
    found: list[SeenLock] = []
    async with operator_client(settings.redis_url) as client:
        async for key in client.scan(lock_key(settings, "*", "*")):
            keys.append(key)
            if len(keys) == limit:
                break
        for start in range(0, len(keys), BATCH):
            some = keys[start : start + BATCH]
            answers = raise_first(await client.run([script(LOOK, [key]) for key in some]))
            seen = [_seen(key, *answer) for key, answer in zip(some, answers, strict=True)]
            found += [one for one in seen if one is not None and is_foreign(one.seconds_left, settings.lease_seconds)]
    return found


def _seen(key: str, token: Any, milliseconds: int) -> SeenLock | None:
    if not token:
        return None
    # A token is the worker's id, a colon and a random part (`worker.processor`).
    worker_id = token.rpartition(":")[0]
    return SeenLock(key=key, worker_id=worker_id, seconds_left=math.inf if milliseconds < 0 else milliseconds / 1000)
