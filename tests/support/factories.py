"""Builders of the values that tests need many of; every argument that a test does not care about has a default."""

import hashlib
import itertools
import json
import math
import secrets
import time
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from turnstile.config.settings import Settings
from turnstile.relay.renewal_evidence import Judgement, RenewalEvidence
from turnstile.statements.claim import ClaimRequest, ClaimTerms
from turnstile.statements.submit import Submission
from turnstile.statements.worker_registry import WorkerRecord
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.conversation import EMPTY_HISTORY
from turnstile.turn.identifiers import start_trace, uuid7

_numbers = itertools.count()


def make_submission(
    queue: str, session_id: str = "s", content: Any = "hello", *, tenant_id: str = "t", **fields: Any
) -> Submission:
    turn_id = fields.pop("turn_id", None) or uuid7(time.time_ns() // 1_000_000, next(_numbers))
    return Submission(
        turn_id=turn_id,
        tenant_id=tenant_id,
        session_id=session_id,
        queue=queue,
        content=content,
        fingerprint=hashlib.sha256(json.dumps([session_id, content]).encode()).digest(),
        trace=start_trace(secrets.randbits(192)),
        **fields,
    )


def make_terms(settings: Settings, worker_id: str = "worker-a", **fields: Any) -> ClaimTerms:
    return ClaimTerms(
        queue=fields.pop("queue", settings.queue),
        worker_id=worker_id,
        release=fields.pop("release", ""),
        lease_seconds=settings.lease_seconds,
        max_crashes=fields.pop("max_crashes", 3),
        halt=fields.pop("halt", False),
    )


def make_claim(session_id: str = "s", tenant_id: str = "t", claim_id: UUID | None = None) -> ClaimRequest:
    return ClaimRequest(tenant_id=tenant_id, session_id=session_id, claim_id=claim_id or uuid4())


def make_worker_record(queue: str, worker_id: str = "w", **fields: Any) -> WorkerRecord:
    given: dict[str, Any] = {
        "host": "h", "pid": 7, "slots": 4, "busy": 0, "queue_latency_seconds": 0.0, "draining": False, "lease_seconds": 30.0,
    }  # fmt: skip
    return WorkerRecord(worker_id=worker_id, queue=queue, **{**given, **fields})


PROVEN = Judgement(by=datetime.max.replace(tzinfo=UTC), proven_seconds=math.inf)


class Proven(RenewalEvidence):
    """Renewals have worked for long: a lease that ran out says that its worker is lost."""

    def __init__(self) -> None:
        super().__init__(1.0, 1.0)

    def judge(self, now: float) -> Judgement:
        return PROVEN


def nest(value: Any, levels: int) -> Any:
    """The value inside so many objects."""
    for _ in range(levels):
        value = {"a": value}
    return value


CLAIMED = ClaimedTurn(
    claim_id=UUID(int=1), id=UUID(int=2), tenant_id="t", session_id="s", seq=1, queue="turns", attempt=1, failures=0,
    crashes=0, max_attempts=None, generation=1, fence=7, timeout_seconds=None, expires_in_seconds=900.0,
    queue_latency_seconds=0.0, waited_seconds=0.0, metadata={},
    trace_id="1" * 32, span_id="1" * 16, created_at=datetime(2026, 1, 1, tzinfo=UTC),
    inputs=("hi",), messages=(), history_version=EMPTY_HISTORY,
)  # fmt: skip
