"""Takeover: a worker with free slots takes over the lost turns of its queue. It needs no message for that.

A message would wait behind the backlog. So every second, and more often while more turns wait, each worker reads the turns that
the relay has marked as lost (`statements.lost_turns`), and processes them before received messages. Several workers may try the
same turn: one of them locks its session and claims it, and the others lose one call each. With the room that is left, the same
look takes turns with a head start (`worker.overtaking`).
"""

import asyncio
import time
from contextlib import suppress
from functools import partial

from turnstile.backends.jitter import CHANCE
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.fault_isolation import alone
from turnstile.statements.lost_turns import find_lost
from turnstile.worker.consumer import Consumer
from turnstile.worker.overtaking import Overtaking
from turnstile.worker.processor import Processor

WAVE_SHARE = 4
"""One look takes over at most a quarter of the slots (1 / WAVE_SHARE), so that the workers of a fleet share the turns that one of
them has lost. A turn that kills its worker at once then takes down only a part of the other turns."""
NEXT_WAVE_SECONDS = 0.25
OFFER_AGAIN_SECONDS = 2.0
"""How long a session is not tried again. Meanwhile another worker has its lock, or this worker is about to claim it."""


class Takeover:
    def __init__(
        self,
        settings: Settings,
        database: Database,
        consumer: Consumer,
        processor: Processor,
    ) -> None:
        self._settings = settings
        self._database = database
        self._consumer = consumer
        self._processor = processor
        self._wave = max(1, settings.concurrency // WAVE_SHARE)
        self._offered: dict[tuple[str, str], float] = {}
        latency = processor.runner.queue_latency
        self._overtaking = Overtaking(settings, database, consumer, processor, latency)

    async def run(self, stopping: asyncio.Event) -> None:
        """Looks for lost turns until `stopping`. A failed look does not end the loop."""
        while not stopping.is_set():
            more = await alone("take_over", self._look())
            if more is None:
                # The look failed, so it is unknown whether turns wait: slots that are reserved for them would stay idle.
                self._consumer.keep_free(0)
            tick = self._settings.relay_tick_seconds * CHANCE.uniform(0.7, 1.0)
            pause = min(NEXT_WAVE_SECONDS, tick) if more else tick
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stopping.wait()

    async def _look(self) -> bool:
        """Takes over as many turns as there is room for. True if more turns wait for a slot or for the next wave."""
        if self._consumer.pause.is_on:
            return False
        now = time.monotonic()
        self._offered = {session: at for session, at in self._offered.items() if now - at < OFFER_AGAIN_SECONDS}
        found = await find_lost(
            self._database,
            self._settings.queue,
            self._settings.concurrency,
            but_tenants=self._processor.cap.full_tenants(),
        )
        waiting = [lost for lost in found if (lost.tenant_id, lost.session_id) not in self._offered]
        may_run = [(lost, seat) for lost in waiting if (seat := self._processor.claimer.quarantine.enter(lost.crashes))]
        most = max(0, min(self._consumer.room, self._wave))
        for lost, seat in may_run[:most]:
            self._offered[lost.tenant_id, lost.session_id] = now
            self._consumer.serve(partial(self._processor.take_over, lost, seat))
        for _, seat in may_run[most:]:
            seat.leave()
        # Reserve slots for the remaining turns: a poll would fill the slots from the backlog.
        left = len(may_run[most:])
        if not left:
            room = max(0, min(self._consumer.room, self._wave - len(may_run)))
            left = await self._overtaking.look(room, self._wave, now)
        self._consumer.keep_free(left)
        return left > 0
