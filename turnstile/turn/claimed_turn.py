"""The result of a claim: the turn to run. Pure: `statements.claim` makes it, `worker.retry_decision` reads it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from turnstile.turn.conversation import HistoryVersion, Message
from turnstile.turn.identifiers import TraceContext


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedTurn:
    """A turn that this worker owns until a claim with a higher `fence`."""

    claim_id: UUID
    id: UUID
    tenant_id: str
    session_id: str
    seq: int
    queue: str
    attempt: int
    failures: int
    crashes: int
    max_attempts: int | None
    generation: int
    fence: int
    timeout_seconds: float | None
    expires_in_seconds: float
    queue_latency_seconds: float
    metadata: Mapping[str, Any]
    trace_id: str
    span_id: str
    created_at: datetime
    inputs: tuple[Any, ...]
    messages: tuple[Message, ...]
    """The inputs as the history will show them once the turn is answered."""
    history_version: HistoryVersion
    """The version of the session's history before this turn."""
    kind: str = "turn"
    parent_turn_id: UUID | None = None
    parent_span_id: str | None = None
    waited_seconds: float | None = None
    """How long the turn waited until it began, if this claim is its first start in this generation; otherwise None."""
    hand_backs: int = 0
    """How many of its last attempts were handed back at a shutdown, MAX_HAND_BACKS - 1 at most: so many only in a row."""
    lost_worker: str | None = None
    """The worker whose expired claim this one replaced; None if there was none."""

    @property
    def begun_before(self) -> bool:
        """Whether an earlier attempt of this generation began, put-off ones included."""
        return self.waited_seconds is None

    @property
    def ids(self) -> dict[str, str]:
        """For its log lines."""
        return {"turn_id": str(self.id), "session_id": self.session_id, "trace_id": self.trace_id}

    @property
    def trace(self) -> TraceContext:
        """The turn's span."""
        return TraceContext(self.trace_id, self.span_id, self.parent_span_id)
