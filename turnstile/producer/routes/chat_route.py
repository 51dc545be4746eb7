"""Submit and follow in one request: `POST /v1/sessions/{session_id}/chat`. `submit_route` takes the request, like a submit.

The response is the stream of the turn. Whatever is refused before its first byte is a problem, as for a submit.
"""

from contextlib import ExitStack, nullcontext

from fastapi import APIRouter, Request
from starlette.responses import Response

from turnstile.access.caller import Caller
from turnstile.access.role import Role
from turnstile.access.verb import Verb
from turnstile.producer.backend import Backend
from turnstile.producer.caller import HELD, Submitter, require
from turnstile.producer.http.parameters import refuse_wrong_parameters
from turnstile.producer.routes.event_stream import EventStream
from turnstile.producer.routes.openapi import body_of, functions, problems
from turnstile.producer.routes.path_parameters import SessionId, no_turn
from turnstile.producer.routes.stream_route import described
from turnstile.producer.routes.submit_headers import IdempotencyKey, Traceparent, headers_of
from turnstile.producer.routes.told_turn import tell_turn
from turnstile.producer.routes.wire_choice import PARAMETER, ChosenWire, accepted_wire, named_wire
from turnstile.queries.turns import Standing
from turnstile.statements.submit import Accepted
from turnstile.streaming.wires.wire import Wire
from turnstile.turn.status import TurnStatus

v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))


@v1.post(
    "/sessions/{session_id}/chat",
    status_code=200,
    tags=["turns"],
    summary="Submit a turn and follow it",
    response_class=Response,
    responses={
        **problems(400, 404, 406, 408, 409, 413, 415, 422),
        200: described(Location="The turn", X_Turn_Id="The turn's id"),
    },
    openapi_extra=body_of("TurnRequest") | functions("F1", "F2", "F12", "F13"),
)
async def chat(
    caller: Submitter,
    session_id: SessionId,
    chosen: ChosenWire = None,
    idempotency_key: IdempotencyKey = None,
    traceparent: Traceparent = None,
) -> Response:
    """Records the turn and queues it, as a submit does, and tells its events, as `GET /v1/turns/{turn_id}/events` does.

    `X-Turn-Id` and `Location` name the turn. After a break, follow `Location` + `/events` with `Last-Event-ID`, or repeat the
    request with the same `Idempotency-Key`: it follows the same turn. A client that disconnects does not stop the turn. A token
    of a page needs the verbs `submit` and `read`.
    """
    raise AssertionError("SubmitTurn answers this request")


def begin_chat(backend: Backend, request: Request, caller: Caller) -> Wire:
    """Finds the wire, and takes a place for the stream until the response has ended: before anything is committed.

    Raises the 403, the 406, the 422, or NoPlaceError.
    """
    require(caller, Role.READ, Verb.READ)
    refuse_wrong_parameters(request, known={PARAMETER})
    wire = named_wire(request.query_params.get(PARAMETER)) or accepted_wire(request.headers.getlist("accept"))
    held: ExitStack = request.scope[HELD]
    held.enter_context(backend.places.take(caller.tenant_id))
    return wire


async def follow_accepted(backend: Backend, caller: Caller, accepted: Accepted, wire: Wire) -> Response:
    """The stream of a turn that was just accepted. Raises the 404 if an earlier request made it, and it is gone."""
    known = accepted.replayed or accepted.merged
    turn = await backend.watch.find(caller.tenant_id, accepted.turn_id) if known else _new(caller, accepted)
    if turn is None:
        raise no_turn()
    return EventStream(
        tell_turn(backend, turn, wire, None, joins=known),
        backend.settings.stream_heartbeat_seconds,
        # `begin_chat` has taken it.
        nullcontext(),
        headers={**headers_of(accepted), "X-Turn-Id": str(accepted.turn_id), **wire.headers},
    )


def _new(caller: Caller, accepted: Accepted) -> Standing:
    """That of a turn that this request has made: it needs no read."""
    return Standing(
        id=accepted.turn_id,
        tenant_id=caller.tenant_id,
        session_id=accepted.session_id,
        status=TurnStatus.PENDING,
        attempt=0,
        fence=0,
        trace_id=accepted.trace.trace_id,
    )
