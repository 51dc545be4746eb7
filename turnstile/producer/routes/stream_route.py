"""A turn's events as server-sent events: `GET /v1/turns/{turn_id}/events`.

    event: metadata      the turn and its status; first on each connection, without an id
    event: status        RUNNING: a new attempt, so discard the text so far. PENDING: the turn waits again
    event: delta         more text
    event: custom        another event that the handler emitted
    event: reset         the whole text so far; replaces earlier text
    event: end, error    exactly one, the last

`?as=` chooses another form of the same events (`streaming.wires`). A client that disconnects does not stop the turn, unless it
asked for that with `on_disconnect=cancel`. `producer.watch.turn_watch` reads the events.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from turnstile.access.role import Role
from turnstile.access.verb import Verb
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.backend import Backend, FoundBackend
from turnstile.producer.caller import Reader, require
from turnstile.producer.routes.event_stream import EventStream
from turnstile.producer.routes.openapi import functions, problems
from turnstile.producer.routes.path_parameters import TurnIdText, no_turn, read_turn_id
from turnstile.producer.routes.told_turn import tell_turn
from turnstile.producer.routes.wire_choice import ChosenWire, choose_wire
from turnstile.producer.sharing.fair_places import NoPlaceError
from turnstile.queries.turns import Standing
from turnstile.streaming.event import EventId, EventKind
from turnstile.telemetry.own_log import log

FROM_THE_START = "-1"
PLACE_PATTERN = r"^(-1|[0-9]{1,18}-[0-9]{1,18})$"
"""No id has more digits, and Redis accepts all with as many."""


Place = Annotated[str | None, Query(pattern=PLACE_PATTERN, description="Only events after this id; `-1`: all events.")]
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        pattern=rf"^$|{PLACE_PATTERN}",
        description="The same as `starting_after`, over which it takes precedence. Empty: not set.",
    ),
]
OnDisconnect = Annotated[
    Literal["continue", "cancel"],
    Query(description="What happens to the turn if the connection breaks before the end."),
]

EVENT_ID = "[0-9]{1,19}-[0-9]{1,19}"


def described(event_id: str = EVENT_ID, **headers: str) -> dict[str, Any]:
    """A response that is a stream, in the OpenAPI document. `event_id`: the pattern of its ids. `headers`: their descriptions."""
    event = {
        "type": "object",
        "properties": {
            "event": {
                "enum": [*(kind.value for kind in EventKind if kind is not EventKind.UNREADABLE), "message"],
                "description": "`message`: in the other wires, whose events have no name. Turnstile's own always have one.",
            },
            "data": {
                "type": "string",
                "description": "JSON, in the form of the chosen wire. The last of `ai-sdk` is `[DONE]`.",
            },
            "id": {
                "type": "string",
                "pattern": f"^{event_id}$",
                "description": "`metadata` has none. In other wires, the last of several that tell one event has it.",
            },
        },
        "required": ["data"],
        "additionalProperties": False,
    }
    return {
        "description": "Server-sent events. Comments are heartbeats",
        "content": {"text/event-stream": {"itemSchema": event}},
        **({"headers": _headers(headers)} if headers else {}),
    }


def _headers(described: dict[str, str]) -> dict[str, Any]:
    return {
        name.replace("_", "-"): {"description": text, "schema": {"type": "string"}} for name, text in described.items()
    }


v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))


@v1.get(
    "/turns/{turn_id}/events",
    status_code=200,
    tags=["turns"],
    summary="Follow a turn",
    # Not EventStream: FastAPI would add a `schema` of its media type, and say that all events are one text.
    response_class=Response,
    openapi_extra=functions("F12", "F13"),
    responses={
        **problems(404, 406, 422),
        200: described(),
        204: {"description": "`Last-Event-ID` was the end: no events follow, so the client need not connect again"},
    },
)
async def get_events(
    backend: FoundBackend,
    caller: Reader,
    text: TurnIdText,
    request: Request,
    chosen: ChosenWire = None,
    last_event_id: LastEventId = None,
    starting_after: Place = None,
    on_disconnect: OnDisconnect = "continue",
) -> Response:
    """The turn's events while it is answered, as server-sent events: `metadata`, then `delta`, `status`, `custom`
    and `reset`, then one `end` or `error`. `as` chooses another form of them.

    After a break, resume with `Last-Event-ID`. After a `status` RUNNING the text starts again; a `reset` replaces it.
    `on_disconnect=cancel` needs the role `submit`.
    """
    if on_disconnect == "cancel":
        require(caller, Role.SUBMIT, Verb.CANCEL)
    wire = choose_wire(chosen, request)
    turn = await backend.watch.find(caller.tenant_id, read_turn_id(text))
    if turn is None:
        raise no_turn()
    start = last_event_id or starting_after or FROM_THE_START
    after = None if start == FROM_THE_START else EventId.parse(start)
    if after is not None and after.fence > turn.fence:
        # The database does not know this claim: it was restored to an earlier time. The client gets all events again.
        after = None
    if after is not None and turn.status.is_terminal and await backend.watch.has_seen_end(turn, after):
        return Response(status_code=204)
    return EventStream(
        tell_turn(backend, turn, wire, after, joins=start != FROM_THE_START or turn.fence > 0),
        backend.settings.stream_heartbeat_seconds,
        backend.places.take(caller.tenant_id),
        on_disconnect=None if on_disconnect == "continue" else _canceller(backend, turn),
        headers=wire.headers,
    )


def _canceller(backend: Backend, turn: Standing) -> Callable[[], Awaitable[None]]:
    async def cancel_turn() -> None:
        try:
            await backend.cancelling.cancel_turn(turn.tenant_id, turn.id)
        except (DatabaseUnavailableError, NoPlaceError) as error:
            # The client has disconnected, so the error is only logged.
            log.warning("stream.cancel_failed", turn_id=str(turn.id), trace_id=turn.trace_id, error=str(error))

    return cancel_turn
