"""`POST /v1/tokens`: a token with which a page may call the API itself, for one session and a quarter of an hour."""

import secrets
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from turnstile.access.api_key import ID_BYTES, SECRET_BYTES, make_token
from turnstile.access.caller import Caller
from turnstile.access.verb import Verb
from turnstile.producer.backend import Backend, FoundBackend
from turnstile.producer.caller import Reader, require
from turnstile.producer.http.request_body import read_json_body
from turnstile.producer.routes.openapi import body_of, functions, problems
from turnstile.statements.browser_tokens import make_browser_token
from turnstile.submission.turn_request import read_request
from turnstile.turn.identifiers import ID_PATTERN

MOST_BYTES = 4096

v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))


class TokenRequest(BaseModel):
    """The body of a request for a token."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    session_id: Annotated[str, Field(pattern=rf"^{ID_PATTERN}$", description="The session that the token is for.")]
    verbs: Annotated[
        list[Verb],
        Field(
            min_length=1,
            description="What the page may do: `read` the session, `submit` turns to it, `cancel` its turns.",
        ),
    ]


class BrowserToken(BaseModel):
    """A token for a page."""

    token: str
    """Shown once. Only for the Authorization header: never for a URL, which logs and histories keep."""
    session_id: str
    verbs: list[Verb]
    expires_at: datetime


@v1.post(
    "/tokens",
    status_code=201,
    tags=["tokens"],
    summary="Make a token for a page",
    responses=problems(400, 408, 413, 415, 422),
    openapi_extra=body_of("TokenRequest") | functions("F16"),
)
async def make_page_token(backend: FoundBackend, caller: Reader, request: Request) -> BrowserToken:
    """A token that a page of a browser shows in place of a key: for one session, for the verbs that are named, for 15 minutes.

    The caller needs the role of each verb: `read`, or `submit` for the others. The session need not exist yet. The token ends
    earlier if the key that has asked for it does.
    """
    return await make_token_for(backend, caller, read_request(TokenRequest, await read_json_body(request, MOST_BYTES)))


async def make_token_for(backend: Backend, caller: Caller, wanted: TokenRequest) -> BrowserToken:
    """The token that the caller asks for. Raises the 403 if the caller's own role does not include one of the verbs."""
    verbs = sorted({*wanted.verbs})
    for verb in verbs:
        require(caller, verb.role, verb)
    text, made = make_token(secrets.token_bytes(ID_BYTES), secrets.token_bytes(SECRET_BYTES))
    async with backend.tokens.lend(caller.tenant_id) as database:
        expires_at = await make_browser_token(
            database,
            made,
            tenant_id=caller.tenant_id,
            session_id=wanted.session_id,
            verbs=verbs,
            made_by=caller.key_id,
        )
    return BrowserToken(token=text, session_id=wanted.session_id, verbs=verbs, expires_at=expires_at)
