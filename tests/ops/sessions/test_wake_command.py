"""`turnstile wake`: it asks, makes the turn due and sends its wake-up; it says why it leaves a turn alone."""

import json

import pytest
from inline_snapshot import snapshot

from tests.ops.conftest import Turnstile
from tests.ops.dead_turns import make_failed, rows
from tests.ops.invoke import NOBODY
from tests.ops.wording import wording
from tests.support.row_locks import rows_locked
from tests.support.waiting_turns import RETRIED, make_joining, make_scheduled, make_settled
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.statements.paused_queues import pause_queue


async def test_a_wake_makes_the_turn_due_and_sends_its_wake_up(
    turnstile: Turnstile, database: Database, settings: Settings, queues: MessageQueues
) -> None:
    turn = await make_settled(database, settings, "s", RETRIED)

    ran = await turnstile("wake", str(turn), "--yes", "--json")

    assert (ran.code, json.loads(ran.out)) == (
        0,
        {"id": str(turn), "queue": settings.queue, "dry_run": False, "placed": True},
    )
    [message] = await queues.receive(settings.queue, 10)
    assert str(turn) in message.body


async def test_a_scheduled_turn_is_left_to_the_relay(
    turnstile: Turnstile, database: Database, settings: Settings, queues: MessageQueues
) -> None:
    turn = await make_scheduled(database, settings)

    ran = await turnstile("wake", str(turn), "--yes")

    assert (ran.code, "a relay gives it its place" in ran.err) == (0, True)
    assert await queues.count(settings.queue) == 0


async def test_without_an_answer_nothing_is_changed(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    turn = await make_settled(database, settings, "s", RETRIED)
    before = await rows(database)

    asked = await turnstile("wake", str(turn))
    dry = await turnstile("wake", str(turn), "--dry-run", "--json")

    assert (asked.code, dry.code, json.loads(dry.out)["dry_run"]) == (2, 0, True)
    assert "It waits for its retry until" in asked.err
    assert "give --yes" in asked.err
    assert await rows(database) == before


async def test_a_turn_that_is_left_alone_ends_with_1_and_says_why(
    turnstile: Turnstile, database: Database, settings: Settings
) -> None:
    parent, _ = await make_joining(database, settings, "joining")
    [failed] = await make_failed(database, settings, ["failed"])
    waiting = await make_settled(database, settings, "s", RETRIED)
    await pause_queue(database, settings.queue, paused_by="ann", reason=None)

    ran = [await turnstile("wake", str(turn), "--yes") for turn in (parent, failed, waiting, NOBODY)]

    assert [one.code for one in ran] == [1, 1, 1, 3]
    names = {"PARENT": parent, "FAILED": failed, "WAITING": waiting, "UNKNOWN": NOBODY, "QUEUE": settings.queue}
    assert [wording(one.err, **names) for one in ran] == snapshot(
        [
            "turnstile: PARENT waits for its children: see turnstile why PARENT; nothing was changed\n",
            "turnstile: FAILED has ended: see turnstile why FAILED; nothing was changed\n",
            "turnstile: WAITING waits on a paused queue: see turnstile why WAITING; nothing was changed\n",
            "turnstile: there is no turn UNKNOWN\n",
        ]
    )


@pytest.mark.parametrize("answer", ["--yes", "--dry-run"])
async def test_a_locked_turn_may_be_tried_again(
    turnstile: Turnstile, database: Database, settings: Settings, answer: str
) -> None:
    turn = await make_settled(database, settings, "s", RETRIED)

    with rows_locked(settings):
        ran = await turnstile("wake", str(turn), answer)

    assert (ran.code, "is locked by another transaction; nothing was changed. Try again" in ran.err) == (4, True)
