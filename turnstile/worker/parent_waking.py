"""Wakes the parents of turns that have ended.

Best effort and in the background: a slot must not wait for it, and the relay's scan finds parents that are missed here.
"""

import asyncio
from collections.abc import Callable, Sequence
from uuid import UUID

import psycopg

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError
from turnstile.statements.join import wake_parents
from turnstile.telemetry.own_log import log
from turnstile.turn.status import TurnStatus
from turnstile.worker.attempt_observer import AttemptObserver, SettledAttempt
from turnstile.worker.session_run import SessionRun

BATCH = 200


class ParentWaking(AttemptObserver):
    """Wakes parents, for one worker."""

    def __init__(self, database: Database, nudge_relay: Callable[[], None]) -> None:
        self._database = database
        self._nudge_relay = nudge_relay
        self._batcher: Batcher[UUID, str | None] = Batcher(self._wake, limit=BATCH)
        self._under_way: set[asyncio.Task[None]] = set()

    def settled(self, run: SessionRun, attempt: SettledAttempt) -> None:
        """Wakes the turn's parent, or the turn itself, if it has no children left to wait for.

        The turn itself, because its last child may have ended before this settle made the turn wait.
        """
        turn = attempt.turn
        if attempt.status.is_terminal and turn.parent_turn_id is not None:
            self._look_after(turn.parent_turn_id, turn.trace_id)
        elif attempt.status is TurnStatus.PENDING and attempt.settlement.joining:
            self._look_after(turn.id, turn.trace_id)

    def _look_after(self, parent_id: UUID, trace_id: str) -> None:
        task = asyncio.create_task(self._try(parent_id, trace_id))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _try(self, parent_id: UUID, trace_id: str) -> None:
        try:
            present_trace_id = await self._batcher(parent_id)
        except (DatabaseUnavailableError, psycopg.Error) as error:
            # A child has its parent's trace, unless the parent was redriven since.
            log.warning("join.not_looked_at", turn_id=str(parent_id), trace_id=trace_id, error=str(error))
            return
        if present_trace_id is not None:
            log.info("join.over", turn_id=str(parent_id), trace_id=present_trace_id)
            self._nudge_relay()

    async def _wake(self, parents: Sequence[UUID]) -> list[str | None]:
        """The trace id of each parent that was woken; None for the others."""
        woken = await wake_parents(self._database, parents)
        return [woken.get(parent) for parent in parents]
