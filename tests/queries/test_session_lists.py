"""Lists of sessions: each session once, in the order of their newest turns."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.statements.calls import ALL, FAILURE
from tests.support.claims import claimed, settle_one, submit_turns
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.session_lists import ListedSession, list_sessions
from turnstile.statements.place_scheduled import PLACE_SCHEDULED
from turnstile.statements.revive import revive
from turnstile.statements.submit import submit
from turnstile.turn.identifiers import start_trace


async def listed(database: Database, tenant_id: str = "t") -> list[ListedSession]:
    found, following = await list_sessions(database, tenant_id, limit=100)
    assert following is None
    return found


async def names(database: Database) -> list[str]:
    return [one.session_id for one in await listed(database)]


async def schedule(database: Database, settings: Settings, session_id: str) -> UUID:
    later = datetime.now(UTC) + timedelta(days=1)
    submission = make_submission(settings.queue, session_id, execute_at=later)
    await submit(database, [submission], resend_seconds=60.0)
    return submission.turn_id


async def place_all(database: Database, settings: Settings) -> None:
    """The time of the scheduled turns comes."""
    await database.fetch("UPDATE turns SET execute_at = now(), send_at = now() WHERE seq IS NULL", {})
    assert await database.fetch(PLACE_SCHEDULED, {**ALL, "queues": [settings.queue], "limit": 10})


async def test_sessions_are_listed_once_by_their_newest_turn_page_by_page(
    database: Database, settings: Settings
) -> None:
    for session in ("a", "b", "c", "a", "d", "b"):
        await submit_turns(database, settings, "x", session_id=session)

    first, place = await list_sessions(database, "t", limit=2)
    rest, end = await list_sessions(database, "t", limit=2, before=place)

    assert [one.session_id for one in first] == ["b", "d"]
    assert [one.session_id for one in rest] == ["a", "c"]
    assert end is None


async def test_a_session_has_the_time_and_the_id_of_its_newest_turn(database: Database, settings: Settings) -> None:
    *_, newest = await submit_turns(database, settings, "one", "two")
    [row] = await database.fetch("SELECT created_at FROM turns WHERE id = %(id)s", {"id": newest})
    [session] = await database.fetch("SELECT created_at FROM sessions", {})

    [found] = await listed(database)

    assert (found.last_turn_id, found.last_turn_at) == (newest, row["created_at"])
    assert (found.created_at, found.halted_by) == (session["created_at"], None)


async def test_a_session_has_open_turns_until_all_have_ended(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "x")
    assert [one.has_open_turns for one in await listed(database)] == [True]

    await settle_one(database, settings, await claimed(database, settings))
    assert [one.has_open_turns for one in await listed(database)] == [False]

    await schedule(database, settings, "s")
    assert [one.has_open_turns for one in await listed(database)] == [True]


async def test_a_redriven_turn_does_not_move_its_session_down(database: Database, settings: Settings) -> None:
    [failed] = await submit_turns(database, settings, "x")
    await settle_one(database, settings, await claimed(database, settings), FAILURE)
    await submit_turns(database, settings, "x", session_id="other")
    [newest] = await submit_turns(database, settings, "again")

    await revive(database, [(failed, 1)], [start_trace(1 << 64)], expires_in_seconds=[900], resend_seconds=60.0)

    assert await names(database) == ["s", "other"]
    assert (await listed(database))[0].last_turn_id == newest


async def test_a_session_keeps_its_place_when_its_only_turn_is_redriven(database: Database, settings: Settings) -> None:
    [failed] = await submit_turns(database, settings, "x")
    await settle_one(database, settings, await claimed(database, settings), FAILURE)
    await submit_turns(database, settings, "x", session_id="other")

    await revive(database, [(failed, 1)], [start_trace(1 << 64)], expires_in_seconds=[900], resend_seconds=60.0)

    assert await names(database) == ["other", "s"]


async def test_a_scheduled_turn_that_is_placed_does_not_move_its_session_down(
    database: Database, settings: Settings
) -> None:
    await schedule(database, settings, "s")
    await submit_turns(database, settings, "x", session_id="other")
    await submit_turns(database, settings, "x")

    await place_all(database, settings)

    assert await names(database) == ["s", "other"]


async def test_a_session_is_listed_once_a_turn_of_it_is_in_line(database: Database, settings: Settings) -> None:
    scheduled = [await schedule(database, settings, "s") for _ in range(2)]
    assert await names(database) == []

    await place_all(database, settings)

    [found] = await listed(database)
    assert found.last_turn_id in scheduled


async def test_a_session_that_a_child_has_to_itself_is_left_out(database: Database, settings: Settings) -> None:
    [parent] = await submit_turns(database, settings, "x")
    [child] = await submit_turns(database, settings, "x", session_id="named")
    values = {"parent": parent, "child": child, "session": f"child:{child}"}
    await database.fetch("UPDATE turns SET parent_turn_id = %(parent)s WHERE id = %(child)s", values)
    assert await names(database) == ["named", "s"]

    await database.fetch("UPDATE turns SET session_id = %(session)s WHERE id = %(child)s", values)
    await database.fetch("UPDATE sessions SET session_id = %(session)s WHERE session_id = 'named'", values)
    assert await names(database) == ["s"]


async def test_sessions_of_another_tenant_are_not_listed(database: Database, settings: Settings) -> None:
    await submit(database, [make_submission(settings.queue, tenant_id="stranger")], resend_seconds=60.0)

    assert await listed(database) == []
    assert [one.session_id for one in await listed(database, "stranger")] == ["s"]
