"""Translates errors of the routes to problem responses.

No client input leads to a 500. No response or log line from here quotes a row, a message or a key.
"""

import asyncio
import traceback
from collections.abc import Mapping
from functools import partial
from http import HTTPMethod
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnstile.errors import (
    ConnectionsBusyError,
    ContentsUnreadableError,
    DatabaseUnavailableError,
    DatabaseUnfitError,
    FirstRequestSealedError,
    IdempotencyMismatchError,
    IssuerUnavailableError,
    ListTooBroadError,
    RowLockedError,
    SessionBusyError,
    TurnIdTakenError,
    UnknownQueueError,
    UnstorableContentError,
    WebhookNotAllowedError,
)
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import (
    LATER,
    Fault,
    Kind,
    ProblemError,
    invalid_parameters,
    respond,
    unavailable,
)
from turnstile.producer.sharing.fair_places import NoPlaceError
from turnstile.submission.turn_request import InvalidRequestError, NotJsonError
from turnstile.telemetry.own_log import log
from turnstile.turn.identifiers import ID_PATTERN, ID_RULE

REFUSAL_SECONDS = 2.0
"""How long a refusal for overload is held back. A thousand clients that do not wait then send 500 requests a second."""


def install(app: FastAPI) -> None:
    """Makes `app` respond to every expected error with a problem."""
    app.state.database_away = Tally("api.database_away")
    app.state.overloaded = Tally("api.overloaded")
    app.state.contents_unreadable = Tally("api.contents_unreadable")
    for expected in _TRANSLATIONS:
        app.add_exception_handler(expected, _answer)
    app.add_exception_handler(405, _refuse_method)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    return await answer(error, request.url.path, request.app.state)


async def _refuse_method(request: Request, _: Exception) -> JSONResponse:
    """Starlette's own answer allows only the methods of the first route of a path, and some paths have two."""
    scopes = [{**request.scope, "method": method} for method in HTTPMethod]
    routes = request.app.routes
    allowed = [
        str(scope["method"]) for scope in scopes if any(route.matches(scope)[0] is Match.FULL for route in routes)
    ]
    return respond(ProblemError(Kind.METHOD_NOT_ALLOWED, "see the Allow header", headers={"Allow": ", ".join(allowed)}))


async def answer(error: Exception, path: str, state: State) -> JSONResponse:
    """The response to an error of a route. Raises an unexpected error again.

    A refusal for overload waits, as long as connections are free: clients that repeat their requests at once would keep the event
    loop busy with refusals, and other tenants' requests would wait for it.
    """
    problem = translate(error, path, state)
    if isinstance(problem, NoPlaceError) and state.connections.may_wait:
        await asyncio.sleep(REFUSAL_SECONDS)
    return respond(problem)


def translate(error: Exception, path: str, state: State) -> ProblemError:
    """The problem for an error of a route, noted if operators must know of it. Raises an unexpected error again."""
    if isinstance(error, (ContentsUnreadableError, FirstRequestSealedError)):
        state.contents_unreadable.note(path=path, error=str(error))
    if isinstance(error, ConnectionsBusyError):
        state.overloaded.note(what="calls of Postgres", path=path)
    # The pool logs unfit tables once, not once for each call.
    answers = (RowLockedError, DatabaseUnfitError, ConnectionsBusyError)
    if isinstance(error, DatabaseUnavailableError) and not isinstance(error, answers):
        state.database_away.note(path=path, error=str(error))
    for kind in type(error).__mro__:
        if kind in _TRANSLATIONS:
            problem: ProblemError = _TRANSLATIONS[kind](error)
            return problem
    raise error


def _of_http(error: HTTPException) -> ProblemError:
    match error.status_code:
        case 404:
            return ProblemError(Kind.NOT_FOUND, "no such route")
        case _:
            return ProblemError(Kind.BAD_REQUEST, error.detail, headers=error.headers)


def _of_parameters(error: RequestValidationError) -> ProblemError:
    return invalid_parameters(
        *(Fault(detail=_rule(fault), parameter=str(fault["loc"][-1])) for fault in error.errors())
    )


def _rule(fault: Mapping[str, Any]) -> str:
    # The text of the one pattern that clients often violate.
    is_id = fault.get("ctx", {}).get("pattern") == f"^{ID_PATTERN}$"
    return f"must be {ID_RULE}" if is_id else str(fault["msg"])


def _of_body(error: InvalidRequestError) -> ProblemError:
    faults = [Fault(detail=detail, pointer=pointer) for pointer, detail in error.faults]
    return ProblemError(Kind.INVALID_BODY, str(error), errors=faults)


def _of_field(kind: Kind, pointer: str, error: Exception) -> ProblemError:
    return ProblemError(kind, str(error), errors=[Fault(detail=str(error), pointer=pointer)])


def _of_busy_session(error: SessionBusyError) -> ProblemError:
    return ProblemError(
        Kind.SESSION_BUSY,
        f"turn {error.turn_id} is open: wait for it to end, or choose another on_busy",
        headers={"Idempotency-Replayed": "true"} if error.replayed else None,
        turn_id=error.turn_id,
    )


_AGAIN = "try again, with the same Idempotency-Key if the request had one"
_TRANSLATIONS: dict[type[Exception], Any] = {
    ProblemError: lambda error: error,
    HTTPException: _of_http,
    RequestValidationError: _of_parameters,
    InvalidRequestError: _of_body,
    NotJsonError: lambda error: ProblemError(Kind.INVALID_JSON, error.faults[0][1]),
    UnknownQueueError: partial(_of_field, Kind.UNKNOWN_QUEUE, "/queue"),
    WebhookNotAllowedError: partial(_of_field, Kind.WEBHOOK_NOT_ALLOWED, "/webhook_url"),
    IdempotencyMismatchError: lambda _: ProblemError(
        Kind.IDEMPOTENCY_MISMATCH, "use a new key, or a new turn_id, for a new request"
    ),
    SessionBusyError: _of_busy_session,
    TurnIdTakenError: lambda _: ProblemError(Kind.TURN_ID_TAKEN, "leave turn_id out, or choose another"),
    UnstorableContentError: lambda error: ProblemError(Kind.INVALID_BODY, str(error)),
    DatabaseUnavailableError: lambda _: unavailable(f"the database does not respond; {_AGAIN}"),
    ConnectionsBusyError: lambda _: NoPlaceError(
        Kind.UNAVAILABLE, f"this process has too many calls for its connections to Postgres; {_AGAIN}", headers=LATER
    ),
    DatabaseUnfitError: lambda error: unavailable(str(error)),
    RowLockedError: lambda _: unavailable(f"another transaction has locked the session; {_AGAIN}"),
    # Nothing that the client sent: the operator's log has the reason.
    ContentsUnreadableError: lambda _: unavailable("this process can't open what is stored; tell its operator"),
    FirstRequestSealedError: lambda _: unavailable(
        "this process can't compare the request with the first one of this key; tell its operator"
    ),
    IssuerUnavailableError: lambda _: unavailable("the keys of the tokens' issuer can't be read now; try again"),
    ListTooBroadError: lambda _: ProblemError(Kind.LIST_TOO_BROAD, "list one session, or use another filter, or none"),
    ClientDisconnect: lambda _: ProblemError(Kind.BAD_REQUEST, "the body is incomplete"),
}


class LastResort:
    """Middleware: responds to an unexpected error with a 500 without details, and logs its classes and stack.

    It runs inside Starlette's own error handling, which would pass the exception and its message to the server's log. An error of
    Postgres quotes the row, so a message is never logged.
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
            stack = "".join(traceback.format_tb(error.__traceback__))
            # Not `log.exception`, which would add the message of the error.
            log.error("api.unexpected_error", path=scope["path"], kinds=_kinds(error), stack=stack)
            # The server breaks off a partial response that ends here.
            if not begun:
                await respond(ProblemError(Kind.INTERNAL, "it has been logged"))(scope, receive, send)


def _kinds(error: BaseException | None) -> list[str]:
    kinds: list[str] = []
    while error is not None and len(kinds) < 8:
        kinds.append(f"{type(error).__module__}.{type(error).__qualname__}")
        error = error.__cause__ or error.__context__
    return kinds
