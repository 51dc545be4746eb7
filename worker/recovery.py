"""Recovery: a worker takes over the lost turns of its queue while it has free slots. No message is needed for it.

A message would wait behind the backlog. So every second, and more often while more is waiting, each worker reads what the relay
has marked as lost (`statements.lost_turns`) and gives it to its processor, ahead of what it receives. Several workers may try
for the same turn: one gets its lock and claims it, for the others it costs one look.
"""

import asyncio
import random
import time
from contextlib import suppress
from functools import partial

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.relay.steps import alone
from turnstile.statements.lost_turns import find_lost
from turnstile.worker.consumer import Consumer
from turnstile.worker.processor import Processor

WAVE_SHARE = 4
"""A look takes over up to a quarter of the slots, so that the workers of a fleet share what one of them has lost. A turn that
kills its worker at once then takes down a part of the others and not all."""
NEXT_WAVE_SECONDS = 0.25
OFFER_AGAIN_SECONDS = 2.0
"""Meanwhile another worker holds the session's lock, or this one is on its way to the claim."""


class Recovery:
    """The loop. One for each worker process."""

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

    async def run(self, stopping: asyncio.Event) -> None:
        """Looks until `stopping`. A look that fails is not the last."""
        while not stopping.is_set():
            more = await alone("take_over", self._look())
            if more is None:
                # What waits is not known, and slots that stay free for it would stand idle.
                self._consumer.keep_free(0)
            tick = self._settings.relay_tick_seconds * random.uniform(0.7, 1.0)  # noqa: S311 - not a secret
            pause = min(NEXT_WAVE_SECONDS, tick) if more else tick
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await stopping.wait()

    async def _look(self) -> bool:
        """Takes over what there is room for. True if more waits for a slot or for the next wave."""
        now = time.monotonic()
        self._offered = {session: at for session, at in self._offered.items() if now - at < OFFER_AGAIN_SECONDS}
        found = await find_lost(
            self._database,
            self._settings.queue,
            self._settings.concurrency,
            but_tenants=self._processor.full_tenants(),
        )
        waiting = [lost for lost in found if (lost.tenant_id, lost.session_id) not in self._offered]
        left = self._processor.quarantine.count_admitted(lost.crashes for lost in waiting)
        most = min(self._consumer.room, self._wave)
        for lost in waiting:
            if most <= 0:
                break
            if (seat := self._processor.quarantine.enter(lost.crashes)) is None:
                continue
            self._offered[lost.tenant_id, lost.session_id] = now
            self._consumer.serve(partial(self._processor.recover, lost, seat))
            most, left = most - 1, left - 1
        # Slots are for these first. A poll would fill them from the backlog.
        self._consumer.keep_free(left)
        return left > 0
