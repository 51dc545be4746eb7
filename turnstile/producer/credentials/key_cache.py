"""The keys of the table, as an API process remembers them.

A key that a process knows is read again once its answer is older than FRESH_SECONDS: so a revocation takes effect within
this time in every process. While Postgres is away, a known key stays valid for AWAY_SECONDS, and an unknown one can't be
judged (503).

Anybody can send ids that do not exist. All of them share one statement every PAUSE_SECONDS, and MOST_STRANGERS may wait for
it. The reads of known keys are apart, so strangers do not delay them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import ProblemError, unavailable
from turnstile.queries.api_keys import StoredKey, any_key_exists, read_keys

FRESH_SECONDS = 10.0
AWAY_SECONDS = 900.0
RETRY_SECONDS = 2.0
"""How long known keys are not read again after a read has failed: no request waits for a Postgres that is known to be away."""
PAUSE_SECONDS = 0.1
MOST_STRANGERS = 500
MOST_READ = 500
MOST_CALLERS = 10_000
MOST_KNOWN = 50_000
"""A known key takes about 500 bytes."""


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key's row, with times of this process's monotonic clock."""

    stored: StoredKey
    read_at: float
    expires_at: float | None


class KeyCache:
    """Finds keys by their ids, and with another `read` browser tokens. One of each per process.

    `clock` is monotonic, in seconds; so is what `pause` waits for.
    """

    def __init__(
        self,
        database: Database,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        *,
        read: Callable[[Database, Sequence[str]], Awaitable[Mapping[str, StoredKey]]] = read_keys,
    ) -> None:
        self._database = database
        self._clock = clock
        self._pause = pause
        self._read_rows = read
        self._known: dict[str, KnownKey] = {}
        self._again: Batcher[str, KnownKey | None] = Batcher(self._read, limit=MOST_READ)
        self._first: Batcher[str, KnownKey | None] = Batcher(self._read_slowly, limit=MOST_READ)
        self._any: Batcher[None, bool] = Batcher(self._look, limit=MOST_CALLERS)
        self._strangers = 0
        self._crowded = Tally("api.unknown_keys_refused")
        self._away_until = 0.0
        self._slow_until = 0.0
        self._exists = False
        self._none_at: float | None = None

    async def find(self, key_id: str) -> KnownKey | None:
        """The key with this id; None if there is none.

        Raises DatabaseUnavailableError or ProblemError (503) if that is not known.
        """
        known = self._known.get(key_id)
        if known is None:
            return await self._find_stranger(key_id)
        now = self._clock()
        if now < known.read_at + FRESH_SECONDS:
            return known
        may_keep = now < known.read_at + AWAY_SECONDS
        if may_keep and now < self._away_until:
            return known
        try:
            return await self._again(key_id)
        except DatabaseUnavailableError:
            self._away_until = self._clock() + RETRY_SECONDS
            if may_keep:
                return known
            raise

    async def exist(self) -> bool:
        """Whether a key was ever made, as of FRESH_SECONDS ago or later. Raises DatabaseUnavailableError."""
        if self._none_at is not None and self._clock() < self._none_at + FRESH_SECONDS:
            return False
        return self._exists or await self._any(None)

    async def _look(self, callers: Sequence[None]) -> Sequence[bool]:
        now = self._clock()
        self._exists = await any_key_exists(self._database)
        self._none_at = None if self._exists else now
        return [self._exists] * len(callers)

    async def _find_stranger(self, key_id: str) -> KnownKey | None:
        if self._strangers >= MOST_STRANGERS:
            self._crowded.note(waiting=self._strangers)
            raise _too_many()
        self._strangers += 1
        try:
            return await self._first(key_id)
        finally:
            self._strangers -= 1

    async def _read_slowly(self, key_ids: Sequence[str]) -> Sequence[KnownKey | None]:
        await self._pause(self._slow_until - self._clock())
        self._slow_until = self._clock() + PAUSE_SECONDS
        return await self._read(key_ids)

    async def _read(self, key_ids: Sequence[str]) -> Sequence[KnownKey | None]:
        # Before the read: an answer counts from when it was asked for.
        now = self._clock()
        found = await self._read_rows(self._database, sorted({*key_ids}))
        for key_id in key_ids:
            # The newest is the last.
            self._known.pop(key_id, None)
            if (stored := found.get(key_id)) is not None:
                ends = None if stored.seconds_left is None else now + stored.seconds_left
                self._known[key_id] = KnownKey(stored, now, ends)
        while len(self._known) > MOST_KNOWN:
            del self._known[next(iter(self._known))]
        return [self._known.get(key_id) for key_id in key_ids]


def _too_many() -> ProblemError:
    return unavailable("too many unknown keys are looked up; try again after `Retry-After` seconds")
