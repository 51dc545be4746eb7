"""The declaration of a queue, and the rules that span all of them."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from turnstile.turn.identifiers import ID_PATTERN
from turnstile.turn.limits import MAX_ATTEMPTS, MAX_SECONDS
from turnstile.turn.wire_format import MAX_VISIBILITY_SECONDS

Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS)]

FOREVER = "forever"
MAX_DAYS = 36_500


def _read_retention(value: Any) -> Any:
    if value == FOREVER or (value in (0, "0") and value is not False):
        return FOREVER
    try:
        days = float(value)
    except (TypeError, ValueError):
        days = 0.0
    if isinstance(value, bool) or not 1 <= days <= MAX_DAYS:
        raise ValueError(f"must be a number of days from 1 to {MAX_DAYS:,}, or {FOREVER}")
    return days


RetentionDays = Annotated[float | Literal["forever"], BeforeValidator(_read_retention)]
"""Days, or `forever`; 0 means the same."""
ArchiveDays = Annotated[float, Field(ge=0, le=MAX_DAYS)]


class QueueSettings(BaseModel):
    """A queue as declared in `turnstile.toml` or TURNSTILE_QUEUES."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=rf"^{ID_PATTERN}$")]
    """What submits and workers call the queue."""
    sqs: str = ""
    """Name or URL of the SQS queue. Left out: the queue's own name."""
    dlq: str = ""
    """Name or URL of its dead-letter queue. Left out: `<sqs>-dlq`, with `.fifo` kept at the end."""
    purpose: str | None = None
    """What the queue's turns are for, in one line. `turnstile queues list` shows it."""
    owner: str | None = None
    """Who looks after its handler and its dead letters: a team, a channel, an address."""
    handler: str | None = None
    """`module:function`, for workers that are started without `--handler`."""
    max_attempts: Annotated[int, Field(ge=1, le=MAX_ATTEMPTS)] = 5
    """Attempts of a turn. A submit's own value wins, then the handler's, then this."""
    max_crashes: Annotated[int, Field(ge=1, le=100)] = 3
    """Workers that a turn may cost before it ends FAILED as `crash_loop`."""
    on_failure: Literal["dead_letter", "halt"] = "dead_letter"
    """`dead_letter`: the session goes on after a FAILED turn. `halt`: the session waits for `turnstile retry` or
    `turnstile skip`."""
    timeout_seconds: Seconds = 300.0
    """Timeout of one attempt. A submit's own value wins, then the handler's, then this."""
    max_timeout_seconds: Seconds | None = None
    """The longest `timeout_seconds` that a submit may ask for: so long can a client hold a slot. Left out: 14 days."""
    visibility_seconds: Annotated[float, Field(ge=1, le=MAX_VISIBILITY_SECONDS)] = 60.0
    """Visibility timeout of a received message. A worker extends it while it works on the turn."""
    expires_in_seconds: Seconds = 900.0
    """Time after the submit or `execute_at` in which retries and snoozes may begin. The first attempt may begin
    later."""
    retention_days: RetentionDays | None = None
    """Days after its end that a turn stays in the table, with all that belongs to it. Then a relay deletes it. `forever`, or 0:
    it stays. Left out: `TURNSTILE_RETENTION_DAYS`."""
    archive_days: ArchiveDays | None = None
    """Days that a turn is in the archive after that, before it is deleted. 0: it is deleted without the archive. Left out:
    `TURNSTILE_ARCHIVE_DAYS`."""

    @field_validator("sqs", "dlq")
    @classmethod
    def _check_address(cls, address: str) -> str:
        if address.startswith("arn:"):
            raise ValueError("is an ARN: use the name or the URL of the queue")
        return address

    @property
    def halts(self) -> bool:
        return self.on_failure == "halt"

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, fields: Any) -> Any:
        if isinstance(fields, dict) and isinstance(fields.get("name"), str):
            sqs = fields.get("sqs") or fields["name"]
            stem = sqs.removesuffix(".fifo")
            fields = {"dlq": f"{stem}-dlq{sqs[len(stem) :]}", **fields, "sqs": sqs}
        return fields


def find_conflicts(queues: Sequence[QueueSettings], heartbeat_seconds: float, lease_seconds: float) -> list[str]:
    """Conflicts between the queues, and between their visibility timeouts and heartbeat and lease."""
    problems = []
    for queue in queues:
        visibility = f"the visibility timeout of queue {queue.name!r} ({queue.visibility_seconds:g} s)"
        if heartbeat_seconds > queue.visibility_seconds / 2:
            problems.append(f"heartbeat ({heartbeat_seconds:g} s) must be at most half {visibility}")
        if lease_seconds > queue.visibility_seconds:
            problems.append(f"lease ({lease_seconds:g} s) must not be longer than {visibility}")
    if len({queue.name for queue in queues}) != len(queues):
        problems.append("each queue may be declared only once")
    if len({queue.sqs for queue in queues} | {queue.dlq for queue in queues}) != 2 * len(queues):
        problems.append("each queue needs an SQS queue and a dead-letter queue of its own")
    return problems


def find_short_retentions(
    queues: Sequence[QueueSettings], usual_days: float | Literal["forever"], idempotency_days: float
) -> list[str]:
    """The ages at which a turn would go before its idempotency key: a repeated request is answered with that turn's id."""
    declared = {f"retention_days of queue {queue.name!r}": queue.retention_days for queue in queues}
    return [
        f"{name} ({days:g}) must not be shorter than TURNSTILE_IDEMPOTENCY_DAYS ({idempotency_days:g})"
        for name, days in {**declared, "TURNSTILE_RETENTION_DAYS": usual_days}.items()
        if isinstance(days, float) and days < idempotency_days
    ]
