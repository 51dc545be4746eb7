"""Cancel: a waiting turn at once, a running one by request, and whatever was behind it goes on."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from tests.support.claiming import claim_one, expire_leases, settle_one, submit_turns
from tests.support.factories import make_claim, make_submission, make_terms
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.relay.loop import Relay
from turnstile.statements.cancel import CanceledTurn, cancel
from turnstile.statements.claim import EndedAtClaim, claim
from turnstile.statements.submit import submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

FAILURE = Settlement(
    status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, fault=True, error_class="Boom", error="x", dead_letter=True
)
RETRY = Settlement(
    status=TurnStatus.PENDING, outcome=AttemptOutcome.RETRIED, after_seconds=600, fault=True, error_class="Boom"
)


@pytest.fixture
def queue() -> QueueSettings:
    """Declared and nowhere in SQS: nothing here sends."""
    return QueueSettings(name="turns", visibility_seconds=4.0)


async def rows(database: Database) -> list[dict[str, Any]]:
    return await database.fetch("SELECT *, send_at <= clock_timestamp() AS due FROM turns ORDER BY seq", {})


async def ids(database: Database) -> list[UUID]:
    return [row["id"] for row in await rows(database)]


async def cancel_seq(database: Database, seq: int, reason: CancelReason = CancelReason.USER) -> CanceledTurn:
    canceled = await cancel(database, "t", (await ids(database))[seq - 1], reason)
    assert canceled is not None
    return canceled


async def test_a_waiting_turn_is_canceled_at_once(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")

    canceled = await cancel_seq(database, 1)

    assert canceled == CanceledTurn(TurnStatus.CANCELED, requested=True, session_id="s")
    (row,) = await rows(database)
    assert (row["status"], row["send_at"], row["cancel_reason"]) == ("CANCELED", None, "user")
    assert row["finished_at"] is not None
    assert row["cancel_requested_at"] is not None


async def test_the_turn_behind_a_canceled_head_is_due_and_its_wake_up_is_returned(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one", "two", "three")

    canceled = await cancel_seq(database, 1)

    _, second, third = await rows(database)
    assert canceled.woken is not None
    queue, message = canceled.woken
    assert (queue, message.wake_up.session_id, message.wake_up.turn_id) == (settings.queue, "s", second["id"])
    assert second["trace_id"] in message.traceparent
    assert (second["due"], third["due"]) == (True, False)


async def test_a_head_in_backoff_that_is_canceled_holds_up_its_session_no_more(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one", "two")
    await settle_one(database, settings, await claim_one(database, settings), RETRY)

    await cancel_seq(database, 1)

    claimed = await claim_one(database, settings)
    assert isinstance(claimed, ClaimedTurn)
    assert claimed.seq == 2


async def test_the_turn_behind_a_canceled_head_is_not_woken_before_its_own_time(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one", "two")
    await database.fetch("UPDATE turns SET execute_at = now() + interval '1 hour' WHERE seq = 2", {})

    canceled = await cancel_seq(database, 1)

    assert canceled.woken is None
    assert (await rows(database))[1]["due"] is False


async def test_a_running_turn_is_asked_to_stop(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one", "two")
    claimed = await claim_one(database, settings)
    assert isinstance(claimed, ClaimedTurn)

    canceled = await cancel_seq(database, 1)

    first, second = await rows(database)
    assert canceled == CanceledTurn(TurnStatus.RUNNING, requested=True, session_id="s")
    assert (first["status"], first["fence"], first["cancel_reason"]) == ("RUNNING", claimed.fence, "user")
    assert first["cancel_requested_at"] is not None
    assert second["due"] is False


async def test_the_first_request_to_stop_is_the_one_that_counts(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    await claim_one(database, settings)
    await cancel_seq(database, 1, CancelReason.USER)
    before = await rows(database)

    await cancel_seq(database, 1, CancelReason.SUPERSEDED)

    assert await rows(database) == before


@pytest.mark.parametrize("status", [TurnStatus.SUCCEEDED, TurnStatus.FAILED, TurnStatus.CANCELED])
async def test_a_turn_that_has_ended_stays_as_it_is(database: Database, settings: Settings, status: TurnStatus) -> None:
    await submit_turns(database, settings, "one", "two")
    if status is TurnStatus.CANCELED:
        await cancel_seq(database, 1)
    elif status is TurnStatus.FAILED:
        await settle_one(database, settings, await claim_one(database, settings), FAILURE)
    else:
        await settle_one(database, settings, await claim_one(database, settings))
    before = await rows(database)

    canceled = await cancel_seq(database, 1)

    assert canceled == CanceledTurn(status, requested=False, session_id="s")
    assert await rows(database) == before


async def test_another_tenants_turn_is_not_there(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    (turn_id,) = await ids(database)

    assert await cancel(database, "another", turn_id, CancelReason.USER) is None
    assert (await rows(database))[0]["status"] == "PENDING"


async def test_a_turn_that_was_never_submitted_is_not_there(database: Database) -> None:
    assert await cancel(database, "t", uuid4(), CancelReason.USER) is None


async def test_a_scheduled_turn_that_is_canceled_never_gets_a_place(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    await submit(database, [make_submission(settings.queue, execute_at=soon)], net_seconds=60.0)

    await cancel_seq(database, 1)

    await until(lambda: datetime.now(UTC) > soon)
    await Relay(database, queues, settings).round()
    (row,) = await rows(database)
    assert (row["status"], row["seq"]) == ("CANCELED", None)


async def test_a_canceled_turn_whose_worker_died_is_ended_by_the_next_claim(
    database: Database, settings: Settings
) -> None:
    await submit_turns(database, settings, "one")
    await claim_one(database, settings)
    await cancel_seq(database, 1)
    await expire_leases(database)

    async def ended() -> EndedAtClaim | None:
        found = await claim_one(database, settings, "worker-b")
        return found if isinstance(found, EndedAtClaim) else None

    assert (await until(ended)).status is TurnStatus.CANCELED
    (row,) = await rows(database)
    assert (row["status"], row["send_at"]) == ("CANCELED", None)


async def test_all_turns_of_a_session_can_be_canceled_at_once(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, *(str(number) for number in range(20)))

    answers = await asyncio.gather(*(cancel(database, "t", one, CancelReason.USER) for one in await ids(database)))

    assert {answer.status for answer in answers if answer} == {TurnStatus.CANCELED}
    assert {row["status"] for row in await rows(database)} == {"CANCELED"}


async def test_a_cancel_and_a_claim_at_once_agree(database: Database, settings: Settings) -> None:
    for number in range(10):
        session = f"s-{number}"
        await submit_turns(database, settings, "one", session_id=session)
    wanted = {row["session_id"]: row["id"] for row in await rows(database)}

    async def claim_of(session: str) -> object:
        return (await claim(database, make_terms(settings), [make_claim(session)]))[0]

    async def both(session: str, turn_id: UUID) -> tuple[CanceledTurn | None, object]:
        canceled, claimed = await asyncio.gather(cancel(database, "t", turn_id, CancelReason.USER), claim_of(session))
        return canceled, claimed

    for canceled, claimed in await asyncio.gather(*(both(*one) for one in wanted.items())):
        assert canceled is not None
        assert isinstance(claimed, ClaimedTurn) is (canceled.status is TurnStatus.RUNNING)
