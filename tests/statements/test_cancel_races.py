"""Cancels at the same moment as claims and as each other."""

import asyncio
from uuid import UUID

from tests.support.claims import submit_turns
from tests.support.factories import make_claim, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.cancel import CanceledTurn, cancel
from turnstile.statements.claim import claim
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.status import TurnStatus


async def test_all_turns_of_a_session_can_be_cancelled_at_once(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, *(str(number) for number in range(20)))
    rows = await database.fetch("SELECT id FROM turns", {})

    answers = await asyncio.gather(*(cancel(database, "t", row["id"], CancelReason.USER) for row in rows))

    assert {answer.status for answer in answers if answer} == {TurnStatus.CANCELED}
    assert {row["status"] for row in await database.fetch("SELECT status FROM turns", {})} == {"CANCELED"}


async def test_a_cancel_and_a_claim_at_once_agree(database: Database, settings: Settings) -> None:
    for number in range(10):
        await submit_turns(database, settings, "one", session_id=f"s-{number}")
    rows = await database.fetch("SELECT session_id, id FROM turns", {})

    async def both(session: str, turn_id: UUID) -> tuple[CanceledTurn | None, object]:
        canceled, [found] = await asyncio.gather(
            cancel(database, "t", turn_id, CancelReason.USER),
            claim(database, make_terms(settings), [make_claim(session)]),
        )
        return canceled, found

    for canceled, found in await asyncio.gather(*(both(row["session_id"], row["id"]) for row in rows)):
        assert canceled is not None
        assert isinstance(found, ClaimedTurn) is (canceled.status is TurnStatus.RUNNING)
