"""The spans of attempts, each with its claim, its handler and its settle, and linked to the attempt before it.

The look-up of the attempt before runs in the background, only for recorded attempts that have one: no turn waits for it.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.queries.earlier_attempts import read_earlier_attempts
from turnstile.telemetry.own_log import log
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.envelope import ReceivedMessage
from turnstile.turn.identifiers import TraceContext
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.attempt.outcome import Outcome, fault_in
from turnstile.worker.attempt_observer import AttemptObserver, SettledAttempt
from turnstile.worker.session_run import SessionRun

if TYPE_CHECKING:
    # Imports OpenTelemetry.
    from turnstile.telemetry.turn_spans import TurnSpans

BATCH = 50


class AttemptTraces(AttemptObserver):
    """The traces of one worker that exports them."""

    def __init__(self, spans: "TurnSpans", queue: str, database: Database) -> None:
        self._spans = spans
        self._queue = queue
        self._earlier: Batcher[tuple[UUID, int], TraceContext | None] = Batcher(
            partial(read_earlier_attempts, database), limit=BATCH
        )

    def received(self, wake_up: WakeUp, message: ReceivedMessage, outcome: str) -> None:
        self._spans.received(self._queue, message, wake_up, outcome)

    def claimed(self, run: SessionRun, turn: ClaimedTurn, asked_at: int | None) -> None:
        message_id = run.message.message_id if run.message is not None and not run.turns else None
        span = run.span = self._spans.begin_attempt(turn, message_id, asked_at)
        if span is not None and span.is_recorded and (turn.begun_before or turn.generation > 1):
            span.await_link()

            def link(earlier: "asyncio.Future[TraceContext | None]") -> None:
                span.link(_found(earlier))

            self._earlier((turn.id, turn.fence)).add_done_callback(link)

    def handler_ended(self, run: SessionRun, outcome: Outcome) -> None:
        if run.span is not None:
            run.span.leave_handler(fault_in(outcome))

    def settled(self, run: SessionRun, attempt: SettledAttempt) -> None:
        if run.span is not None:
            run.span.settled(attempt.status, attempt.settlement)

    def superseded(self, run: SessionRun, turn: ClaimedTurn, *, at_settle: bool) -> None:
        if run.span is not None:
            run.span.superseded(at_settle=at_settle)


def _found(earlier: "asyncio.Future[TraceContext | None]") -> TraceContext | None:
    if earlier.cancelled():
        return None
    if (error := earlier.exception()) is None:
        return earlier.result()
    # The span is exported without the link. Without the error's text: that of Postgres may have row values.
    log.warning("tracing.not_linked", error_class=type(error).__name__)
    return None
