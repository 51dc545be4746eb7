"""Submits the children that handlers start, and cancels those that a join gives up. Children that are started at the same time
share a statement.

A wake-up that can't be sent at once is sent later by the relay: no client waits for a child's reply.
"""

import time
from collections.abc import Sequence
from uuid import UUID

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import ParentSupersededError, SubmissionRefusedError
from turnstile.message_queue import MessageQueues
from turnstile.statements.cancel import cancel
from turnstile.statements.submit import Accepted, Submission
from turnstile.streaming.cancel_hints import CancelHints
from turnstile.submission.commit_then_wake import Submitting
from turnstile.submission.wake_ups import WakeUpSending
from turnstile.telemetry.own_log import log
from turnstile.telemetry.tracing import Traces
from turnstile.turn.cancel_reason import CancelReason
from turnstile.worker.attempt.outcome import ClaimLost

MAX_BATCH = 50


class ChildIntake:
    def __init__(
        self, settings: Settings, database: Database, queues: MessageQueues, hints: CancelHints, traces: Traces
    ) -> None:
        self.find_queue = settings.find_queue
        self._database = database
        self._sending = WakeUpSending(queues, list(settings.queues_by_name))
        self._submitting = Submitting(settings, database, self._sending, traces)
        self._hints = hints
        self._batcher = Batcher(self._commit_and_wake, limit=MAX_BATCH)

    async def accept(self, submission: Submission) -> Accepted:
        """Commits a child and sends its wake-up.

        Raises ClaimLost, SubmissionRefusedError or DatabaseUnavailableError; after the last it may be called again with
        the same submission.
        """
        began_at = time.time_ns()
        accepted = await self._batcher(submission)
        if isinstance(accepted, ParentSupersededError):
            raise ClaimLost("a child could not be started: another claim has the turn")
        if isinstance(accepted, SubmissionRefusedError):
            raise accepted
        log.info(
            "turn.child_submitted",
            child_id=str(accepted.turn_id),
            session_id=accepted.session_id,
            queue=accepted.queue,
            trace_id=accepted.trace.trace_id,
        )
        self._submitting.trace(submission, accepted, began_at)
        return accepted

    async def cancel(self, tenant_id: str, child_id: UUID) -> None:
        """Cancels a child that is open: at once, or its worker is asked to stop it. Nothing happens to one that has ended.

        Raises DatabaseUnavailableError; may be called again.
        """
        met = await cancel(self._database, tenant_id, child_id, CancelReason.PARENT)
        if met is None or not met.requested:
            return
        log.info(
            "turn.child_canceled", child_id=str(child_id), child_session_id=met.session_id, status=met.status.value
        )
        await self._hints.tell(tenant_id, met.session_id, child_id, met.status)
        if met.woken is not None:
            await self._sending.send(*met.woken)

    async def _commit_and_wake(self, submissions: Sequence[Submission]) -> list[Accepted | SubmissionRefusedError]:
        answers = await self._submitting.commit(submissions)
        await self._submitting.wake_all(submissions, answers)
        return answers
