"""The session lock: one Redis key that says which worker is on a session right now (A1, L1). All Redis calls of it.

    SET lock:session:{<tenant>/<session>} <token> NX PX <lease>

It saves duplicate work and nothing depends on it: order, exclusion and one settlement per claim are Postgres's (see
`turns.claim`). So Redlock would buy nothing (ADR 0007), and when Redis is away a hold goes on unguarded.

A session that is busy is not waited for (L5). Whoever comes second leaves a *waiting* mark beside the lock in the same
script and goes; the holder finds it at its unlock and looks at the session once more before it lets go. Lock and mark
share a hash tag, so that they live in one cluster slot.

Every call may have been executed although its answer got lost. So taking a lock that has our own token is taking it, and
releasing compares first.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import redis
import redis.asyncio
import structlog
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from turns.batching import Batcher
from turns.circuit import Circuit
from turns.errors import TurnstileError
from turns.settings import Settings

BATCH = 50

ACQUIRE = """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 1
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
return 0
"""

RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
if redis.call('DEL', KEYS[2]) == 1 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 1
end
redis.call('DEL', KEYS[1])
return 0
"""

# Retaken where it is free: a flush must not let a second worker in while the first is at work.
EXTEND = """
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if not holder then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 2 end
return 0
"""

# For the doctor: only where it would stand for ever, and nobody else has come between.
FREE_FOREVER = """
if redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PTTL', KEYS[1]) == -1 then return redis.call('DEL', KEYS[1]) end
return 0
"""

log = structlog.get_logger("turnstile.lock")


class Guard(StrEnum):
    """What became of an attempt to lock a session."""

    LOCKED = "locked"
    BUSY = "busy"
    """Another worker is on it, and has been told to look again."""
    UNGUARDED = "unguarded"
    """Redis is away: the claim decides alone."""


class Release(StrEnum):
    """What became of an unlock."""

    RELEASED = "released"
    LOOK_AGAIN = "look again"
    """Somebody waits: the lock is still ours, the mark is cleared."""
    LOST = "lost"
    """It was not ours any more."""
    UNKNOWN = "unknown"
    """Redis did not answer: it may have been released, with or without somebody waiting."""


class Extension(StrEnum):
    """What became of a lock at a heartbeat."""

    EXTENDED = "extended"
    RETAKEN = "retaken"
    """It was gone (a flush, a failover, a long pause) and is ours again; a waiting mark may be gone with it."""
    LOST = "lost"
    """Another worker has it."""


_EXTENSIONS = {1: Extension.EXTENDED, 2: Extension.RETAKEN, 0: Extension.LOST}


@dataclass(frozen=True, slots=True)
class LockedSession:
    """The keys of a session's lock, and the token that makes it ours."""

    key: str
    waiting_key: str
    token: str


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


def name_lock(settings: Settings, tenant_id: str, session_id: str, token: str) -> LockedSession:
    """The keys for a session. `token` is fresh for every hold."""
    key = f"{settings.redis_prefix}lock:session:{{{tenant_id}/{session_id}}}"
    return LockedSession(key, f"{key}:waiting", token)


class SessionLock:
    """Takes and gives back session locks; calls that are made at the same moment share a round trip."""

    def __init__(self, settings: Settings) -> None:
        # redis-py would retry ten times with a five second time-out each: a minute, twice the life of a lock.
        self._redis = redis.asyncio.Redis.from_url(
            settings.redis_url,
            socket_timeout=settings.redis_timeout_seconds,
            socket_connect_timeout=settings.redis_timeout_seconds,
            # No retry: a release that is asked twice finds its own first answer.
            retry=AsyncRetry(NoBackoff(), 0),
            decode_responses=True,
        )
        self._milliseconds = int(settings.lease_seconds * 1000)
        self._circuit = Circuit()
        self._acquire = Batcher(self._acquire_many, limit=BATCH)
        self._release = Batcher(self._release_many, limit=BATCH)

    async def close(self) -> None:
        """Closes the connections."""
        await self._redis.aclose()

    async def ping(self) -> bool:
        """Whether Redis answers."""
        try:
            return bool(await cast("Any", self._redis.ping()))
        except RedisError:
            return False

    async def acquire(self, lock: LockedSession) -> Guard:
        """Takes the lock or leaves the waiting mark."""
        return await self._acquire(lock)

    async def release(self, lock: LockedSession) -> Release:
        """Gives the lock back, unless somebody waits."""
        return await self._release(lock)

    async def _acquire_many(self, locks: Sequence[LockedSession]) -> Sequence[Guard]:
        answers = await self._run(ACQUIRE, locks)
        if answers is None:
            return [Guard.UNGUARDED] * len(locks)
        return [Guard.LOCKED if answer == 1 else Guard.BUSY for answer in answers]

    async def _release_many(self, locks: Sequence[LockedSession]) -> Sequence[Release]:
        answers = await self._run(RELEASE, locks, try_anyway=True)
        if answers is None:
            return [Release.UNKNOWN] * len(locks)
        meaning = {1: Release.LOOK_AGAIN, 0: Release.RELEASED, -1: Release.LOST}
        return [meaning[answer] for answer in answers]

    async def _run(self, script: str, locks: Sequence[LockedSession], *, try_anyway: bool = False) -> list[int] | None:
        # A lock that is not given back turns away every wake-up of its session for a lease: worth a try.
        if not self._circuit.allows(time.monotonic()) and not try_anyway:
            return None
        pipeline = self._redis.pipeline(transaction=False)
        for lock in locks:
            # EVAL, not EVALSHA: the server keeps the compiled script either way, and there is no NOSCRIPT to handle.
            pipeline.eval(script, 2, lock.key, lock.waiting_key, lock.token, self._milliseconds)
        try:
            answers = await pipeline.execute()
        except (RedisError, OSError) as error:
            self._circuit.failed(time.monotonic())
            log.warning("lock.redis_away", error=f"{type(error).__name__}: {error}", sessions=len(locks))
            return None
        self._circuit.succeeded()
        return [int(answer) for answer in answers]


class LockExtender:
    """The heartbeat's own, synchronous hand on the locks: it works while the event loop is blocked."""

    def __init__(self, settings: Settings) -> None:
        self._redis = redis.Redis.from_url(
            settings.redis_url,
            socket_timeout=settings.redis_timeout_seconds,
            socket_connect_timeout=settings.redis_timeout_seconds,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
        )
        self._milliseconds = int(settings.lease_seconds * 1000)
        self._circuit = Circuit()

    def close(self) -> None:
        """Closes the connection."""
        self._redis.close()

    def extend(self, locks: Sequence[LockedSession]) -> list[Extension]:
        """Extends what is ours, retakes what is free; empty if Redis is away. A lost lock stops nobody."""
        if not locks or not self._circuit.allows(time.monotonic()):
            return []
        pipeline = self._redis.pipeline(transaction=False)
        for lock in locks:
            pipeline.eval(EXTEND, 1, lock.key, lock.token, self._milliseconds)
        try:
            answers = pipeline.execute()
        except (RedisError, OSError) as error:
            self._circuit.failed(time.monotonic())
            log.warning("lock.extend_failed", error=f"{type(error).__name__}: {error}")
            return []
        self._circuit.succeeded()
        return [_EXTENSIONS[int(answer)] for answer in answers]


class LockInspector:
    """Looks at the locks of all sessions without touching them: for operators. Raises LocksUnreadableError."""

    def __init__(self, settings: Settings) -> None:
        self._prefix = f"{settings.redis_prefix}lock:session:{{"
        # Longer than a hold waits: a look may come late, a turn may not.
        self._redis = redis.asyncio.Redis.from_url(
            settings.redis_url,
            socket_timeout=5.0,
            socket_connect_timeout=3.0,
            retry=AsyncRetry(NoBackoff(), 0),
            decode_responses=True,
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._redis.aclose()

    async def held(self, most: int) -> list[HeldLock]:
        """The locks that are held, `most` of them. Goes through the key space in small steps, as SCAN does."""
        found: dict[str, HeldLock] = {}
        try:
            keys: list[str] = []
            async for key in self._redis.scan_iter(match=f"{self._prefix}*}}", count=1000):
                keys.append(key)
                if len(keys) == most:
                    break
            for start in range(0, len(keys), BATCH):
                found |= await self._read(keys[start : start + BATCH])
        except (RedisError, OSError) as error:
            raise LocksUnreadableError(f"{type(error).__name__}: {error}") from error
        return list(found.values())

    async def _read(self, keys: Sequence[str]) -> dict[str, HeldLock]:
        pipeline = self._redis.pipeline(transaction=False)
        for key in keys:
            cast("Any", pipeline.get(key)).pttl(key)
        answers = await pipeline.execute() if keys else []
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
            return bool(await cast("Any", self._redis.eval(FREE_FOREVER, 1, lock.key, lock.token)))
        except (RedisError, OSError) as error:
            raise LocksUnreadableError(f"{type(error).__name__}: {error}") from error
