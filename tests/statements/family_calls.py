"""Calls for a parent, its children and its compensation."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

from tests.statements.calls import RESEND_SECONDS, claimed, submit_one, terms
from tests.statements.store import Store
from tests.support.factories import make_submission
from turnstile.statements.settle import SettleRequest, settle
from turnstile.statements.submit import Accepted, ParentClaim, submit
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import Settlement

COMPENSATES = replace(terms(), compensates=True, compensation_expires_seconds=50.0)


async def parent_of(store: Store) -> ClaimedTurn:
    await submit_one(store, session_id="parent")
    return await claimed(store, session_id="parent")


async def start_child(store: Store, parent: ClaimedTurn, key: str, **fields: Any) -> Any:
    submission = make_submission("turns", f"child-{key}", parent=ParentClaim(parent.id, parent.fence, key), **fields)
    (answer,) = await submit(store.database, [submission], resend_seconds=RESEND_SECONDS)
    return answer


async def child_of(store: Store, parent: ClaimedTurn, key: str) -> Accepted:
    answer = await start_child(store, parent, key)
    assert isinstance(answer, Accepted)
    return answer


async def end(store: Store, turn: ClaimedTurn, settlement: Settlement, by: Any = None) -> None:
    request = SettleRequest(turn=turn, settlement=settlement, more=False, next_claim_id=uuid4())
    await settle(store.database, by or terms(), [request])


async def compensation_of(store: Store, failed: UUID) -> list[dict[str, Any]]:
    rows = (await store.snapshot())["turns"]
    return [row for row in rows if row["parent_turn_id"] == failed]
