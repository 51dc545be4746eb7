"""Turns that ended long ago, and a look at where they are by now."""

import json
from typing import Any, LiteralString
from uuid import UUID, uuid4

from tests.support.factories import make_claim, make_submission, make_terms
from turnstile.archive.move import ArchiveFilter, read_cutoff
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.commands.archive_run import Archive, ArchiveResult
from turnstile.statements.claim import claim
from turnstile.statements.settle import SettleRequest, settle
from turnstile.statements.submit import submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

DAY_SECONDS = 86_400

AGE: tuple[LiteralString, ...] = (
    """UPDATE turns SET created_at = created_at - %(by)s * interval '1 day', started_at = started_at - %(by)s * interval '1 day',
              finished_at = finished_at - %(by)s * interval '1 day',
              dead_lettered_at = dead_lettered_at - %(by)s * interval '1 day'""",
    "UPDATE sessions SET updated_at = updated_at - %(by)s * interval '1 day'",
)


async def age(database: Database, days: int = 100) -> None:
    """All that there is has happened so much earlier."""
    async with database.connection() as connection:
        for statement in AGE:
            await connection.execute(statement, {"by": days})


async def end_turn(
    database: Database,
    settings: Settings,
    session_id: str = "s",
    status: TurnStatus = TurnStatus.SUCCEEDED,
    *,
    tenant_id: str = "t",
    halt: bool = False,
    **fields: Any,
) -> UUID:
    """A turn that was submitted, claimed and settled; FAILED without a dead letter."""
    submission = make_submission(settings.queue, session_id, tenant_id=tenant_id, **fields)
    await submit(database, [submission], net_seconds=60)
    turn = await claim_head(database, settings, session_id, tenant_id=tenant_id)
    await settle_as(database, settings, turn, status, halt=halt)
    return submission.turn_id


async def claim_head(database: Database, settings: Settings, session_id: str, *, tenant_id: str = "t") -> ClaimedTurn:
    """The session's head, RUNNING."""
    (turn,) = await claim(database, make_terms(settings), [make_claim(session_id, tenant_id)])
    assert isinstance(turn, ClaimedTurn)
    return turn


async def settle_as(
    database: Database, settings: Settings, turn: ClaimedTurn, status: TurnStatus, *, halt: bool = False
) -> None:
    """Ends a claimed turn."""
    outcome = {
        TurnStatus.SUCCEEDED: AttemptOutcome.SUCCEEDED,
        TurnStatus.FAILED: AttemptOutcome.FAILED,
        TurnStatus.CANCELED: AttemptOutcome.CANCELED,
    }[status]
    settlement = Settlement(status=status, outcome=outcome, reply=f"re {turn.inputs[0]}")
    request = SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4())
    await settle(database, make_terms(settings, halt=halt), [request], json.dumps)


async def archive(database: Database, *, days: float = 90, batch: int = 500, **wanted: Any) -> ArchiveResult:
    """One run over all that is older."""
    cutoff = await read_cutoff(database, days * DAY_SECONDS)
    return await Archive(database, ArchiveFilter(cutoff=cutoff, **wanted)).run(batch=batch, pause_seconds=0)


async def in_table(database: Database) -> list[UUID]:
    """The ids of the turns in the table."""
    return [row["id"] for row in await database.fetch("SELECT id FROM turns ORDER BY id", {})]


async def in_archive(database: Database) -> list[UUID]:
    """Those in the archive, as often as they are there."""
    return [row["id"] for row in await database.fetch("SELECT id FROM archived_turns ORDER BY id", {})]
