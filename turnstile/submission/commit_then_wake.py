"""Submit: turns are recorded and committed first, then their wake-ups are sent.

The API, the handlers that start children and the operators' batch jobs all submit with this class. Each adds only its own rules:
which turns share a statement, what a refusal means, and what to wait for.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import psycopg

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import (
    ConnectionsBusyError,
    DatabaseUnavailableError,
    DatabaseUnfitError,
    RowLockedError,
    SubmissionRefusedError,
    UnstorableContentError,
)
from turnstile.statements.submit import Accepted, Submission, is_recorded, submit
from turnstile.statements.submit_on_busy import OnBusyResult, submit_on_busy
from turnstile.submission.wake_ups import WakeUpSending
from turnstile.telemetry.own_log import log
from turnstile.telemetry.tracing import Traces

RETRY_SECONDS = 0.5
RETRY_PAUSE_SECONDS = 0.02

Result = TypeVar("Result")


class Submitting:
    """Commits turns and sends their wake-ups. One per process."""

    def __init__(self, settings: Settings, database: Database, sending: WakeUpSending, traces: Traces = None) -> None:
        self._database = database
        self._sending = sending
        self._traces = traces
        self._resend_seconds = settings.resend_seconds

    def decide_sampling(self, submission: Submission) -> Submission:
        """The submission with the sampler's decision, if traces are exported. Not for children: they have their parent's."""
        if self._traces is None:
            return submission
        return replace(submission, trace=self._traces.decide(submission.trace))

    async def commit(self, submissions: Sequence[Submission]) -> list[Accepted | SubmissionRefusedError]:
        """Records the turns with one statement; returns the results in the order of `submissions`. Ignores their `on_busy`.

        Raises RowLockedError (another transaction has locked a session; nothing was done), ConnectionsBusyError (nothing was
        done) and DatabaseUnavailableError (nothing was done, or the outcome is unknown: the same submissions may be committed
        again). For one submission, also raises UnstorableContentError. For several, also raises UnicodeEncodeError, and psycopg's
        DataError and IntegrityError, and nothing was done: commit them one by one to find the faulty one.
        """
        return await self._retry(
            lambda: submit(self._database, submissions, resend_seconds=self._resend_seconds),
            alone=len(submissions) == 1,
        )

    async def commit_on_busy(self, submission: Submission) -> OnBusyResult:
        """Records one turn under its `on_busy` policy.

        Raises SubmissionRefusedError, and what `commit` raises for one submission.
        """
        return await self._retry(
            lambda: submit_on_busy(self._database, submission, resend_seconds=self._resend_seconds), alone=True
        )

    async def is_recorded(self, submission: Submission) -> bool:
        """Whether the request is a repeat. Raises DatabaseUnavailableError."""
        return await is_recorded(self._database, submission)

    async def wake(self, submission: Submission, answer: Accepted | SubmissionRefusedError) -> bool | None:
        """Sends the wake-up of a committed turn. True if SQS is known to have it; None if none is due. Raises nothing."""
        if isinstance(answer, Accepted) and answer.wake:
            return await self._sending.send(answer.queue, answer.message(submission.tenant_id))
        return None

    async def wake_all(
        self, submissions: Sequence[Submission], answers: Sequence[Accepted | SubmissionRefusedError]
    ) -> int:
        """Sends the wake-ups of a batch. Returns how many of them SQS is not known to have: the relay sends those."""
        return (await asyncio.gather(*map(self.wake, submissions, answers))).count(False)

    def trace(self, submission: Submission, accepted: Accepted, began_at: int) -> None:
        """Records the submit, which began at `began_at` (Unix time in nanoseconds), if traces are exported."""
        if self._traces is not None:
            self._traces.submitted(
                submission.trace,
                accepted.trace,
                began_at,
                queue=accepted.queue,
                turn_id=accepted.turn_id,
                session_id=accepted.session_id,
            )

    async def _retry(self, call: Callable[[], Awaitable[Result]], *, alone: bool) -> Result:
        begun = time.monotonic()
        again = collided = False
        while True:
            try:
                return await call()
            except (RowLockedError, DatabaseUnfitError):
                # No retry: nothing was done, and the call has waited for the lock, or somebody must do something first.
                raise
            except ConnectionsBusyError as error:
                # One more call would add to what there is too much of. An earlier one may have committed.
                raise DatabaseUnavailableError(str(error)) if again else error from None
            except DatabaseUnavailableError:
                # A second call with the same ids shows whether the lost one had committed. Always make one more call, and further
                # ones while they fail at once: after a restart of Postgres, each connection of the pool fails once.
                if again and time.monotonic() - begun > RETRY_SECONDS:
                    raise
            except psycopg.errors.UniqueViolation:
                # Two requests chose the same turn id under different keys, two claims of one parent started the same child, or
                # the lost call has committed while this one waited for it. The next call finds the first row.
                if collided:
                    raise
                collided = True
            except (psycopg.DataError, UnicodeEncodeError) as error:
                if not alone:
                    raise
                # Without the error's text: it quotes the client's content.
                log.warning("submit.unstorable", sqlstate=getattr(error, "sqlstate", None) or type(error).__name__)
                raise UnstorableContentError from None
            if again:
                await asyncio.sleep(RETRY_PAUSE_SECONDS)
            again = True
