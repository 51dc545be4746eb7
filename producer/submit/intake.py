"""Taking a turn in: recorded and committed first, then its wake-up sent, then the client answered (G1).

Concurrent requests share their statements and their sends. Once a request is valid, nothing that the client does stops
it half-way: a client that goes away leaves behind either nothing or a turn with its wake-up.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import psycopg
import structlog

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import (
    DatabaseUnavailableError,
    RowHeldError,
    SubmissionRefusedError,
    TurnstileError,
)
from turnstile.producer.session_gate import Session, SessionGate
from turnstile.producer.submit.as_submission import as_submission
from turnstile.producer.submit.turn_request import TurnRequest
from turnstile.producer.submit.wake_ups import WakeUpSending
from turnstile.statements.submit import Accepted, Submission, submit
from turnstile.statements.submit_on_busy import submit_on_busy
from turnstile.statements.worker_registry import seen_seconds
from turnstile.streaming.cancel_signals import CancelHints
from turnstile.turn.on_busy import OnBusy

MAX_BATCH = 200
MAX_BATCH_BYTES = 16 * 1024 * 1024
"""What one statement may carry: a batch of the largest bodies must not become a statement of hundreds of megabytes."""

LANES = 2
PATIENT_LANES = 2
"""Submits that may wait for their session at a time: with a policy, or because somebody holds it. They must leave connections
to the others."""

PATIENCE_SECONDS = 5.0
"""Fifty at once to one session take a second or two; beyond this their clients begin to give up."""

MOST_UNDER_WAY = 2000
"""Beyond is nothing but waiting: an API process does some hundreds a second, and its memory holds what waits."""

RETRY_SECONDS = 0.5
RETRY_PAUSE_SECONDS = 0.02
CLOSE_SECONDS = 10.0

log = structlog.get_logger("turnstile.api")
Answer = TypeVar("Answer")


class UnstorableContentError(TurnstileError):
    """Postgres refused what the client sent, although it had passed every check."""


class Intake:
    """Submits turns for the API. One per process."""

    def __init__(self, settings: Settings, database: Database, sending: WakeUpSending, hints: CancelHints) -> None:
        self.max_body_bytes = settings.max_body_bytes
        self._settings = settings
        self._database = database
        self._sending = sending
        self._hints = hints
        limit = max(1, min(MAX_BATCH, MAX_BATCH_BYTES // settings.max_body_bytes))
        self._batcher = Batcher(self._record, limit=limit, lanes=LANES)
        self._gate = SessionGate(PATIENT_LANES, PATIENCE_SECONDS)
        self._held: set[Session] = set()
        """Sessions that somebody held when a batch came to them. Their turns go by the gate until one has passed."""
        self._under_way: set[asyncio.Task[Accepted]] = set()

    async def accept(
        self, tenant_id: str, session_id: str, request: TurnRequest, *, key: str | None, traceparent: str | None
    ) -> Accepted:
        """Records the turn and sends its wake-up.

        Raises UnknownQueueError, WebhookNotAllowedError, SubmissionRefusedError, UnstorableContentError (nothing was done) or
        DatabaseUnavailableError (nothing was done, or it can't be known: a repeat with the same key finds out).
        """
        queue = self._settings.find_queue(self._usual_queue() if request.queue is None else request.queue)
        hosts = self._settings.webhook_hosts
        submission = as_submission(
            request, tenant_id, session_id, queue, key=key, webhook_hosts=hosts, traceparent=traceparent
        )
        if len(self._under_way) >= MOST_UNDER_WAY:
            raise DatabaseUnavailableError("too many submits are under way")
        task = asyncio.create_task(self._commit_and_wake(submission, request.on_busy))
        self._under_way.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Waits, within bounds, for what was begun on behalf of clients that are gone."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=CLOSE_SECONDS)

    def _forget(self, task: asyncio.Task[Accepted]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            # Seen by the request, if that is still there. Nobody else needs telling.
            task.exception()

    def _usual_queue(self) -> str:
        names = self._settings.queues_by_name
        return self._settings.queue if self._settings.queue in names else next(iter(names))

    async def _commit_and_wake(self, submission: Submission, on_busy: OnBusy) -> Accepted:
        try:
            accepted = await self._commit(submission, on_busy)
        except psycopg.DataError as error:
            # No text of the error: it quotes what the client said.
            log.warning("api.unstorable", sqlstate=error.sqlstate, session_id=submission.session_id)
            raise UnstorableContentError("the database refused this content") from None
        if isinstance(accepted, SubmissionRefusedError):
            raise accepted
        sent = accepted.wake and await self._sending.send(accepted.queue, accepted.message(submission.tenant_id))
        log.info(
            "turn.submitted",
            turn_id=str(accepted.turn_id),
            session_id=accepted.session_id,
            tenant_id=submission.tenant_id,
            queue=accepted.queue,
            trace_id=accepted.trace.trace_id,
            replayed=accepted.replayed,
            merged=accepted.merged,
            scheduled=accepted.execute_at is not None,
            sent=sent,
        )
        return accepted

    async def _commit(self, submission: Submission, on_busy: OnBusy) -> Accepted | SubmissionRefusedError:
        session = _session_of(submission)
        if on_busy is OnBusy.ENQUEUE:
            answer = None if session in self._held else await self._batcher(submission)
            return await self._record_alone(submission) if answer is None else answer
        terms = {"net_seconds": self._settings.net_seconds, "seen_seconds": seen_seconds(self._settings)}
        async with self._gate.enter(session):
            texted = await self._persist(
                lambda: submit_on_busy(self._database, submission, on_busy, **terms), alone=True
            )
        # After the commit: whoever hears a hint finds the request, or the end, on the row.
        await self._hints.publish(texted.asked)
        await self._hints.tell_watchers(submission.tenant_id, submission.session_id, texted.canceled)
        return texted.answer

    async def _record(self, submissions: Sequence[Submission]) -> list[Accepted | SubmissionRefusedError | None]:
        """None: somebody holds the session, and nothing was done."""
        try:
            return [*await self._submit(submissions)]
        except RowHeldError:
            if len(submissions) > 1:
                return [await self._record_unless_held(submission) for submission in submissions]
            [held] = submissions
            self._held.add(_session_of(held))
            log.warning("api.session_held", tenant_id=held.tenant_id, session_id=held.session_id)
            return [None]

    async def _record_unless_held(self, submission: Submission) -> Accepted | SubmissionRefusedError | None:
        if _session_of(submission) in self._held:
            return None
        [answer] = await self._record([submission])
        return answer

    async def _record_alone(self, submission: Submission) -> Accepted | SubmissionRefusedError:
        session = _session_of(submission)
        async with self._gate.enter(session):
            [answer] = await self._submit([submission])
        self._held.discard(session)
        return answer

    async def _submit(self, submissions: Sequence[Submission]) -> list[Accepted | SubmissionRefusedError]:
        terms = {"net_seconds": self._settings.net_seconds, "seen_seconds": seen_seconds(self._settings)}
        return await self._persist(lambda: submit(self._database, submissions, **terms), alone=len(submissions) == 1)

    async def _persist(self, call: Callable[[], Awaitable[Answer]], *, alone: bool) -> Answer:
        begun = time.monotonic()
        again = collided = False
        while True:
            try:
                return await call()
            except RowHeldError:
                # The server has waited long enough, and has done nothing.
                raise
            except DatabaseUnavailableError:
                # Whether the lost call had committed is found out by asking again with the same ids: once in any case,
                # and on while it fails at once. After a restart of Postgres each connection of the pool fails once.
                if again and time.monotonic() - begun > RETRY_SECONDS:
                    raise
            except psycopg.errors.UniqueViolation:
                # Two requests chose the same turn id under different keys, or the lost call has committed after all, while
                # this one waited for it. One by one, the next finds the first.
                if collided or not alone:
                    raise
                collided = True
            if again:
                await asyncio.sleep(RETRY_PAUSE_SECONDS)
            again = True


def _session_of(submission: Submission) -> Session:
    return submission.tenant_id, submission.session_id
