"""Looking at the session locks from outside: for operators. A hold never comes here.

Apart from `worker.session_lock`, which is the way of a turn: they are the only files that know the locks.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from turnstile.backends.redis.client import OUTAGES, raise_first, script
from turnstile.backends.redis.connect import connect
from turnstile.config.settings import Settings
from turnstile.errors import TurnstileError
from turnstile.worker.session_lock import BATCH

# For the doctor: only where it would stand for ever, and nobody else has come between.
FREE_FOREVER = """
if redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PTTL', KEYS[1]) == -1 then return redis.call('DEL', KEYS[1]) end
return 0
"""


class LocksUnreadableError(TurnstileError):
    """Redis could not be asked which sessions are locked."""


@dataclass(frozen=True, slots=True)
class HeldLock:
    """A session lock as it stands in Redis."""

    key: str
    tenant_id: str
    session_id: str
    token: str
    ttl_seconds: float | None
    """None: it would stand for ever."""

    @property
    def worker_id(self) -> str:
        """Who took it, as its token says."""
        return self.token.rpartition(":")[0]


class LockInspector:
    """Looks at the locks of all sessions without touching them: for operators. Raises LocksUnreadableError."""

    def __init__(self, settings: Settings) -> None:
        self._prefix = f"{settings.redis_prefix}lock:session:{{"
        # Longer than a hold waits: a look may come late, a turn may not.
        self._redis = connect(settings.redis_url, timeout_seconds=5.0)

    async def close(self) -> None:
        """Closes the connections."""
        await self._redis.aclose()

    async def held(self, most: int) -> list[HeldLock]:
        """The locks that are held, `most` of them. Goes through the key space in small steps, as SCAN does."""
        found: dict[str, HeldLock] = {}
        try:
            keys: list[str] = []
            async for key in self._redis.scan(f"{self._prefix}*}}"):
                keys.append(key)
                if len(keys) == most:
                    break
            for start in range(0, len(keys), BATCH):
                found |= await self._read(keys[start : start + BATCH])
        except OUTAGES as error:
            raise LocksUnreadableError(f"{type(error).__name__}: {error}") from error
        return list(found.values())

    async def _read(self, keys: Sequence[str]) -> dict[str, HeldLock]:
        answers = raise_first(await self._redis.run([(command, key) for key in keys for command in ("GET", "PTTL")]))
        locks = {}
        for key, token, ttl in zip(keys, answers[::2], answers[1::2], strict=True):
            tenant_id, _, session_id = key.removeprefix(self._prefix).removesuffix("}").partition("/")
            # -2: it was given back a moment ago.
            if token is not None and ttl != -2:
                locks[key] = HeldLock(key, tenant_id, session_id, token, None if ttl == -1 else ttl / 1000)
        return locks

    async def free(self, lock: HeldLock) -> bool:
        """Deletes a lock that has no time to live, if it still is as it was seen."""
        try:
            [freed] = raise_first(await self._redis.run([script(FREE_FOREVER, [lock.key], lock.token)]))
            return bool(freed)
        except OUTAGES as error:
            raise LocksUnreadableError(f"{type(error).__name__}: {error}") from error
