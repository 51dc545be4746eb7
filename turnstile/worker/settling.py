"""Decide and settle: makes a settlement from an outcome, and commits it together with other settles of the same moment."""

import asyncio
from dataclasses import replace
from functools import partial
from uuid import uuid4

import psycopg

from turnstile.backends.batcher import Batcher
from turnstile.backends.jitter import CHANCE
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError, RowLockedError
from turnstile.handlers.handler import Handler
from turnstile.statements.claim import ClaimTerms
from turnstile.statements.locked_rows import stays_locked
from turnstile.statements.settle import RowLocked, Settled, SettleRequest, Superseded, settle
from turnstile.telemetry.own_log import log
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import Settlement
from turnstile.worker.attempt.outcome import Failed, Outcome
from turnstile.worker.attempt.reply import clean_partial
from turnstile.worker.database_retry import RetryWhileDown
from turnstile.worker.heartbeat_entry import HeartbeatEntry
from turnstile.worker.retry_decision import Policy, decide

SETTLE_BATCH = 50


class Settler:
    def __init__(
        self,
        settings: Settings,
        handler: Handler,
        database: Database,
        terms: ClaimTerms,
        retry_while_down: RetryWhileDown,
        *,
        claims_apart: bool = False,
    ) -> None:
        """`claims_apart`: no settle claims the session's next turn, which needs places of its own first."""
        self._claims_apart = claims_apart
        self._settings = settings
        self._queue = settings.find_queue(settings.queue)
        self._handler = handler
        self._retry_while_down = retry_while_down
        self.given_up = 0
        """Turns whose settle or hand-back had no answer until the shutdown's end: as far as is known, they are left RUNNING."""
        self._settles: Batcher[SettleRequest, Settled | Superseded | RowLocked] = Batcher(
            lambda requests: settle(database, terms, requests), limit=SETTLE_BATCH
        )

    def decide(
        self, turn: ClaimedTurn, outcome: Outcome, elapsed_seconds: float, said: str | None = None
    ) -> Settlement | None:
        """The settlement of the turn, `elapsed_seconds` after its claim; None if the claim was superseded.

        `said` is the text that the handler has emitted. It is stored if the turn ends as CANCELED, which a cancel request that
        has not reached the handler may still cause.
        """
        handler = self._handler.for_kind(turn.kind)
        policy = Policy(
            # The submit's value; without one the handler's; without that the queue's.
            max_attempts=turn.max_attempts or handler.max_attempts or self._queue.max_attempts,
            base_seconds=self._settings.retry_base_seconds,
            cap_seconds=self._settings.retry_cap_seconds,
        )
        jitter = CHANCE.random()
        left = turn.expires_in_seconds - elapsed_seconds
        settlement = decide(outcome, turn, policy, seconds_left=left, jitter=jitter)
        if settlement is None:
            return None
        if not self._settings.keep_tracebacks:
            settlement = replace(settlement, traceback=None)
        partial = clean_partial(said)
        return settlement if partial is None else replace(settlement, partial=partial)

    async def settle(
        self, turn: ClaimedTurn, settlement: Settlement, entry: HeartbeatEntry, *, more: bool
    ) -> Settled | Superseded:
        """Commits the settlement and retries over any outage; `more` claims the session's next turn in the same round trip.

        Waits while another transaction keeps the row locked, and keeps the turn's lease. Raises DatabaseUnavailableError after
        `given_up`.
        """
        apart = self._claims_apart and more
        request = SettleRequest(
            turn=turn, settlement=settlement, more=more and not apart, next_claim_id=uuid4(), apart=apart
        )
        try:
            return await self._commit(request, entry)
        except (psycopg.DataError, UnicodeEncodeError) as error:
            # The reply itself is refused. Without this, the settle would fail on one worker after another.
            why = getattr(error, "sqlstate", None) or type(error).__name__
            log.warning("settle.refused", turn_id=str(turn.id), trace_id=turn.trace_id, sqlstate=why)
            failed = Failed("unstorable_reply", f"Postgres refused the reply ({why})", may_heal=False)
            instead = self.decide(turn, failed, 0.0)
            if instead is None:
                raise
            return await self._commit(replace(request, settlement=instead), entry)

    async def _commit(self, request: SettleRequest, entry: HeartbeatEntry) -> Settled | Superseded:
        try:
            answer: Settled | Superseded = await self._retry_while_down(partial(self._ask, request, entry))
        except (DatabaseUnavailableError, asyncio.CancelledError):
            # Only a shutdown gives up, or cancels what still asks.
            self.given_up += 1
            log.error("settle.given_up", turn_id=str(request.turn.id), trace_id=request.turn.trace_id)
            raise
        return answer

    async def _ask(self, request: SettleRequest, entry: HeartbeatEntry) -> Settled | Superseded:
        # A locked row may outlast the turn's deadline. Not for good: a try that hangs by a bug must lose the turn.
        entry.keep_for(self._settings.lease_seconds)
        answers: list[Settled | Superseded] = []

        async def look() -> bool:
            answer = await self._settles(request)
            if isinstance(answer, RowLocked):
                return True
            answers.append(answer)
            return False

        if await stays_locked(look):
            # Retried later, as in an outage, so that this worker's other settles do not wait behind it.
            raise RowLockedError("another transaction has locked the turn's row or its session's")
        return answers[0]
