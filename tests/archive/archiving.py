"""Makes turns that ended long ago, archives them, and reads where they are."""

from dataclasses import replace
from typing import Any, LiteralString
from uuid import UUID, uuid4

from tests.support.factories import make_claim, make_submission, make_terms
from turnstile.archive.move import Archived, archive_sessions, read_cutoff
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.claim import claim
from turnstile.statements.revive import revive
from turnstile.statements.settle import SettleRequest, settle
from turnstile.statements.submit import ParentClaim, submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import TraceContext, start_trace
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

DAY_SECONDS = 86_400

AGE: tuple[LiteralString, ...] = (
    """UPDATE turns SET created_at = created_at - %(by)s * interval '1 day', started_at = started_at - %(by)s * interval '1 day',
              finished_at = finished_at - %(by)s * interval '1 day',
              dead_lettered_at = dead_lettered_at - %(by)s * interval '1 day',
              dropped_at = dropped_at - %(by)s * interval '1 day'""",
    "UPDATE turn_traces SET turn_created_at = turn_created_at - %(by)s * interval '1 day'",
    "UPDATE sessions SET updated_at = updated_at - %(by)s * interval '1 day'",
)


async def age(database: Database, days: int = 100) -> None:
    """Moves all times into the past by `days`."""
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
    """Submits, claims and settles a turn; FAILED without a dead letter."""
    submission = make_submission(settings.queue, session_id, tenant_id=tenant_id, **fields)
    await submit(database, [submission], resend_seconds=60)
    turn = await claim_head(database, settings, session_id, tenant_id=tenant_id)
    await settle_as(database, settings, turn, status, halt=halt)
    return submission.turn_id


async def claim_head(database: Database, settings: Settings, session_id: str, *, tenant_id: str = "t") -> ClaimedTurn:
    """Claims the session's head."""
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
    await settle(database, make_terms(settings, halt=halt), [request])


async def start_child(
    database: Database, settings: Settings, status: TurnStatus = TurnStatus.SUCCEEDED
) -> tuple[ClaimedTurn, UUID]:
    """A RUNNING parent in the session `parent`, and its ended child in the session `child`."""
    parent = make_submission(settings.queue, "parent")
    await submit(database, [parent], resend_seconds=60)
    running = await claim_head(database, settings, "parent")
    trace = TraceContext(parent.trace.trace_id, "c" * 16, running.span_id)
    child = replace(
        make_submission(settings.queue, "child"), parent=ParentClaim(running.id, running.fence, "dig"), trace=trace
    )
    await submit(database, [child], resend_seconds=60)
    await settle_as(database, settings, await claim_head(database, settings, "child"), status)
    return running, child.turn_id


async def redrive(database: Database, turn_id: UUID) -> int:
    """Redrives the turn; returns how many turns were revived."""
    revived = await revive(database, [(turn_id, 1)], [start_trace(1)], expires_in_seconds=[900.0], resend_seconds=60)
    return len(revived)


async def archive(
    database: Database, *, days: float = 90, failed: bool = False, batch: int = 100, dry_run: bool = False
) -> Archived:
    """Archives the sessions at rest for `days`."""
    cutoff = await read_cutoff(database, days * DAY_SECONDS)
    steps = archive_sessions(database, cutoff, failed=failed, batch=batch, pause_seconds=0, dry_run=dry_run)
    return sum([step async for step in steps], Archived())


async def in_table(database: Database) -> list[UUID]:
    """The ids of the turns in the table."""
    return [row["id"] for row in await database.fetch("SELECT id FROM turns ORDER BY id", {})]


async def in_archive(database: Database) -> list[UUID]:
    """The ids of the turns in the archive, with repetitions."""
    return [row["id"] for row in await database.fetch("SELECT id FROM archived_turns ORDER BY id", {})]


async def everywhere(database: Database) -> list[UUID]:
    """The ids of the turns in both, from one snapshot: a killed process may still have a commit under way."""
    both = "SELECT id FROM turns UNION ALL SELECT id FROM archived_turns ORDER BY id"
    return [row["id"] for row in await database.fetch(both, {})]
