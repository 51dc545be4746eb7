"""The route that erases a session."""

from fastapi import APIRouter

from turnstile.producer.backend import FoundBackend
from turnstile.producer.caller import Operator
from turnstile.producer.routes.openapi import functions, problems
from turnstile.producer.routes.path_parameters import SessionId, no_session
from turnstile.producer.routes.turn_responses import ErasureAnswer

v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))


@v1.delete(
    "/sessions/{session_id}",
    status_code=202,
    tags=["sessions"],
    summary="Erase a session",
    responses=problems(404, 422),
    openapi_extra=functions("F17"),
)
async def erase_session(backend: FoundBackend, caller: Operator, session_id: SessionId) -> ErasureAnswer:
    """Erases all that the session has said and was told, with its memory and the sessions of its children. Turns that wait are
    CANCELED at once, and turns that run are asked to stop. It goes on by itself after this response, and takes some seconds.

    A turn that is submitted meanwhile waits, and begins a clean session. A repeat is answered 202 until nothing is left, then
    404; it erases what was submitted in between, too.
    """
    erasure = await backend.cancelling.erase_session(caller.tenant_id, session_id, f"key {caller.key_id}")
    if erasure is None:
        raise no_session()
    return ErasureAnswer(session_id=session_id)
