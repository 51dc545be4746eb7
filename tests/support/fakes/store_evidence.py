"""The fake store's tables at rest, as the checker reads them."""

from tests.proof.checker.evidence import Evidence
from tests.proof.checker.tables import AttemptRecord, Row, Said
from tests.support.fakes.store_rows import SECOND, columns, seconds
from tests.support.fakes.store_tables import Tables

TURN_COLUMNS = (
    *("kind", "child_key", "seq", "attempt", "failures", "crashes", "max_attempts", "generation", "fence"),
    "error_class",
)


def fill(tables: Tables, evidence: Evidence) -> None:
    """Puts audit, turns, messages and attempts in their places. Times are virtual seconds."""
    evidence.audit = list(tables.changes)
    evidence.turns = [
        Row(
            parent=str(row.parent_turn_id) if row.parent_turn_id else None,
            turn_id=str(row.id),
            tenant=row.tenant_id,
            session=row.session_id,
            status=row.status.value,
            lease_until=seconds(row.lease_until),
            send_at=seconds(row.send_at),
            cancel_requested=row.cancel_requested_at is not None,
            dead_lettered_at=seconds(row.dead_lettered_at),
            **columns(row, TURN_COLUMNS),
        )
        for row in tables.turns.values()
    ]
    evidence.messages = [
        Said(turn_id=str(said.turn_id), **columns(said, ("ordinal", "role", "kind", "content")))
        for rows in tables.messages.values()
        for said in rows
    ]
    evidence.attempts = [
        AttemptRecord(
            turn_id=str(ended.turn_id),
            worker=ended.worker_id,
            finished_at=ended.finished_at / SECOND,
            **columns(ended, ("attempt", "fence", "generation", "outcome", "error_class")),
        )
        for rows in tables.attempts.values()
        for ended in rows
    ]
