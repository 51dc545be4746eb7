"""A session's events, from turn to turn: `GET /v1/sessions/{session_id}/stream`.

The events of each turn are those of `stream_route`, and each turn begins with its `metadata`. Their ids begin with the turn's:
`<turn id>:<fence>-<n>`.
"""

from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from turnstile.producer.backend import Backend, FoundBackend
from turnstile.producer.caller import Reader
from turnstile.producer.routes.event_stream import EventStream, ToldBytes
from turnstile.producer.routes.openapi import functions, problems
from turnstile.producer.routes.path_parameters import SessionId
from turnstile.producer.routes.stream_route import EVENT_ID, described
from turnstile.producer.routes.told_turn import tell_turn
from turnstile.producer.routes.wire_choice import ChosenWire, choose_wire
from turnstile.queries.session_turns import Look, SessionTurn, Told
from turnstile.streaming.event import LAST_WORDS, EventId
from turnstile.streaming.wires.wire import Wire
from turnstile.turn.status import TurnStatus

_TURN_ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
SESSION_PLACE_PATTERN = f"^{_TURN_ID}:[0-9]{{1,18}}-[0-9]{{1,18}}$"

SessionPlace = Annotated[
    str | None,
    Query(pattern=SESSION_PLACE_PATTERN, description="Only events after this id, of this turn and of later ones."),
]
LastSessionEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        pattern=rf"^$|{SESSION_PLACE_PATTERN}",
        description="The same as `starting_after`, over which it takes precedence. Empty: not set.",
    ),
]
Wait = Annotated[
    bool,
    Query(description="Whether to wait for turns that are submitted later, also by others; otherwise 204 or the end."),
]

v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a stream begins."""

    told: Told
    """What the client knows, apart from `first`."""
    first: SessionTurn | None
    """The turn with which it begins."""
    seen: EventId | None = None
    """The last event of `first` that the client names."""


@v1.get(
    "/sessions/{session_id}/stream",
    status_code=200,
    tags=["sessions"],
    summary="Follow a session",
    response_class=Response,
    openapi_extra=functions("F12", "F13"),
    responses={
        **problems(406, 422),
        200: described(f"{_TURN_ID}:{EVENT_ID}"),
        204: {"description": "No turn is open, and none has ended that the client does not know"},
    },
)
async def get_stream(
    backend: FoundBackend,
    caller: Reader,
    session_id: SessionId,
    request: Request,
    chosen: ChosenWire = None,
    last_event_id: LastSessionEventId = None,
    starting_after: SessionPlace = None,
    wait: Wait = False,
) -> Response:
    """The events of the session's open turns, one turn after the other in the session's order, as server-sent events.

    After a break, resume with `Last-Event-ID`: turns that have ended meanwhile are told first. With `wait` the stream goes on
    with the turns that come later; between two turns, it ends after ten minutes, and the client connects again. In `ai-sdk` a
    stream has one turn.
    """
    wire = choose_wire(chosen, request)
    start = await _find_start(backend, caller.tenant_id, session_id, last_event_id or starting_after)
    if start.first is None and not wait:
        return Response(status_code=204)
    return EventStream(
        _tell_session(backend, caller.tenant_id, session_id, start, wire, waits=wait),
        backend.settings.stream_heartbeat_seconds,
        backend.places.take(caller.tenant_id),
        headers=wire.headers,
    )


async def _find_start(backend: Backend, tenant_id: str, session_id: str, last: str | None) -> _Start:
    turn_id, _, place = (last or "").partition(":")
    ahead = await backend.sessions.look(Look(tenant_id, session_id, named=UUID(turn_id) if turn_id else None))
    if (named := ahead.named) is None:
        # The client names none, or one that the table does not have (any more).
        return _Start(Told(ahead.last_seq, None), ahead.head)
    seen = EventId.parse(place)
    if seen.fence > named.standing.fence:
        # As for a turn: the database was restored to an earlier time.
        return _Start(_told(named), named)
    if not (named.standing.status.is_terminal and await backend.watch.has_seen_end(named.standing, seen)):
        return _Start(_told(named), named, seen)
    ahead = await backend.sessions.look(Look(tenant_id, session_id, _told(named)))
    return _Start(_told(named), ahead.next)


async def _tell_session(
    backend: Backend, tenant_id: str, session_id: str, start: _Start, wire: Wire, *, waits: bool
) -> ToldBytes:
    seen, before = start.seen, None
    following = backend.sessions.follow(tenant_id, session_id, start.told, first=start.first, waits=waits)
    async with aclosing(following) as turns:
        async for turn in turns:
            if turn is None:
                yield None
                continue
            if before == turn.standing.id:
                seen = _end_before(turn)
            prefix = f"{turn.standing.id}:"
            async with aclosing(tell_turn(backend, turn.standing, wire, seen, joins=True, prefix=prefix)) as telling:
                async for told in telling:
                    yield told
            if not wire.carries_turns:
                return
            seen, before = None, turn.standing.id


def _end_before(again: SessionTurn) -> EventId:
    """Above all events up to the end of a turn that was put to work again since."""
    waits = again.standing.status is TurnStatus.PENDING
    return EventId(again.standing.fence - (not waits), LAST_WORDS + 1)


def _told(turn: SessionTurn) -> Told:
    return Told(turn.seq, turn.queued_at)
