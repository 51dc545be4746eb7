"""The request body of a submit, and its conversion to a submission. Pure.

The API and the batch jobs share this code, so that both recognise a repeat of the same request.

Unknown fields are refused: a misspelt `max_attemps` that is silently ignored would be noticed only after damage.
"""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar
from uuid import UUID

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)

from turnstile.config.queue_settings import Seconds
from turnstile.config.settings import Settings
from turnstile.errors import WebhookNotAllowedError
from turnstile.statements.submit import Submission
from turnstile.submission.submission_key import canonical_json, fingerprint, recorded_key
from turnstile.turn.identifiers import chosen_prefix, continue_trace, may_choose, uuid7
from turnstile.turn.limits import MAX_ATTEMPTS
from turnstile.turn.on_busy import OnBusy
from turnstile.turn.stored_json import MAX_DEPTH
from turnstile.webhooks.webhook_url import MAX_URL_CHARACTERS, is_allowed, parse_webhook_url

MAX_METADATA_BYTES = 4096

MOST_FAULTS = 10
MOST_NAMED_CHARACTERS = 64
"""Longest name of an unknown field in an error. Without both limits, a response could be ten times as long as its
request."""

MAX_DIGITS = 4300
"""Most digits of a number, as the parser reads it."""

MAX_PRIORITY_SECONDS = 3600
"""The longest head start. No turn waits longer than this because of turns that were submitted after it."""

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
MAX_AHEAD = timedelta(days=366)

_TRACE_BITS = 192
RANDOM_BITS = _TRACE_BITS + 74
"""Random bits for a submission's trace and id. Drawn with one system call for both: each call releases the GIL, and may wait long
to get it back."""


def _check_input(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        # Most often a form without a text. A handler that needs no input gets null or an object.
        raise ValueError("must not be blank")
    canonical_json(value)
    return value


def _check_metadata(value: dict[str, Any]) -> dict[str, Any]:
    if len(canonical_json(value).encode()) > MAX_METADATA_BYTES:
        raise ValueError(f"must not be longer than {MAX_METADATA_BYTES} bytes as JSON")
    return value


def _check_webhook_url(value: str) -> str:
    parse_webhook_url(value)
    return value


def _as_utc(value: datetime) -> str:
    # The same instant in different zones must give the same fingerprint.
    return value.astimezone(UTC).isoformat()


Request = TypeVar("Request", bound=BaseModel)
Moment = Annotated[AwareDatetime, PlainSerializer(_as_utc)]
Metadata = Annotated[dict[str, Any], AfterValidator(_check_metadata)]
WebhookUrl = Annotated[
    str,
    AfterValidator(_check_webhook_url),
    WithJsonSchema({"type": "string", "format": "uri", "pattern": "^https://", "maxLength": MAX_URL_CHARACTERS}),
]


class TurnRequest(BaseModel):
    """The body of a submit."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    input: Annotated[
        Any,
        AfterValidator(_check_input),
        WithJsonSchema({"anyOf": [{"type": "string", "pattern": r"\S"}, {"not": {"type": "string"}}]}),
        Field(description="What the user said: any JSON value that the handler understands; a text must not be blank."),
    ]
    queue: Annotated[
        str | None, Field(max_length=128, description="One of the declared queues; the default queue when left out.")
    ] = None
    execute_at: Annotated[
        Moment | None,
        Field(description="The turn begins at this time at the earliest: with its zone, at most 366 days ahead."),
    ] = None
    max_attempts: Annotated[
        int | None, Field(ge=1, le=MAX_ATTEMPTS, description="Attempts of the turn; the queue's value when left out.")
    ] = None
    timeout_seconds: Annotated[
        Seconds | None, Field(description="Timeout of one attempt; the queue's value when left out.")
    ] = None
    expires_in_seconds: Annotated[
        Seconds | None,
        Field(
            description="Time after `execute_at`, or after now, in which retries begin; the queue's value when left out."
        ),
    ] = None
    metadata: Annotated[
        Metadata | None,
        Field(description=f"Kept unchanged with the turn; at most {MAX_METADATA_BYTES} bytes of JSON."),
    ] = None
    webhook_url: Annotated[
        WebhookUrl | None,
        Field(description="URL that gets a signed POST when the turn has ended. The deployment must allow its host."),
    ] = None
    priority_seconds: Annotated[
        float | None,
        Field(
            ge=0,
            le=MAX_PRIORITY_SECONDS,
            description="A head start: while turns wait in the queue, the turn is ordered among the sessions as if it had been"
            " submitted so much earlier. The order in its session stays.",
        ),
    ] = None
    turn_id: Annotated[
        UUID | None,
        Field(
            description="The turn's id, chosen by the client: a repeat finds the same turn. It begins with the"
            " twelve hex digits of the tenant (the error for another id names them), and is not of version 7."
        ),
    ] = None
    on_busy: Annotated[
        OnBusy,
        Field(
            description="What to do if a turn of the session is open: wait in line, be refused, cancel the open turns and"
            " go first, or be added to the turn that is still waiting. Scheduled turns do not make a session busy."
        ),
    ] = OnBusy.ENQUEUE


class InvalidRequestError(ValueError):
    """Not a valid request. `faults` are pairs of JSON pointer (RFC 6901) and error text."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{pointer or 'body'}: {fault}" for pointer, fault in faults))
        self.faults = faults


class NotJsonError(InvalidRequestError):
    """Not JSON by RFC 8259, or not UTF-8."""


def read_turn_request(body: bytes, now: datetime) -> TurnRequest:
    """Validates a JSON text. Raises InvalidRequestError, which names invalid fields, MOST_FAULTS at most, but quotes no value."""
    request = read_request(TurnRequest, body)
    check_fields_together(request, now)
    return request


def check_fields_together(request: TurnRequest, now: datetime) -> None:
    """Raises InvalidRequestError for a time that is out of bounds, and for fields that contradict each other."""
    if request.execute_at is not None and not EARLIEST <= request.execute_at <= now + MAX_AHEAD:
        fault = f"must lie between {EARLIEST:%Y-%m-%d} and {MAX_AHEAD.days} days from now"
        raise InvalidRequestError([("/execute_at", fault)])
    if request.on_busy is not OnBusy.ENQUEUE and request.execute_at is not None:
        raise InvalidRequestError([("/on_busy", "applies to the time of the submit; leave out on_busy or execute_at")])
    if request.on_busy is OnBusy.MERGE and request.turn_id is not None:
        raise InvalidRequestError([("/on_busy", "merged input does not become a turn of its own; leave out turn_id")])
    if request.on_busy is OnBusy.MERGE and request.webhook_url is not None:
        # The merged turn keeps its own options, so this webhook_url would be silently dropped.
        raise InvalidRequestError(
            [("/on_busy", "merged input does not become a turn of its own; leave out webhook_url")]
        )


def read_request(kind: type[Request], body: bytes) -> Request:
    """Validates a JSON text by a model. Raises InvalidRequestError."""
    request = validate_request(kind, body)
    refuse_repeated_members(body)
    return request


def validate_request(kind: type[Request], body: bytes) -> Request:
    """The same, but of two members of one name the last counts."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        if details[0]["type"] == "json_invalid":
            raise _unreadable(details[0]) from None
        raise InvalidRequestError([_fault(detail) for detail in details[:MOST_FAULTS]]) from None


def refuse_repeated_members(text: bytes) -> None:
    """Raises InvalidRequestError if an object of the JSON text has two members of one name: readers disagree which one counts."""
    # Parsed once more, because pydantic silently keeps the last member. It costs a few microseconds for a usual body.
    _DISTINCT.decode(text.decode())


def read_submission(
    settings: Settings,
    tenant_id: str,
    session_id: str,
    body: bytes,
    *,
    key: str | None,
    now: datetime,
    random_bits: int,
    traceparent: str | None = None,
    xray: str | None = None,
) -> Submission:
    """The submission for a JSON text. `key` is the client's idempotency key; `random_bits` has RANDOM_BITS random bits.

    Raises InvalidRequestError, UnknownQueueError, WebhookNotAllowedError.
    """
    request = read_turn_request(body, now)
    return make_submission(
        settings,
        tenant_id,
        session_id,
        request,
        key=key,
        now=now,
        random_bits=random_bits,
        traceparent=traceparent,
        xray=xray,
    )


def make_submission(
    settings: Settings,
    tenant_id: str,
    session_id: str,
    request: TurnRequest,
    *,
    key: str | None,
    now: datetime,
    random_bits: int,
    traceparent: str | None = None,
    xray: str | None = None,
) -> Submission:
    """The submission for a request, as `read_submission` makes it."""
    if request.turn_id is not None and not may_choose(tenant_id, request.turn_id):
        prefix = chosen_prefix(tenant_id)
        rule = f"must begin with {prefix[:8]}-{prefix[8:]}, which is your tenant's, and must not be of version 7"
        raise InvalidRequestError([("/turn_id", rule)])
    queue = settings.find_queue(_usual_queue(settings) if request.queue is None else request.queue)
    longest = queue.max_timeout_seconds
    if longest is not None and (request.timeout_seconds or 0) > longest:
        fault = f"must be at most {longest:g} on queue {queue.name!r}"
        raise InvalidRequestError([("/timeout_seconds", fault)])
    hosts = settings.webhook_hosts
    if request.webhook_url is not None and not is_allowed(parse_webhook_url(request.webhook_url), hosts):
        # The error must not show the client which hosts are allowed.
        raise WebhookNotAllowedError("this host is not allowed" if hosts else "webhooks are not enabled here")
    return Submission(
        turn_id=request.turn_id or uuid7(int(now.timestamp() * 1000), random_bits >> _TRACE_BITS),
        tenant_id=tenant_id,
        session_id=session_id,
        queue=queue.name,
        content=request.input,
        fingerprint=fingerprint(session_id, given_fields(request)),
        trace=continue_trace(traceparent, random_bits & (1 << _TRACE_BITS) - 1, xray),
        key=recorded_key(key, request.turn_id),
        chosen=request.turn_id is not None,
        execute_at=request.execute_at,
        expires_in_seconds=request.expires_in_seconds or queue.expires_in_seconds,
        max_attempts=request.max_attempts,
        timeout_seconds=request.timeout_seconds,
        metadata=request.metadata,
        webhook_url=request.webhook_url,
        on_busy=request.on_busy,
        priority_seconds=request.priority_seconds or 0.0,
    )


def _usual_queue(settings: Settings) -> str:
    names = settings.queues_by_name
    return settings.queue if settings.queue in names else next(iter(names))


def given_fields(request: TurnRequest) -> dict[str, Any]:
    """The fields of a request that distinguish it from another one."""
    said = request.model_dump(mode="json", exclude_none=True)
    if request.on_busy is OnBusy.ENQUEUE:
        # The default must give the same fingerprint as an omitted field.
        del said["on_busy"]
    if request.priority_seconds == 0:
        del said["priority_seconds"]
    return said


def _distinct(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        [(name, _)] = Counter(name for name, _ in members).most_common(1)
        raise InvalidRequestError([("", f"has an object with two members {_shortened(name)!r}: give it once")])
    return found


_DISTINCT = json.JSONDecoder(object_pairs_hook=_distinct)


def _unreadable(detail: Any) -> InvalidRequestError:
    said = detail["ctx"]["error"]
    # Both are JSON, and no fault of the client's encoder.
    if said.startswith("recursion limit exceeded"):
        return InvalidRequestError([("", f"is nested more than {MAX_DEPTH} levels deep")])
    if said.startswith("number out of range"):
        return InvalidRequestError([("", f"has a number of more than {MAX_DIGITS} digits: send it as a string")])
    return NotJsonError([_fault(detail)])


def _shortened(name: str) -> str:
    return name if len(name) <= MOST_NAMED_CHARACTERS else f"{name[:MOST_NAMED_CHARACTERS]}…"


def _fault(detail: Any) -> tuple[str, str]:
    steps = (_shortened(str(step)) for step in detail["loc"])
    pointer = "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)
    match detail["type"]:
        case "model_type":
            # pydantic's message names an internal class.
            return pointer, "must be an object"
        case "uuid_parsing":
            # pydantic's message quotes a character.
            return pointer, "must be a UUID"
        case _:
            return pointer, str(detail["msg"]).removeprefix("Value error, ").removeprefix("Invalid JSON: ")
