"""The session lock: one Redis key that says which worker is on a session right now (A1, L1). All Redis calls of it.

    SET lock:session:{<tenant>/<session>} <token> NX PX <lease>

It saves duplicate work and nothing depends on it: order, exclusion and one settlement per claim are Postgres's (see
`statements.claim`). So Redlock would buy nothing (ADR 0007), and while Redis is away a session run goes on without a lock.

A session that is busy is not waited for (L5). Whoever comes second leaves a *waiting* mark beside the lock in the same
script and goes; the holder finds it at its unlock and looks at the session once more before it lets go. Lock and mark
share a hash tag, so that they live in one cluster slot.

Every call may have been executed although its answer got lost. So taking a lock that has our own token is taking it, and
releasing compares first.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from turnstile.backends.batcher import Batcher
from turnstile.backends.redis.client import script
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.settings import Settings

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

EXTEND = """
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if not holder then return 2 end
return 0
"""


class Guard(StrEnum):
    """What became of an attempt to lock a session."""

    LOCKED = "locked"
    BUSY = "busy"
    """Another worker is on it, and has been told to look again."""
    UNGUARDED = "unguarded"
    """Redis is away and was not asked: the claim decides alone."""
    UNANSWERED = "unanswered"
    """Redis was asked and is silent: the claim decides alone, and the lock may be ours. Who goes on gives it back."""

    @property
    def result(self) -> str:
        """For the log, whose readers count what was unguarded, for whatever reason."""
        return Guard.UNGUARDED.value if self is Guard.UNANSWERED else self.value


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
    FREE = "free"
    """It is gone, because its session run has released it meanwhile."""
    LOST = "lost"
    """Another worker has it."""
    UNKNOWN = "unknown"
    """Its Redis did not answer, or is away and was not asked."""


_EXTENSIONS = {1: Extension.EXTENDED, 2: Extension.FREE, 0: Extension.LOST, None: Extension.UNKNOWN}


@dataclass(frozen=True, slots=True)
class LockedSession:
    """The keys of a session's lock, and the token that makes it ours."""

    key: str
    waiting_key: str
    token: str


def name_lock(settings: Settings, tenant_id: str, session_id: str, token: str) -> LockedSession:
    """The keys for a session. `token` is used by one session run only."""
    key = f"{settings.redis_prefix}lock:session:{{{tenant_id}/{session_id}}}"
    return LockedSession(key, f"{key}:waiting", token)


class SessionLock:
    """Takes and gives back session locks; calls that are made at the same moment share a round trip."""

    def __init__(self, settings: Settings, redis: Guarded) -> None:
        self._redis = redis
        self._milliseconds = int(settings.lease_seconds * 1000)
        self._acquire = Batcher(self._acquire_many, limit=BATCH)
        self._release = Batcher(self._release_many, limit=BATCH)

    def acquire(self, lock: LockedSession) -> Awaitable[Guard]:
        """Takes the lock or leaves the waiting mark."""
        return self._acquire(lock)

    def release(self, lock: LockedSession) -> Awaitable[Release]:
        """Gives the lock back, unless somebody waits."""
        return self._release(lock)

    async def give_up(self, lock: LockedSession) -> None:
        """Releases the lock although another worker may wait: for a session run that breaks off and claims no more.

        What they wait for is brought by the row's `send_at`. A lock with nobody behind it would turn that away, too.
        """
        if await self._release(lock) is Release.LOOK_AGAIN:
            await self._release(lock)

    async def extend(
        self, locks: Sequence[LockedSession], is_kept: Callable[[LockedSession], bool] = lambda lock: True
    ) -> list[Extension]:
        """Extends our locks and retakes free ones. A lost lock stops no handler.

        Retaken, because a flush must not let a second worker in while the first is at work; but only if `is_kept` still holds
        when the lock is found free. Otherwise a lock that its session run has just released would stand without an owner for a
        lease, and turn away every wake-up of its session (found by the simulation, without any fault).
        """
        extensions = [_EXTENSIONS[answer] for answer in await self._ask(EXTEND, locks)]
        free = [place for place, found in enumerate(extensions) if found is Extension.FREE and is_kept(locks[place])]
        # A worker that came in between finds our waiting mark, left by the same script, and looks once more.
        answers = await self._ask(ACQUIRE, [locks[place] for place in free])
        taken = {1: Extension.RETAKEN, 0: Extension.LOST, None: Extension.UNKNOWN}
        for place, answer in zip(free, answers, strict=True):
            extensions[place] = taken[answer]
        return extensions

    async def _ask(self, text: str, locks: Sequence[LockedSession]) -> list[int | None]:
        """None for each that was not answered, or not asked because Redis is away."""
        answers = await self._run(text, locks) if locks else []
        return [None] * len(locks) if answers is None else answers

    async def _acquire_many(self, locks: Sequence[LockedSession]) -> Sequence[Guard]:
        answers = await self._run(ACQUIRE, locks)
        if answers is None:
            return [Guard.UNGUARDED] * len(locks)
        meaning = {1: Guard.LOCKED, 0: Guard.BUSY, None: Guard.UNANSWERED}
        return [meaning[answer] for answer in answers]

    async def _release_many(self, locks: Sequence[LockedSession]) -> Sequence[Release]:
        # A lock that is not given back turns away every wake-up of its session for a lease: worth a try.
        answers = await self._run(RELEASE, locks, even_if_away=True)
        if answers is None:
            return [Release.UNKNOWN] * len(locks)
        meaning = {1: Release.LOOK_AGAIN, 0: Release.RELEASED, -1: Release.LOST, None: Release.UNKNOWN}
        return [meaning[answer] for answer in answers]

    async def _run(
        self, text: str, locks: Sequence[LockedSession], *, even_if_away: bool = False
    ) -> list[int | None] | None:
        """None: not asked, because Redis is away. None for one of them: not answered, and perhaps done."""
        commands = [script(text, (one.key, one.waiting_key), one.token, self._milliseconds) for one in locks]
        answers = await self._redis.run(commands, even_if_away=even_if_away)
        return answers and [None if isinstance(answer, Exception) else int(answer) for answer in answers]
