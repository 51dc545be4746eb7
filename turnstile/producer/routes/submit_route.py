"""Submit over HTTP, with or without a stream of the turn (`chat_route`): a separate ASGI application that bypasses FastAPI,
because FastAPI resolves a route's dependencies for each request (ADR 0019). The FastAPI routes are only for the OpenAPI document.
"""

import re
import secrets
from datetime import UTC, datetime
from typing import cast

from fastapi import APIRouter
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import State
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnstile.access.caller import Caller
from turnstile.access.role import Role
from turnstile.access.verb import Verb
from turnstile.producer.backend import Backend
from turnstile.producer.caller import CALLER, Submitter, admit, require
from turnstile.producer.http.parameters import refuse_wrong_parameters
from turnstile.producer.http.problems import Fault, invalid_parameters
from turnstile.producer.http.request_body import read_json_body
from turnstile.producer.http.request_metrics import ROUTE
from turnstile.producer.routes.chat_route import begin_chat, follow_accepted
from turnstile.producer.routes.error_handlers import answer
from turnstile.producer.routes.openapi import body_of, functions, problems
from turnstile.producer.routes.path_parameters import SessionId
from turnstile.producer.routes.session_limit import stay_in_session
from turnstile.producer.routes.submit_headers import IdempotencyKey, Prefer, Traceparent, headers_of
from turnstile.producer.routes.turn_responses import SubmittedTurn, TurnDetail, detail, submitted
from turnstile.producer.watch.wait_for_end import wait_for_end, wanted_wait
from turnstile.statements.submit import Accepted
from turnstile.submission.turn_request import RANDOM_BITS, read_submission
from turnstile.turn.identifiers import RESERVED_RULE, is_reserved_session
from turnstile.turn.personal_id import PERSONAL_RULE, is_personal
from turnstile.turn.turn_record import TurnRecord

_PATH = re.compile(r"/v1/sessions/([^/]+)/(turns|chat)")
_CHATS = "turnstile.chats"
_SESSION = "turnstile.session"
_SESSION_ID: TypeAdapter[str] = TypeAdapter(SessionId)
_IDEMPOTENCY_KEY: TypeAdapter[str | None] = TypeAdapter(IdempotencyKey)

v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))


@v1.post(
    "/sessions/{session_id}/turns",
    status_code=202,
    tags=["turns"],
    summary="Submit a turn",
    response_model=None,
    responses={**problems(400, 408, 409, 413, 415, 422), 200: {"model": TurnDetail}, 202: {"model": SubmittedTurn}},
    openapi_extra=body_of("TurnRequest") | functions("F1", "F2"),
)
async def submit_turn(
    caller: Submitter,
    session_id: SessionId,
    idempotency_key: IdempotencyKey = None,
    traceparent: Traceparent = None,
    prefer: Prefer = None,
) -> Response:
    """Records the turn and queues it. It is answered later: read `Location` after `Retry-After` seconds.

    With `Prefer: wait=10` the answer waits: 200 with the turn if it has ended by then, otherwise 202 as usual. It does
    not wait if the server has no place for one more wait.
    """
    raise AssertionError("SubmitTurn answers this request")


class SubmitTurn:
    """ASGI application for the requests that it `takes`, once their caller is in the scope. `state` is the main application's."""

    def __init__(self, state: State) -> None:
        self._state = state

    def takes(self, scope: Scope) -> bool:
        """Whether the request is a submit, valid or not."""
        if scope["method"] != "POST":
            return False
        matched = _PATH.fullmatch(scope["path"].removeprefix(scope.get("root_path", "")))
        if matched is None:
            return False
        scope[_SESSION] = matched[1]
        scope[_CHATS] = matched[2] == "chat"
        scope[ROUTE] = f"/v1/sessions/{{session_id}}/{matched[2]}"
        return True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await self._answer(cast("Backend", self._state.backend), request, scope[_SESSION])
        except Exception as error:
            response = await answer(error, request.url.path, self._state)
        await response(scope, receive, send)

    async def _answer(self, backend: Backend, request: Request, session_id: str) -> Response:
        caller: Caller = request.scope[CALLER]
        require(caller, Role.SUBMIT, Verb.SUBMIT)
        await stay_in_session(backend, caller, {"session_id": session_id})
        wire = begin_chat(backend, request, caller) if request.scope[_CHATS] else None
        if wire is None and request.scope["query_string"]:
            refuse_wrong_parameters(request, known=())
        # One pass: Starlette scans all headers for each lookup. Of two headers with the same name, the first counts.
        headers = {name: value.decode("latin-1") for name, value in reversed(request.scope["headers"])}
        key = headers.get(b"idempotency-key")
        _check_parameters(session_id, key, personal=backend.settings.personal_session_ids)
        body = await read_json_body(request, backend.settings.max_body_bytes)
        # Not before the body is there: until then the connection waits for its client, and may be closed for another one.
        admit(backend, request.scope, caller)
        submission = read_submission(
            backend.settings,
            caller.tenant_id,
            session_id,
            body,
            key=key,
            traceparent=headers.get(b"traceparent"),
            xray=headers.get(b"x-amzn-trace-id") if backend.settings.xray else None,
            now=datetime.now(UTC),
            random_bits=secrets.randbits(RANDOM_BITS),
        )
        accepted = await backend.intake.accept(submission)
        if wire is not None:
            return await follow_accepted(backend, caller, accepted, wire)
        seconds = wanted_wait(headers.get(b"prefer"), backend.settings.max_wait_seconds)
        ended = None
        if seconds is not None:
            ended = await wait_for_end(
                backend.watch, backend.places, request, caller.tenant_id, accepted.turn_id, seconds
            )
        return _respond(accepted, seconds, ended)


def _check_parameters(session_id: str, key: str | None, *, personal: bool) -> None:
    """`personal`: whether a session's id may look like a person's."""
    faults = []
    for name, rule, value in (("session_id", _SESSION_ID, session_id), ("Idempotency-Key", _IDEMPOTENCY_KEY, key)):
        try:
            rule.validate_python(value)
        except ValidationError as error:
            faults += [{**fault, "loc": (name,)} for fault in error.errors()]
    if faults:
        raise RequestValidationError(faults)
    if is_reserved_session(session_id):
        raise invalid_parameters(Fault(detail=RESERVED_RULE, parameter="session_id"))
    if not personal and is_personal(session_id):
        raise invalid_parameters(Fault(detail=PERSONAL_RULE, parameter="session_id"))


def _respond(accepted: Accepted, waited_seconds: int | None, ended: TurnRecord | None) -> Response:
    headers = {
        **headers_of(accepted),
        **({} if ended else {"Retry-After": "1"}),
        **({} if waited_seconds is None else {"Preference-Applied": f"wait={waited_seconds}"}),
    }
    status, body = (202, submitted(accepted)) if ended is None else (200, detail(ended))
    # pydantic writes the JSON directly. FastAPI would first convert the model to a dict and process that in Python.
    return Response(body.model_dump_json(by_alias=True), status, headers, media_type="application/json")
