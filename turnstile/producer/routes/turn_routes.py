"""The routes that read turns and sessions."""

from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from turnstile.producer.backend import Backend, FoundBackend
from turnstile.producer.caller import Reader
from turnstile.producer.http.problems import Fault, invalid_parameters
from turnstile.producer.routes import page_cursor
from turnstile.producer.routes.openapi import functions, problems
from turnstile.producer.routes.path_parameters import SessionId, TurnIdText, no_session, no_turn, read_turn_id
from turnstile.producer.routes.turn_responses import (
    MessagePage,
    TurnDetail,
    TurnPage,
    detail,
    poll_after_seconds,
    session_message,
    summary,
)
from turnstile.producer.watch.wait_for_end import wait_for_end
from turnstile.queries.session_messages import END_OF_SESSION, read_history_page, read_version
from turnstile.queries.turn_lists import TurnFilter, list_page
from turnstile.queries.turns import read_turn
from turnstile.turn.identifiers import ID_PATTERN
from turnstile.turn.status import TurnStatus

PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of the contents of a page of messages, as JSON. Without a limit, a hundred messages may be a hundred megabytes for each
client."""

STATUS_SPELLINGS = [*TurnStatus, "CANCELLED"]


Limit = Annotated[int, Query(ge=1, le=100, description="Largest number of entries.")]
Cursor = Annotated[
    str | None, Query(pattern=page_cursor.TURN_PATTERN, description="`next_cursor` of the previous page.")
]
MessageCursor = Annotated[
    str | None, Query(pattern=page_cursor.MESSAGE_PATTERN, description="`next_cursor` of the previous page.")
]
QueueName = Annotated[str | None, Query(pattern=rf"^{ID_PATTERN}$", description="Only turns of this queue.")]
StatusText = Annotated[
    str | None,
    Query(
        alias="status",
        description="In upper or lower case, and in both spellings.",
        json_schema_extra={"enum": STATUS_SPELLINGS},
    ),
]
Wait = Annotated[
    float,
    Query(ge=0, allow_inf_nan=False, description="Seconds to wait for the turn to end, up to the server's limit."),
]

v1 = APIRouter(prefix="/v1", responses=problems(401, 403, 429, 503))

READ_FUNCTION_IDS = functions("F16")


@v1.get(
    "/turns/{turn_id}",
    tags=["turns"],
    summary="Read a turn",
    responses=problems(404, 422),
    openapi_extra=READ_FUNCTION_IDS,
)
async def get_turn(
    backend: FoundBackend, caller: Reader, text: TurnIdText, request: Request, response: Response, wait: Wait = 0
) -> TurnDetail:
    """The turn: at once or, with `wait`, when it has ended. While it is open, `Retry-After` says when to ask again.

    If the server has no place for one more wait, it answers at once.
    """
    turn_id = read_turn_id(text)
    async with backend.reads.lend(caller.tenant_id) as reads:
        record = await read_turn(reads, caller.tenant_id, turn_id)
    if record is None:
        raise no_turn()
    if wait and not record.status.is_terminal:
        seconds = min(wait, backend.settings.max_wait_seconds)
        ended = await wait_for_end(backend.watch, backend.places, request, caller.tenant_id, record.id, seconds)
        if ended is None:
            async with backend.reads.lend(caller.tenant_id) as reads:
                ended = await read_turn(reads, caller.tenant_id, record.id)
        record = ended or record
    after = poll_after_seconds(record, datetime.now(UTC))
    if after is not None:
        response.headers["Retry-After"] = str(after)
    return detail(record)


@v1.get("/turns", tags=["turns"], summary="List turns", responses=problems(422), openapi_extra=READ_FUNCTION_IDS)
async def get_turns(
    backend: FoundBackend,
    caller: Reader,
    status: StatusText = None,
    queue: QueueName = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> TurnPage:
    """The tenant's turns, newest first, without their replies.

    If few turns match the filter, a page may be short or empty and still have a next page: follow `next_cursor` until it is null.
    """
    return await _page(
        backend, TurnFilter(tenant_id=caller.tenant_id, status=_status(status), queue=queue), limit, cursor
    )


@v1.get(
    "/sessions/{session_id}/turns",
    tags=["sessions"],
    summary="List a session's turns",
    responses=problems(404, 422),
    openapi_extra=READ_FUNCTION_IDS,
)
async def get_session_turns(
    backend: FoundBackend,
    caller: Reader,
    session_id: SessionId,
    status: StatusText = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> TurnPage:
    """The session's turns, newest first, without their replies."""
    wanted = TurnFilter(tenant_id=caller.tenant_id, session_id=session_id, status=_status(status))
    page = await _page(backend, wanted, limit, cursor)
    if not page.turns:
        async with backend.reads.lend(caller.tenant_id) as reads:
            if await read_version(reads, caller.tenant_id, session_id) is None:
                raise no_session()
    return page


@v1.get(
    "/sessions/{session_id}/messages",
    tags=["sessions"],
    summary="Read the history",
    responses=problems(404, 422),
    openapi_extra=READ_FUNCTION_IDS,
)
async def get_session_messages(
    backend: FoundBackend, caller: Reader, session_id: SessionId, limit: Limit = 20, cursor: MessageCursor = None
) -> MessagePage:
    """The last messages of the session's answered turns, oldest first. Large messages make a page shorter."""
    before = (END_OF_SESSION, 0) if cursor is None else page_cursor.decode_message(cursor)
    async with backend.reads.lend(caller.tenant_id) as reads:
        shown, more = await read_history_page(
            reads, caller.tenant_id, session_id, limit=limit, before=before, max_bytes=PAGE_BYTES
        )
        if not shown and await read_version(reads, caller.tenant_id, session_id) is None:
            raise no_session()
    following = page_cursor.encode_message(shown[0].seq, shown[0].ordinal) if more else None
    return MessagePage(messages=[session_message(one, session_id) for one in shown], next_cursor=following)


async def _page(backend: Backend, wanted: TurnFilter, limit: int, cursor: str | None) -> TurnPage:
    before = None if cursor is None else page_cursor.decode_turn(cursor)
    async with backend.lists.lend(wanted.tenant_id) as lists:
        shown, following = await list_page(lists, wanted, limit=limit, before=before)
    cursor = None if following is None else page_cursor.encode_turn(*following)
    return TurnPage(turns=[summary(record) for record in shown], next_cursor=cursor)


def _status(text: str | None) -> TurnStatus | None:
    if text is None:
        return None
    wanted = text.upper()
    if wanted not in STATUS_SPELLINGS:
        raise invalid_parameters(Fault(detail=f"one of {', '.join(TurnStatus)}", parameter="status"))
    return TurnStatus.CANCELED if wanted == "CANCELLED" else TurnStatus(wanted)
