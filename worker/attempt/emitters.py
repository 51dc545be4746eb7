"""The voice of a worker: the emitters of its attempts, each as long as it has something to say."""

import asyncio

from turnstile.config.settings import Settings
from turnstile.streaming.event import name_stream
from turnstile.streaming.stream import EventWriter
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.attempt.emitter import Emitter

LAST_CALL_SECONDS = 0.3


class Emitters:
    """Makes the emitters of one worker, and lets them finish their sentences."""

    def __init__(self, settings: Settings, writer: EventWriter) -> None:
        self._prefix = settings.redis_prefix
        self._cap = settings.events_cap
        self._writer = writer
        # In the order of their beginning: a dict, as everywhere where the order of a set would be that of addresses.
        self._speaking: dict[Emitter, None] = {}
        self._quiet: asyncio.Future[None] | None = None
        """Waited for at the end: done when nobody speaks any more."""

    def begin(self, turn: ClaimedTurn) -> Emitter:
        """For an attempt that begins now. Called on the event loop."""
        key = name_stream(self._prefix, turn.tenant_id, turn.session_id, turn.id)
        return Emitter(turn, key, self._cap, self._writer.append, self._note)

    async def finish(self, most_seconds: float) -> None:
        """Waits until nobody speaks any more."""
        if self._speaking:
            self._quiet = asyncio.get_running_loop().create_future()
            await asyncio.wait({self._quiet}, timeout=most_seconds)

    async def close(self) -> None:
        """Lets out what was settled a moment ago, within a bound."""
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
