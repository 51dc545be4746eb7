"""Watches sessions for clients, from turn to turn. `turn_watch` tells each turn.

A session's next turn is found in the table. A hint says when to look: the worker gives it when an attempt begins. Without hints
a watch looks every two seconds. All watches of a process share one query for the looks of the same moment.
"""

import math
import time
from collections.abc import AsyncGenerator

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.watch.looks import Looks
from turnstile.producer.watch.turn_watch import LONGEST_PAUSE_SECONDS, TurnWatch
from turnstile.queries.session_turns import Ahead, Look, SessionTurn, Told, look_ahead

LOOKS_BATCH = 200
QUIET_PAUSE_SECONDS = 15.0
"""The longest pause between two looks while hints are heard: for turns that wait for a worker, and for lost hints."""

WAITS_SECONDS = 600.0
"""How old a stream is that begins to wait for another turn, at most. Then its client connects again, with a credential that is
still valid."""


class SessionWatch:
    def __init__(self, settings: Settings, reads: Database, turns: TurnWatch) -> None:
        self._longest_pause = min(LONGEST_PAUSE_SECONDS, settings.stream_heartbeat_seconds)
        self._quiet_pause = min(QUIET_PAUSE_SECONDS, settings.stream_heartbeat_seconds)
        self._turns = turns
        self.look: Batcher[Look, Ahead] = Batcher(
            lambda wanted: look_ahead(reads, wanted), limit=LOOKS_BATCH, line_of=lambda look: look.tenant_id
        )
        """Batched, because after a restart a thousand clients reconnect at once. Raises DatabaseUnavailableError."""

    async def follow(
        self, tenant_id: str, session_id: str, told: Told, *, first: SessionTurn | None, waits: bool
    ) -> AsyncGenerator[SessionTurn | None, None]:
        """Yields `first`, then the turns after the one that was told, in the session's order: the caller tells each to its end.

        Yields None while there is no turn to tell, if it `waits`; otherwise it ends. One that waits also ends between two turns
        after WAITS_SECONDS. Each ends when the server stops.
        """
        looks = Looks(self._longest_pause)
        waits_until = time.monotonic() + WAITS_SECONDS if waits else math.inf
        with self._turns.listen_to_session(tenant_id, session_id) as listener:
            if first is not None:
                yield first
                told = Told(first.seq, first.queued_at)
            while not self._turns.is_stopping and time.monotonic() < waits_until:
                try:
                    ahead = await self.look(Look(tenant_id, session_id, told))
                except DatabaseUnavailableError:
                    ahead = None
                if ahead is not None and (turn := ahead.next) is not None:
                    yield turn
                    told = Told(turn.seq, turn.queued_at)
                    looks.start_over()
                    continue
                if ahead is not None and not waits:
                    return
                yield None
                hears = listener.is_connected and ahead is not None
                looks.longest_seconds = self._quiet_pause if hears else self._longest_pause
                await looks.pause(listener)
