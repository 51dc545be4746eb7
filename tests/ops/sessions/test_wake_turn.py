"""Wake, on the real Postgres: what it makes due, what it leaves alone, and what happens during a claim and a cancel."""

import asyncio
from typing import Any
from uuid import UUID

import pytest

from tests.ops.dead_turns import make_failed, rows
from tests.support.claims import claimed
from tests.support.factories import make_claim, make_terms
from tests.support.row_locks import rows_locked
from tests.support.tampered_turns import FRUITLESS, LOST, make_pending, make_running, tamper
from tests.support.waiting_turns import RETRIED, SNOOZED, make_joining, make_scheduled, make_settled
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.sessions.wake_turn import NotWoken, Woken, wake_turn
from turnstile.relay.loop import Relay
from turnstile.statements.cancel import CanceledTurn, cancel
from turnstile.statements.claim import NoClaim, claim
from turnstile.statements.paused_queues import pause_queue
from turnstile.statements.settle import Settlement
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.status import TurnStatus


async def woken(database: Database, turn_id: UUID) -> Woken:
    found = await wake_turn(database, turn_id, by="ann")
    assert isinstance(found, Woken)
    return found


async def is_unchanged(database: Database, turn_id: UUID, before: dict[UUID, dict[str, Any]]) -> bool:
    return (await rows(database))[turn_id] == before[turn_id]


@pytest.mark.parametrize("settlement", [RETRIED, SNOOZED], ids=["retry", "snooze"])
async def test_a_wait_ends_and_the_turn_can_be_claimed(
    database: Database, settings: Settings, settlement: Settlement
) -> None:
    turn_id = await make_settled(database, settings, "s", settlement)
    before = (await rows(database))[turn_id]

    found = await woken(database, turn_id)

    after = (await rows(database))[turn_id]
    assert (found.placed, found.message.wake_up.turn_id) == (True, turn_id)
    assert (after["queued_at"], after["attempt"], after["fence"]) == (
        before["queued_at"],
        before["attempt"],
        before["fence"],
    )
    assert (await claimed(database, settings)).id == turn_id


async def test_a_scheduled_turn_gets_its_place_from_a_relay_and_begins_to_wait_now(
    database: Database, settings: Settings, queues: MessageQueues
) -> None:
    turn_id = await make_scheduled(database, settings)

    found = await woken(database, turn_id)
    await Relay(database, queues, settings).round()

    row = (await rows(database))[turn_id]
    turn = await claimed(database, settings)
    assert (found.placed, row["seq"], turn.id) == (False, 1, turn_id)
    started = (await rows(database))[turn_id]["first_started_at"]
    assert row["queued_at"] <= started


async def test_a_turn_that_is_due_gets_another_wake_up_and_stays_as_old_as_it_is(
    database: Database, settings: Settings
) -> None:
    turn_id = await make_pending(database, settings)
    await tamper(settings, FRUITLESS)
    before = (await rows(database))[turn_id]

    await woken(database, turn_id)

    after = (await rows(database))[turn_id]
    assert after["send_at"] < before["send_at"]
    assert {name: after[name] for name in after if after[name] != before[name]}.keys() == {"send_at", "sends"}
    assert (after["sends"], after["execute_at"]) == (0, None)


async def test_a_dry_run_says_the_same_and_changes_nothing(database: Database, settings: Settings) -> None:
    turn_id = await make_settled(database, settings, "s", RETRIED)
    before = await rows(database)

    found = await wake_turn(database, turn_id, by=None)

    assert isinstance(found, Woken)
    assert await is_unchanged(database, turn_id, before)


# --- what is left alone


async def make_behind(database: Database, settings: Settings) -> UUID:
    await make_settled(database, settings, "s", RETRIED)
    return await make_pending(database, settings)


async def make_in_halted(database: Database, settings: Settings) -> UUID:
    await make_failed(database, settings, ["s"], halt=True)
    return await make_pending(database, settings)


async def make_on_paused(database: Database, settings: Settings) -> UUID:
    await pause_queue(database, settings.queue, paused_by="ann", reason=None)
    return await make_settled(database, settings, "s", RETRIED)


async def make_lost(database: Database, settings: Settings) -> UUID:
    turn_id = await make_running(database, settings)
    await tamper(settings, LOST)
    return turn_id


async def make_parent(database: Database, settings: Settings) -> UUID:
    return (await make_joining(database, settings))[0]


async def make_ended(database: Database, settings: Settings) -> UUID:
    return (await make_failed(database, settings, ["s"]))[0]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (make_running, NotWoken.RUNNING),
        (make_lost, NotWoken.RUNNING),
        (make_ended, NotWoken.ENDED),
        (make_parent, NotWoken.JOINING),
        (make_on_paused, NotWoken.PAUSED),
        (make_in_halted, NotWoken.HALTED),
        (make_behind, NotWoken.BEHIND),
    ],
    ids=lambda one: one.name if isinstance(one, NotWoken) else "",
)
async def test_a_turn_that_could_not_begin_is_left_alone(
    database: Database, settings: Settings, make: Any, why: NotWoken
) -> None:
    turn_id = await make(database, settings)
    before = await rows(database)

    assert [await wake_turn(database, turn_id, by=by) for by in (None, "ann")] == [why, why]
    assert await is_unchanged(database, turn_id, before)


async def test_a_turn_that_nobody_knows_is_not_woken(database: Database) -> None:
    assert await wake_turn(database, UUID(int=1), by="ann") is None


async def test_a_locked_turn_is_not_waited_for(database: Database, settings: Settings) -> None:
    turn_id = await make_settled(database, settings, "s", RETRIED)
    before = await rows(database)

    with rows_locked(settings):
        assert await wake_turn(database, turn_id, by="ann") is NotWoken.LOCKED

    assert await is_unchanged(database, turn_id, before)
    await woken(database, turn_id)


# --- at the same moment


async def test_a_wake_during_a_claim_does_not_hinder_it(database: Database, settings: Settings) -> None:
    turns = {f"s-{number}": await make_pending(database, settings, f"s-{number}") for number in range(20)}

    async def both(session: str, turn_id: UUID) -> tuple[object, object]:
        found, [answer] = await asyncio.gather(
            wake_turn(database, turn_id, by="ann"), claim(database, make_terms(settings), [make_claim(session)])
        )
        if answer is NoClaim.HEAD_LOCKED:
            [answer] = await claim(database, make_terms(settings), [make_claim(session)])
        return found, answer

    for found, answer in await asyncio.gather(*(both(*each) for each in turns.items())):
        assert isinstance(answer, ClaimedTurn)
        assert isinstance(found, Woken) or found is NotWoken.RUNNING
    # A wake after the claim would have owed a RUNNING turn a message, which means that its worker is lost.
    found_rows = await rows(database)
    assert {(row["status"], row["send_at"], row["attempt"]) for row in found_rows.values()} == {("RUNNING", None, 1)}


async def test_a_wake_during_a_cancel_revives_nothing(database: Database, settings: Settings) -> None:
    turns = [await make_settled(database, settings, f"s-{number}", RETRIED) for number in range(20)]

    async def both(turn_id: UUID) -> tuple[object, CanceledTurn | None]:
        return await asyncio.gather(
            wake_turn(database, turn_id, by="ann"), cancel(database, "t", turn_id, CancelReason.USER)
        )

    for found, canceled in await asyncio.gather(*map(both, turns)):
        assert canceled is not None
        assert canceled.status is TurnStatus.CANCELED
        assert isinstance(found, Woken) or found in {NotWoken.ENDED, NotWoken.LOCKED}
    assert {(row["status"], row["send_at"]) for row in (await rows(database)).values()} == {("CANCELED", None)}
