"""Claim: a session run claims its session's head. If another transaction has locked the row, it looks again for a moment.

A row that stays locked can neither be claimed nor made due. Waiting would tie up a pool connection for as long as that
transaction stays open; a handful of such sessions would exhaust the pool. So the run ends, and its wake-up stays in the queue.

But the lock may be that of a claim of this run whose response was lost, and whose COMMIT is still under way. Only its claim id
finds the turn that it takes, so the run asks with that id until it knows.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import assert_never
from uuid import uuid4

from turnstile.backends.batcher import Batcher
from turnstile.backends.postgres.database import Database
from turnstile.errors import DatabaseUnavailableError, RowLockedError
from turnstile.statements.claim import Claim, ClaimRequest, ClaimTerms, EndedAtClaim, LeftToTakeover, NoClaim, claim
from turnstile.statements.defer import Defer, DeferResult, defer
from turnstile.statements.locked_rows import stays_locked
from turnstile.telemetry.metrics import MESSAGES_PHANTOM
from turnstile.telemetry.own_log import log
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.wire_format import WakeUp
from turnstile.worker.crash_isolation import Quarantine
from turnstile.worker.database_retry import RetryWhileDown
from turnstile.worker.limiting.limited_claims import Limited, LimitedClaims
from turnstile.worker.session_run import SessionRun
from turnstile.worker.turn_log import report_ended, report_takeover

CLAIM_BATCH = 50
MAX_LOOKS = 8
LOOK_AGAIN_SECONDS = 0.002
"""The first pause; each is twice the previous one: half a second in all."""

HEAD_LOCKED = "another transaction has locked the row of the session's head"


class Claimer:
    """The claims of one worker; claims of the same moment share a statement."""

    def __init__(
        self,
        database: Database,
        terms: ClaimTerms,
        quarantine: Quarantine,
        nudge_relay: Callable[[], None],
        retry_while_down: RetryWhileDown,
        *,
        takes_over: bool,
        limits: LimitedClaims | None = None,
    ) -> None:
        """`limits`: are asked before each claim. None: there are none."""
        self._database = database
        self._terms = terms
        self.quarantine = quarantine
        self._nudge_relay = nudge_relay
        self._retry_while_down = retry_while_down
        self._takes_over = takes_over
        self.limits = limits
        self.given_up = 0
        """Claims that had no answer until the shutdown's end. Each may still commit, and leave its turn RUNNING."""
        claims: Batcher[ClaimRequest, Claim] = Batcher(partial(claim, database, terms), limit=CLAIM_BATCH)
        self._ask: Callable[[ClaimRequest], Awaitable[Claim | Limited]] = claims
        if limits is not None:
            self._ask = partial(limits.ask, claims)

    async def claim(self, run: SessionRun) -> Claim:
        """Claims the session's head, or says why there is nothing to claim. Raises DatabaseUnavailableError after `given_up`."""
        run.stays = None
        looks = 0
        attempt = _ClaimAttempt(self._ask)
        while True:
            request = ClaimRequest(
                tenant_id=run.wake_up.tenant_id,
                session_id=run.wake_up.session_id,
                claim_id=attempt.claim_id,
                most_crashes=run.most_crashes,
            )
            try:
                found: Claim | Limited = await self._retry_while_down(partial(attempt.ask, request))
            except (DatabaseUnavailableError, asyncio.CancelledError):
                # Only a shutdown gives up, or cancels what still asks.
                self.given_up += 1
                log.warning("claim.given_up")
                raise
            match found:
                case EndedAtClaim():
                    report_ended(found, self._terms.queue, halts=self._terms.halt)
                    self._nudge_relay()
                    attempt = _ClaimAttempt(self._ask)
                case Limited(name, seconds):
                    log.info("session.limited", limit=name, seconds=round(seconds, 3))
                    await self._put_off(run, seconds)
                    return NoClaim.IDLE
                case NoClaim.HEAD_LOCKED:
                    if looks == MAX_LOOKS:
                        run.stays = HEAD_LOCKED
                        return NoClaim.IDLE
                    await asyncio.sleep(LOOK_AGAIN_SECONDS * 2**looks)
                    looks += 1
                case NoClaim.FOREIGN:
                    await self.leave_to_others(run)
                    return found
                case NoClaim.UNKNOWN:
                    # A row is committed before its message is sent, so none of our producers sent this message.
                    log.warning("message.phantom", message_id=run.message and run.message.message_id)
                    MESSAGES_PHANTOM.add(1, self._terms.queue)
                    return found
                case NoClaim.IDLE | NoClaim.RUNNING:
                    # Done, not due yet, or running elsewhere. That is normal, and the message can go, unless this run left
                    # no waiting mark: the other worker may not know of the message's turn, which was committed during its settle.
                    if found is NoClaim.RUNNING and run.entry.lock is None and not run.turns:
                        run.stays = "another worker runs the session, and Redis took no waiting mark"
                    log.info("session.idle", turns=run.turns)
                    return found
                case LeftToTakeover(crashes):
                    run.leave_quarantine()
                    run.seat = self.quarantine.enter(crashes)
                    if run.seat is None:
                        # It may not run together with the turns that are in quarantine here. Takeover here retries, or
                        # the message stays.
                        run.stays = None if self._takes_over else "a turn with as many crashes runs alone"
                        return NoClaim.IDLE
                case ClaimedTurn():
                    report_takeover(found)
                    return found
                case _:
                    assert_never(found)

    async def leave_to_others(self, run: SessionRun) -> None:
        """Makes the session's head due, and nudges the relay to send its wake-up now: this run must end, and a client waits."""
        if await stays_locked(lambda: self._retry_while_down(partial(self._wake_head, run.wake_up))):
            run.stays = HEAD_LOCKED
        self._nudge_relay()

    async def _put_off(self, run: SessionRun, seconds: float) -> None:
        """Makes the session's head due after so long: a limit refuses it now."""
        if await stays_locked(lambda: self._retry_while_down(partial(self._wake_head, run.wake_up, seconds))):
            run.stays = HEAD_LOCKED

    async def _wake_head(self, wake_up: WakeUp, seconds: float = 0.0) -> bool:
        [owed] = await defer(self._database, [Defer(wake_up.tenant_id, wake_up.session_id, seconds)])
        return owed is DeferResult.LOCKED


class _ClaimAttempt:
    """One claim under one id, until its outcome is known."""

    def __init__(self, ask: Callable[[ClaimRequest], Awaitable[Claim | Limited]]) -> None:
        self.claim_id = uuid4()
        self._ask = ask
        self._unanswered = False

    async def ask(self, request: ClaimRequest) -> Claim | Limited:
        """Raises DatabaseUnavailableError, also while the row is locked and an earlier call may be what locks it."""
        try:
            found = await self._ask(request)
        except DatabaseUnavailableError:
            self._unanswered = True
            raise
        if found is NoClaim.HEAD_LOCKED and self._unanswered:
            raise RowLockedError(HEAD_LOCKED)
        return found
