"""The routes that read turns, sessions and health, and the dependencies that all routes share."""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, cast
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.security import HTTPBearer
from fastapi.security.utils import get_authorization_scheme_param
from starlette.types import Scope

from turnstile.backends.batcher import Batcher
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.producer.cancel_intake import Cancelling
from turnstile.producer.http.auth import ApiKeys
from turnstile.producer.http.log_throttle import Tally
from turnstile.producer.http.problems import Fault, Kind, ProblemError, invalid_parameters
from turnstile.producer.routes import page_cursor
from turnstile.producer.routes.openapi import functions, problems
from turnstile.producer.routes.readiness import Readiness, check_queues
from turnstile.producer.routes.turn_responses import (
    MessagePage,
    TurnDetail,
    TurnPage,
    detail,
    poll_after_seconds,
    session_message,
    summary,
)
from turnstile.producer.sharing.fair_lanes import FairPool
from turnstile.producer.sharing.fair_places import FairPlaces
from turnstile.producer.submit_intake import Intake
from turnstile.producer.watch.turn_watch import TurnWatch
from turnstile.producer.watch.wait_for_end import wait_for_end
from turnstile.queries.session_messages import END_OF_SESSION, read_history_page, read_version
from turnstile.queries.turns import TurnFilter, list_page, read_turn
from turnstile.submit.wake_ups import WakeUpSending
from turnstile.turn.status import TurnStatus
from turnstile.turn.wire_format import ID_PATTERN, ID_RULE

PAGE_BYTES = 4 * 1024 * 1024
"""Bytes of the contents of a page of messages, as JSON. Without a limit, a hundred messages may be a hundred megabytes for each
client."""

PREFIX = "/v1/"
"""Of the paths that need a key."""
TENANT = "turnstile.tenant"
"""Key of the scope: the caller's tenant."""

_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

HELD = "turnstile.held"
"""Key of a request's scope: the ExitStack that is closed when the response has ended."""

STATUS_SPELLINGS = [*TurnStatus, "CANCELLED"]


@dataclass(frozen=True, slots=True)
class Backend:
    """The services that the routes use. The composition root stores it in `app.state.backend`."""

    settings: Settings
    api_keys: ApiKeys
    intake: Intake
    sending: WakeUpSending
    cancelling: Cancelling
    queues: MessageQueues
    requests: FairPlaces
    """For the requests of tenants that are in progress, from the whole request to the end of its response."""
    reads: FairPool
    """For reads of turns and sessions by id."""
    lists: FairPool
    """For reads with filters that the caller chooses; these may be slow."""
    watch: TurnWatch
    places: FairPlaces
    """For event streams and waits."""
    unauthorized: Tally
    probe: Batcher[None, None]


# Coroutines although they await nothing: FastAPI would run plain functions on a thread for each request.


async def find_backend(request: Request) -> Backend:
    return cast("Backend", request.app.state.backend)


Behind = Annotated[Backend, Depends(find_backend)]
_bearer = HTTPBearer(auto_error=False, description="A key of TURNSTILE_API_KEYS. Where none are set, none is needed.")


async def find_tenant(behind: Behind, request: Request, _: Annotated[object, Depends(_bearer)]) -> str:
    """The caller's tenant, which `identify` has found, and whose request is admitted. Raises NoPlaceError.

    The last dependency is only for the OpenAPI document.
    """
    tenant = cast("str", request.scope[TENANT])
    admit(behind, request.scope, tenant)
    return tenant


def identify(behind: Backend, headers: Sequence[tuple[bytes, bytes]]) -> str:
    """The tenant of the bearer key. Raises the 401.

    Called before the routing: FastAPI parses the query before the first dependency runs, and nobody without a key is worth that.
    """
    given = [value for name, value in headers if name == b"authorization"]
    scheme, credentials = get_authorization_scheme_param(given[0].decode("latin-1") if len(given) == 1 else None)
    key = credentials if scheme.lower() == "bearer" and credentials else None
    tenant = behind.api_keys.find_tenant(key)
    if tenant is None:
        behind.unauthorized.note(key=key is not None)
        challenge = {"WWW-Authenticate": "Bearer"}
        raise ProblemError(Kind.UNAUTHORIZED, "send `Authorization: Bearer <key>`, once", headers=challenge)
    return tenant


def admit(behind: Backend, scope: Scope, tenant: str) -> None:
    """Counts the request of this scope as one in progress, until its response has ended. Raises NoPlaceError."""
    held: ExitStack = scope[HELD]
    held.enter_context(behind.requests.take(tenant))


Tenant = Annotated[str, Depends(find_tenant)]
SessionId = Annotated[
    str,
    Path(
        pattern=rf"^{ID_PATTERN}$",
        description=f"The conversation, as the client names it: {ID_RULE}. Name no person: this id is in queues and logs.",
    ),
]
TurnIdText = Annotated[str, Path(alias="turn_id", json_schema_extra={"format": "uuid"})]
Limit = Annotated[int, Query(ge=1, le=100, description="How many at most.")]
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
        alias="status", description="In any case, and in both spellings.", json_schema_extra={"enum": STATUS_SPELLINGS}
    ),
]
Wait = Annotated[
    float,
    Query(ge=0, allow_inf_nan=False, description="Seconds to wait for the turn to end, as far as the server allows."),
]

health = APIRouter(tags=["health"])
v1 = APIRouter(prefix="/v1", responses=problems(401, 429, 503))

READ = functions("F16")


@v1.get("/turns/{turn_id}", tags=["turns"], summary="Read a turn", responses=problems(404, 422), openapi_extra=READ)
async def get_turn(
    behind: Behind, tenant: Tenant, text: TurnIdText, request: Request, response: Response, wait: Wait = 0
) -> TurnDetail:
    """The turn as it stands, at once or when it has ended. While it is open, `Retry-After` says when to ask again.

    Where the server has no place for one more wait, it answers at once.
    """
    turn_id = read_turn_id(text)
    async with behind.reads.lend(tenant) as reads:
        record = await read_turn(reads, tenant, turn_id)
    if record is None:
        raise no_turn()
    if wait and not record.status.is_terminal:
        seconds = min(wait, behind.settings.max_wait_seconds)
        ended = await wait_for_end(behind.watch, behind.places, request, tenant, record.id, seconds)
        if ended is None:
            async with behind.reads.lend(tenant) as reads:
                ended = await read_turn(reads, tenant, record.id)
        record = ended or record
    after = poll_after_seconds(record, datetime.now(UTC))
    if after is not None:
        response.headers["Retry-After"] = str(after)
    return detail(record)


@v1.get("/turns", tags=["turns"], summary="List turns", responses=problems(422), openapi_extra=READ)
async def get_turns(
    behind: Behind,
    tenant: Tenant,
    status: StatusText = None,
    queue: QueueName = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> TurnPage:
    """The tenant's turns, newest first, without their replies.

    A page of a filter that few turns meet may be short, or empty, and have a next one: follow `next_cursor` until it is null.
    """
    return await _page(behind, TurnFilter(tenant_id=tenant, status=_status(status), queue=queue), limit, cursor)


@v1.get(
    "/sessions/{session_id}/turns",
    tags=["sessions"],
    summary="List a session's turns",
    responses=problems(404, 422),
    openapi_extra=READ,
)
async def get_session_turns(
    behind: Behind,
    tenant: Tenant,
    session_id: SessionId,
    status: StatusText = None,
    limit: Limit = 20,
    cursor: Cursor = None,
) -> TurnPage:
    """The session's turns, newest first, without their replies."""
    wanted = TurnFilter(tenant_id=tenant, session_id=session_id, status=_status(status))
    page = await _page(behind, wanted, limit, cursor)
    if not page.turns:
        async with behind.reads.lend(tenant) as reads:
            if await read_version(reads, tenant, session_id) is None:
                raise no_session()
    return page


@v1.get(
    "/sessions/{session_id}/messages",
    tags=["sessions"],
    summary="Read the history",
    responses=problems(404, 422),
    openapi_extra=READ,
)
async def get_session_messages(
    behind: Behind, tenant: Tenant, session_id: SessionId, limit: Limit = 20, cursor: MessageCursor = None
) -> MessagePage:
    """What was said in the session's answered turns: the last messages, oldest first. Large ones make a page shorter."""
    before = (END_OF_SESSION, 0) if cursor is None else page_cursor.decode_message(cursor)
    async with behind.reads.lend(tenant) as reads:
        shown, more = await read_history_page(
            reads, tenant, session_id, limit=limit, before=before, max_bytes=PAGE_BYTES
        )
        if not shown and await read_version(reads, tenant, session_id) is None:
            raise no_session()
    following = page_cursor.encode_message(shown[0].seq, shown[0].ordinal) if more else None
    return MessagePage(messages=[session_message(one, session_id) for one in shown], next_cursor=following)


@health.head("/healthz", include_in_schema=False)
@health.get("/healthz", summary="Is the process alive?")
async def get_liveness() -> dict[str, str]:
    """Always 200: an outage of Postgres or SQS is no reason to kill the process."""
    return {"status": "live"}


@health.head("/readyz", include_in_schema=False)
@health.get("/readyz", summary="Can it accept turns?", responses=problems(503))
async def get_readiness(behind: Behind) -> Readiness:
    """200 if the database answers and has the tables of this program. How the queues look is told, but decides nothing."""
    await behind.probe(None)
    names = list(behind.settings.queues_by_name)
    return Readiness(queues=await check_queues(behind.queues, behind.sending, names))


async def _page(behind: Backend, wanted: TurnFilter, limit: int, cursor: str | None) -> TurnPage:
    before = None if cursor is None else page_cursor.decode_turn(cursor)
    async with behind.lists.lend(wanted.tenant_id) as lists:
        shown, following = await list_page(lists, wanted, limit=limit, before=before)
    cursor = None if following is None else page_cursor.encode_turn(*following)
    return TurnPage(turns=[summary(record) for record in shown], next_cursor=cursor)


def read_turn_id(text: str) -> UUID:
    """The id in a path. Raises the 404."""
    # Python's own parser would also accept braces, `urn:` and missing dashes.
    if _UUID.fullmatch(text) is None:
        # As for a turn of another tenant.
        raise no_turn()
    return UUID(text)


def _status(text: str | None) -> TurnStatus | None:
    if text is None:
        return None
    wanted = text.upper()
    if wanted not in STATUS_SPELLINGS:
        raise invalid_parameters(Fault(detail=f"one of {', '.join(TurnStatus)}", parameter="status"))
    return TurnStatus.CANCELED if wanted == "CANCELLED" else TurnStatus(wanted)


def no_turn() -> ProblemError:
    return ProblemError(Kind.NOT_FOUND, "no such turn")


def no_session() -> ProblemError:
    return ProblemError(Kind.NOT_FOUND, "no such session")
