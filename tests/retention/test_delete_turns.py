"""Ended turns are deleted at their age, oldest first, and with them all that is theirs. What is needed stays."""

import asyncio
from typing import LiteralString
from uuid import UUID

import psycopg
import pytest

from tests.archive.archiving import (
    DAY_SECONDS,
    age,
    claim_head,
    end_turn,
    in_archive,
    in_table,
    redrive,
    settle_as,
    start_child,
)
from tests.statements.plans.touched import explain
from tests.support.factories import make_submission
from tests.support.row_locks import rows_locked
from turnstile.archive import bounded_statement
from turnstile.backends.postgres.database import Database, conninfo
from turnstile.config.settings import Settings
from turnstile.queries.session_messages import read_history
from turnstile.retention import delete_turns
from turnstile.retention.delete_turns import DELETE_ENDED, Deleted, KeptFor, TurnRetention
from turnstile.statements.submit import submit
from turnstile.turn.status import TurnStatus

HOOK = "https://client.example/hook"
ROWS_OF_TURNS: tuple[LiteralString, ...] = (
    "turns", "messages", "turn_attempts", "turn_values", "turn_traces", "webhooks", "sessions",
)  # fmt: skip


def keep(settings: Settings, days: float = 90, archive_days: float = 0, *, queue: str | None = None) -> KeptFor:
    return KeptFor(queue or settings.queue, days * DAY_SECONDS, archive_days * DAY_SECONDS)


async def delete(database: Database, *kept: KeptFor) -> list[Deleted]:
    """What all statements of one pass over these queues delete."""
    await database.fetch("UPDATE retention SET due_at = clock_timestamp() RETURNING 1", {})
    retention = TurnRetention(database, kept)
    found = []
    while deleted := await retention.delete_some():
        found.append(deleted)
        if deleted.more:
            await database.fetch(
                "UPDATE retention SET due_at = clock_timestamp() WHERE queue = %(queue)s", {"queue": deleted.queue}
            )
    return found


async def count(database: Database, table: LiteralString) -> int:
    [row] = await database.fetch(f"SELECT count(*) AS many FROM {table}", {})
    return int(row["many"])


# --- what is deleted


@pytest.mark.parametrize("status", [TurnStatus.SUCCEEDED, TurnStatus.CANCELED, TurnStatus.FAILED])
async def test_an_ended_turn_is_deleted_at_its_age(database: Database, settings: Settings, status: TurnStatus) -> None:
    await end_turn(database, settings, "old", status=status)
    await age(database)
    fresh = await end_turn(database, settings, "fresh", status=status)

    [deleted] = await delete(database, keep(settings))

    assert (deleted.turns, deleted.sessions, deleted.more) == (1, 1, False)
    assert await in_table(database) == [fresh]


async def test_nothing_of_a_turn_is_left_in_any_table(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings, webhook_url=HOOK, status=TurnStatus.FAILED)
    assert await redrive(database, turn_id) == 1
    await settle_as(database, settings, await claim_head(database, settings, "s"), TurnStatus.SUCCEEDED)
    await database.fetch("UPDATE webhooks SET due_at = NULL RETURNING 1", {})
    await database.fetch(
        "INSERT INTO turn_values (turn_id, key, value, fence) VALUES (%(id)s, 'k', '1', 1) RETURNING 1", {"id": turn_id}
    )
    await age(database)

    await delete(database, keep(settings))

    assert {table: await count(database, table) for table in ROWS_OF_TURNS} == dict.fromkeys(ROWS_OF_TURNS, 0)


async def test_a_queue_without_an_age_keeps_its_turns(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)

    await delete(database, keep(settings, queue="another"))

    assert await in_table(database) == [turn_id]


async def test_each_queue_has_its_own_age(database: Database, settings: Settings) -> None:
    ids = [await end_turn(database, settings, session) for session in ("a", "b")]
    await database.fetch("UPDATE turns SET queue = 'long' WHERE session_id = 'b' RETURNING 1", {})
    await age(database, 20)

    await delete(database, keep(settings, 10), keep(settings, 30, queue="long"))

    assert await in_table(database) == ids[1:]


async def test_a_batch_takes_the_oldest_and_says_that_there_are_more(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_turns, "BATCH", 2)
    ids = []
    for number in range(5):
        ids.append(await end_turn(database, settings, f"s{number}"))
        await age(database)
    retention = TurnRetention(database, [keep(settings)])

    deleted = await retention.delete_some()

    assert deleted is not None
    assert (deleted.turns, deleted.more) == (2, True)
    assert await in_table(database) == sorted(ids[2:])


# --- what stays


async def test_open_turns_stay_however_old_they_are(database: Database, settings: Settings) -> None:
    submission = make_submission(settings.queue, "waits")
    scheduled = make_submission(settings.queue, "later")
    await submit(database, [submission, scheduled], resend_seconds=60)
    await claim_head(database, settings, "waits")
    await age(database)

    await delete(database, keep(settings))

    assert await in_table(database) == sorted([submission.turn_id, scheduled.turn_id])


async def test_the_child_of_an_open_parent_stays_and_goes_after_it(database: Database, settings: Settings) -> None:
    parent, child = await start_child(database, settings)
    await age(database)
    await delete(database, keep(settings))
    assert await in_table(database) == sorted([parent.id, child])

    await settle_as(database, settings, parent, TurnStatus.FAILED)
    await age(database)
    await delete(database, keep(settings))
    assert await in_table(database) == [child]

    await delete(database, keep(settings))
    assert await in_table(database) == []


async def test_a_halted_session_stays_until_an_operator_decides(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings, status=TurnStatus.FAILED, halt=True)
    await age(database)

    await delete(database, keep(settings))

    assert await in_table(database) == [turn_id]


async def test_a_turn_that_was_given_up_lately_stays(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings, status=TurnStatus.FAILED)
    await age(database)
    await database.fetch("UPDATE turns SET dropped_at = now() - interval '1 day' RETURNING 1", {})

    await delete(database, keep(settings))

    assert await in_table(database) == [turn_id]


# --- the session afterwards


async def said(database: Database) -> list[str]:
    return [message.content for message in await read_history(database, "t", "s", limit=10)]


async def test_a_history_loses_its_beginning_and_the_session_goes_on(database: Database, settings: Settings) -> None:
    await end_turn(database, settings, content="first")
    await age(database)
    await end_turn(database, settings, content="second")

    await delete(database, keep(settings))

    assert await said(database) == ["second", "re second"]
    await submit(database, [make_submission(settings.queue)], resend_seconds=60)
    assert (await claim_head(database, settings, "s")).seq == 3


async def test_no_history_has_a_gap(database: Database, settings: Settings) -> None:
    """The first turn is kept for longer. Those behind it wait for it, though their own age has come."""
    await end_turn(database, settings, content="first")
    await database.fetch("UPDATE turns SET queue = 'long' RETURNING 1", {})
    await end_turn(database, settings, content="second")
    canceled = await end_turn(database, settings, status=TurnStatus.CANCELED)
    await age(database)

    await delete(database, keep(settings))

    assert await said(database) == ["first", "re first", "second", "re second"]
    assert canceled not in await in_table(database)
    await delete(database, keep(settings, queue="long"))
    await delete(database, keep(settings))
    assert await said(database) == []


async def test_a_session_that_comes_back_after_its_last_turn_begins_anew(
    database: Database, settings: Settings
) -> None:
    await end_turn(database, settings)
    await age(database)
    await delete(database, keep(settings))

    await submit(database, [make_submission(settings.queue)], resend_seconds=60)

    assert (await claim_head(database, settings, "s")).seq == 1


async def test_the_last_turns_stay_while_the_row_of_their_session_is_locked(
    database: Database, settings: Settings
) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    with rows_locked(settings, table="sessions"):
        await delete(database, keep(settings))
        assert await in_table(database) == [turn_id]

    await delete(database, keep(settings))
    assert (await in_table(database), await count(database, "sessions")) == ([], 0)


# --- into the archive


async def test_a_queue_with_an_archive_moves_its_turns_there(database: Database, settings: Settings) -> None:
    ids = [await end_turn(database, settings) for _ in range(2)]
    await age(database)

    [deleted] = await delete(database, keep(settings, archive_days=30))

    assert (deleted.turns, deleted.archived, deleted.sessions) == (2, True, 0)
    assert (await in_table(database), await in_archive(database)) == ([], sorted(ids))
    [row] = await database.fetch("SELECT queue, messages FROM archived_turns WHERE id = %(id)s", {"id": ids[0]})
    assert (row["queue"], [one["role"] for one in row["messages"]]) == (settings.queue, ["user", "assistant"])


# --- at the same moment as others


async def test_relays_at_once_delete_each_turn_once(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delete_turns, "BATCH", 3)
    for number in range(20):
        await end_turn(database, settings, f"s{number % 7}")
    await age(database)
    relays = [TurnRetention(database, [keep(settings)]) for _ in range(3)]
    deleted: list[Deleted | None] = []

    while await in_table(database):
        await database.fetch("UPDATE retention SET due_at = clock_timestamp() RETURNING 1", {})
        deleted += await asyncio.gather(*(relay.delete_some() for relay in relays))

    assert sum(one.turns for one in deleted if one) == 20
    assert await count(database, "sessions") == 0


async def test_between_two_statements_of_a_queue_all_relays_pause(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)
    await age(database)
    first, second = (TurnRetention(database, [keep(settings)]) for _ in range(2))

    assert await first.delete_some() is not None
    assert await second.delete_some() is None


async def test_a_turn_that_is_redriven_meanwhile_is_in_the_table_or_deleted_and_never_half(
    database: Database, settings: Settings
) -> None:
    ids = [await end_turn(database, settings, f"s{number % 5}", TurnStatus.FAILED) for number in range(15)]
    await age(database)

    deleting = asyncio.create_task(delete(database, keep(settings)))
    revived = await asyncio.gather(*(redrive(database, one) for one in ids))
    await deleting

    left = await database.fetch("SELECT id, generation FROM turns", {})
    assert sum(revived) >= len(left)
    assert {row["generation"] for row in left} <= {2}
    assert await orphans(database) == []


async def orphans(database: Database) -> list[UUID]:
    """Turns without a session, and sessions without a turn."""
    rows = await database.fetch(
        """SELECT t.id FROM turns t LEFT JOIN sessions s USING (tenant_id, session_id) WHERE s.session_id IS NULL
           UNION ALL
           SELECT NULL FROM sessions s LEFT JOIN turns t USING (tenant_id, session_id) WHERE t.id IS NULL""",
        {},
    )
    return [row["id"] for row in rows]


async def test_a_turn_that_somebody_has_locked_is_stepped_over(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_statement, "BOUNDS", bounded_statement.BOUNDS.replace("1s", "50ms"))
    ids = []
    for session in ("a", "b", "c"):
        ids.append(await end_turn(database, settings, session))
        await age(database, 91)
    locked = {"id": ids[1]}
    with psycopg.connect(settings.database_url) as other:
        other.execute("SELECT 1 FROM turns WHERE id = %(id)s FOR UPDATE", locked)
        await delete(database, keep(settings))

    assert await in_table(database) == [ids[1]]


# --- what it reads


def test_the_oldest_turns_of_a_queue_are_found_by_its_index(settings: Settings) -> None:
    with psycopg.connect(conninfo(settings.database, "test", pinned=True), autocommit=True) as connection:
        text = explain(connection, DELETE_ENDED)

    assert "Index Scan using turns_finished_at on turns t" in text
    assert "Seq Scan on turns" not in text, text
