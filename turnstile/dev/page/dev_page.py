"""The routes of the page. Only `turnstile dev` has them: they hand a token to whoever opens the page on this machine."""

import base64
import hashlib
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse
from pydantic import BaseModel

from turnstile.access.caller import Caller
from turnstile.producer.backend import FoundBackend
from turnstile.producer.credentials.refusal import Refused
from turnstile.producer.http.local_only import is_of_this_machine
from turnstile.producer.http.problems import Kind, ProblemError
from turnstile.producer.http.request_body import read_json_body
from turnstile.producer.routes.token_route import MOST_BYTES, BrowserToken, TokenRequest, make_token_for
from turnstile.submission.turn_request import read_request

PAGE = files("turnstile.dev.page").joinpath("dev_page.html").read_text("utf-8")


class WorkerState(BaseModel):
    """The worker of `turnstile dev`."""

    handler: str
    pid: int | None
    """Of the process that takes turns; None: there is none now."""
    is_loading: bool
    """Whether a new one is loading the code."""
    fault: str | None
    """Why the newest code does not run."""


class Killed(BaseModel):
    pid: int | None
    """None: no worker took turns."""


def _hash(tag: str) -> str:
    [inside] = re.findall(rf"<{tag}>(.*?)</{tag}>", PAGE, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
    return f"'sha256-{digest}'"


POLICY = (
    f"default-src 'none'; script-src {_hash('script')}; style-src {_hash('style')}; img-src data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page's own script and style, and no others. What users and handlers have written is shown there."""


async def _stay_local(request: Request) -> None:
    if not is_of_this_machine(request.scope["headers"]):
        raise ProblemError(Kind.NOT_LOCAL, "the page of `turnstile dev` serves only 127.0.0.1 and localhost")


def make_routes(state: Callable[[], WorkerState], kill: Callable[[], int | None]) -> APIRouter:
    """The routes, for the worker of these functions."""
    routes = APIRouter(include_in_schema=False, dependencies=[Depends(_stay_local)])

    @routes.get("/")
    async def get_page() -> HTMLResponse:
        return HTMLResponse(PAGE, headers={"Content-Security-Policy": POLICY})

    @routes.get("/dev/worker")
    async def get_worker() -> WorkerState:
        return state()

    @routes.post("/dev/worker/kill")
    async def kill_worker() -> Killed:
        return Killed(pid=kill())

    @routes.post("/dev/token", status_code=201)
    async def make_token(
        backend: FoundBackend, caller: Annotated[Caller, Depends(_find_developer)], request: Request
    ) -> BrowserToken:
        """What the page's own back end would ask for."""
        wanted = read_request(TokenRequest, await read_json_body(request, MOST_BYTES))
        return await make_token_for(backend, caller, wanted)

    return routes


async def _find_developer(backend: FoundBackend) -> Caller:
    found = await backend.credentials.check(backend.settings.api_key)
    if isinstance(found, Refused):
        raise ProblemError(Kind.UNAUTHORIZED, "TURNSTILE_API_KEY is none of this API's keys")
    return found
