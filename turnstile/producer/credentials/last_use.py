"""Notes when a key was last used: seldom, and in the background, because nobody waits for it."""

import asyncio
import time
from collections.abc import Callable, Sequence

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.statements.api_keys import note_use

EVERY_SECONDS = 60.0
MOST_NOTED = 500


class LastUse:
    """Writes the use of each key once in EVERY_SECONDS at most. One per process. `clock` is monotonic, in seconds."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._noted_at: dict[str, float] = {}
        self._noting: Batcher[str, None] = Batcher(self._write, limit=MOST_NOTED)

    def note(self, key_id: str) -> None:
        """Notes a use, now or never: a write that fails is not repeated before the key's next use after EVERY_SECONDS."""
        now = self._clock()
        if now < self._noted_at.get(key_id, -EVERY_SECONDS) + EVERY_SECONDS:
            return
        self._noted_at[key_id] = now
        self._noting(key_id).add_done_callback(_forget)

    async def _write(self, key_ids: Sequence[str]) -> Sequence[None]:
        # Keys that are not used any more take no memory for ever.
        oldest = self._clock() - EVERY_SECONDS
        self._noted_at = {key_id: at for key_id, at in self._noted_at.items() if at >= oldest}
        await note_use(self._database, key_ids)
        return [None] * len(key_ids)


def _forget(noted: "asyncio.Future[None]") -> None:
    # An error that nobody asks for would be logged with a stack. The pool has counted the outage.
    if not noted.cancelled():
        noted.exception()
