"""Counts and times the requests, by the template of their route. The path itself would be a time series for each turn."""

import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turnstile.telemetry.metrics import HTTP_REQUESTS, HTTP_SECONDS

ROUTE = "turnstile.route"
"""Key of the scope: the template of a route that FastAPI does not know."""
NO_ROUTE = "none"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """Middleware around all others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        code = 0

        async def watch(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            method, route = name_route(scope)
            HTTP_REQUESTS.add(1, route, method, str(code))
            HTTP_SECONDS.observe(time.monotonic() - began, route)


def name_route(scope: Scope) -> tuple[str, str]:
    """The method and the template of the route that has answered the request."""
    own = scope.get(ROUTE) or getattr(scope.get("route"), "path", NO_ROUTE)
    # A client may send any word as a method.
    return scope["method"] if scope["method"] in METHODS else "other", str(own)
