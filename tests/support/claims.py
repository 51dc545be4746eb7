"""Turns in a session on the real Postgres: submitted, claimed, settled, lost, with the product's own statements."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from tests.statements.calls import FAILURE, SUCCESS
from tests.support.factories import make_claim, make_submission, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.claim import claim
from turnstile.statements.settle import RowLocked, Settled, SettleRequest, Superseded, settle
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import Settlement


async def submit_turns(database: Database, settings: Settings, *contents: str, session_id: str = "s") -> list[UUID]:
    wanted = [make_submission(settings.queue, session_id, content) for content in contents]
    await submit(database, wanted, resend_seconds=settings.resend_seconds)
    return [one.turn_id for one in wanted]


async def claim_one(database: Database, settings: Settings, worker: str = "worker-a", **terms: int) -> object:
    return (await claim(database, make_terms(settings, worker, **terms), [make_claim()]))[0]


async def settle_one(
    database: Database, settings: Settings, turn: object, settlement: Settlement = SUCCESS, *, more: bool = False
) -> Settled | Superseded:
    """Settles as a worker does: it repeats the call while the row is locked."""
    assert isinstance(turn, ClaimedTurn)
    request = SettleRequest(turn=turn, settlement=settlement, more=more, next_claim_id=uuid4())
    while isinstance(answer := (await settle(database, make_terms(settings), [request]))[0], RowLocked):
        continue
    return answer


async def expire_leases(database: Database) -> None:
    """Every running turn is lost, and marked so: a claim takes it over."""
    await database.fetch(
        "UPDATE turns SET lease_until = now() - interval '1 s', send_at = now() WHERE status = 'RUNNING'", {}
    )


async def claimed(database: Database, settings: Settings) -> ClaimedTurn:
    turn = await claim_one(database, settings)
    assert isinstance(turn, ClaimedTurn)
    return turn


async def claim_sessions(database: Database, settings: Settings, *sessions: str) -> list[ClaimedTurn]:
    found = await claim(database, make_terms(settings), [make_claim(session) for session in sessions])
    assert all(isinstance(turn, ClaimedTurn) for turn in found)
    return [turn for turn in found if isinstance(turn, ClaimedTurn)]


async def replies(database: Database) -> list[Any]:
    return [row["content"] for row in await database.fetch("SELECT content FROM messages WHERE role = 'assistant'", {})]


async def outcomes(database: Database) -> list[tuple[int, str]]:
    rows = await database.fetch("SELECT attempt, outcome FROM turn_attempts ORDER BY fence", {})
    return [(row["attempt"], row["outcome"]) for row in rows]


async def fail_next(database: Database, settings: Settings, session_id: str, *, halt: bool, compensates: bool) -> UUID:
    (turn,) = await claim(database, make_terms(settings), [make_claim(session_id)])
    assert isinstance(turn, ClaimedTurn)
    terms = replace(make_terms(settings, halt=halt), compensates=compensates, compensation_expires_seconds=60.0)
    request = SettleRequest(turn=turn, settlement=FAILURE, more=False, next_claim_id=uuid4())
    await settle(database, terms, [request])
    return turn.id


async def statuses(database: Database) -> dict[str, str]:
    return {
        row["session_id"]: row["status"] for row in await database.fetch("SELECT session_id, status FROM turns", {})
    }
