"""What a request becomes: a submission, with an id, a trace, and what a repeat of it is known by. Whichever way it has come, so
that a repeat is recognised that comes another.
"""

import secrets
import time
from collections.abc import Sequence
from uuid import UUID

from turnstile.config.queue_settings import QueueSettings
from turnstile.producer.submit.turn_request import TurnRequest, check_webhook_allowed, fingerprint
from turnstile.statements.submit import Submission, idempotency_key, turn_id_key
from turnstile.turn.identifiers import continue_trace, uuid7


def as_submission(
    request: TurnRequest,
    tenant_id: str,
    session_id: str,
    queue: QueueSettings,
    *,
    key: str | None,
    webhook_hosts: Sequence[str],
    traceparent: str | None = None,
) -> Submission:
    """The request as it is recorded; `key` is the client's own. Raises WebhookNotAllowedError."""
    # One call of the system for both: each lets go of the interpreter's lock, and may wait long to have it back.
    random_bits = secrets.randbits(192 + 74)
    return Submission(
        turn_id=request.turn_id or uuid7(time.time_ns() // 1_000_000, random_bits >> 192),
        tenant_id=tenant_id,
        session_id=session_id,
        queue=queue.name,
        content=request.input,
        fingerprint=fingerprint(session_id, request),
        trace=continue_trace(traceparent, random_bits & (1 << 192) - 1),
        key=_key(key, request.turn_id),
        chosen=request.turn_id is not None,
        execute_at=request.execute_at,
        expires_in_seconds=request.expires_in_seconds or queue.expires_in_seconds,
        max_attempts=request.max_attempts,
        timeout_seconds=request.timeout_seconds,
        metadata=request.metadata,
        webhook_url=check_webhook_allowed(request.webhook_url, webhook_hosts),
    )


def _key(key: str | None, turn_id: UUID | None) -> str | None:
    if key is not None:
        return idempotency_key(key)
    return None if turn_id is None else turn_id_key(turn_id)
