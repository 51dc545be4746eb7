"""The product's calls on a store, with defaults for the arguments that a test does not need."""

from typing import Any
from uuid import UUID, uuid4

from tests.statements.store import Store
from tests.support.factories import PROVEN, make_claim, make_submission
from turnstile.errors import SubmissionRefusedError
from turnstile.statements.claim import Claim, ClaimTerms, claim
from turnstile.statements.defer import Defer, defer
from turnstile.statements.lost_turns import mark_lost as mark_lost_turns
from turnstile.statements.owed_messages import SET_RESEND_DEADLINE, TAKE_DUE
from turnstile.statements.session_head import WAKE_HEAD
from turnstile.statements.settle import RowLocked, Settled, SettleRequest, Superseded, settle
from turnstile.statements.submit import Accepted, submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, JoinPolicy, Settlement
from turnstile.turn.status import TurnStatus

QUEUE = "turns"
LEASE_SECONDS = 30.0
RESEND_SECONDS = 60.0
MAX_CRASHES = 3
STAMP_SECONDS = 15.0
TAKEOVER_RESEND_SECONDS = 5.0

ALL: dict[str, Any] = {"left_out": [], "only": None}
"""Parameters of a normal round: no turn is left out or taken alone."""

SUCCESS = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply={"say": "hi"})
FAILURE = Settlement(
    status=TurnStatus.FAILED,
    outcome=AttemptOutcome.FAILED,
    fault=True,
    error_class="Boom",
    error="boom",
    dead_letter=True,
)
QUIET_FAILURE = Settlement(
    status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class="expired", error="too late"
)
RETRY = Settlement(
    status=TurnStatus.PENDING,
    outcome=AttemptOutcome.RETRIED,
    after_seconds=10,
    fault=True,
    error_class="Boom",
    error="boom",
)
SNOOZE = Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.SNOOZED, after_seconds=7.5, refund=True)
RELEASE = Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.RELEASED, refund=True)
JOIN = Settlement(
    status=TurnStatus.PENDING,
    outcome=AttemptOutcome.JOINED,
    after_seconds=900,
    refund=True,
    joining=(UUID(int=1), UUID(int=2)),
    join_policy=JoinPolicy.ALL,
)
CANCELED = Settlement(status=TurnStatus.CANCELED, outcome=AttemptOutcome.CANCELED)


def terms(worker_id: str = "worker-a", queue: str = QUEUE, *, halt: bool = False, release: str = "") -> ClaimTerms:
    """The claim terms of one worker."""
    return ClaimTerms(
        queue=queue,
        worker_id=worker_id,
        release=release,
        lease_seconds=LEASE_SECONDS,
        max_crashes=MAX_CRASHES,
        halt=halt,
    )


async def submit_one(
    store: Store, content: Any = "hello", session_id: str = "s", queue: str = QUEUE, **fields: Any
) -> Accepted:
    """Submits one turn, which is accepted."""
    (answer,) = await submit(
        store.database, [make_submission(queue, session_id, content, **fields)], resend_seconds=RESEND_SECONDS
    )
    assert not isinstance(answer, SubmissionRefusedError)
    return answer


async def claim_one(
    store: Store,
    worker_id: str = "worker-a",
    session_id: str = "s",
    queue: str = QUEUE,
    *,
    tenant_id: str = "t",
    halt: bool = False,
) -> Claim:
    """The result of a claim of the session."""
    (answer,) = await claim(
        store.database, terms(worker_id, queue, halt=halt), [make_claim(session_id, tenant_id=tenant_id)]
    )
    return answer


async def claimed(store: Store, worker_id: str = "worker-a", session_id: str = "s") -> ClaimedTurn:
    """Claims the session's head."""
    turn = await claim_one(store, worker_id, session_id)
    assert isinstance(turn, ClaimedTurn)
    return turn


async def settle_one(
    store: Store,
    turn: ClaimedTurn,
    settlement: Settlement = SUCCESS,
    *,
    more: bool = False,
    next_claim_id: UUID | None = None,
    halt: bool = False,
) -> Settled | Superseded | RowLocked:
    """Ends a claim."""
    request = SettleRequest(turn=turn, settlement=settlement, more=more, next_claim_id=next_claim_id or uuid4())
    (answer,) = await settle(store.database, terms(halt=halt), [request])
    return answer


async def wake_head(store: Store, session_id: str = "s") -> list[UUID]:
    """Owes the session's head a wake-up; returns the ids of the turns that are owed one now."""
    rows = await store.database.fetch(WAKE_HEAD, {"tenant": "t", "session": session_id})
    return [row["id"] for row in rows]


async def defer_session(store: Store, seconds: float, session_id: str = "s") -> None:
    """Owes a session a wake-up after `seconds`."""
    await defer(store.database, [Defer("t", session_id, seconds)])


async def row_of(store: Store, turn_id: UUID) -> dict[str, Any]:
    """The row of a turn."""
    (row,) = [row for row in (await store.snapshot())["turns"] if row["id"] == turn_id]
    return row


async def seconds_from_creation(store: Store, turn_id: UUID, column: str) -> float | None:
    """One of a turn's times, as seconds after its submit."""
    row = await row_of(store, turn_id)
    return None if row[column] is None else (row[column] - row["created_at"]).total_seconds()


async def outcomes(store: Store, turn_id: UUID) -> list[tuple[int, str]]:
    """(attempt, outcome) of a turn's ended attempts."""
    rows = (await store.snapshot())["turn_attempts"]
    return [(row["attempt"], row["outcome"]) for row in rows if row["turn_id"] == turn_id]


async def said(store: Store, turn_id: UUID) -> list[tuple[str, Any]]:
    """(role, content) of a turn's messages."""
    rows = (await store.snapshot())["messages"]
    return [(row["role"], row["content"]) for row in rows if row["turn_id"] == turn_id]


async def mark_lost(store: Store) -> None:
    """Marks turns with an expired lease as lost, as a relay does."""
    await mark_lost_turns(store.database, PROVEN.by, PROVEN.proven_seconds, 200)


async def pass_lease(store: Store) -> None:
    """Lets all leases expire, and marks their turns as lost."""
    await store.pass_time(LEASE_SECONDS + 1)
    await mark_lost(store)


def lines(queue: str = QUEUE, *, limit: int = 200, reach: float = 1e9) -> dict[str, Any]:
    """The relay's lines of one queue: wake-ups and dead letters."""
    return {"queues": [queue, queue], "deads": [False, True], "limits": [limit, limit], "reaches": [reach, reach]}


async def take_due(store: Store, **asked: Any) -> list[dict[str, Any]]:
    """The rows that a relay's round takes."""
    rest = {name: asked.pop(name) for name in ALL if name in asked}
    parameters = {**ALL, **rest, **lines(**asked), "stamp": STAMP_SECONDS, "resend": TAKEOVER_RESEND_SECONDS}
    return await store.database.fetch(TAKE_DUE, parameters)


async def set_resend_deadline(store: Store, *rows: dict[str, Any]) -> None:
    """Sets the next resend deadline of these rows, as a relay does after it has sent their wake-ups."""
    parameters = {
        "ids": [row["id"] for row in rows],
        "stamps": [row["send_at"] for row in rows],
        "resend_after": RESEND_SECONDS,
    }
    await store.database.fetch(SET_RESEND_DEADLINE, parameters)


async def lose(store: Store, times: int) -> ClaimedTurn:
    """Claims and loses the head `times` times; returns the last claim."""
    for _ in range(times):
        turn = await claimed(store)
        await pass_lease(store)
    return turn
