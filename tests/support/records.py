"""A row as the queries return it, for tests of pure functions."""

from datetime import UTC, datetime
from uuid import UUID

from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord

SUBMITTED = datetime(2026, 1, 1, tzinfo=UTC)


def make_record(turn_id: UUID) -> TurnRecord:
    """A PENDING turn; `dataclasses.replace` changes it."""
    return TurnRecord(
        id=turn_id, tenant_id="t", session_id="s", seq=1, queue="turns", status=TurnStatus.PENDING, attempt=0, failures=0,
        crashes=0, max_attempts=None, generation=1, worker_id=None, execute_at=None, expires_at=SUBMITTED, timeout_seconds=None,
        cancel_requested_at=None, cancel_reason=None, error_class=None, error=None, dead_lettered_at=None, trace_id="1" * 32,
        span_id="1" * 16, parent_span_id=None, kind="turn", parent_turn_id=None, joining=None, metadata={}, created_at=SUBMITTED,
        queued_at=SUBMITTED, first_started_at=None, started_at=None, finished_at=None,
    )  # fmt: skip
