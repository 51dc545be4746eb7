"""Overtaking: turns with a head start (`priority_seconds`) run before the messages that count as younger.

SQS delivers in the order of the sends. So a worker whose messages have waited for a second or longer looks at the table with each
look for lost turns (`worker.takeover`), and takes the turns that count as submitted before the turns that come from the queue now
(`statements.turns_ahead`). Several workers may try the same turn: one of them locks its session and claims it.
"""

from functools import partial

import psycopg

from turnstile.backends.jitter import CHANCE
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.statements.turns_ahead import TurnAhead, find_ahead
from turnstile.telemetry.own_log import log
from turnstile.worker.consumer import Consumer
from turnstile.worker.processor import Processor
from turnstile.worker.slots.queue_latency import QueueLatency

LEAST_WAIT_SECONDS = 1.0
"""With a shorter wait in the queue nothing is worth overtaking, and no look is made."""

SPREAD = 4
"""A worker chooses among so many times the turns that it can take: with the same choice, all workers would try the same turns."""


class Overtaking:
    """Takes turns ahead for one worker. `latency`: how long the turns that come from the queue have waited."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        consumer: Consumer,
        processor: Processor,
        latency: QueueLatency,
    ) -> None:
        self._queue = settings.queue
        self._database = database
        self._consumer = consumer
        self._processor = processor
        self._latency = latency

    async def look(self, most: int, wanted: int, now: float) -> int:
        """Starts at most `most` turns ahead; returns how many of `wanted` still wait for a slot."""
        behind = self._latency.behind(now)
        if behind is None or self._latency.seconds(now) < LEAST_WAIT_SECONDS:
            return 0
        try:
            found = await self._find(behind, SPREAD * wanted)
        except (DatabaseUnavailableError, psycopg.Error) as error:
            # Their messages bring them, later.
            log.info("ahead.not_looked_for", error=str(error))
            return 0
        for turn in CHANCE.sample(found, min(most, len(found))):
            self._consumer.serve(partial(self._processor.take_ahead, turn))
        return min(wanted, len(found)) - min(most, len(found))

    async def _find(self, behind: float, limit: int) -> list[TurnAhead]:
        full = self._processor.cap.full_tenants()
        return await find_ahead(self._database, self._queue, behind, limit, but_tenants=full)
