"""What a request passes before FastAPI's routing: its key, its repeated headers, and the way around FastAPI for submits."""

from contextlib import ExitStack

from starlette.datastructures import State
from starlette.types import ASGIApp, Receive, Scope, Send

from turnstile.producer.caller import CALLER, HELD, PREFIX, identify
from turnstile.producer.http.parameters import refuse_repeated_headers
from turnstile.producer.routes.error_handlers import answer
from turnstile.producer.routes.submit_route import SubmitTurn


class Entrance:
    """Middleware. Gives back what a request has held once its response has ended."""

    def __init__(self, app: ASGIApp, state: State, submits: SubmitTurn) -> None:
        self._app = app
        self._state = state
        self._submits = submits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with ExitStack() as held:
            scope[HELD] = held
            app = await self._choose(scope) if scope["type"] == "http" else self._app
            await app(scope, receive, send)

    async def _choose(self, scope: Scope) -> ASGIApp:
        if not scope["path"].startswith("/"):
            # RFC 9112 has servers accept a target in absolute form, as for a proxy.
            scope["path"] = "/" + scope["path"].partition("://")[2].partition("/")[2]
        if not scope["path"].startswith(PREFIX):
            return self._app
        is_submit = self._submits.takes(scope)
        try:
            scope[CALLER] = await identify(self._state.backend, scope)
            refuse_repeated_headers(scope["headers"])
        except Exception as refused:
            return await answer(refused, scope["path"], self._state)
        return self._submits if is_submit else self._app
