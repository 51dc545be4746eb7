"""The archive takes old ended turns, and each turn is always in exactly one place."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from uuid import uuid4

import psycopg
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
from tests.statements.plans.touched import explain
from tests.support.factories import make_submission
from tests.support.row_locks import rows_locked, until_a_call_waits
from turnstile.archive import bounded_statement, move
from turnstile.archive.bounded_statement import BOUNDS
from turnstile.archive.move import Archived
from turnstile.backends.postgres.database import LOCK_TIMEOUT_SECONDS, Database, conninfo
from turnstile.config.settings import Settings
from turnstile.queries.session_messages import read_history, read_version
from turnstile.statements.cancel import cancel_ahead
from turnstile.statements.submit import submit
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.status import TurnStatus

HOOK = "https://client.example/hook"


# --- what is archived


@pytest.mark.parametrize("status", [TurnStatus.SUCCEEDED, TurnStatus.CANCELED])
async def test_an_old_ended_turn_is_archived(database: Database, settings: Settings, status: TurnStatus) -> None:
    turn_id = await end_turn(database, settings, status=status)
    await age(database)

    assert await archive(database) == Archived(sessions=1, turns=1)
    assert (await in_table(database), await in_archive(database)) == ([], [turn_id])


async def test_the_rows_of_a_turn_in_other_tables_are_archived_with_it(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings, content="hi", metadata={"none": None, "b": 1e308}, webhook_url=HOOK)
    await database.fetch("UPDATE webhooks SET due_at = NULL", {})
    await database.fetch(
        "INSERT INTO turn_values (turn_id, key, value, fence) VALUES (%(id)s, 'charge', '17', 1)", {"id": turn_id}
    )
    await age(database)
    [before] = await database.fetch("SELECT to_json(t) AS turn FROM turns t", {})

    await archive(database)

    for table in ("turns", "messages", "turn_attempts", "turn_values", "webhooks"):
        assert await database.fetch(f"SELECT 1 FROM {table}", {}) == [], table
    [row] = await database.fetch("SELECT * FROM archived_turns", {})
    assert row["turn"] == {name: value for name, value in before["turn"].items() if value is not None}
    assert [(said["role"], said["content"]) for said in row["messages"]] == [("user", "hi"), ("assistant", "re hi")]
    assert [attempt["outcome"] for attempt in row["attempts"]] == ["succeeded"]
    assert [(one["key"], one["value"]) for one in row["recorded_values"]] == [("charge", 17)]
    assert [webhook["url"] for webhook in row["webhooks"]] == [HOOK]


async def test_a_turn_that_was_cancelled_before_its_submit_is_archived(database: Database, settings: Settings) -> None:
    submission = make_submission(settings.queue, chosen=True, key="turn:x")
    await cancel_ahead(database, "t", submission.turn_id, CancelReason.USER)
    await submit(database, [submission], resend_seconds=60)
    await age(database)

    await archive(database)

    assert (await in_table(database), await in_archive(database)) == ([], [submission.turn_id])


@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_run_visits_every_session_of_every_tenant(
    database: Database, settings: Settings, dry_run: bool
) -> None:
    ids = [await end_turn(database, settings, f"s{n % 3}", tenant_id=f"t{n % 2}") for n in range(10)]
    await age(database)

    assert await archive(database, batch=2, dry_run=dry_run) == Archived(sessions=6, turns=10)
    assert await in_table(database) == (sorted(ids) if dry_run else [])
    assert await in_archive(database) == ([] if dry_run else sorted(ids))


async def test_a_failed_turn_is_archived_on_request(database: Database, settings: Settings) -> None:
    failed = await end_turn(database, settings, status=TurnStatus.FAILED)
    await age(database)
    await database.fetch("UPDATE turns SET dead_lettered_at = now() - interval '16 days'", {})

    await archive(database, failed=True)

    assert await in_archive(database) == [failed]


async def test_a_child_of_an_answered_parent_may_be_archived_before_it(database: Database, settings: Settings) -> None:
    parent, child = await start_child(database, settings)
    await age(database)
    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)

    await archive(database)

    assert (await in_table(database), await in_archive(database)) == ([parent.id], [child])


# --- the session afterwards


async def test_the_next_turn_continues_the_numbering_with_an_empty_history(
    database: Database, settings: Settings
) -> None:
    await end_turn(database, settings)
    await age(database)
    await archive(database)

    await submit(database, [make_submission(settings.queue)], resend_seconds=60)

    assert (await claim_head(database, settings, "s")).seq == 2
    version = await read_version(database, "t", "s")
    assert version is not None
    assert (version.seq, await read_history(database, "t", "s", limit=10)) == (0, [])


async def sessions_left(database: Database) -> list[str]:
    rows = await database.fetch("SELECT session_id FROM sessions ORDER BY session_id", {})
    return [row["session_id"] for row in rows]


@pytest.mark.parametrize("kind", ["child", "compensation"])
async def test_a_session_that_is_named_after_its_turn_is_deleted(
    database: Database, settings: Settings, kind: str
) -> None:
    parent, child = await start_child(database, settings)
    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)
    own = f"{kind}:{child}"
    for statement in ("UPDATE turns SET session_id = %(own)s WHERE session_id = 'child'",
                      "UPDATE sessions SET session_id = %(own)s WHERE session_id = 'child'"):  # fmt: skip
        await database.fetch(statement, {"own": own})
    await age(database)

    await archive(database)

    assert await in_table(database) == []
    assert await sessions_left(database) == ["parent"]


async def test_a_session_of_a_client_stays_also_if_it_is_named_like_that_of_a_child(
    database: Database, settings: Settings
) -> None:
    await end_turn(database, settings, f"child:{uuid4()}")
    await age(database)
    before = await sessions_left(database)

    await archive(database)

    assert await in_table(database) == []
    assert await sessions_left(database) == before


# --- at the same moment as other calls


async def test_two_archives_at_once_move_each_turn_once(database: Database, settings: Settings) -> None:
    ids = [await end_turn(database, settings, f"s{number % 10}") for number in range(30)]
    await age(database)

    runs = await asyncio.gather(*(archive(database, batch=3) for _ in range(3)))

    assert sum(run.turns for run in runs) == 30
    assert (await in_table(database), await in_archive(database)) == ([], sorted(ids))


async def test_after_a_redrive_and_an_archive_of_the_same_turn_it_is_in_one_place(
    database: Database, settings: Settings
) -> None:
    ids = [await end_turn(database, settings, f"s{number}", TurnStatus.FAILED) for number in range(15)]
    await age(database)

    _, *revived = await asyncio.gather(
        archive(database, failed=True, batch=3), *(redrive(database, turn_id) for turn_id in ids)
    )

    table, moved = await in_table(database), await in_archive(database)
    assert sorted(table + moved) == sorted(ids)
    assert sum(revived) == len(table)
    for row in await database.fetch("SELECT status, generation FROM turns", {}):
        assert (row["status"], row["generation"]) == ("PENDING", 2)
    for row in await database.fetch("SELECT turn FROM archived_turns", {}):
        assert (row["turn"]["status"], row["turn"]["generation"]) == ("FAILED", 1)


async def test_a_session_whose_row_is_locked_is_left_to_the_next_run(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    with rows_locked(settings, table="sessions"):
        assert await archive(database) == Archived()
    assert await in_table(database) == [turn_id]


async def test_a_session_that_is_used_after_the_snapshot_of_the_move_stays(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The statement waits for this lock between its snapshot and the lock of the session.
    monkeypatch.setattr(
        move, "MOVE", move.MOVE.replace("count(*) AS turns", "count(*) + count(pg_advisory_xact_lock(7)) AS turns")
    )
    monkeypatch.setattr(bounded_statement, "BOUNDS", "SELECT 1")
    ended = await end_turn(database, settings)
    await age(database)
    submission = make_submission(settings.queue)
    with psycopg.connect(settings.database_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(7)")
        moving = asyncio.create_task(archive(database))
        await until_a_call_waits(database)
        await submit(database, [submission], resend_seconds=60)

    assert await moving == Archived()
    assert sorted(await in_table(database)) == sorted([ended, submission.turn_id])


def test_a_submit_outwaits_the_move_of_its_session() -> None:
    assert bounded_statement.STATEMENT_TIMEOUT_SECONDS < LOCK_TIMEOUT_SECONDS


async def left_alone(database: Database, settings: Settings, run: Callable[[], Awaitable[Archived]]) -> None:
    """Archives three sessions, of which only `slow` stays, with all its rows."""
    ids = {name: await end_turn(database, settings, name) for name in ("a", "slow", "z")}
    await age(database)

    assert await run() == Archived(sessions=2, turns=2, skipped=1)

    left = ids.pop("slow")
    assert (await in_table(database), await in_archive(database)) == ([left], sorted(ids.values()))
    assert len(await database.fetch("SELECT 1 FROM messages", {})) == 2


async def test_a_session_that_takes_too_long_is_skipped_and_the_others_are_archived(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = "count(*) + count(CASE WHEN t.session_id = 'slow' THEN pg_sleep(60) END) AS turns"
    monkeypatch.setattr(move, "MOVE", move.MOVE.replace("count(*) AS turns", slow))
    monkeypatch.setattr(bounded_statement, "BOUNDS", BOUNDS.replace("4s", "700ms"))

    await left_alone(database, settings, lambda: archive(database, batch=2))


async def test_a_session_with_a_locked_turn_is_skipped_and_the_others_are_archived(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_statement, "BOUNDS", BOUNDS.replace("1s", "50ms"))

    async def run() -> Archived:
        with rows_locked(settings, "session_id = 'slow'"):
            return await archive(database, batch=2)

    await left_alone(database, settings, run)


@pytest.mark.parametrize("filled", [False, True], ids=["empty tables", "full tables"])
def test_a_batch_is_read_by_index(settings: Settings, filled: bool) -> None:
    fill = """INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, created_at, finished_at, expires_at, trace_id,
                                 span_id)
              SELECT gen_random_uuid(), 't', 's' || g, 1, 'q', 'SUCCEEDED', now() - g * interval '1 minute', now(), now(),
                     't', 's'
                FROM generate_series(1, 3000) g"""
    with psycopg.connect(conninfo(settings.database, "test", pinned=True), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        if filled:
            connection.execute(fill)
            connection.execute(
                "INSERT INTO sessions (tenant_id, session_id) SELECT 't', 's' || g FROM generate_series(1, 3000) g"
            )
            connection.execute("ANALYZE turns, sessions")
        # As it is pinned: for unknown parameters, the size of the batch among them.
        plans = [explain(connection, statement) for statement in (move.MOVE, move.SURVEY)]

    for plan in plans:
        assert re.search(r"Limit\n +-> +Index (Only )?Scan using sessions_pkey on sessions s", plan), plan
        assert "Seq Scan" not in plan
        # These indexes are small when the plan is made, and have all past turns a year later.
        assert not re.search("turns_(failed|running|open|send_at|joining)", plan), plan
        assert not re.search(r"Hash (Anti |Semi |)Join|Merge (Anti |Semi |)Join|hashed SubPlan", plan), plan
