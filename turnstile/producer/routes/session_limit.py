"""Keeps a browser token in its session: for it, nothing else exists.

All routes under `/v1` pass here, those of later versions too: a route whose path names neither a session nor a turn is refused.
"""

from collections.abc import Mapping

from fastapi import Request

from turnstile.access.caller import Caller
from turnstile.producer.backend import Backend, FoundBackend
from turnstile.producer.caller import CALLER
from turnstile.producer.http.problems import Kind, ProblemError
from turnstile.producer.routes.path_parameters import no_session, no_turn, read_turn_id


async def keep_in_session(backend: FoundBackend, request: Request) -> None:
    """A dependency of all routes. Raises the 403 or the 404."""
    await stay_in_session(backend, request.scope[CALLER], request.path_params)


async def stay_in_session(backend: Backend, caller: Caller, named: Mapping[str, str]) -> None:
    """Raises the 404 if the path names what is not in the session of the caller's token, and the 403 if it names nothing.

    `named`: the parameters of the path.
    """
    if caller.limit is None:
        return
    if not {"session_id", "turn_id"} & named.keys():
        raise ProblemError(Kind.FORBIDDEN, "a token of a page is for its session alone; use a key")
    if named.get("session_id", caller.limit.session_id) != caller.limit.session_id:
        raise no_session()
    if "turn_id" in named:
        turn = await backend.watch.find(caller.tenant_id, read_turn_id(named["turn_id"]))
        if turn is None or turn.session_id != caller.limit.session_id:
            raise no_turn()
