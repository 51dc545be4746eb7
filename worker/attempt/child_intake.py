"""Taking in the children that handlers start: recorded and committed first, then their wake-ups sent.

As the producer does it for clients, with one difference: nobody is answered, so a wake-up that can't be sent at once is
left to the relay without a word. Children that are started at the same time share their statement.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence

import psycopg
import structlog

from turnstile.backends.batcher import Batcher
from turnstile.backends.circuit_breaker import Circuit
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import ParentSupersededError, QueueUnavailableError, SubmissionRefusedError, UnknownQueueError
from turnstile.message_queue import MessageQueues
from turnstile.statements.submit import Accepted, Submission, submit
from turnstile.statements.worker_registry import seen_seconds
from turnstile.turn.envelope import OutgoingMessage
from turnstile.worker.attempt.signals import ClaimLost

MAX_BATCH = 50
SEND_PATIENCE_SECONDS = 1.0
"""How long a handler waits for the wake-ups of its children."""

log = structlog.get_logger("turnstile.worker")


class ChildIntake:
    """Submits the children of all attempts of one worker."""

    def __init__(self, settings: Settings, database: Database, queues: MessageQueues) -> None:
        self._settings = settings
        self._database = database
        self._queues = queues
        self._batcher = Batcher(self._record_and_wake, limit=MAX_BATCH)
        # One each: a queue that was never made is no reason to leave the others' children to the relay.
        self._circuits: defaultdict[str, Circuit] = defaultdict(lambda: Circuit(threshold=2))

    def find_queue(self, name: str) -> QueueSettings:
        """A declared queue. Raises UnknownQueueError."""
        return self._settings.find_queue(name)

    async def accept(self, submission: Submission) -> Accepted:
        """Records a child and sends its wake-up.

        Raises ClaimLost, SubmissionRefusedError or DatabaseUnavailableError; after the last it may be called again with
        the same submission.
        """
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
        return accepted

    async def _record_and_wake(self, submissions: Sequence[Submission]) -> list[Accepted | SubmissionRefusedError]:
        answers = await self._record(submissions)
        by_queue: defaultdict[str, list[OutgoingMessage]] = defaultdict(list)
        for one, answer in zip(submissions, answers, strict=True):
            if isinstance(answer, Accepted):
                by_queue[answer.queue].append(answer.message(one.tenant_id))
        await asyncio.gather(*(self._wake(queue, messages) for queue, messages in by_queue.items()))
        return answers

    async def _record(self, submissions: Sequence[Submission]) -> list[Accepted | SubmissionRefusedError]:
        terms = {"net_seconds": self._settings.net_seconds, "seen_seconds": seen_seconds(self._settings)}
        try:
            return await submit(self._database, submissions, **terms)
        except psycopg.errors.UniqueViolation:
            # A superseded claim of the same parent has started the same child in this moment. It is there by now.
            return await submit(self._database, submissions, **terms)

    async def _wake(self, queue: str, messages: Sequence[OutgoingMessage]) -> None:
        circuit = self._circuits[queue]
        if not circuit.allows(time.monotonic()):
            return
        try:
            async with asyncio.timeout(SEND_PATIENCE_SECONDS):
                await self._queues.send(queue, messages)
        except (TimeoutError, QueueUnavailableError, UnknownQueueError) as error:
            # Each row's `send_at` has the wake-up too.
            circuit.failed(time.monotonic())
            log.warning("worker.children_not_woken", queue=queue, turns=len(messages), error=str(error))
        else:
            circuit.succeeded()
