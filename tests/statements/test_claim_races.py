"""Claims at the same moment, and claims that are repeated, on the real Postgres."""

import asyncio
import json
from uuid import uuid4

from tests.statements.calls import SUCCESS
from tests.support.claiming import claim_one, expire_leases, submit_turns
from tests.support.factories import make_claim, make_terms
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.claim import ClaimedTurn, NoClaim, claim
from turnstile.statements.settle import Settled, SettleRequest, Superseded, settle
from turnstile.turn.status import TurnStatus


async def test_many_claims_at_once_make_one_claim(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")

    claims = await asyncio.gather(*(claim_one(database, settings, f"worker-{n}") for n in range(20)))

    assert sum(isinstance(claimed, ClaimedTurn) for claimed in claims) == 1


async def test_a_claim_whose_answer_was_lost_is_found_by_its_id(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    request = make_claim()

    first = await claim(database, make_terms(settings), [request])
    again = await claim(database, make_terms(settings), [request])

    assert isinstance(first[0], ClaimedTurn)
    assert isinstance(again[0], ClaimedTurn)
    assert (again[0].fence, again[0].attempt) == (first[0].fence, 1)


async def test_a_stale_and_the_present_claim_of_a_turn_may_be_settled_in_one_batch(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one")
    zombie = await claim_one(database, settings)
    await expire_leases(database)
    successor = await until(lambda: _claimed(database, settings))
    assert isinstance(zombie, ClaimedTurn)
    requests = {
        turn.fence: SettleRequest(turn=turn, settlement=SUCCESS, more=False, next_claim_id=uuid4())
        for turn in (zombie, successor)
    }

    stale_first = await settle(database, make_terms(settings), list(requests.values()), json.dumps)
    stale_last = await settle(database, make_terms(settings), list(requests.values())[::-1], json.dumps)

    assert stale_first == [Superseded(), Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE)]
    assert stale_last == [Settled(TurnStatus.SUCCEEDED, NoClaim.IDLE), Superseded()]
    assert len(await database.fetch("SELECT 1 FROM messages WHERE role = 'assistant'", {})) == 1


async def _claimed(database: Database, settings: Settings) -> ClaimedTurn | None:
    found = await claim_one(database, settings, "worker-b")
    return found if isinstance(found, ClaimedTurn) else None
