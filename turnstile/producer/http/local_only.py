"""Without keys, only programs of this machine may use the API, and no page of a website that a browser of this machine shows.

A page can send a POST to any address, and by another name for the loopback address (DNS rebinding) it can also read the answers.
A browser says in `Host` by which name it calls, and in `Origin` for which page.
"""

from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from turnstile.config.settings import LOCAL_HOSTS
from turnstile.producer.http.problems import Kind, ProblemError, respond


class LocalOnly:
    """Middleware that refuses requests by another name than the loopback's, and requests of other websites."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self._app
        if scope["type"] == "http" and not _is_local(scope):
            detail = "this API has no keys, so it serves only 127.0.0.1 and localhost; set TURNSTILE_API_KEYS"
            answer = respond(ProblemError(Kind.NOT_LOCAL, detail))
        await answer(scope, receive, send)


def _is_local(scope: Scope) -> bool:
    hosts = [f"//{value.decode('latin-1')}" for name, value in scope["headers"] if name == b"host"]
    origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
    return len(hosts) == 1 and all(map(_names_this_machine, hosts + origins))


def _names_this_machine(url: str) -> bool:
    try:
        return urlsplit(url).hostname in LOCAL_HOSTS
    except ValueError:
        return False
