"""Claim: a hold asks for its session's head, again while somebody has the head's row, and until there is an answer."""

import asyncio
from collections.abc import Awaitable, Iterator
from functools import partial
from typing import assert_never
from uuid import uuid4

import structlog

from turnstile.backends.batcher import Batcher
from turnstile.statements.claim import Claim, ClaimRequest, ClaimTerms, EndedAtClaim, LeftToRecovery, NoClaim, claim
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.worker.database_retry import Outlast
from turnstile.worker.dependencies import Workbench
from turnstile.worker.quarantine import Quarantine
from turnstile.worker.session_release import Leaving
from turnstile.worker.session_run import Hold
from turnstile.worker.turn_log import report_ended, report_takeover

CLAIM_BATCH = 50
MAX_LOOKS = 20
LOOK_AGAIN_SECONDS = 0.002

log = structlog.get_logger("turnstile.worker")


class Claiming:
    """The claims of one worker; those of the same moment share a statement."""

    def __init__(self, with_: Workbench, terms: ClaimTerms, leaving: Leaving, outlast: Outlast) -> None:
        self._with = with_
        self._terms = terms
        self._leaving = leaving
        self._outlast = outlast
        ask = partial(claim, with_.database, terms)
        self._claims: Batcher[ClaimRequest, Claim] = Batcher(ask, limit=CLAIM_BATCH)
        self.quarantine = Quarantine(terms.max_crashes)

    async def claim(self, hold: Hold) -> Claim:
        """What the session has to do now. Raises DatabaseUnavailableError once the worker has given up."""
        hold.head_held = hold.unmarked = False
        for look in range(MAX_LOOKS):
            request = ClaimRequest(
                tenant_id=hold.wake_up.tenant_id,
                session_id=hold.wake_up.session_id,
                claim_id=uuid4(),
                most_crashes=hold.most_crashes,
            )
            found: Claim = await self._outlast(partial(self._ask, request.asked()))
            match found:
                case EndedAtClaim():
                    report_ended(found, halts=self._terms.halt)
                    self._with.nudge_relay()
                case NoClaim.LOOK_AGAIN:
                    await asyncio.sleep(min(0.1, LOOK_AGAIN_SECONDS * 2**look))
                case NoClaim.FOREIGN:
                    await self._leaving.leave_to_others(hold)
                    return found
                case NoClaim.UNKNOWN:
                    # The row is committed before its message is sent, so this message is not ours (G4).
                    log.warning("message.phantom", message_id=hold.message and hold.message.message_id)
                    return found
                case NoClaim.IDLE | NoClaim.RUNNING:
                    # Done, not due yet, or running elsewhere: normal, and the message ends here (G2), unless no mark was left.
                    hold.unmarked = found is NoClaim.RUNNING and hold.kept.lock is None
                    log.info("session.idle", turns=hold.turns)
                    return found
                case LeftToRecovery(crashes):
                    hold.leave_quarantine()
                    hold.seat = self.quarantine.enter(crashes)
                    if hold.seat is None:
                        # Not beside those in quarantine here. This process looks again, or its message stays.
                        hold.head_held = not self._with.recovers
                        return NoClaim.IDLE
                case ClaimedTurn():
                    report_takeover(found)
                    return found
                case _:
                    assert_never(found)
        # Somebody sits on the row. Whoever comes when he is gone must be told.
        await self._leaving.leave_to_others(hold)
        return NoClaim.IDLE

    def _ask(self, asked: Iterator[ClaimRequest]) -> Awaitable[Claim]:
        return self._claims(next(asked))
