"""Commits the turns that clients submit: those of many requests with one statement."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from turnstile.backends.batcher import Batcher
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, RowLockedError, SubmissionRefusedError
from turnstile.producer.session_gate import Session, SessionGate
from turnstile.producer.sharing.fair_places import FairPlaces, NoPlaceError
from turnstile.producer.sharing.open_turn_caps import OpenTurnCaps, TooManyOpenTurnsError
from turnstile.producer.sharing.seen_tenants import SeenTenants
from turnstile.statements.submit import Accepted, Submission
from turnstile.streaming.cancel_hints import CancelHints
from turnstile.submission.commit_then_wake import Submitting
from turnstile.telemetry.metrics import TURNS_SUBMITTED
from turnstile.telemetry.own_log import log
from turnstile.turn.on_busy import OnBusy

MAX_BATCH = 200
MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Most bytes in one statement: a batch of the largest bodies must not become a statement of hundreds of megabytes."""

LANES = 2
"""Concurrent batches."""

MOST_UNDER_WAY = 2000
"""Concurrent submits. A process commits some hundreds a second, so more would only wait and use memory. The limit for connections
does not include the submits of clients that have disconnected."""


class Intake:
    """Submits turns for the API. One per process."""

    def __init__(
        self,
        settings: Settings,
        submitting: Submitting,
        hints: CancelHints,
        gate: SessionGate,
        *,
        shared: bool | SeenTenants,
        caps: OpenTurnCaps | None = None,
    ) -> None:
        """`caps`: None if the settings cap no open turns."""
        self._submitting = submitting
        self._hints = hints
        self._gate = gate
        self._caps = caps
        limit = max(1, min(MAX_BATCH, MAX_BATCH_BYTES // settings.max_body_bytes))
        self._batcher = Batcher(self._record, limit=limit, lanes=LANES, line_of=lambda one: one.tenant_id)
        self._places = FairPlaces(MOST_UNDER_WAY, "submits under way", shared=shared)

    async def accept(self, submission: Submission) -> Accepted:
        """Commits the turn and sends its wake-up. The server lets it finish if the client disconnects.

        Raises SubmissionRefusedError or NoPlaceError (nothing was committed), or DatabaseUnavailableError (the outcome may be
        unknown: repeat with the same key).
        """
        began_at = time.time_ns()
        with _failures_counted(submission.queue):
            submission = self._submitting.decide_sampling(submission)
            await self.admit(submission)
            accepted = await self.commit(submission)
            if isinstance(accepted, SubmissionRefusedError):
                raise accepted
        await self.report(submission, accepted, began_at)
        return accepted

    async def report(self, submission: Submission, accepted: Accepted, began_at: int) -> None:
        """Sends the wake-up of a turn that was committed, and notes it. `began_at`: when its request came (Unix time in
        nanoseconds)."""
        TURNS_SUBMITTED.add(1, submission.queue, "repeated" if accepted.replayed else "accepted")
        sent = await self._submitting.wake(submission, accepted)
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
            sent=bool(sent),
        )
        self._submitting.trace(submission, accepted, began_at)

    async def admit(self, submission: Submission) -> None:
        """Counts the turn against the caps on open turns. Raises TooManyOpenTurnsError, or DatabaseUnavailableError."""
        if self._caps is None:
            return
        # The other policies leave at most one turn waiting behind the one that runs.
        enqueues = submission.on_busy is OnBusy.ENQUEUE
        try:
            await self._caps.admit(submission.tenant_id, submission.session_id, lengthens_session=enqueues)
        except TooManyOpenTurnsError:
            # A repeat adds no turn, and its client must learn that the first one was accepted.
            if not await self._submitting.is_recorded(submission):
                raise

    async def commit(self, submission: Submission) -> Accepted | SubmissionRefusedError:
        """Commits one turn. Raises what `accept` raises; some refusals are returned."""
        session = session_of(submission)
        if submission.on_busy is not OnBusy.ENQUEUE:
            async with self._gate.enter(session):
                texted = await self._submitting.commit_on_busy(submission)
            # After the commit, so that a worker or reader that receives a hint finds the cancel request, or the end, in the row.
            await self._hints.publish(texted.asked)
            await self._hints.tell_watchers(submission.tenant_id, submission.session_id, texted.canceled)
            return texted.answer
        if session not in self._gate.suspects:
            # Only here: a submit that waits at the gate has a place there.
            with self._places.take(submission.tenant_id):
                recorded = await self._batcher(submission)
            if recorded is not None:
                return recorded
        async with self._gate.enter(session):
            [alone] = await self._submitting.commit([submission])
        return alone

    async def _record(self, submissions: Sequence[Submission]) -> Sequence[Accepted | SubmissionRefusedError | None]:
        """None for each submission: another transaction has locked one of the sessions, and nothing was committed."""
        try:
            return await self._submitting.commit(submissions)
        except RowLockedError:
            # Which session is locked is unknown. All are suspects until one of their turns is recorded alone, so that the next
            # batch does not wait for the same lock.
            self._gate.suspect(map(session_of, submissions))
            return [None] * len(submissions)


def begin_metrics(queues: Iterable[str]) -> None:
    """Accepted turns are 0 from the start of the API on: an alert on their absence sees nothing where there is no series."""
    for queue in queues:
        TURNS_SUBMITTED.add(0, queue, "accepted")


def count_failure(queue: str, error: Exception) -> None:
    """Counts a submit to the queue that got this error."""
    TURNS_SUBMITTED.add(1, queue, "failed" if isinstance(error, DatabaseUnavailableError) else "refused")


@contextmanager
def _failures_counted(queue: str) -> Iterator[None]:
    try:
        yield
    except (SubmissionRefusedError, NoPlaceError, DatabaseUnavailableError) as error:
        count_failure(queue, error)
        raise


def session_of(submission: Submission) -> Session:
    return submission.tenant_id, submission.session_id
