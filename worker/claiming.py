"""Claim: a session run claims its session's head, and retries while another transaction has locked the head's row."""

import asyncio
from functools import partial
from typing import assert_never
from uuid import uuid4

import structlog

from turnstile.backends.batcher import Batcher
from turnstile.statements.claim import Claim, ClaimRequest, ClaimTerms, EndedAtClaim, LeftToRecovery, NoClaim, claim
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.database_retry import Outlast
from turnstile.worker.dependencies import WorkerDeps
from turnstile.worker.quarantine import Quarantine
from turnstile.worker.session_release import SessionRelease
from turnstile.worker.session_run import SessionRun
from turnstile.worker.turn_log import report_ended, report_takeover

CLAIM_BATCH = 50
MAX_LOOKS = 20
LOOK_AGAIN_SECONDS = 0.002

log = structlog.get_logger("turnstile.worker")


class Claiming:
    """The claims of one worker; claims of the same moment share a statement."""

    def __init__(self, deps: WorkerDeps, terms: ClaimTerms, session_release: SessionRelease, outlast: Outlast) -> None:
        self._deps = deps
        self._terms = terms
        self._session_release = session_release
        self._outlast = outlast
        ask = partial(claim, deps.database, terms)
        self._claims: Batcher[ClaimRequest, Claim] = Batcher(ask, limit=CLAIM_BATCH)
        self.quarantine = Quarantine(terms.max_crashes)

    async def claim(self, run: SessionRun) -> Claim:
        """Claims the session's head, or says why there is nothing to claim. Raises DatabaseUnavailableError after `given_up`."""
        run.head_locked = run.unmarked = False
        for look in range(MAX_LOOKS):
            request = ClaimRequest(
                tenant_id=run.wake_up.tenant_id,
                session_id=run.wake_up.session_id,
                claim_id=uuid4(),
                most_crashes=run.most_crashes,
            )
            found: Claim = await self._outlast(partial(self._claims, request))
            match found:
                case EndedAtClaim():
                    report_ended(found, halts=self._terms.halt)
                    self._deps.nudge_relay()
                case NoClaim.LOOK_AGAIN:
                    await asyncio.sleep(min(0.1, LOOK_AGAIN_SECONDS * 2**look))
                case NoClaim.FOREIGN:
                    await self._session_release.leave_to_others(run)
                    return found
                case NoClaim.UNKNOWN:
                    # A row is committed before its message is sent, so no producer of ours sent this message (G4).
                    log.warning("message.phantom", message_id=run.message and run.message.message_id)
                    return found
                case NoClaim.IDLE | NoClaim.RUNNING:
                    # Done, not due yet, or running elsewhere. That is normal, and the message can go (G2), unless this run left
                    # no waiting mark.
                    run.unmarked = found is NoClaim.RUNNING and run.kept.lock is None
                    log.info("session.idle", turns=run.turns)
                    return found
                case LeftToRecovery(crashes):
                    run.leave_quarantine()
                    run.seat = self.quarantine.enter(crashes)
                    if run.seat is None:
                        # It may not run beside the turns in quarantine here. Recovery here retries, or the message stays.
                        run.head_locked = not self._deps.recovers
                        return NoClaim.IDLE
                case ClaimedTurn():
                    report_takeover(found)
                    return found
                case _:
                    assert_never(found)
        # Another transaction keeps the row locked: leave the session with a wake-up.
        await self._session_release.leave_to_others(run)
        return NoClaim.IDLE
