"""Submit in the caller's own transaction: one call of a function of the schema, whose request and answer are JSON texts.

So any driver can make it, and a role needs no right but to call it (`migrations/versions/0001_initial/submit_turn.sql`).
"""

import json
from typing import LiteralString

from turnstile.errors import TurnIdTakenError
from turnstile.sealing.contents import Contents
from turnstile.statements.submit import Accepted, Submission, accepted, repeated, seal_input
from turnstile.turn.stored_json import encode

SUBMIT_TURN: LiteralString = "SELECT submit_turn(%(request)s::text) AS answer"


def request_of(submission: Submission, contents: Contents) -> str:
    """The request of a submission, which its `on_busy` and `parent` are no part of."""
    fingerprint = contents.hide_fingerprint(submission.fingerprint, submission.tenant_id)
    fields = {
        "id": str(submission.turn_id),
        "tenant_id": submission.tenant_id,
        "session_id": submission.session_id,
        "queue": submission.queue,
        "key": submission.key,
        "fingerprint": fingerprint.hex(),
        "chosen": submission.chosen,
        "execute_at": submission.execute_at and submission.execute_at.isoformat(),
        "expires_in": submission.expires_in_seconds,
        "max_attempts": submission.max_attempts,
        "timeout_seconds": submission.timeout_seconds,
        "metadata": dict(submission.metadata or {}),
        "trace_id": submission.trace.trace_id,
        "span_id": submission.trace.span_id,
        "parent_span_id": submission.trace.parent_span_id,
        "webhook_url": submission.webhook_url,
        "head_start": submission.priority_seconds or None,
    }
    # The input is a JSON text already. Encoded once more, a sealed one would be another content.
    return f'{encode(fields)[:-1]},"content":{seal_input(contents, submission, submission.turn_id)}}}'


def read_answer(answer: str | None, submission: Submission, contents: Contents) -> Accepted:
    """The function's answer. Raises SubmissionRefusedError: nothing was written then, and the transaction may go on."""
    if answer is None:
        raise TurnIdTakenError(submission.turn_id)
    found = json.loads(answer)
    if "fingerprint" not in found:
        return accepted(found["answer"], replayed=False, wake=False)
    row = {"ours": True, "answer": found["answer"], "fingerprint": bytes.fromhex(found["fingerprint"])}
    answered = repeated(contents, submission, row)
    if isinstance(answered, Accepted):
        return answered
    raise answered
