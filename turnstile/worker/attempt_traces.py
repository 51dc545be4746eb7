"""Begins the spans of attempts, if traces are exported, and links each to the attempt before it.

The look-up of the attempt before runs in the background, only for recorded attempts that have one: no turn waits for it.
"""

import asyncio
from functools import partial
from uuid import UUID

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.queries.earlier_attempts import read_earlier_attempts
from turnstile.telemetry import tracing
from turnstile.telemetry.own_log import log
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import TraceContext
from turnstile.worker.session_run import SessionRun

BATCH = 50


class AttemptTraces:
    """Of one worker."""

    def __init__(self, database: Database) -> None:
        self._earlier: Batcher[tuple[UUID, int], TraceContext | None] = Batcher(
            partial(read_earlier_attempts, database), limit=BATCH
        )

    def begin(self, run: SessionRun, turn: ClaimedTurn, asked_at: int | None) -> None:
        """Call it when a claim has returned. `asked_at`: as in `TurnSpans.begin_attempt`."""
        run.span = None
        if tracing.active is None:
            return
        message_id = run.message.message_id if run.message is not None and not run.turns else None
        span = run.span = tracing.active.begin_attempt(turn, message_id, asked_at)
        if span is not None and span.is_recorded and (turn.begun_before or turn.generation > 1):
            span.await_link()

            def link(earlier: "asyncio.Future[TraceContext | None]") -> None:
                span.link(_found(earlier))

            self._earlier((turn.id, turn.fence)).add_done_callback(link)


def _found(earlier: "asyncio.Future[TraceContext | None]") -> TraceContext | None:
    if earlier.cancelled():
        return None
    if (error := earlier.exception()) is None:
        return earlier.result()
    # The span is exported without the link. Without the error's text: that of Postgres may have row values.
    log.warning("tracing.not_linked", error_class=type(error).__name__)
    return None
