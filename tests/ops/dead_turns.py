"""FAILED turns and their dead letters."""

from typing import Any
from uuid import UUID, uuid4

from tests.support.factories import make_claim, make_submission, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.claim import claim
from turnstile.statements.settle import SettleRequest, settle
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus


async def make_failed(
    database: Database,
    settings: Settings,
    sessions: list[str],
    *,
    tenant_id: str = "t",
    error_class: str = "ValueError",
    queue: str | None = None,
    halt: bool = False,
    release: str = "",
) -> list[UUID]:
    """One FAILED turn for each session (name one twice for two), with dead letters that are owed but not sent.

    `halt`: on a queue where each turn halts its session instead.
    """
    failed = []
    name = queue or settings.queue
    for session_id in sessions:
        submission = make_submission(name, session_id, tenant_id=tenant_id)
        await submit(database, [submission], resend_seconds=60)
        terms = make_terms(settings, queue=name, halt=halt, release=release)
        (turn,) = await claim(database, terms, [make_claim(session_id, tenant_id)])
        assert isinstance(turn, ClaimedTurn)
        settlement = Settlement(
            status=TurnStatus.FAILED,
            outcome=AttemptOutcome.FAILED,
            error_class=error_class,
            error="it would not do",
            fault=True,
            dead_letter=True,
        )
        request = SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4())
        await settle(database, terms, [request])
        failed.append(submission.turn_id)
    return failed


async def send_dead_letters(database: Database, queues: MessageQueues, settings: Settings) -> None:
    """Runs the relay until nothing is due."""
    relay = Relay(database, queues, settings)
    while await relay.round():
        pass


async def make_dead(
    database: Database, queues: MessageQueues, settings: Settings, sessions: list[str], **fields: Any
) -> list[UUID]:
    """FAILED turns with their dead letters on the DLQ."""
    failed = await make_failed(database, settings, sessions, **fields)
    await send_dead_letters(database, queues, settings)
    return failed


async def rows(database: Database) -> dict[UUID, dict[str, Any]]:
    """All turns, by id."""
    found = await database.fetch("SELECT * FROM turns ORDER BY id", {})
    return {row["id"]: dict(row) for row in found}
