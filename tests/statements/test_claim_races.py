"""Claim: order, exclusion, fencing and takeover, on the real Postgres."""

import asyncio
import json
from uuid import uuid4

from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.statements.claim import ClaimedTurn, EndedAtClaim, NoClaim, claim
from turnstile.statements.settle import AttemptOutcome, Held, Settled, Settlement, SettleRequest, Superseded, settle
from turnstile.statements.submit import submit
from turnstile.turn.status import TurnStatus

SUCCESS = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply="hi")


async def submit_turns(database: Database, settings: Settings, *contents: str, session_id: str = "s") -> None:
    await submit(
        database,
        [make_submission(settings.queue, session_id, content) for content in contents],
        net_seconds=settings.net_seconds,
    )


async def claim_one(database: Database, settings: Settings, worker: str = "worker-a", **terms: int) -> object:
    return (await claim(database, make_terms(settings, worker, **terms), [make_claim()]))[0]


async def settle_one(
    database: Database, settings: Settings, turn: object, settlement: Settlement = SUCCESS, *, more: bool = False
) -> Settled | Superseded:
    """As a worker does, who asks again where somebody had the row."""
    assert isinstance(turn, ClaimedTurn)
    request = SettleRequest(turn=turn, settlement=settlement, more=more, next_claim_id=uuid4())
    while isinstance(answer := (await settle(database, make_terms(settings), [request], json.dumps))[0], Held):
        continue
    return answer


async def expire_leases(database: Database) -> None:
    """Every running turn is lost, and marked so: a claim takes it over."""
    await database.fetch(
        "UPDATE turns SET lease_until = now() - interval '1 s', send_at = now() WHERE status = 'RUNNING'", {}
    )


async def test_the_head_is_claimed_and_charged_before_it_is_handled(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")

    turn = await claim_one(database, settings)

    assert isinstance(turn, ClaimedTurn)
    assert (turn.seq, turn.attempt, turn.inputs) == (1, 1, ("one",))


async def test_nothing_is_claimed_behind_a_running_head(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")
    await claim_one(database, settings)

    assert await claim_one(database, settings, "worker-b") is NoClaim.RUNNING


async def test_a_session_that_was_never_made_is_unknown(database: Database, settings: Settings) -> None:
    assert await claim_one(database, settings) is NoClaim.UNKNOWN


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


async def test_a_head_of_another_queue_is_left_to_it(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")

    claimed = (await claim(database, make_terms(settings, queue="other"), [make_claim()]))[0]

    assert claimed is NoClaim.FOREIGN


async def test_the_settle_claims_the_next_turn(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")

    settled = await settle_one(database, settings, await claim_one(database, settings), more=True)

    assert isinstance(settled, Settled)
    assert isinstance(settled.next, ClaimedTurn)
    assert settled.next.seq == 2


async def test_a_settle_that_ends_the_hold_makes_the_next_turn_due(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")

    await settle_one(database, settings, await claim_one(database, settings), more=False)

    rows = await database.fetch("SELECT seq FROM turns WHERE send_at <= now()", {})
    assert [row["seq"] for row in rows] == [2]


async def test_a_settle_is_committed_once_however_often_it_is_asked(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    turn = await claim_one(database, settings)

    first = await settle_one(database, settings, turn)
    again = await settle_one(database, settings, turn)

    assert isinstance(first, Settled)
    assert isinstance(again, Settled)
    assert again.status is TurnStatus.SUCCEEDED
    replies = await database.fetch("SELECT 1 FROM messages WHERE role = 'assistant'", {})
    assert len(replies) == 1


async def test_a_lease_that_ran_out_is_taken_over_and_the_zombie_is_refused(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one")
    zombie = await claim_one(database, settings)
    await expire_leases(database)

    successor = await until(lambda: _claimed(database, settings))
    refused = await settle_one(database, settings, zombie)

    assert isinstance(zombie, ClaimedTurn)
    assert successor.fence > zombie.fence
    assert (successor.attempt, successor.crashes) == (2, 1)
    assert isinstance(refused, Superseded)
    lost = await database.fetch("SELECT outcome, fence FROM turn_attempts", {})
    assert lost == [{"outcome": "lost", "fence": zombie.fence}]


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


async def test_the_third_crash_ends_the_turn_and_owes_a_dead_letter(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")
    await claim_one(database, settings)
    for _ in range(2):
        await expire_leases(database)
        await until(lambda: _claimed(database, settings))
    await expire_leases(database)

    ended = await claim_one(database, settings)

    assert isinstance(ended, EndedAtClaim)
    assert (ended.status, ended.error_class) == (TurnStatus.FAILED, "crash_loop")
    due = await database.fetch("SELECT seq, status FROM turns WHERE send_at <= clock_timestamp() ORDER BY seq", {})
    assert [(row["seq"], row["status"]) for row in due] == [(1, "FAILED"), (2, "PENDING")]


async def test_a_retry_waits_and_holds_up_its_session(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")
    retry = Settlement(
        status=TurnStatus.PENDING, outcome=AttemptOutcome.RETRIED, after_seconds=60, fault=True, error_class="Boom"
    )

    settled = await settle_one(database, settings, await claim_one(database, settings), retry, more=True)

    assert settled == Settled(TurnStatus.PENDING, NoClaim.IDLE)
    assert await claim_one(database, settings) is NoClaim.IDLE


async def test_a_release_charges_no_attempt_and_is_due_at_once(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    release = Settlement(status=TurnStatus.PENDING, outcome=AttemptOutcome.RELEASED, refund=True)

    await settle_one(database, settings, await claim_one(database, settings), release)

    again = await claim_one(database, settings)
    assert isinstance(again, ClaimedTurn)
    assert again.attempt == 1
