"""Archived turns are deleted when their time in the archive is over, and their sessions with the last of them."""

import psycopg

from tests.archive.archiving import DAY_SECONDS, age, archive, claim_head, end_turn, in_archive, redrive, settle_as
from tests.statements.plans.touched import explain
from tests.support.row_locks import rows_locked
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.config.settings import Settings
from turnstile.retention.delete_archived import DELETE_ARCHIVED, delete_archived
from turnstile.retention.delete_turns import KeptFor
from turnstile.turn.status import TurnStatus


def keep(settings: Settings, days: float, archive_days: float) -> list[KeptFor]:
    return [KeptFor(settings.queue, days * DAY_SECONDS, archive_days * DAY_SECONDS)]


async def age_archive(database: Database, days: int) -> None:
    await database.fetch(
        "UPDATE archived_turns SET ended_at = ended_at - %(by)s * interval '1 day' RETURNING 1", {"by": days}
    )


async def left(database: Database, table: str) -> int:
    match table:
        case "sessions":
            rows = await database.fetch("SELECT 1 FROM sessions", {})
        case _:
            rows = await database.fetch("SELECT 1 FROM turn_traces", {})
    return len(rows)


async def test_a_turn_is_in_the_archive_for_as_long_as_declared(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings)
    await age(database, 100)
    await archive(database)

    await delete_archived(database, keep(settings, 90, 30))
    assert await in_archive(database) == [turn_id]

    await age_archive(database, 21)
    await delete_archived(database, keep(settings, 90, 30))
    assert await in_archive(database) == []


async def test_a_session_and_its_traces_go_with_the_last_archived_turn(database: Database, settings: Settings) -> None:
    failed = await end_turn(database, settings, status=TurnStatus.FAILED)
    assert await redrive(database, failed) == 1
    await settle_as(database, settings, await claim_head(database, settings, "s"), TurnStatus.SUCCEEDED)
    await age(database, 100)
    await archive(database)
    await end_turn(database, settings, "in-use")
    assert (await left(database, "sessions"), await left(database, "traces")) == (2, 1)

    await delete_archived(database, keep(settings, 90, 0))

    assert (await left(database, "sessions"), await left(database, "traces")) == (1, 0)


async def test_a_session_that_is_in_use_again_stays(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)
    await age(database, 100)
    await archive(database)
    await end_turn(database, settings)

    await delete_archived(database, keep(settings, 90, 0))

    assert (await in_archive(database), await left(database, "sessions")) == ([], 1)


async def test_while_the_row_of_the_session_is_locked_its_last_turn_stays(
    database: Database, settings: Settings
) -> None:
    turn_id = await end_turn(database, settings)
    await age(database, 100)
    await archive(database)
    with rows_locked(settings, table="sessions"):
        await delete_archived(database, keep(settings, 90, 0))
        assert await in_archive(database) == [turn_id]

    await delete_archived(database, keep(settings, 90, 0))
    assert (await in_archive(database), await left(database, "sessions")) == ([], 0)


def test_the_oldest_are_found_by_their_index(settings: Settings) -> None:
    with psycopg.connect(conninfo(settings.database, "test", pinned=True), autocommit=True) as connection:
        text = explain(connection, DELETE_ARCHIVED)

    assert "Index Scan using archived_turns_ended_at on archived_turns a" in text, text
