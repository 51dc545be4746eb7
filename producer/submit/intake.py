"""Commits the turns that clients submit: batches them into statements, and limits how many wait for their session.

Once a request is valid, a disconnect of the client does not stop it half-way: the result is either nothing or a turn with its
wake-up.
"""

import asyncio
from collections.abc import Sequence

import structlog

from turnstile.backends.batcher import Batcher
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, RowLockedError, SubmissionRefusedError
from turnstile.producer.session_gate import Session, SessionGate
from turnstile.statements.submit import Accepted, Submission
from turnstile.streaming.cancel_signals import CancelHints
from turnstile.submit.submitting import Submitting
from turnstile.turn.on_busy import OnBusy

MAX_BATCH = 200
MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Most bytes in one statement: a batch of the largest bodies must not become a statement of hundreds of megabytes."""

LANES = 2
PATIENT_LANES = 2
"""Submits that may wait for their session at a time: those with an `on_busy` policy, and those whose session is locked. Low, to
leave connections for other submits."""

PATIENCE_SECONDS = 5.0
"""Longest wait for a session. Fifty concurrent submits to one session take one or two seconds; later, clients give up."""

MOST_UNDER_WAY = 2000
"""Concurrent submits. A process commits some hundreds a second, so more would only wait and use memory."""

CLOSE_SECONDS = 10.0

log = structlog.get_logger("turnstile.api")


class Intake:
    """Submits turns for the API. One per process."""

    def __init__(self, settings: Settings, submitting: Submitting, hints: CancelHints) -> None:
        self._submitting = submitting
        self._hints = hints
        limit = max(1, min(MAX_BATCH, MAX_BATCH_BYTES // settings.max_body_bytes))
        self._batcher = Batcher(self._record, limit=limit, lanes=LANES)
        self._gate = SessionGate(PATIENT_LANES, PATIENCE_SECONDS)
        self._held: set[Session] = set()
        """Sessions that were locked during a batch. Their turns go through the gate until one of them succeeds."""
        self._under_way: set[asyncio.Task[Accepted]] = set()

    async def accept(self, submission: Submission) -> Accepted:
        """Commits the turn and sends its wake-up.

        Raises SubmissionRefusedError (nothing was committed) or DatabaseUnavailableError (the outcome may be unknown: repeat with
        the same key).
        """
        if len(self._under_way) >= MOST_UNDER_WAY:
            raise DatabaseUnavailableError("too many submits are under way")
        task = asyncio.create_task(self._commit_and_wake(submission))
        self._under_way.add(task)
        task.add_done_callback(self._forget)
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Waits up to CLOSE_SECONDS for submits whose clients have disconnected."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=CLOSE_SECONDS)

    def _forget(self, task: asyncio.Task[Accepted]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            # The request gets the error if it is still open. If not, asyncio would log the error as never retrieved.
            task.exception()

    async def _commit_and_wake(self, submission: Submission) -> Accepted:
        accepted = await self._commit(submission)
        if isinstance(accepted, SubmissionRefusedError):
            raise accepted
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
        return accepted

    async def _commit(self, submission: Submission) -> Accepted | SubmissionRefusedError:
        session = _session_of(submission)
        if submission.on_busy is OnBusy.ENQUEUE:
            answer = None if session in self._held else await self._batcher(submission)
            return await self._record_alone(submission) if answer is None else answer
        async with self._gate.enter(session):
            texted = await self._submitting.commit_on_busy(submission)
        # After the commit, so that a worker or a reader that receives a hint finds the cancel request, or the end, in the row.
        await self._hints.publish(texted.asked)
        await self._hints.tell_watchers(submission.tenant_id, submission.session_id, texted.canceled)
        return texted.answer

    async def _record(self, submissions: Sequence[Submission]) -> list[Accepted | SubmissionRefusedError | None]:
        """None for a submission: another transaction has locked its session, and nothing was committed."""
        try:
            return [*await self._submitting.commit(submissions)]
        except RowLockedError:
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
            [answer] = await self._submitting.commit([submission])
        self._held.discard(session)
        return answer


def _session_of(submission: Submission) -> Session:
    return submission.tenant_id, submission.session_id
