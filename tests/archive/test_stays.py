"""The reasons for which a turn stays in the table, and its session with it."""

from typing import LiteralString
from uuid import UUID

import pytest

from tests.archive.archiving import (
    age,
    archive,
    claim_head,
    end_turn,
    in_archive,
    in_table,
    redrive,
    settle_as,
    start_child,
)
from tests.support.factories import make_submission
from turnstile.archive.move import Archived
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.dead_letters.drop_failed import drop_failed
from turnstile.statements.submit import ParentClaim, submit
from turnstile.turn.status import TurnStatus


async def stays(database: Database, *, failed: bool = False) -> bool:
    """Whether all turns stay. A dry run must count none either."""
    before = await in_table(database)
    assert await archive(database, failed=failed, dry_run=True) == Archived()
    assert await archive(database, failed=failed) == Archived()
    return await in_table(database) == before and await in_archive(database) == []


@pytest.mark.parametrize(
    "change",
    [
        # It ended after the cut-off, or its session was used since.
        "UPDATE turns SET finished_at = now() - interval '89 days'",
        "UPDATE sessions SET updated_at = clock_timestamp()",
        # Its dead letter is owed, or may be on the queue.
        "UPDATE turns SET send_at = now()",
        "UPDATE turns SET dead_lettered_at = now() - interval '14 days'",
    ],
)
async def test_a_recent_turn_or_one_with_a_dead_letter_stays(
    database: Database, settings: Settings, change: LiteralString
) -> None:
    await end_turn(database, settings, status=TurnStatus.FAILED)
    await age(database)
    await database.fetch(change, {})

    assert await stays(database, failed=True)


@pytest.mark.parametrize("claimed", [False, True])
async def test_an_open_turn_keeps_its_session(database: Database, settings: Settings, claimed: bool) -> None:
    await end_turn(database, settings)
    await submit(database, [make_submission(settings.queue)], resend_seconds=60)
    if claimed:
        await claim_head(database, settings, "s")
    await age(database)

    assert await stays(database)


async def test_a_halted_session_stays(database: Database, settings: Settings) -> None:
    await end_turn(database, settings, status=TurnStatus.FAILED, halt=True)
    await age(database)

    assert await stays(database, failed=True)


async def test_a_failed_turn_that_an_operator_has_given_up_goes(database: Database, settings: Settings) -> None:
    turn = await end_turn(database, settings, status=TurnStatus.FAILED)
    await drop_failed(database, [(turn, 1)], dropped_by="ada@test")
    await age(database)

    assert await archive(database) == Archived(1, 1)


async def test_one_failed_turn_keeps_all_of_its_session(database: Database, settings: Settings) -> None:
    for status in (TurnStatus.SUCCEEDED, TurnStatus.FAILED, TurnStatus.SUCCEEDED):
        await end_turn(database, settings, status=status)
    await age(database)

    assert await stays(database)


async def test_an_answered_turn_stays_while_a_letter_of_an_earlier_generation_may_be_on_the_queue(
    database: Database, settings: Settings
) -> None:
    failed = await end_turn(database, settings, status=TurnStatus.FAILED)
    await redrive(database, failed)
    await settle_as(database, settings, await claim_head(database, settings, "s"), TurnStatus.SUCCEEDED)
    await age(database, days=10)

    assert await archive(database, days=5) == Archived()
    assert await in_table(database) == [failed]


async def test_a_turn_stays_until_its_webhook_is_delivered(database: Database, settings: Settings) -> None:
    await end_turn(database, settings, webhook_url="https://client.example/hook")
    await age(database)

    assert await stays(database)


@pytest.mark.parametrize("status", [None, TurnStatus.FAILED], ids=["open", "failed"])
async def test_a_child_stays_while_its_parent_is_open_or_failed(
    database: Database, settings: Settings, status: TurnStatus | None
) -> None:
    parent, _ = await start_child(database, settings)
    if status is not None:
        await settle_as(database, settings, parent, status)
    await age(database)

    assert await stays(database)


async def test_an_open_turn_of_another_tenant_with_the_parents_id_keeps_no_child(
    database: Database, settings: Settings
) -> None:
    parent, child = await start_child(database, settings)
    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)
    await age(database)
    await database.fetch("UPDATE sessions SET updated_at = now() WHERE session_id = 'child'", {})
    await archive(database)
    await submit(database, [make_submission(settings.queue, "o", tenant_id="u", turn_id=parent.id)], resend_seconds=60)
    await database.fetch("UPDATE sessions SET updated_at = now() - interval '100 days'", {})

    await archive(database)

    assert await in_table(database) == [parent.id]
    assert await in_archive(database) == sorted([parent.id, child])


async def replace_child(
    database: Database, settings: Settings, session_id: str, status: TurnStatus
) -> tuple[UUID, UUID]:
    """A FAILED child in the session `child`, and the child that its redriven parent has started instead; all ended long ago."""
    parent, replaced = await start_child(database, settings, TurnStatus.FAILED)
    await settle_as(database, settings, parent, TurnStatus.FAILED)
    await redrive(database, parent.id)
    again = await claim_head(database, settings, "parent")
    successor = make_submission(settings.queue, session_id, parent=ParentClaim(again.id, again.fence, "dig"))
    await submit(database, [successor], resend_seconds=60)
    await settle_as(database, settings, await claim_head(database, settings, session_id), status)
    await settle_as(database, settings, again, TurnStatus.SUCCEEDED)
    await age(database)
    return replaced, successor.turn_id


@pytest.mark.parametrize("status", [TurnStatus.SUCCEEDED, TurnStatus.FAILED])
async def test_a_child_that_replaces_another_stays_as_long_as_that_one(
    database: Database, settings: Settings, status: TurnStatus
) -> None:
    replaced, successor = await replace_child(database, settings, "successor", status)

    await archive(database)

    assert await in_table(database) == sorted([replaced, successor])
    assert await redrive(database, replaced) == 0
    await archive(database, failed=True)
    assert await in_table(database) == [successor]
    await archive(database, failed=True)
    assert await in_table(database) == []


async def test_a_child_and_the_one_that_replaces_it_in_its_session_do_not_keep_each_other(
    database: Database, settings: Settings
) -> None:
    await replace_child(database, settings, "child", TurnStatus.SUCCEEDED)

    await archive(database, failed=True)

    assert await in_table(database) == []


async def start_compensation(database: Database, settings: Settings, status: TurnStatus) -> UUID:
    """A FAILED compensation of a turn with this status; both ended long ago."""
    parent, compensation = await start_child(database, settings, TurnStatus.FAILED)
    await settle_as(database, settings, parent, status)
    await database.fetch(
        "UPDATE turns SET kind = 'compensation', child_key = NULL WHERE id = %(id)s", {"id": compensation}
    )
    await age(database)
    return compensation


async def test_an_answered_turn_stays_as_long_as_its_failed_compensation(
    database: Database, settings: Settings
) -> None:
    compensation = await start_compensation(database, settings, TurnStatus.SUCCEEDED)

    assert await stays(database)
    assert await redrive(database, compensation) == 0
    for _ in range(2):
        await archive(database, failed=True)
    assert await in_table(database) == []


async def test_a_failed_turn_and_its_failed_compensation_do_not_keep_each_other(
    database: Database, settings: Settings
) -> None:
    await start_compensation(database, settings, TurnStatus.FAILED)

    for _ in range(2):
        await archive(database, failed=True)

    assert await in_table(database) == []
