"""The emitters of a worker's attempts, each until its last event is appended."""

import asyncio

from turnstile.config.settings import Settings
from turnstile.streaming.event import name_stream
from turnstile.streaming.stream import EventWriter
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.emitter import Emitter

LAST_CALL_SECONDS = 0.3


class Emitters:
    def __init__(self, settings: Settings, writer: EventWriter) -> None:
        self._prefix = settings.redis_prefix
        self._cap = settings.events_cap
        self._writer = writer
        # A dict used as an ordered set: the iteration order of a set would depend on memory addresses.
        self._speaking: dict[Emitter, None] = {}
        self._quiet: asyncio.Future[None] | None = None
        """Done when no emitter has anything left to append; awaited at the end."""

    def begin(self, turn: ClaimedTurn) -> Emitter:
        """The emitter for an attempt that begins now. Call it on the event loop."""
        key = name_stream(self._prefix, turn.tenant_id, turn.session_id, turn.id)
        return Emitter(turn, key, self._cap, self._writer.append, self._note)

    async def finish(self, most_seconds: float) -> None:
        """Waits until no emitter has anything left to append, for `most_seconds` at most."""
        if self._speaking:
            self._quiet = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._quiet}, timeout=most_seconds)

    async def close(self) -> None:
        """Waits LAST_CALL_SECONDS at most for the last events of turns that were just settled, and discards the rest."""
        await self.finish(LAST_CALL_SECONDS)
        for emitter in list(self._speaking):
            emitter.fall_silent()

    def _note(self, emitter: Emitter, speaks: bool) -> None:
        if speaks:
            self._speaking[emitter] = None
            return
        del self._speaking[emitter]
        if self._quiet is not None and not self._speaking and not self._quiet.done():
            self._quiet.set_result(None)
