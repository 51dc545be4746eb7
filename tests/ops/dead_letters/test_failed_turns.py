"""The list of FAILED turns, and their groups. How one goes back to work: tests/statements/test_revive.py."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.statements.calls import FAILURE
from tests.support.claims import claimed, settle_one, submit_turns
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.dead_letters.failed_turns import FailedFilter, group_failed, list_failed
from turnstile.turn.claimed_turn import ClaimedTurn


async def fail_next(database: Database, settings: Settings, **changed: Any) -> ClaimedTurn:
    turn = await claimed(database, settings)
    await settle_one(database, settings, turn, replace(FAILURE, **changed))
    return turn


@pytest.fixture
async def failed(database: Database, settings: Settings) -> list[ClaimedTurn]:
    """Three failed turns of two classes, and one that did not fail."""
    await submit_turns(database, settings, "one", "two", "three", "four")
    turns = [await fail_next(database, settings, error_class=error_class) for error_class in ("Boom", "Crash", "Boom")]
    await settle_one(database, settings, await claimed(database, settings))
    return turns


async def listed(database: Database, limit: int | None = None, **wanted: Any) -> list[UUID]:
    return [turn.id for turn in await list_failed(database, FailedFilter(**wanted), limit)]


async def test_failed_turns_are_listed_oldest_first_page_by_page(
    database: Database, failed: list[ClaimedTurn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.ops.turns.operator_lists.PAGE", 2)
    ids = [turn.id for turn in failed]

    assert await listed(database) == ids
    assert [await listed(database, limit) for limit in range(5)] == [ids[:limit] for limit in range(5)]


async def test_failed_turns_are_filtered(database: Database, settings: Settings, failed: list[ClaimedTurn]) -> None:
    first, second, third = (turn.id for turn in failed)

    assert await listed(database, error_class="Boom") == [first, third]
    assert await listed(database, turn_ids=(third, second)) == [second, third]
    assert await listed(database, queue=settings.queue, error_class="Crash") == [second]
    assert await listed(database, queue="another") == []
    assert await listed(database, tenant_id="t") == [first, second, third]
    assert await listed(database, tenant_id="another") == []


async def test_a_turn_without_a_dead_letter_is_listed_only_by_its_id(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "one")
    turn = await fail_next(database, settings, dead_letter=False)

    assert await listed(database) == []
    assert await listed(database, turn_ids=(turn.id,)) == [turn.id]


async def test_the_sample_of_a_group_is_the_turn_that_failed_last(
    database: Database, failed: list[ClaimedTurn]
) -> None:
    first, second, third = (turn.id for turn in failed)
    for turn_id, minutes in ((first, 1), (third, 2)):
        await database.fetch(
            "UPDATE turns SET finished_at = now() - make_interval(mins => %(ago)s), error = %(error)s WHERE id = %(id)s",
            {"id": turn_id, "ago": minutes, "error": f"{minutes} ago"},
        )

    groups = await group_failed(database, FailedFilter())

    assert [(one.error_class, one.turns, one.sample_turn_id) for one in groups] == [
        ("Boom", 2, first),
        ("Crash", 1, second),
    ]
    assert groups[0].sample_error == "1 ago"
