"""The session lock: one Redis key that says which worker runs a session now. All Redis calls that change it are here.

    SET lock:session:{<tenant>/<session>} <token> NX PX <lease>

It saves duplicate work and nothing depends on it: Postgres guarantees order, exclusion and one settlement per claim (see
`statements.claim`). So Redlock would add nothing (ADR 0004), and while Redis is away a session run goes on without a lock.

A worker does not wait for a busy session. In the same script it leaves a *waiting* mark next to the lock, and moves on.
The lock's holder finds the mark at its unlock, and looks at the session once more before it releases the lock. Lock and
mark share a hash tag, so that they are in one cluster slot.

A key without a time to live, or with more than two leases, does not belong to a worker (`FOREIGN`). It would turn away every
wake-up of its session, so the claim decides, as it does without Redis.

A call may have been executed although its response was lost. So acquiring a lock that already has our token succeeds, and a
release compares the token first.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from turnstile.backends.batcher import Batcher
from turnstile.backends.redis.guarded import GuardedRedis
from turnstile.backends.redis.redis_client import script
from turnstile.config.settings import Settings

BATCH = 50

FOREIGN_LEASES = 2
"""No worker gives a lock this many leases. More than one, because another worker's lease may be a little longer than
ours."""

ACQUIRE = f"""
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 1
end
redis.call('SET', KEYS[2], '1', 'PX', ARGV[2])
local left = redis.call('PTTL', KEYS[1])
if left < 0 or left > {FOREIGN_LEASES} * ARGV[2] then return 2 end
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

EXTEND = """
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if not holder then return 2 end
return 0
"""


class Guard(StrEnum):
    """The result of an attempt to lock a session."""

    LOCKED = "locked"
    BUSY = "busy"
    """Another worker has the lock, and the waiting mark is set: that worker will look again."""
    FOREIGN = "foreign"
    """The lock does not belong to a worker: the claim decides alone, and the lock stays as it is."""
    UNGUARDED = "unguarded"
    """Redis is away and was not called: the claim decides alone."""
    UNANSWERED = "unanswered"
    """Redis did not respond: the claim decides alone. The lock may be ours, so the session run must release it."""

    @property
    def result(self) -> str:
        """The value for the log: operators count runs without a lock, so both reasons share one value."""
        return Guard.UNGUARDED.value if self is Guard.UNANSWERED else self.value


class Release(StrEnum):
    """The result of an unlock."""

    RELEASED = "released"
    LOOK_AGAIN = "look again"
    """The waiting mark was set, and is cleared now. The lock is still ours."""
    LOST = "lost"
    """The lock was not ours any more."""
    UNKNOWN = "unknown"
    """Redis did not respond: the lock may be released, and a waiting mark may have been set."""


class Extension(StrEnum):
    """The result of a lock's extension by the heartbeat."""

    EXTENDED = "extended"
    RETAKEN = "retaken"
    """The lock was gone (a flush, a failover, a long pause) and is ours again. A waiting mark may be gone too."""
    FREE = "free"
    """The lock was released by its own run since the beat began."""
    LOST = "lost"
    """Another worker has the lock."""
    UNKNOWN = "unknown"
    """Redis did not respond, or is away and was not called."""


_EXTENSIONS = {1: Extension.EXTENDED, 2: Extension.FREE, 0: Extension.LOST, None: Extension.UNKNOWN}


@dataclass(frozen=True, slots=True)
class LockedSession:
    """The keys of a session's lock, and the token that identifies its holder."""

    key: str
    waiting_key: str
    token: str


def is_foreign(seconds_left: float, lease_seconds: float) -> bool:
    """Whether a lock with so much time to live can't belong to a worker. ACQUIRE has the same rule."""
    return seconds_left > FOREIGN_LEASES * lease_seconds


def lock_key(settings: Settings, tenant_id: str, session_id: str) -> str:
    """The Redis key of a session's lock."""
    return f"{settings.redis_prefix}lock:session:{{{tenant_id}/{session_id}}}"


def name_lock(settings: Settings, tenant_id: str, session_id: str, token: str) -> LockedSession:
    """The lock of a session. A `token` must be used by one session run only."""
    key = lock_key(settings, tenant_id, session_id)
    return LockedSession(key, f"{key}:waiting", token)


class SessionLock:
    """Acquires, extends and releases session locks; acquires of the same moment share a round trip, and so do releases."""

    def __init__(self, settings: Settings, redis: GuardedRedis) -> None:
        self._redis = redis
        self._milliseconds = int(settings.lease_seconds * 1000)
        self._acquire = Batcher(self._acquire_many, limit=BATCH)
        self._release = Batcher(self._release_many, limit=BATCH)

    def acquire(self, lock: LockedSession) -> Awaitable[Guard]:
        """Takes the lock, or sets the waiting mark."""
        return self._acquire(lock)

    def release(self, lock: LockedSession) -> Awaitable[Release]:
        """Releases the lock, unless the waiting mark is set."""
        return self._release(lock)

    async def give_up(self, lock: LockedSession) -> None:
        """Releases the lock even if the waiting mark is set: for a session run that breaks off and claims no more.

        The row's `send_at` brings the session's next wake-up. A lock without an owner would turn that wake-up away, too.
        """
        if await self._release(lock) is Release.LOOK_AGAIN:
            await self._release(lock)

    async def extend(
        self, locks: Sequence[LockedSession], is_kept: Callable[[LockedSession], bool] = lambda lock: True
    ) -> list[Extension]:
        """Extends our locks and retakes free ones. A lost lock stops no handler.

        A free lock is retaken, because a flush must not let a second worker in while the first one works. But `is_kept` must
        still be true when the lock is found free. Otherwise a lock that its session run has just released would stay without an
        owner for a lease, and turn away every wake-up of its session.
        """
        unknown: list[int | None] = [None] * len(locks)
        extensions = [_EXTENSIONS[answer] for answer in await self._run(EXTEND, locks) or unknown]
        free = [place for place, found in enumerate(extensions) if found is Extension.FREE and is_kept(locks[place])]
        # If another worker took the lock in between, the same script sets our waiting mark, and that worker looks once more.
        answers = await self._run(ACQUIRE, [locks[place] for place in free]) or unknown
        taken = {1: Extension.RETAKEN, 0: Extension.LOST, 2: Extension.LOST, None: Extension.UNKNOWN}
        for place, answer in zip(free, answers, strict=False):
            extensions[place] = taken[answer]
        return extensions

    async def _acquire_many(self, locks: Sequence[LockedSession]) -> Sequence[Guard]:
        answers = await self._run(ACQUIRE, locks)
        if answers is None:
            return [Guard.UNGUARDED] * len(locks)
        meaning = {1: Guard.LOCKED, 0: Guard.BUSY, 2: Guard.FOREIGN, None: Guard.UNANSWERED}
        return [meaning[answer] for answer in answers]

    async def _release_many(self, locks: Sequence[LockedSession]) -> Sequence[Release]:
        # Tried even if Redis seems away: a lock that is not released turns away every wake-up of its session for a lease.
        answers = await self._run(RELEASE, locks, even_if_away=True)
        if answers is None:
            return [Release.UNKNOWN] * len(locks)
        meaning = {1: Release.LOOK_AGAIN, 0: Release.RELEASED, -1: Release.LOST, None: Release.UNKNOWN}
        return [meaning[answer] for answer in answers]

    async def _run(
        self, text: str, locks: Sequence[LockedSession], *, even_if_away: bool = False
    ) -> list[int | None] | None:
        """None: Redis is away and was not called. None for one lock: no response, and the script may have been executed."""
        if not locks:
            return []
        commands = [script(text, (one.key, one.waiting_key), one.token, self._milliseconds) for one in locks]
        answers = await self._redis.run(commands, even_if_away=even_if_away)
        return answers and [None if isinstance(answer, Exception) else int(answer) for answer in answers]
