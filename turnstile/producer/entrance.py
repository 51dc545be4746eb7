"""What a request passes before FastAPI's routing: its key, its rate limits, its repeated headers, and the way around FastAPI for
submits. Nothing of its body has been read then."""

import re
from collections.abc import Sequence
from contextlib import ExitStack

from starlette.datastructures import State
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnstile.producer.caller import CALLER, HELD, PREFIX, identify, refuse_strangers
from turnstile.producer.http.local_only import is_of_this_machine
from turnstile.producer.http.parameters import refuse_repeated_headers
from turnstile.producer.http.request_metrics import name_route
from turnstile.producer.rates.rate_headers import Header
from turnstile.producer.rates.rate_limits import Asked, RateLimits
from turnstile.producer.routes.error_handlers import answer
from turnstile.producer.routes.submit_route import SubmitTurn
from turnstile.turn.identifiers import ID_PATTERN

_SESSION = re.compile(rf"{PREFIX}sessions/({ID_PATTERN})(?:/|$)")


class Entrance:
    """Middleware. Gives back what a request has held once its response has ended."""

    def __init__(self, app: ASGIApp, state: State, submits: SubmitTurn) -> None:
        self._app = app
        self._state = state
        self._submits = submits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_http = scope["type"] == "http"
        with ExitStack() as held:
            scope[HELD] = held
            chosen = await self._choose(scope) if is_http else self._app
            if CALLER in scope:
                held.callback(self._note_use, scope)
            if is_http and CALLER in scope and (rates := self._state.backend.rates) is not None:
                chosen, send = await self._limit(rates, chosen, scope, send)
            await chosen(scope, receive, send)

    def _note_use(self, scope: Scope) -> None:
        # When the response has ended: the routing says which route it was.
        self._state.backend.use_log.note(scope[CALLER], *name_route(scope))

    async def _choose(self, scope: Scope) -> ASGIApp:
        if not scope["path"].startswith("/"):
            # RFC 9112 has servers accept a target in absolute form, as for a proxy.
            scope["path"] = "/" + scope["path"].partition("://")[2].partition("/")[2]
        is_open = not scope["path"].startswith(PREFIX)
        is_submit = not is_open and self._submits.takes(scope)
        try:
            if is_open:
                if not is_of_this_machine(scope["headers"]):
                    await refuse_strangers(self._state.backend, scope)
                return self._app
            scope[CALLER] = await identify(self._state.backend, scope)
            refuse_repeated_headers(scope["headers"])
        except Exception as refused:
            return await answer(refused, scope["path"], self._state)
        return self._submits if is_submit else self._app

    async def _limit(self, rates: RateLimits, chosen: ASGIApp, scope: Scope, send: Send) -> tuple[ASGIApp, Send]:
        """What answers the request now, and how: a refusal in place of `chosen`, if a rate limit is used up."""
        session = _SESSION.match(scope["path"].removeprefix(scope.get("root_path", "")))
        asked = Asked(scope[CALLER], session and session[1], is_submit=chosen is self._submits)
        verdict = await rates.spend(asked)
        if verdict.refused is not None:
            chosen = await answer(verdict.refused, scope["path"], self._state)
        return chosen, _with_headers(verdict.headers, send)


def _with_headers(headers: Sequence[Header], send: Send) -> Send:
    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *headers]
        await send(message)

    return add
