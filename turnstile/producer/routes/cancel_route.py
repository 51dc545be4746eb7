"""Cancel routes: for one turn by its id, before or after its submit, or for all open turns of a session."""

from fastapi import APIRouter

from turnstile.producer.backend import FoundBackend
from turnstile.producer.caller import Canceller, Operator
from turnstile.producer.routes.openapi import functions, problems
from turnstile.producer.routes.path_parameters import SessionId, TurnIdText, no_session, no_turn, read_turn_id
from turnstile.producer.routes.turn_responses import CancelAnswer, SessionCancelAnswer
from turnstile.turn.identifiers import may_choose

v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))


@v1.post(
    "/turns/{turn_id}/cancel",
    status_code=202,
    tags=["turns"],
    summary="Cancel a turn",
    responses=problems(404),
    openapi_extra=functions("F15"),
)
async def cancel_turn(backend: FoundBackend, caller: Canceller, text: TurnIdText) -> CancelAnswer:
    """A waiting turn is CANCELED at once, a running one is asked to stop. A turn that has ended does not change.

    The cancel may come before the submit if the client chooses the turn's id: the turn is then CANCELED from the start.
    """
    turn_id = read_turn_id(text)
    met = await backend.cancelling.cancel_turn(caller.tenant_id, turn_id)
    if met is None and not may_choose(caller.tenant_id, turn_id):
        raise no_turn()
    if met is None:
        return CancelAnswer(id=turn_id, status=None, cancel_requested=True)
    return CancelAnswer(id=turn_id, status=met.status, cancel_requested=met.requested)


@v1.post(
    "/sessions/{session_id}/cancel",
    status_code=202,
    tags=["sessions"],
    summary="Cancel a session's turns",
    responses=problems(404, 422),
    openapi_extra=functions("F15"),
)
async def cancel_session_turns(backend: FoundBackend, caller: Operator, session_id: SessionId) -> SessionCancelAnswer:
    """Cancels all open turns of the session, scheduled turns included. Turns that are submitted later are not
    affected."""
    met = await backend.cancelling.cancel_session(caller.tenant_id, session_id, f"key {caller.key_id}")
    if met is None:
        raise no_session()
    return SessionCancelAnswer(session_id=session_id, canceled=len(met.canceled), stopping=len(met.asked))
