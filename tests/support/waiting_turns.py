"""Turns and sessions that wait for different things, made with the product's own statements where it can make them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from tests.support.claims import claim_sessions, settle_one
from tests.support.factories import make_claim, make_submission, make_terms, make_worker_record
from tests.support.tampered_turns import make_pending, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.claim import claim
from turnstile.statements.settle import Settlement
from turnstile.statements.submit import submit
from turnstile.statements.worker_registry import announce
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome
from turnstile.turn.status import TurnStatus

DAY_SECONDS = 86_400.0

RETRIED = Settlement(
    status=TurnStatus.PENDING,
    outcome=AttemptOutcome.RETRIED,
    after_seconds=DAY_SECONDS,
    fault=True,
    error_class="TimeoutError",
    error="the model took too long",
)
SNOOZED = Settlement(
    status=TurnStatus.PENDING,
    outcome=AttemptOutcome.SNOOZED,
    after_seconds=DAY_SECONDS,
    refund=True,
    error="the model is being updated",
)


async def make_settled(database: Database, settings: Settings, session: str, settlement: Settlement) -> UUID:
    """A turn whose first attempt has ended so."""
    turn_id = await make_pending(database, settings, session)
    [turn] = await claim_sessions(database, settings, session)
    await settle_one(database, settings, turn, settlement)
    return turn_id


async def make_scheduled(database: Database, settings: Settings, session: str = "s") -> UUID:
    """A turn that may begin tomorrow, without a place in its session."""
    at = datetime.now(UTC) + timedelta(seconds=DAY_SECONDS)
    return await make_pending(database, settings, session, execute_at=at)


async def make_joining(database: Database, settings: Settings, session: str = "s") -> tuple[UUID, UUID]:
    """A turn that waits for one child, and the child."""
    child = make_submission(settings.queue, f"child-of-{session}")
    await submit(database, [child], resend_seconds=60)
    joined = Settlement(
        status=TurnStatus.PENDING,
        outcome=AttemptOutcome.JOINED,
        after_seconds=DAY_SECONDS,
        refund=True,
        joining=(child.turn_id,),
    )
    return await make_settled(database, settings, session, joined), child.turn_id


async def make_claimed(database: Database, settings: Settings, session: str, worker: str) -> UUID:
    """A RUNNING turn of this worker."""
    turn_id = await make_pending(database, settings, session)
    [turn] = await claim(database, make_terms(settings, worker), [make_claim(session)])
    assert isinstance(turn, ClaimedTurn)
    return turn_id


async def make_worker(database: Database, settings: Settings, worker_id: str = "worker-a", **fields: Any) -> None:
    """A worker of the queue that has just sent a heartbeat."""
    await announce(database, make_worker_record(settings.queue, worker_id, **fields))


async def make_due_for_an_hour(settings: Settings) -> None:
    """Every PENDING turn that is due has been due for an hour, its wake-up is still to come, and no turn ended since."""
    await tamper(
        settings,
        """UPDATE turns SET created_at = created_at - interval '1 h', queued_at = queued_at - interval '1 h',
                  finished_at = finished_at - interval '1 h'""",
    )
