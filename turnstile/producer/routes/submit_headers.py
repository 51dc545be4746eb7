"""The headers of a submit and of its response."""

from typing import Annotated

from fastapi import Header

from turnstile.statements.submit import Accepted
from turnstile.submission.submission_key import IDEMPOTENCY_KEY_PATTERN, MAX_IDEMPOTENCY_KEY_CHARACTERS

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_IDEMPOTENCY_KEY_CHARACTERS,
        pattern=IDEMPOTENCY_KEY_PATTERN,
        description="Repeats of a request with the same key find the same turn, by default for a day.",
    ),
]
Traceparent = Annotated[str | None, Header(description="W3C trace context. An invalid one is ignored.")]
Prefer = Annotated[str | None, Header(description="RFC 7240: `wait=10` waits ten seconds for the turn to end.")]


def headers_of(accepted: Accepted) -> dict[str, str]:
    """Of every response that names the turn of a submit."""
    return {
        "Location": f"/v1/turns/{accepted.turn_id}",
        "traceparent": accepted.trace.traceparent,
        **({"Idempotency-Replayed": "true"} if accepted.replayed else {}),
    }
