"""Lists of turns, always within one tenant."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.statements.calls import SUCCESS
from tests.support.claims import claimed, settle_one
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.turn_lists import TurnFilter, list_page
from turnstile.statements.submit import submit
from turnstile.turn.status import TurnStatus


@pytest.fixture
async def listed(database: Database, settings: Settings) -> list[UUID]:
    """Turns of two tenants, two sessions and two queues, in the order they were made; the first is answered."""
    made = [
        make_submission(settings.queue, "s"),
        make_submission(settings.queue, "s"),
        make_submission(settings.queue, "other"),
        make_submission("another", "s"),
        make_submission(settings.queue, "s", tenant_id="stranger"),
    ]
    for submission in made:
        await submit(database, [submission], resend_seconds=60.0)
    await settle_one(database, settings, await claimed(database, settings), replace(SUCCESS, reply="hi"))
    return [submission.turn_id for submission in made]


async def test_a_tenants_turns_are_listed_newest_first_page_by_page(database: Database, listed: list[UUID]) -> None:
    wanted = TurnFilter(tenant_id="t")

    first, place = await list_page(database, wanted, limit=3)
    rest, end = await list_page(database, wanted, limit=3, before=place)

    assert [turn.id for turn in first + rest] == list(reversed(listed[:4]))
    assert ({turn.output for turn in first + rest}, end) == ({None}, None)


async def test_turns_are_filtered(database: Database, settings: Settings, listed: list[UUID]) -> None:
    async def wanted(**fields: Any) -> set[int]:
        found, _ = await list_page(database, TurnFilter(tenant_id="t", **fields), limit=10)
        return {listed.index(turn.id) for turn in found}

    assert await wanted(session_id="s") == {0, 1, 3}
    assert await wanted(status=TurnStatus.SUCCEEDED) == {0}
    assert await wanted(status=TurnStatus.PENDING, session_id="s") == {1, 3}
    assert await wanted(queue=settings.queue) == {0, 1, 2}


async def test_waiting_and_scheduled_turns_are_listed_together_page_by_page(
    database: Database, settings: Settings
) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    made = [make_submission(settings.queue, f"s{at}", execute_at=later if at % 2 else None) for at in range(6)]
    for submission in made:
        await submit(database, [submission], resend_seconds=60.0)
    wanted = TurnFilter(tenant_id="t", status=TurnStatus.PENDING)

    first, place = await list_page(database, wanted, limit=4)
    rest, _ = await list_page(database, wanted, limit=4, before=place)

    assert len(first) == 4
    assert [turn.id for turn in first + rest] == [submission.turn_id for submission in reversed(made)]
