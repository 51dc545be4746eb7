"""A turn's events as server-sent events: `GET /v1/turns/{turn_id}/events`.

    event: metadata      the turn and its status; first on each connection, without an id
    event: status        RUNNING: a new attempt, so discard the text so far. PENDING: the turn waits again
    event: delta         more text
    event: custom        another event that the handler emitted
    event: reset         the whole text so far; replaces earlier text
    event: end, error    exactly one, the last

The server reads at most one page ahead of the client. A client that disconnects does not stop the turn, unless it asked for that
with `on_disconnect=cancel`. `producer.watch.turn_watch` reads the events.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turnstile.access.role import Role
from turnstile.access.verb import Verb
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.backend import Backend, FoundBackend
from turnstile.producer.caller import Reader, require
from turnstile.producer.http.disconnect import half_closed, while_connected
from turnstile.producer.routes.openapi import functions, problems
from turnstile.producer.routes.path_parameters import TurnIdText, no_turn, read_turn_id
from turnstile.producer.sharing.fair_places import NoPlaceError
from turnstile.producer.watch.turn_watch import SseEvent
from turnstile.queries.turns import Standing
from turnstile.streaming.event import EventId, EventKind
from turnstile.telemetry.metrics import STREAMS_OPEN
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

EVENT_SCHEMA = {
    "type": "object",
    "properties": {
        "event": {"enum": [kind.value for kind in EventKind if kind is not EventKind.UNREADABLE]},
        "data": {"type": "string", "contentMediaType": "application/json"},
        "id": {"type": "string", "pattern": "^[0-9]{1,19}-[0-9]{1,19}$", "description": "`metadata` alone has none."},
    },
    "required": ["event", "data"],
    "additionalProperties": False,
}
"""One event of the stream. Comments are heartbeats."""

v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))


class EventStream(Response):
    """A response that lasts until the turn ends, the client disconnects, or the server shuts down."""

    media_type = "text/event-stream"

    def __init__(
        self,
        telling: AsyncGenerator[SseEvent | None, None],
        heartbeat_seconds: float,
        on_disconnect: Callable[[], Awaitable[None]] | None,
        place: AbstractContextManager[object],
    ) -> None:
        # Proxies must not buffer the stream.
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._telling = telling
        self._heartbeat_seconds = heartbeat_seconds
        self._on_disconnect = on_disconnect
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place, _counted():
            ended = await while_connected(receive, self._tell(send, half_closed(scope)))
        if not ended and self._on_disconnect is not None:
            await self._on_disconnect()

    async def _tell(self, send: Send, half_closed: asyncio.Event) -> bool:
        """True, when everything has been sent."""
        sent_at = time.monotonic()
        async with aclosing(self._telling) as telling:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for event in telling:
                now = time.monotonic()
                # Only a write shows whether a client that has closed its sending half still reads.
                heartbeat_seconds = 0 if half_closed.is_set() else self._heartbeat_seconds
                if event is None and now - sent_at < heartbeat_seconds:
                    continue
                await send({"type": "http.response.body", "body": encode(event), "more_body": True})
                sent_at = now
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return True


@v1.get(
    "/turns/{turn_id}/events",
    status_code=200,
    tags=["turns"],
    summary="Follow a turn",
    # Not EventStream: FastAPI would add a `schema` of its media type, and say that all events are one text.
    response_class=Response,
    openapi_extra=functions("F12", "F13"),
    responses={
        **problems(404, 422),
        200: {"description": "Server-sent events", "content": {"text/event-stream": {"itemSchema": EVENT_SCHEMA}}},
        204: {"description": "`Last-Event-ID` was the end: no events follow, so the client need not connect again"},
    },
)
async def get_events(
    backend: FoundBackend,
    caller: Reader,
    text: TurnIdText,
    last_event_id: LastEventId = None,
    starting_after: Place = None,
    on_disconnect: OnDisconnect = "continue",
) -> Response:
    """The turn's events while it is answered, as server-sent events: `metadata`, then `delta`, `status`, `custom`
    and `reset`, then one `end` or `error`.

    After a break, resume with `Last-Event-ID`. After a `status` RUNNING the text starts again; a `reset` replaces it.
    `on_disconnect=cancel` needs the role `submit`.
    """
    if on_disconnect == "cancel":
        require(caller, Role.SUBMIT, Verb.CANCEL)
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
    cancelling = None if on_disconnect == "continue" else _canceller(backend, turn)
    heartbeat_seconds = backend.settings.stream_heartbeat_seconds
    place = backend.places.take(caller.tenant_id)
    return EventStream(backend.watch.follow(turn, after), heartbeat_seconds, cancelling, place)


@contextmanager
def _counted() -> Iterator[None]:
    STREAMS_OPEN.add(1)
    try:
        yield
    finally:
        STREAMS_OPEN.add(-1)


def _canceller(backend: Backend, turn: Standing) -> Callable[[], Awaitable[None]]:
    async def cancel_turn() -> None:
        try:
            await backend.cancelling.cancel_turn(turn.tenant_id, turn.id)
        except (DatabaseUnavailableError, NoPlaceError) as error:
            # The client has disconnected, so the error is only logged.
            log.warning("stream.cancel_failed", turn_id=str(turn.id), trace_id=turn.trace_id, error=str(error))

    return cancel_turn


def encode(event: SseEvent | None) -> bytes:
    """One event in wire format; None gives a heartbeat comment."""
    if event is None:
        return b": heartbeat\n\n"
    # Compact JSON text has no line breaks; `Saying.read` refuses other texts.
    place = "" if event.id is None else f"id: {event.id}\n"
    return f"{place}event: {event.kind}\ndata: {event.data}\n\n".encode()
