"""What the archive takes, what it leaves and why, and that a turn is always in exactly one place."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import DictRow

from tests.archive.archiving import DAY_SECONDS, age, archive, claim_head, end_turn, in_archive, in_table, settle_as
from tests.support.factories import make_submission
from tests.support.probes import until
from turnstile.archive import move as archiving
from turnstile.archive.move import (
    BEGINNING,
    ArchiveFilter,
    BrokenOffError,
    Kept,
    Page,
    SessionAtRest,
    move,
    read_cutoff,
    read_page,
)
from turnstile.archive.partitions import MonthDetachedError, make_months, name_month
from turnstile.archive.reads import TurnKey
from turnstile.backends.postgres.database import (
    LOCK_TIMEOUT_SECONDS,
    Database,
    Parameters,
    conninfo,
    number_placeholders,
)
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.ops.commands import archive_run
from turnstile.ops.commands.archive_run import Archive
from turnstile.queries.attempts import read_attempts
from turnstile.queries.history import read_history, read_version
from turnstile.queries.operator_turns import read_said, read_turn_of_any
from turnstile.queries.trace_tree import find_trace, read_trace
from turnstile.queries.turns import read_standings, read_turn, read_turns
from turnstile.statements.cancel import CanceledTurn, cancel_ahead
from turnstile.statements.redrive import revive
from turnstile.statements.submit import Accepted, ParentClaim, submit
from turnstile.statements.webhooks import Choice, DueWebhook, note_delivered, take
from turnstile.turn.cancel_reason import CancelReason
from turnstile.turn.claimed_turn import ClaimedTurn
from turnstile.turn.identifiers import TraceContext, start_trace
from turnstile.turn.status import TurnStatus


def take_all(due: Sequence[DueWebhook]) -> Choice:
    return Choice(list(due), [])


# --- what goes


@pytest.mark.parametrize("status", [TurnStatus.SUCCEEDED, TurnStatus.CANCELED])
async def test_an_old_ended_turn_goes(database: Database, settings: Settings, status: TurnStatus) -> None:
    turn_id = await end_turn(database, settings, status=status)
    await age(database)

    result = await archive(database)

    assert (result.sessions, result.turns, dict(result.kept)) == (1, 1, {})
    assert (await in_table(database), await in_archive(database)) == ([], [turn_id])


async def test_all_that_belonged_to_it_goes_with_it(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings, content="hi", metadata={"none": None, "b": 1e308})
    await database.fetch(
        "INSERT INTO turn_values (turn_id, key, value, fence) VALUES (%(id)s, 'charge', '17', 1)", {"id": turn_id}
    )
    [before] = await database.fetch("SELECT to_json(t) AS turn FROM turns t", {})
    await age(database)

    await archive(database)

    for table in ("turns", "messages", "turn_attempts", "turn_values", "webhooks"):
        assert await database.fetch(f"SELECT 1 FROM {table}", {}) == [], table
    [row] = await database.fetch("SELECT * FROM archived_turns", {})
    aged = {"created_at", "started_at", "finished_at"}
    assert row["turn"] == {
        **{name: value for name, value in before["turn"].items() if value is not None and name not in aged},
        **{name: row["turn"][name] for name in aged},
    }
    assert [(said["role"], said["content"]) for said in row["messages"]] == [("user", "hi"), ("assistant", "re hi")]
    assert [attempt["outcome"] for attempt in row["attempts"]] == ["succeeded"]
    assert [(one["key"], one["value"]) for one in row["recorded_values"]] == [("charge", 17)]


async def test_a_turn_stands_in_the_month_in_which_it_ended(database: Database, settings: Settings) -> None:
    await end_turn(database, settings, "a")
    await end_turn(database, settings, "b")
    ends = {"a": "2026-01-31 23:59:59.999999+00", "b": "2026-02-01 00:00:00+00"}
    await age(database, days=400)
    for session_id, end in ends.items():
        await database.fetch(
            "UPDATE turns SET finished_at = %(end)s::timestamptz WHERE session_id = %(session)s",
            {"end": end, "session": session_id},
        )

    await archive(database)

    rows = await database.fetch(
        "SELECT session_id, tableoid::regclass::text AS month FROM archived_turns ORDER BY session_id", {}
    )
    assert [(row["session_id"], row["month"]) for row in rows] == [
        ("a", "archived_turns_2026_01"),
        ("b", "archived_turns_2026_02"),
    ]


async def test_a_turn_that_was_cancelled_before_its_submit_goes_too(database: Database, settings: Settings) -> None:
    submission = make_submission(settings.queue, chosen=True, key="turn:x")
    await cancel_ahead(database, "t", submission.turn_id, CancelReason.USER)
    await submit(database, [submission], net_seconds=60)
    await age(database)

    await archive(database)

    assert (await in_table(database), await in_archive(database)) == ([], [submission.turn_id])


async def test_every_tenant_is_visited(database: Database, settings: Settings) -> None:
    for tenant_id in ("a", "b", "c"):
        await end_turn(database, settings, tenant_id=tenant_id)
    await age(database)

    assert (await archive(database)).turns == 3


async def test_of_one_tenant_only(database: Database, settings: Settings) -> None:
    kept, gone = [await end_turn(database, settings, tenant_id=tenant_id) for tenant_id in ("a", "b")]
    await age(database)
    cutoff = await read_cutoff(database, 90 * DAY_SECONDS)

    await Archive(database, ArchiveFilter(cutoff=cutoff), tenant_id="b").run(batch=500)

    assert (await in_table(database), await in_archive(database)) == ([kept], [gone])


async def test_the_walk_comes_past_more_turns_than_a_page_has(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_run, "PAGE", 3)
    ids = [await end_turn(database, settings, f"s{number % 4}") for number in range(10)]
    await age(database)

    result = await archive(database, batch=2)

    assert (result.sessions, result.turns) == (4, 10)
    assert await in_archive(database) == sorted(ids)


# --- what stays, and why


async def stays(database: Database, why: Kept, **wanted: Any) -> bool:
    """Whether all stays, for this reason and no other; also where the move is asked outright."""
    before = await in_table(database)
    result = await archive(database, **wanted)
    cutoff = await read_cutoff(database, 90 * DAY_SECONDS)
    sessions = await database.fetch("SELECT tenant_id, session_id FROM sessions", {})
    asked = [SessionAtRest(**session, turns=1, months=(datetime.now(UTC),)) for session in sessions]
    moved = await move(database, ArchiveFilter(cutoff=cutoff, **wanted), asked)
    assert moved.turns == 0
    assert dict(result.kept) == {why: 1}
    return await in_table(database) == before and await in_archive(database) == []


async def test_what_ended_after_the_cut_off_stays(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)
    await age(database, days=91)
    await database.fetch("UPDATE turns SET finished_at = now() - interval '89 days'", {})

    assert await stays(database, Kept.IN_USE)


async def test_a_session_that_is_still_spoken_in_keeps_all_its_turns(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)
    await age(database)
    await end_turn(database, settings)

    assert await stays(database, Kept.IN_USE)
    assert len(await read_history(database, "t", "s", limit=10)) == 4


async def test_a_session_that_was_only_just_spoken_in_again_stays(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)
    await age(database)
    await submit(database, [make_submission(settings.queue)], net_seconds=60)

    assert await stays(database, Kept.IN_USE)


async def test_a_session_that_something_came_into_stays_also_if_it_left_no_turn(
    database: Database, settings: Settings
) -> None:
    """The row says that somebody was there, whatever the statement's snapshot has of what he did."""
    await end_turn(database, settings)
    await age(database)
    await database.fetch("UPDATE sessions SET updated_at = clock_timestamp()", {})

    assert await stays(database, Kept.IN_USE)


async def test_a_waiting_turn_keeps_its_session(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)
    await submit(database, [make_submission(settings.queue)], net_seconds=60)
    await age(database)

    assert await stays(database, Kept.OPEN)


async def test_a_running_turn_keeps_its_session(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)
    await submit(database, [make_submission(settings.queue)], net_seconds=60)
    await claim_head(database, settings, "s")
    await age(database)

    assert await stays(database, Kept.OPEN)


async def test_a_turn_scheduled_for_next_year_keeps_its_session(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)
    later = datetime.now(UTC) + timedelta(days=365)
    await submit(database, [make_submission(settings.queue, execute_at=later)], net_seconds=60)
    await age(database)

    assert await stays(database, Kept.OPEN)


async def test_a_halted_session_stays(database: Database, settings: Settings) -> None:
    await end_turn(database, settings, status=TurnStatus.FAILED, halt=True)
    await age(database)

    assert await stays(database, Kept.HALTED, failed=True)


async def test_a_failed_turn_stays_because_it_may_be_redriven(database: Database, settings: Settings) -> None:
    await end_turn(database, settings, status=TurnStatus.FAILED)
    await age(database)

    assert await stays(database, Kept.FAILED)


async def test_a_failed_turn_goes_where_that_was_said(database: Database, settings: Settings) -> None:
    failed = await end_turn(database, settings, status=TurnStatus.FAILED)
    await age(database)

    await archive(database, failed=True)

    assert await in_archive(database) == [failed]


async def test_a_turn_whose_dead_letter_is_owed_stays(database: Database, settings: Settings) -> None:
    await end_turn(database, settings, status=TurnStatus.FAILED)
    await database.fetch("UPDATE turns SET send_at = now()", {})
    await age(database)

    assert await stays(database, Kept.DEAD_LETTER, failed=True)


async def test_a_turn_stays_while_its_dead_letter_may_be_on_the_queue(database: Database, settings: Settings) -> None:
    await end_turn(database, settings, status=TurnStatus.FAILED)
    await age(database)
    await database.fetch("UPDATE turns SET dead_lettered_at = now() - interval '14 days'", {})

    assert await stays(database, Kept.DEAD_LETTER, failed=True)


async def test_a_turn_goes_when_its_dead_letter_can_be_on_the_queue_no_more(
    database: Database, settings: Settings
) -> None:
    failed = await end_turn(database, settings, status=TurnStatus.FAILED)
    await age(database)
    await database.fetch("UPDATE turns SET dead_lettered_at = now() - interval '16 days'", {})

    await archive(database, failed=True)

    assert await in_archive(database) == [failed]


async def test_an_answered_turn_stays_while_the_letter_of_an_earlier_life_may_be_on_the_queue(
    database: Database, settings: Settings
) -> None:
    failed = await end_turn(database, settings, status=TurnStatus.FAILED)
    await redrive(database, failed)
    await settle_as(database, settings, await claim_head(database, settings, "s"), TurnStatus.SUCCEEDED)
    await age(database, days=10)

    assert dict((await archive(database, days=5)).kept) == {Kept.DEAD_LETTER: 1}


async def test_a_turn_stays_until_its_webhook_is_delivered(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings, webhook_url="https://client.example/hook")
    await age(database)

    assert await stays(database, Kept.WEBHOOK)

    [owed] = (await take(database, take_all, look_at=10, stamp_seconds=60)).webhooks
    await note_delivered(database, owed)
    await archive(database)
    assert await in_archive(database) == [turn_id]
    [row] = await database.fetch("SELECT webhooks FROM archived_turns", {})
    assert row["webhooks"][0]["delivered_at"] is not None


async def start_child(
    database: Database, settings: Settings, status: TurnStatus = TurnStatus.SUCCEEDED
) -> tuple[ClaimedTurn, UUID]:
    """A RUNNING parent in the session `parent`, and its ended child in a session of its own."""
    parent = make_submission(settings.queue, "parent")
    await submit(database, [parent], net_seconds=60)
    running = await claim_head(database, settings, "parent")
    trace = TraceContext(parent.trace.trace_id, "c" * 16, running.span_id)
    child = replace(
        make_submission(settings.queue, "child"), parent=ParentClaim(running.id, running.fence, "dig"), trace=trace
    )
    await submit(database, [child], net_seconds=60)
    await settle_as(database, settings, await claim_head(database, settings, "child"), status)
    return running, child.turn_id


async def test_a_child_stays_while_its_parent_is_open(database: Database, settings: Settings) -> None:
    await start_child(database, settings)
    await age(database)

    result = await archive(database)

    assert dict(result.kept) == {Kept.OPEN: 1, Kept.PARENT: 1}
    assert await in_archive(database) == []


async def test_a_child_stays_while_its_parent_may_be_redriven(database: Database, settings: Settings) -> None:
    parent, _ = await start_child(database, settings)
    await settle_as(database, settings, parent, TurnStatus.FAILED)
    await age(database)

    result = await archive(database)

    assert dict(result.kept) == {Kept.FAILED: 1, Kept.PARENT: 1}
    assert await in_archive(database) == []


async def test_a_child_goes_when_its_parent_is_answered(database: Database, settings: Settings) -> None:
    parent, child = await start_child(database, settings)
    await age(database)
    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)

    await archive(database)

    assert (await in_table(database), await in_archive(database)) == ([parent.id], [child])


async def test_a_turn_of_another_queue_keeps_its_session(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)
    await age(database)

    assert await stays(database, Kept.OTHER_QUEUE, queue="another")


async def test_one_turn_that_must_stay_keeps_all_of_its_session(database: Database, settings: Settings) -> None:
    for status in (TurnStatus.SUCCEEDED, TurnStatus.FAILED, TurnStatus.SUCCEEDED):
        await end_turn(database, settings, status=status)
    await age(database)

    assert await stays(database, Kept.FAILED)


async def test_a_session_is_never_moved_in_two_halves(database: Database, settings: Settings) -> None:
    """Somebody holds one of its turns at the moment: the others wait for it."""
    ids = [await end_turn(database, settings) for _ in range(3)]
    await age(database)
    with psycopg.connect(settings.database_url) as other:
        other.execute("SELECT 1 FROM turns WHERE id = %s FOR UPDATE", [ids[1]])
        result = await archive(database)

        assert (result.turns, result.busy) == (0, 1)
    await until(lambda: archived(database, 3))


async def archived(database: Database, turns: int) -> bool:
    await archive(database)
    return len(await in_archive(database)) == turns


async def test_a_session_that_somebody_is_writing_to_is_left(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    with psycopg.connect(settings.database_url) as other:
        other.execute("SELECT 1 FROM sessions FOR NO KEY UPDATE")
        result = await archive(database)

        assert (result.turns, result.busy) == (0, 1)
    assert await in_table(database) == [turn_id]


async def test_the_session_and_what_it_remembers_stay(database: Database, settings: Settings) -> None:
    await end_turn(database, settings)
    await age(database)
    await archive(database)

    [session] = await database.fetch("SELECT last_seq FROM sessions", {})
    assert session["last_seq"] == 1


async def sessions_left(database: Database) -> list[str]:
    rows = await database.fetch("SELECT session_id FROM sessions ORDER BY session_id", {})
    return [row["session_id"] for row in rows]


@pytest.mark.parametrize("kind", ["child", "compensation"])
async def test_a_session_that_is_named_after_its_turn_goes_with_it(
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

    assert (await in_table(database), sorted(await in_archive(database))) == ([], sorted([parent.id, child]))
    assert await sessions_left(database) == ["parent"]


async def test_a_clients_session_stays_though_it_is_called_like_a_childs(
    database: Database, settings: Settings
) -> None:
    await end_turn(database, settings, f"child:{uuid4()}")
    await age(database)
    before = await sessions_left(database)

    await archive(database)

    assert await in_table(database) == []
    assert await sessions_left(database) == before


# --- what a session is afterwards


async def test_whoever_speaks_again_goes_on_in_the_numbering_and_before_an_empty_history(
    database: Database, settings: Settings
) -> None:
    await end_turn(database, settings)
    await age(database)
    await archive(database)
    await submit(database, [make_submission(settings.queue)], net_seconds=60)

    turn = await claim_head(database, settings, "s")

    assert turn.seq == 2
    version = await read_version(database, "t", "s")
    assert version is not None
    assert (version.seq, await read_history(database, "t", "s", limit=10)) == (0, [])


# --- what is answered for an archived turn


async def test_a_turn_reads_the_same_before_and_after(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(
        database, settings, content={"deep": [1, None]}, metadata={"a": None}, webhook_url="https://client.example/hook"
    )
    [owed] = (await take(database, take_all, look_at=1, stamp_seconds=60)).webhooks
    await note_delivered(database, owed)
    await age(database)
    before = [
        await read_turn(database, "t", turn_id),
        await read_turns(database, [TurnKey("t", turn_id)]),
        await read_standings(database, [TurnKey("t", turn_id)]),
        await read_turn_of_any(database, turn_id),
        await read_attempts(database, "t", turn_id),
        await read_said(database, "t", turn_id),
    ]
    assert None not in before

    await archive(database)

    assert await in_table(database) == []
    assert before == [
        await read_turn(database, "t", turn_id),
        await read_turns(database, [TurnKey("t", turn_id)]),
        await read_standings(database, [TurnKey("t", turn_id)]),
        await read_turn_of_any(database, turn_id),
        await read_attempts(database, "t", turn_id),
        await read_said(database, "t", turn_id),
    ]


async def test_how_it_stands_is_read_without_what_was_said_in_it(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    await archive(database)
    fetch, rows = database.fetch, list[DictRow]()

    async def overheard(statement: LiteralString, parameters: Parameters) -> list[DictRow]:
        rows.extend(found := await fetch(statement, parameters))
        return found

    monkeypatch.setattr(database, "fetch", overheard)
    [standing] = await read_standings(database, [TurnKey("t", turn_id)])

    assert standing is not None
    assert rows == [asdict(standing)]


async def test_another_tenants_archived_turn_is_no_turn(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    await archive(database)

    assert await read_turn(database, "another", turn_id) is None


async def test_a_trace_is_without_another_tenants_turn_under_an_archived_id(
    database: Database, settings: Settings
) -> None:
    parent, child = await start_child(database, settings)
    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)
    await age(database)
    before = await read_trace(database, parent.trace_id)
    await archive(database)
    again = make_submission(settings.queue, "o", tenant_id="u", turn_id=parent.id)
    await submit(database, [again], net_seconds=60)
    theirs = await claim_head(database, settings, "o", tenant_id="u")
    claim_of_it = ParentClaim(theirs.id, theirs.fence, "dig")
    await submit(database, [make_submission(settings.queue, "dug", tenant_id="u", parent=claim_of_it)], net_seconds=60)

    assert [span.id for span in before] == [parent.id, child]
    assert await read_trace(database, parent.trace_id) == before
    assert await find_trace(database, parent.id) == theirs.trace_id


async def test_another_tenants_open_turn_under_a_parents_id_keeps_no_child(
    database: Database, settings: Settings
) -> None:
    parent, child = await start_child(database, settings)
    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)
    await age(database)
    wanted = ArchiveFilter(cutoff=await read_cutoff(database, 90 * DAY_SECONDS))
    resting = (await read_page(database, wanted, "t", BEGINNING)).resting
    await move(database, wanted, [one for one in resting if one.session_id == "parent"])
    assert await in_table(database) == [child]
    again = make_submission(settings.queue, "o", tenant_id="u", turn_id=parent.id)
    await submit(database, [again], net_seconds=60)

    await archive(database)

    assert await in_table(database) == [parent.id]


async def test_a_cancel_of_an_archived_turn_finds_it_ended(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    await archive(database)

    met = await cancel_ahead(database, "t", turn_id, CancelReason.USER)

    assert met == CanceledTurn(TurnStatus.SUCCEEDED, requested=False, session_id="s")
    assert await database.fetch("SELECT 1 FROM chosen_ids", {}) == []


async def test_a_trace_is_whole_whatever_of_it_is_archived(database: Database, settings: Settings) -> None:
    parent, child = await start_child(database, settings)
    trace_id = parent.trace_id
    await settle_as(database, settings, parent, TurnStatus.SUCCEEDED)
    await age(database)
    before = await read_trace(database, trace_id)
    assert [(span.id, span.depth) for span in before] == [(parent.id, 0), (child, 1)]

    cutoff = await read_cutoff(database, 90 * DAY_SECONDS)
    for session_id in ("child", "parent"):
        [one] = [
            one
            for one in (await read_page(database, ArchiveFilter(cutoff=cutoff), "t", BEGINNING)).resting
            if one.session_id == session_id
        ]
        assert (await move(database, ArchiveFilter(cutoff=cutoff), [one])).turns == 1
        assert await read_trace(database, trace_id) == before
    assert await find_trace(database, child) == trace_id


async def test_a_child_stays_replaced_when_its_successor_has_gone(database: Database, settings: Settings) -> None:
    parent, child = await start_child(database, settings, TurnStatus.FAILED)
    await settle_as(database, settings, parent, TurnStatus.FAILED)
    await redrive(database, parent.id)
    again = await claim_head(database, settings, "parent")
    anew = make_submission(settings.queue, "anew", parent=ParentClaim(again.id, again.fence, "dig"))
    await submit(database, [anew], net_seconds=60)
    await settle_as(database, settings, await claim_head(database, settings, "anew"), TurnStatus.SUCCEEDED)
    await settle_as(database, settings, again, TurnStatus.SUCCEEDED)
    await age(database)
    await archive(database)
    assert await in_table(database) == [child]

    assert await redrive(database, child) == 0


# --- runs


async def redrive(database: Database, turn_id: UUID) -> int:
    """How many turns went back to work."""
    revived = await revive(database, [(turn_id, 1)], [start_trace(1)], expires_in_seconds=[900.0], net_seconds=60)
    return len(revived)


async def test_two_archives_at_once_move_each_turn_once(database: Database, settings: Settings) -> None:
    ids = [await end_turn(database, settings, f"s{number % 20}") for number in range(60)]
    await age(database)

    results = await asyncio.gather(*(archive(database, batch=7) for _ in range(3)))

    assert sum(result.turns for result in results) == 60
    assert await in_archive(database) == sorted(ids)
    assert await in_table(database) == []


async def test_two_archives_at_once_make_a_month_once(database: Database) -> None:
    months = [datetime(2025, month, 1, tzinfo=UTC) for month in (11, 12)]

    await asyncio.gather(*(make_months(database, months) for _ in range(4)))

    rows = await database.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'archived_turns'::regclass ORDER BY 1",
        {},
    )
    assert [row["name"] for row in rows] == ["archived_turns_2025_11", "archived_turns_2025_12"]


async def test_a_redrive_and_an_archive_of_the_same_turn_end_in_one_place(
    database: Database, settings: Settings
) -> None:
    ids = [await end_turn(database, settings, f"s{number}", TurnStatus.FAILED) for number in range(30)]
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


async def test_a_session_that_was_spoken_in_since_it_was_found_is_left(database: Database, settings: Settings) -> None:
    turn_id = await end_turn(database, settings)
    await age(database)
    wanted = ArchiveFilter(cutoff=await read_cutoff(database, 90 * DAY_SECONDS))
    found = await read_page(database, wanted, "t", BEGINNING)
    await submit(database, [make_submission(settings.queue)], net_seconds=60)

    assert (await move(database, wanted, found.resting)).turns == 0
    assert turn_id in await in_table(database)


async def test_a_move_that_meets_a_lock_is_broken_off_and_changes_nothing(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archiving, "BOUNDS", archiving.BOUNDS.replace("1s", "50ms"))
    turn_id = await end_turn(database, settings, webhook_url="https://client.example/hook")
    [owed] = (await take(database, take_all, look_at=1, stamp_seconds=60)).webhooks
    await note_delivered(database, owed)
    await age(database)
    wanted = ArchiveFilter(cutoff=await read_cutoff(database, 90 * DAY_SECONDS))
    found = await read_page(database, wanted, "t", BEGINNING)
    with psycopg.connect(settings.database_url) as other:
        other.execute("SELECT 1 FROM webhooks FOR UPDATE")
        with pytest.raises(BrokenOffError):
            await move(database, wanted, found.resting)

        assert (await archive(database)).broken_off == 1
    assert await in_table(database) == [turn_id]
    assert await database.fetch("SELECT 1 FROM messages", {}) != []


async def test_a_move_whose_month_cannot_be_made_in_time_is_left_and_changes_nothing(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.backends.postgres.database.LOCK_TIMEOUT_SECONDS", 0.05)
    turn_id = await end_turn(database, settings)
    await age(database)
    async with Database(settings.database_url, "test", size=1, pinned=True) as impatient:
        with psycopg.connect(settings.database_url) as other:
            other.execute("LOCK archived_turns IN SHARE UPDATE EXCLUSIVE MODE")
            assert (await archive(impatient)).broken_off == 1
        assert await in_table(database) == [turn_id]

        assert (await archive(impatient)).broken_off == 0
    assert await in_archive(database) == [turn_id]


# --- pages that take too long


@pytest.fixture
def slow_session(monkeypatch: pytest.MonkeyPatch) -> str:
    """To look at a session of this name takes longer than a statement gets."""
    slow = "count(*) + count(CASE WHEN t.session_id = 'slow' THEN pg_sleep(60) END) AS turns"
    assert "count(*) AS turns" in archiving.READ_PAGE
    monkeypatch.setattr(archiving, "READ_PAGE", archiving.READ_PAGE.replace("count(*) AS turns", slow))
    monkeypatch.setattr(archiving, "BOUNDS", archiving.BOUNDS.replace("4s", "1s"))
    monkeypatch.setattr(archive_run, "PAGE", 4)
    return "slow"


async def test_a_session_that_cannot_be_looked_at_in_time_is_left_and_the_others_go(
    database: Database, settings: Settings, slow_session: str
) -> None:
    gone = [await end_turn(database, settings, session) for session in ("a", "b")]
    left = [await end_turn(database, settings, slow_session)]
    gone += [await end_turn(database, settings, session) for session in ("c", "d", "e", "f")]
    left += [await end_turn(database, settings, slow_session)]
    gone += [await end_turn(database, settings, tenant_id="next")]
    await age(database)

    result = await archive(database)

    assert (result.sessions, result.broken_off, result.busy, dict(result.kept)) == (7, 1, 0, {})
    assert (await in_table(database), await in_archive(database)) == (sorted(left), sorted(gone))


async def test_a_survey_comes_past_a_session_that_cannot_be_looked_at_in_time(
    database: Database, settings: Settings, slow_session: str
) -> None:
    for session in (slow_session, "a", "b"):
        await end_turn(database, settings, session)
    await age(database)
    cutoff = await read_cutoff(database, 90 * DAY_SECONDS)

    result = await Archive(database, ArchiveFilter(cutoff=cutoff)).survey()

    assert (result.sessions, result.turns, result.broken_off) == (2, 2, 1)


async def test_pages_are_halved_until_they_are_read_in_time_and_grow_again(
    database: Database, settings: Settings, slow_session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def noted(*given: Any) -> Page:
        asked.append(given[-1])
        return await read_page(*given)

    monkeypatch.setattr(archive_run, "read_page", noted)
    for session in ("a", slow_session, "b", "c", "d", "e", "f", "g", "h", "i"):
        await end_turn(database, settings, session)
    await age(database)

    await archive(database)

    # a; the slow one; b; c and d; e to h; i.
    assert asked == [4, 2, 1, 2, 1, 1, 2, 4, 4]


async def test_a_table_that_cannot_be_read_at_all_ends_the_run(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stepping over every session of it would end no sooner than the patience of whoever waits."""
    monkeypatch.setattr(archiving, "BOUNDS", archiving.BOUNDS.replace("1s", "50ms"))
    await end_turn(database, settings)
    await age(database)
    cutoff = await read_cutoff(database, 90 * DAY_SECONDS)
    with psycopg.connect(settings.database_url) as other:
        other.execute("LOCK turns IN ACCESS EXCLUSIVE MODE")

        with pytest.raises(DatabaseUnavailableError):
            await Archive(database, ArchiveFilter(cutoff=cutoff), tenant_id="t").survey()


async def test_whoever_speaks_in_a_session_that_is_just_going_waits_and_is_not_refused(
    database: Database, settings: Settings
) -> None:
    assert archiving.STATEMENT_TIMEOUT_SECONDS < LOCK_TIMEOUT_SECONDS
    await end_turn(database, settings)
    async with database.connection() as going, going.transaction():
        await going.execute("SELECT 1 FROM sessions FOR NO KEY UPDATE")
        speaking = asyncio.create_task(submit(database, [make_submission(settings.queue)], net_seconds=60))
        await until(lambda: waits_for_a_lock(database))
        assert not speaking.done()

    [accepted] = await speaking
    assert isinstance(accepted, Accepted)


async def waits_for_a_lock(database: Database) -> bool:
    return bool(await database.fetch("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'", {}))


async def test_a_month_that_was_detached_is_not_put_back(database: Database, settings: Settings) -> None:
    await end_turn(database, settings, "first")
    await age(database)
    await archive(database)
    [row] = await database.fetch("SELECT ended_at FROM archived_turns", {})
    name = name_month(row["ended_at"])
    async with database.connection() as connection:
        await connection.execute(f"ALTER TABLE archived_turns DETACH PARTITION {name}")
    await end_turn(database, settings, "second")
    await age(database)

    with pytest.raises(MonthDetachedError):
        await archive(database)
    assert len(await in_table(database)) == 1


@pytest.mark.parametrize("filled", [False, True], ids=["on an empty table", "on a full one"])
async def test_the_walk_reads_by_index_however_many_turns_have_ended(settings: Settings, filled: bool) -> None:
    """A page of old turns costs its own rows, however long it may be; so does one of turns whose sessions are in use."""
    fill = """INSERT INTO turns (id, tenant_id, session_id, seq, queue, status, created_at, finished_at, expires_at, trace_id,
                                 span_id)
              SELECT gen_random_uuid(), 't', 's' || g, 1, 'q', 'SUCCEEDED', now() - g * interval '1 minute', now(), now(),
                     't', 's'
                FROM generate_series(1, 20000) g"""
    with psycopg.connect(conninfo(settings.database_url, "test", pinned=True), autocommit=True) as connection:
        connection.execute("ALTER TABLE turns DISABLE TRIGGER ALL")
        if filled:
            connection.execute(fill)
            connection.execute(
                "INSERT INTO sessions (tenant_id, session_id) SELECT 't', 's' || g FROM generate_series(1, 20000) g"
            )
            connection.execute("ANALYZE turns, sessions")
        connection.execute("SET enable_bitmapscan = off")
        statements: dict[str, LiteralString] = {"page": archiving.READ_PAGE, "next": archiving.NEXT_TURN}
        if filled:
            # It is planned when a page has found something to move.
            statements["move"] = archiving.MOVE
        plans = {
            name: "\n".join(line for (line,) in connection.execute(_explain(statement)).fetchall())
            for name, statement in statements.items()
        }

    for name in ("page", "next"):
        assert re.search(r"Limit\n +-> +Index (Only )?Scan using turns_tenant_created on turns t", plans[name]), plans
    for plan in plans.values():
        assert "Seq Scan" not in plan
        # Small while the plan is made, and all the table's past a year later.
        assert not re.search("turns_(failed|running|open|send_at|joining)", plan)


def _explain(statement: LiteralString) -> LiteralString:
    """As it is pinned: for parameters that nobody knows yet, how long a page may be among them."""
    return f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {number_placeholders(statement)[0]}"
