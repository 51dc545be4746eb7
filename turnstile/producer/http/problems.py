"""Error responses as problem+json (RFC 9457). Each kind has a `type` that never changes."""

from collections.abc import Mapping, Sequence
from enum import Enum
from uuid import UUID

from pydantic import BaseModel
from starlette.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"
LATER = {"Retry-After": "2"}


class Kind(Enum):
    """All kinds of problem: the last part of `type`, the status, the title."""

    BAD_REQUEST = ("bad-request", 400, "The request cannot be read")
    INVALID_JSON = ("invalid-json", 400, "The body is not JSON")
    UNAUTHORIZED = ("unauthorized", 401, "A valid API key is needed")
    FORBIDDEN = ("forbidden", 403, "The credential does not allow this")
    NOT_FOUND = ("not-found", 404, "Not found")
    METHOD_NOT_ALLOWED = ("method-not-allowed", 405, "The method is not allowed here")
    NOT_ACCEPTABLE = ("not-acceptable", 406, "The stream has no such form")
    REQUEST_TOO_SLOW = ("request-too-slow", 408, "The request did not arrive in time")
    BODY_TOO_SLOW = ("body-too-slow", 408, "The body did not arrive in time")
    SESSION_BUSY = ("session-busy", 409, "The session is busy with another turn")
    TURN_ID_TAKEN = ("turn-id-taken", 409, "The turn id belongs to another turn")
    BODY_TOO_LARGE = ("body-too-large", 413, "The body is too large")
    URI_TOO_LONG = ("uri-too-long", 414, "The path and the query are too long")
    UNSUPPORTED_MEDIA_TYPE = ("unsupported-media-type", 415, "The body must be application/json")
    NOT_LOCAL = ("not-local", 421, "Without keys the API serves this machine alone")
    INVALID_BODY = ("invalid-body", 422, "The body is not a valid request")
    INVALID_PARAMETER = ("invalid-parameter", 422, "A parameter or header is not valid")
    LIST_TOO_BROAD = ("list-too-broad", 422, "The list would have to read too many turns")
    UNKNOWN_QUEUE = ("unknown-queue", 422, "The queue is not declared")
    WEBHOOK_NOT_ALLOWED = ("webhook-not-allowed", 422, "The webhook may not be sent to this host")
    IDEMPOTENCY_MISMATCH = ("idempotency-mismatch", 422, "The key was used before, with another request")
    TOO_MANY_REQUESTS = ("too-many-requests", 429, "The tenant has too much in progress")
    TOO_MANY_STREAMS = ("too-many-streams", 429, "The tenant follows too many turns")
    TOO_MANY_OPEN_TURNS = ("too-many-open-turns", 429, "Too many turns are open")
    RATE_LIMITED = ("rate-limited", 429, "Too many requests in a window of time")
    HEADERS_TOO_LARGE = ("headers-too-large", 431, "The headers are too many or too large")
    INTERNAL = ("internal-error", 500, "Internal error")
    UNAVAILABLE = ("unavailable", 503, "The service is not available")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.type = f"/problems/{slug}"
        self.status = status
        self.title = title


class Fault(BaseModel):
    """One thing that is wrong with a request: `pointer` into the body (RFC 6901), or the `parameter`'s name."""

    detail: str
    pointer: str | None = None
    parameter: str | None = None


class ProblemBody(BaseModel):
    """The body of every error response."""

    type: str
    title: str
    status: int
    detail: str
    turn_id: UUID | None = None
    """For a busy session: the turn that is open."""
    errors: list[Fault] | None = None


class ProblemError(Exception):
    """Ends the request with this error response."""

    def __init__(
        self,
        kind: Kind,
        detail: str,
        *,
        errors: Sequence[Fault] = (),
        headers: Mapping[str, str] | None = None,
        turn_id: UUID | None = None,
    ) -> None:
        super().__init__(f"{kind.type}: {detail}")
        self.kind = kind
        self.detail = detail
        self.turn_id = turn_id
        self.errors = list(errors)
        self.headers = headers


def invalid_parameters(*faults: Fault) -> ProblemError:
    listed = "; ".join(f"{fault.parameter}: {fault.detail}" for fault in faults)
    return ProblemError(Kind.INVALID_PARAMETER, listed, errors=faults)


def respond(error: ProblemError) -> JSONResponse:
    content = describe(error).model_dump(mode="json", exclude_none=True)
    return JSONResponse(content, error.kind.status, dict(error.headers or {}), MEDIA_TYPE)


def describe(error: ProblemError) -> ProblemBody:
    """What a response says of the error."""
    return ProblemBody(
        type=error.kind.type,
        title=error.kind.title,
        status=error.kind.status,
        detail=error.detail,
        turn_id=error.turn_id,
        errors=error.errors or None,
    )


def unavailable(detail: str) -> ProblemError:
    return ProblemError(Kind.UNAVAILABLE, detail, headers=LATER)
