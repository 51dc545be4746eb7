"""A turn as the API and the commands read it. Pure: `queries.turns` and `queries.turn_lists` read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from uuid import UUID

from turnstile.turn.status import TurnStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """One row of the status table, with its messages."""

    id: UUID
    tenant_id: str
    session_id: str
    seq: int | None
    queue: str
    status: TurnStatus
    attempt: int
    failures: int
    crashes: int
    max_attempts: int | None
    generation: int
    worker_id: str | None
    execute_at: datetime | None
    expires_at: datetime
    timeout_seconds: float | None
    cancel_requested_at: datetime | None
    cancel_reason: str | None
    error_class: str | None
    error: str | None
    dead_lettered_at: datetime | None
    trace_id: str
    span_id: str
    parent_span_id: str | None
    kind: str
    """`turn`, or `compensation`."""
    parent_turn_id: UUID | None
    """The turn whose child or compensation it is."""
    joining: Sequence[UUID] | None
    """The children that it waits for at present."""
    metadata: Mapping[str, Any]
    created_at: datetime
    queued_at: datetime | None
    """When it began to wait in its generation: its submit, its schedule or its redrive. None in an old archive."""
    first_started_at: datetime | None
    """When its first attempt of the generation started."""
    started_at: datetime | None
    """When its present or last attempt started."""
    finished_at: datetime | None
    halted_by: UUID | None = None
    """What halts the session, so that none of its turns is claimed: a FAILED turn, perhaps this one, or an erasure."""
    dropped_at: datetime | None = None
    """When an operator gave the FAILED turn up (`turnstile dlq drop`)."""
    dropped_by: str | None = None
    inputs: Sequence[Any] | None = None
    """The user's input: one content, or several that were merged. None in a list."""
    output: Any = None
    """The reply's content; None until SUCCEEDED. None in a list: a page of a hundred replies of 1 MiB would be too large."""
    webhook: Mapping[str, Any] | None = None
    """The state of its completion webhook (tries, delivered_at, next_try_at, error); None until it ends, or if it has none."""

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From a row of `turns` with `halted_by`, and perhaps more."""
        fields = {name: row[name] for name in cls.__dataclass_fields__ if name in row}
        return cls(**{**fields, "status": TurnStatus(row["status"])})
