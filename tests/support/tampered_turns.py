"""Turns in a state that the product only reaches with time, or not at all."""

from typing import Any, LiteralString
from uuid import UUID

import psycopg

from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.outside import outside
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.claim import claim
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn

LOST: LiteralString = "UPDATE turns SET lease_until = now() - interval '1 h' WHERE status = 'RUNNING'"
"""Their workers died an hour ago."""

MARKED_AS_LOST: LiteralString = """
UPDATE turns SET lease_until = now() - interval '1 h', send_at = now() + interval '1 h', sends = 9 WHERE status = 'RUNNING'"""
"""The same, and a relay has marked them; no worker has taken them over yet."""

FRUITLESS: LiteralString = "UPDATE turns SET sends = 9, send_at = now() + interval '1 h' WHERE status = 'PENDING'"
"""Many wake-ups have been sent for them."""


async def tamper(settings: Settings, statement: LiteralString) -> None:
    """Runs a statement without the triggers."""
    async with await psycopg.AsyncConnection.connect(outside(settings.database_url), autocommit=True) as connection:
        await connection.execute("SET session_replication_role = replica")
        await connection.execute(statement)


async def make_pending(database: Database, settings: Settings, session: str = "s", **fields: Any) -> UUID:
    """A PENDING turn, for which no message was sent."""
    submission = make_submission(settings.queue, session, **fields)
    await submit(database, [submission], resend_seconds=60)
    return submission.turn_id


async def make_running(database: Database, settings: Settings, session: str = "s") -> UUID:
    """A RUNNING turn of a worker that does not exist."""
    await make_pending(database, settings, session)
    (turn,) = await claim(database, make_terms(settings), [make_claim(session)])
    assert isinstance(turn, ClaimedTurn)
    return turn.id
