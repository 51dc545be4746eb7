"""The short way of an ordinary submit, past FastAPI, which solves a route's dependencies anew for each request (ADR 0048).

It takes what it recognises in whole. All else goes the long way: a path, a key or a header that is not as it should be, and
waits, are dealt with in one place. No request is refused here but for its body, and that is read by one function for both.
"""

import re
from dataclasses import dataclass
from typing import cast

from fastapi.security.utils import get_authorization_scheme_param
from starlette.datastructures import State
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from turnstile.producer.http.problems import respond
from turnstile.producer.routes.error_handlers import translate
from turnstile.producer.routes.submit_request import submitted_headers, take_in
from turnstile.producer.routes.turn_responses import submitted
from turnstile.producer.routes.turns import Backend
from turnstile.producer.submit.intake import Intake
from turnstile.producer.submit.turn_request import IDEMPOTENCY_KEY_PATTERN, MAX_IDEMPOTENCY_KEY_CHARACTERS
from turnstile.turn.message import ID_PATTERN

_PATH = re.compile(rf"/v1/sessions/({ID_PATTERN})/turns")
_KEY = re.compile(IDEMPOTENCY_KEY_PATTERN)
_READ = frozenset({b"authorization", b"idempotency-key", b"traceparent", b"prefer"})
"""The headers that the route declares."""
_FOUND = "turnstile.submit"


@dataclass(frozen=True, slots=True)
class _Submit:
    intake: Intake
    tenant: str
    session_id: str
    key: str | None
    traceparent: str | None


class SubmitShortcut:
    """An ASGI application for the requests that it `takes`. `state` is the application's, with its backend."""

    def __init__(self, state: State) -> None:
        self._state = state

    def takes(self, scope: Scope) -> bool:
        """Whether this is an ordinary submit."""
        if scope["method"] != "POST" or scope["query_string"] or scope.get("root_path"):
            return False
        matched = _PATH.fullmatch(scope["path"])
        found = None if matched is None else self._read(scope, matched[1])
        if found is None:
            return False
        scope[_FOUND] = found
        return True

    def _read(self, scope: Scope, session_id: str) -> _Submit | None:
        named: dict[bytes, str] = {}
        for name, value in scope["headers"]:
            if name in _READ:
                if name in named or name == b"prefer":
                    # Which of two counts is FastAPI's to say.
                    return None
                named[name] = value.decode("latin-1")
        key = named.get(b"idempotency-key")
        if key is not None and not (len(key) <= MAX_IDEMPOTENCY_KEY_CHARACTERS and _KEY.fullmatch(key)):
            return None
        scheme, credentials = get_authorization_scheme_param(named.get(b"authorization"))
        behind = cast("Backend", self._state.backend)
        tenant = behind.api_keys.find_tenant(credentials if scheme.lower() == "bearer" and credentials else None)
        if tenant is None:
            return None
        return _Submit(behind.intake, tenant, session_id, key, named.get(b"traceparent"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found: _Submit = scope[_FOUND]
        request = Request(scope, receive)
        try:
            accepted = await take_in(
                found.intake, found.tenant, found.session_id, request, key=found.key, traceparent=found.traceparent
            )
        except Exception as error:
            await respond(translate(error, request.url.path))(scope, receive, send)
            return
        body = submitted(accepted).model_dump_json().encode()
        given = submitted_headers(accepted).items()
        headers = [
            *((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in given),
            (b"content-length", str(len(body)).encode()),
            (b"content-type", b"application/json"),
        ]
        await send({"type": "http.response.start", "status": 202, "headers": headers})
        await send({"type": "http.response.body", "body": body})
