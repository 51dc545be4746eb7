"""What a claim gives: the turn as it is to be answered. Pure: `statements.claim` makes it, `worker.decision` judges by it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from turnstile.turn.conversation import HistoryVersion, Message


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedTurn:
    """A turn that is ours to answer, until `fence` is overtaken."""

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
    """The inputs as the history will have them, once the turn is answered."""
    history_version: HistoryVersion
    """Of the session's history before this turn."""
    memory_version: int = 0
    """Of the session's durable working memory at the claim: nobody else writes to it while the claim lasts."""
    kind: str = "turn"
    parent_turn_id: UUID | None = None
    lost_worker: str | None = None
    """The worker from which this claim took the turn over; None where nobody had it."""
