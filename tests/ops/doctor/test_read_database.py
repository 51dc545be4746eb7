"""The doctor's change in Postgres, and the limits of its queries."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from tests.ops.dead_turns import rows
from tests.support.tampered_turns import FRUITLESS, LOST, MARKED_AS_LOST, make_pending, make_running, tamper
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.ops.doctor import read_database as doctor_database
from turnstile.ops.doctor.read_database import QuestionTooLargeError, ask, wake


async def test_lost_and_stuck_turns_are_due_at_once_and_keep_all_else(database: Database, settings: Settings) -> None:
    lost, stuck = await make_running(database, settings, "a"), await make_pending(database, settings, "b")
    await tamper(settings, MARKED_AS_LOST)
    await tamper(settings, FRUITLESS)
    before = await rows(database)

    woken, after = await wake(database, [lost, stuck]), await rows(database)

    assert woken == {lost, stuck}
    assert all(row["send_at"] <= datetime.now(UTC) and row["sends"] == 0 for row in after.values())
    changed = {name for turn in woken for name, value in after[turn].items() if value != before[turn][name]}
    assert changed <= {"send_at", "sends"}


async def test_a_turn_that_has_moved_on_is_left_alone(database: Database, settings: Settings) -> None:
    waits = await make_pending(database, settings, "a", execute_at=datetime.now(UTC) + timedelta(hours=1))
    runs = await make_running(database, settings, "b")
    before = await rows(database)

    assert await wake(database, [waits, runs, uuid4()]) == set()
    assert await rows(database) == before


async def test_a_turn_that_no_relay_has_marked_as_lost_is_left_to_its_worker(
    database: Database, settings: Settings
) -> None:
    turn = await make_running(database, settings)
    await tamper(settings, LOST)
    before = await rows(database)

    assert await wake(database, [turn]) == set()
    assert await rows(database) == before


async def test_a_locked_row_is_not_waited_for(database: Database, settings: Settings) -> None:
    turn = await make_pending(database, settings)

    async with database.connection() as other, other.transaction():
        await other.execute("SELECT FROM turns FOR UPDATE")
        assert await wake(database, [turn]) == set()


async def test_a_query_that_takes_too_long_is_given_up(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_database, "STATEMENT_TIMEOUT_SECONDS", 0.05)

    with pytest.raises(QuestionTooLargeError):
        await ask(database, "SELECT pg_sleep(20)", {})


async def test_a_query_can_change_nothing(database: Database, settings: Settings) -> None:
    await make_pending(database, settings)

    with pytest.raises(DatabaseUnavailableError, match="read-only transaction"):
        await ask(database, "UPDATE turns SET sends = 1", {})
