"""The routes that read sessions as a whole."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query

from turnstile.producer.backend import Backend, FoundBackend
from turnstile.producer.caller import Reader
from turnstile.producer.http.problems import Fault, invalid_parameters
from turnstile.producer.routes import page_cursor
from turnstile.producer.routes.openapi import functions, problems
from turnstile.producer.routes.path_parameters import SessionId, no_session
from turnstile.producer.routes.session_responses import (
    RunningReply,
    SessionDetail,
    SessionPage,
    session_links,
    session_summary,
)
from turnstile.producer.routes.stream_route import FROM_THE_START
from turnstile.producer.routes.turn_responses import TurnWithInput, session_message, with_input
from turnstile.producer.routes.turn_routes import PAGE_BYTES, Cursor, Limit
from turnstile.queries.session_lists import list_sessions
from turnstile.queries.session_state import MOST_TURNS, RECENT_TURNS, read_session_state
from turnstile.streaming.event import name_stream
from turnstile.turn.status import TurnStatus
from turnstile.turn.turn_record import TurnRecord


class Part(StrEnum):
    """What a read of a session includes beside its messages."""

    OPEN = "open"
    FAILED = "failed"
    CANCELED = "canceled"
    PARTIAL = "partial"


_NAMES = "|".join(Part)
_ENDED = {Part.FAILED: TurnStatus.FAILED, Part.CANCELED: TurnStatus.CANCELED}

Include = Annotated[
    str | None,
    Query(
        description="Some of `open`, `failed`, `canceled` and `partial`, separated by commas: what else to read.",
        json_schema_extra={"pattern": f"^({_NAMES})(,({_NAMES}))*$"},
    ),
]

v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))


@v1.get(
    "/sessions", tags=["sessions"], summary="List sessions", responses=problems(422), openapi_extra=functions("F16")
)
async def get_sessions(backend: FoundBackend, caller: Reader, limit: Limit = 20, cursor: Cursor = None) -> SessionPage:
    """The tenant's sessions, those with the newest turns first, without what was said in them.

    A session that gets a turn meanwhile moves before the first page, so no session comes twice. A session
    is left out if all of its turns are scheduled or archived, and if it is named after a child or a
    compensation. If few sessions have many turns, a page may be short or empty and still have a next page:
    follow `next_cursor` until it is null.
    """
    before = None if cursor is None else page_cursor.decode_turn(cursor)
    async with backend.lists.lend(caller.tenant_id) as lists:
        shown, following = await list_sessions(lists, caller.tenant_id, limit=limit, before=before)
    next_cursor = None if following is None else page_cursor.encode_turn(*following)
    return SessionPage(sessions=[session_summary(one) for one in shown], next_cursor=next_cursor)


@v1.get(
    "/sessions/{session_id}",
    tags=["sessions"],
    summary="Read a session",
    responses=problems(404, 422),
    openapi_extra=functions("F13", "F16"),
    description=f"""
All that a chat page shows after a reload, read at one moment: the last messages of the answered turns and, by `include`, the
turns that are not among them. `open` are the turns that wait, run or are scheduled, {MOST_TURNS} at most. `failed` and `canceled`
are the turns that got no reply, among the last {RECENT_TURNS} turns of the session. `partial` is what the running turn has said
so far, with the id after which a stream of its events goes on. Large messages and inputs make the lists shorter.
""".strip(),
)
async def get_session(
    backend: FoundBackend, caller: Reader, session_id: SessionId, include: Include = None, limit: Limit = 20
) -> SessionDetail:
    parts = _parts(include)
    async with backend.reads.lend(caller.tenant_id) as reads:
        state = await read_session_state(
            reads,
            caller.tenant_id,
            session_id,
            limit=limit,
            max_bytes=PAGE_BYTES,
            with_open=not parts.isdisjoint({Part.OPEN, Part.PARTIAL}),
            ended=[status for part, status in _ENDED.items() if part in parts],
        )
    if state is None:
        raise no_session()
    running = next((turn for turn in state.open if turn.status is TurnStatus.RUNNING), None)
    first = state.messages[0] if state.more_messages else None
    return SessionDetail(
        id=session_id,
        created_at=state.created_at,
        halted_by=state.halted_by,
        messages=[session_message(one, session_id) for one in state.messages],
        next_cursor=None if first is None else page_cursor.encode_message(first.seq, first.ordinal),
        open=[with_input(turn) for turn in state.open] if Part.OPEN in parts else None,
        more_open=Part.OPEN in parts and state.more_open,
        failed=_ended(state.ended, Part.FAILED, parts),
        canceled=_ended(state.ended, Part.CANCELED, parts),
        partial=await _partial(backend, running) if running is not None and Part.PARTIAL in parts else None,
        links=session_links(session_id),
    )


def _parts(include: str | None) -> frozenset[Part]:
    if include is None:
        return frozenset()
    try:
        return frozenset(map(Part, include.split(",")))
    except ValueError:
        fault = f"some of {', '.join(Part)}, separated by commas"
        raise invalid_parameters(Fault(detail=fault, parameter="include")) from None


def _ended(turns: Sequence[TurnRecord], part: Part, parts: frozenset[Part]) -> list[TurnWithInput] | None:
    return [with_input(turn) for turn in turns if turn.status is _ENDED[part]] if part in parts else None


async def _partial(backend: Backend, running: TurnRecord) -> RunningReply:
    """Read after the table: a turn that has ended since is still RUNNING here, and its stream goes on to the end."""
    key = name_stream(backend.settings.redis_prefix, running.tenant_id, running.session_id, running.id)
    said = await backend.events.read_so_far(key)
    return RunningReply(
        turn_id=running.id,
        text=said.text,
        custom=list(said.custom),
        last_event_id=FROM_THE_START if said.after is None else str(said.after),
    )
