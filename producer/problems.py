"""What goes wrong, as clients see it: problem+json (RFC 9457), each kind with a `type` that never changes.

Nothing that a client sends ends in a 500, and nothing that is answered or logged here quotes a row, a message or a key.
"""

import traceback
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NoReturn
from uuid import UUID

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from producer.intake import UnstorableContentError
from producer.turn_request import InvalidRequestError
from turns.errors import (
    DatabaseUnavailableError,
    IdempotencyMismatchError,
    ListTooBroadError,
    RowHeldError,
    SessionBusyError,
    TurnIdTakenError,
    UnknownQueueError,
    WebhookNotAllowedError,
)
from turns.message import ID_PATTERN, ID_RULE

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 2

log = structlog.get_logger("turnstile.api")


class Kind(Enum):
    """All kinds of problem: the last part of `type`, the status, the title."""

    BAD_REQUEST = ("bad-request", 400, "The request cannot be read")
    INVALID_JSON = ("invalid-json", 400, "The body is not JSON")
    UNAUTHORIZED = ("unauthorized", 401, "A valid API key is needed")
    NOT_FOUND = ("not-found", 404, "There is no such thing")
    METHOD_NOT_ALLOWED = ("method-not-allowed", 405, "The method is not allowed here")
    REQUEST_TOO_SLOW = ("request-too-slow", 408, "The request did not arrive in time")
    BODY_TOO_SLOW = ("body-too-slow", 408, "The body did not arrive in time")
    SESSION_BUSY = ("session-busy", 409, "The session is busy with another turn")
    TURN_ID_TAKEN = ("turn-id-taken", 409, "The turn id belongs to another turn")
    BODY_TOO_LARGE = ("body-too-large", 413, "The body is too large")
    UNSUPPORTED_MEDIA_TYPE = ("unsupported-media-type", 415, "The body must be application/json")
    INVALID_BODY = ("invalid-body", 422, "The body is not a valid request")
    INVALID_PARAMETER = ("invalid-parameter", 422, "A parameter or header is not valid")
    LIST_TOO_BROAD = ("list-too-broad", 422, "Too many turns would have to be looked through")
    UNKNOWN_QUEUE = ("unknown-queue", 422, "The queue is not declared")
    WEBHOOK_NOT_ALLOWED = ("webhook-not-allowed", 422, "The webhook cannot go there")
    IDEMPOTENCY_MISMATCH = ("idempotency-mismatch", 422, "The same key came before with another request")
    TOO_MANY_STREAMS = ("too-many-streams", 429, "The tenant follows too many turns at a time")
    INTERNAL = ("internal-error", 500, "Something went wrong on our side")
    UNAVAILABLE = ("unavailable", 503, "The service is not available just now")

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
    """The body of every answer of 400 or more."""

    type: str
    title: str
    status: int
    detail: str
    turn_id: UUID | None = None
    """Of a busy session: the turn that is open."""
    errors: list[Fault] | None = None


class ProblemError(Exception):
    """A request that ends here, with this answer."""

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


def refuse_unauthorized() -> NoReturn:
    """Raises the 401 that says how to do better."""
    raise ProblemError(Kind.UNAUTHORIZED, "send `Authorization: Bearer <key>`", headers={"WWW-Authenticate": "Bearer"})


def invalid_parameters(*faults: Fault) -> ProblemError:
    """The 422 that names them."""
    return ProblemError(Kind.INVALID_PARAMETER, _listing(faults), errors=faults)


def respond(error: ProblemError) -> JSONResponse:
    """The problem as an answer."""
    body = ProblemBody(
        type=error.kind.type,
        title=error.kind.title,
        status=error.kind.status,
        detail=error.detail,
        turn_id=error.turn_id,
        errors=error.errors or None,
    )
    content = body.model_dump(mode="json", exclude_none=True)
    return JSONResponse(content, error.kind.status, dict(error.headers or {}), MEDIA_TYPE)


async def refuse_overload(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a request that the process has no room for, whatever it asks."""
    later = {"Retry-After": str(RETRY_AFTER_SECONDS)}
    problem = ProblemError(Kind.UNAVAILABLE, "too many requests are under way; try again", headers=later)
    await respond(problem)(scope, receive, send)


def install(app: FastAPI) -> None:
    """Makes every error of `app` a problem."""
    for expected in _TRANSLATIONS:
        app.add_exception_handler(expected, _answer)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    return respond(translate(error, request.url.path))


def translate(error: Exception, path: str) -> ProblemError:
    """What an error of a route means to the client. One that nobody expected is raised again."""
    if isinstance(error, DatabaseUnavailableError) and not isinstance(error, RowHeldError):
        log.warning("api.database_away", path=path, error=str(error))
    for kind in type(error).__mro__:
        if kind in _TRANSLATIONS:
            problem: ProblemError = _TRANSLATIONS[kind](error)
            return problem
    raise error


def _of_http(error: HTTPException) -> ProblemError:
    match error.status_code:
        case 404:
            return ProblemError(Kind.NOT_FOUND, "no such route")
        case 405:
            return ProblemError(Kind.METHOD_NOT_ALLOWED, "see the Allow header", headers=error.headers)
        case _:
            return ProblemError(Kind.BAD_REQUEST, error.detail, headers=error.headers)


def _of_parameters(error: RequestValidationError) -> ProblemError:
    return invalid_parameters(
        *(Fault(detail=_rule(fault), parameter=str(fault["loc"][-1])) for fault in error.errors())
    )


def _rule(fault: Mapping[str, Any]) -> str:
    # The one pattern that people meet, in words.
    is_id = fault.get("ctx", {}).get("pattern") == f"^{ID_PATTERN}$"
    return f"must be {ID_RULE}" if is_id else str(fault["msg"])


def _of_body(error: InvalidRequestError) -> ProblemError:
    faults = [Fault(detail=detail, pointer=pointer) for pointer, detail in error.faults]
    return ProblemError(Kind.INVALID_BODY, _listing(faults), errors=faults)


def _of_queue(error: UnknownQueueError) -> ProblemError:
    fault = Fault(detail=str(error), pointer="/queue")
    return ProblemError(Kind.UNKNOWN_QUEUE, fault.detail, errors=[fault])


def _of_webhook(error: WebhookNotAllowedError) -> ProblemError:
    fault = Fault(detail=str(error), pointer="/webhook_url")
    return ProblemError(Kind.WEBHOOK_NOT_ALLOWED, fault.detail, errors=[fault])


def _of_busy_session(error: SessionBusyError) -> ProblemError:
    return ProblemError(
        Kind.SESSION_BUSY,
        f"turn {error.turn_id} is open: wait for it to end, or choose another on_busy",
        headers={"Idempotency-Replayed": "true"} if error.replayed else None,
        turn_id=error.turn_id,
    )


def _of_outage(_: DatabaseUnavailableError) -> ProblemError:
    return ProblemError(
        Kind.UNAVAILABLE,
        "the database cannot be reached; try again, with the same Idempotency-Key where one was given",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


def _of_held_row(_: RowHeldError) -> ProblemError:
    return ProblemError(
        Kind.UNAVAILABLE,
        "another transaction holds a lock on the session; try again, with the same Idempotency-Key where one was given",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


_TRANSLATIONS: dict[type[Exception], Any] = {
    ProblemError: lambda error: error,
    HTTPException: _of_http,
    RequestValidationError: _of_parameters,
    InvalidRequestError: _of_body,
    UnknownQueueError: _of_queue,
    WebhookNotAllowedError: _of_webhook,
    IdempotencyMismatchError: lambda _: ProblemError(
        Kind.IDEMPOTENCY_MISMATCH, "use a new key, or a new turn_id, for a new request"
    ),
    SessionBusyError: _of_busy_session,
    TurnIdTakenError: lambda _: ProblemError(Kind.TURN_ID_TAKEN, "leave turn_id out, or choose another"),
    UnstorableContentError: lambda error: ProblemError(Kind.INVALID_BODY, str(error)),
    DatabaseUnavailableError: _of_outage,
    RowHeldError: _of_held_row,
    ListTooBroadError: lambda _: ProblemError(
        Kind.LIST_TOO_BROAD, "narrow the list to a session, or ask with another filter or none"
    ),
    ClientDisconnect: lambda _: ProblemError(Kind.BAD_REQUEST, "the body broke off"),
}


def _listing(faults: Sequence[Fault]) -> str:
    return "; ".join(f"{fault.pointer or fault.parameter or 'body'}: {fault.detail}" for fault in faults)


class LastResort:
    """Answers what nobody expected with a 500 that says nothing, and logs where it came from.

    Inside Starlette's own handling of such errors, which would hand the exception on to the server's log, text and all:
    an error of Postgres quotes the row. So the log has the classes and the stack, never a message.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = False

        async def watch(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:
            # Not `exception`, which would add the error's own words.
            log.error("api.unexpected_error", path=scope["path"], kinds=_kinds(error), stack=_stack(error))  # noqa: TRY400
            if begun:
                # Half an answer can only be broken off; a class of our own, so that nothing is quoted further up.
                raise BrokenOffError from None
            problem = ProblemError(Kind.INTERNAL, "it has been logged")
            await respond(problem)(scope, receive, send)


class BrokenOffError(Exception):
    """An answer failed after its first bytes; what happened is in the log."""


def _kinds(error: BaseException | None) -> list[str]:
    kinds: list[str] = []
    while error is not None and len(kinds) < 8:
        kinds.append(f"{type(error).__module__}.{type(error).__qualname__}")
        error = error.__cause__ or error.__context__
    return kinds


def _stack(error: BaseException) -> str:
    return "".join(traceback.format_tb(error.__traceback__))
