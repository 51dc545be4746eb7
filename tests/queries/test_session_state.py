"""A session as a page shows it: each turn in one list at most."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.statements.calls import CANCELED, FAILURE, RETRY, SUCCESS
from tests.support.claims import claimed, settle_one, submit_turns
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries import session_state
from turnstile.queries.session_messages import UNBOUNDED
from turnstile.queries.session_state import SessionState, read_session_state
from turnstile.statements.settle import Settlement
from turnstile.statements.submit import submit
from turnstile.turn.status import TurnStatus

REPLY = replace(SUCCESS, reply="reply")


async def read(database: Database, **wanted: Any) -> SessionState:
    given: dict[str, Any] = {
        "limit": 20,
        "max_bytes": UNBOUNDED,
        "with_open": True,
        "ended": [TurnStatus.FAILED, TurnStatus.CANCELED],
    }
    found = await read_session_state(database, "t", "s", **{**given, **wanted})
    assert found is not None
    return found


async def end(database: Database, settings: Settings, settlement: Settlement) -> None:
    await settle_one(database, settings, await claimed(database, settings), settlement)


async def schedule(database: Database, settings: Settings, content: str, days: int) -> None:
    at = datetime.now(UTC) + timedelta(days=days)
    await submit(database, [make_submission(settings.queue, "s", content, execute_at=at)], resend_seconds=60.0)


async def test_each_turn_is_in_the_list_of_its_status(database: Database, settings: Settings) -> None:
    await schedule(database, settings, "in two days", 2)
    await schedule(database, settings, "tomorrow", 1)
    await submit_turns(database, settings, "answered", "failed", "canceled", "running", "waiting")
    for settlement in (REPLY, FAILURE, CANCELED):
        await end(database, settings, settlement)
    await claimed(database, settings)

    found = await read(database)

    assert [message.content for message in found.messages] == ["answered", "reply"]
    assert [(turn.status, turn.inputs) for turn in found.open] == [
        (TurnStatus.RUNNING, ["running"]),
        (TurnStatus.PENDING, ["waiting"]),
        (TurnStatus.PENDING, ["tomorrow"]),
        (TurnStatus.PENDING, ["in two days"]),
    ]
    assert [(turn.status, turn.inputs) for turn in found.ended] == [
        (TurnStatus.FAILED, ["failed"]),
        (TurnStatus.CANCELED, ["canceled"]),
    ]
    assert (found.more_messages, found.more_open) == (False, False)


async def test_what_is_not_asked_for_is_not_read(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "failed", "canceled", "waiting")
    for settlement in (FAILURE, CANCELED):
        await end(database, settings, settlement)

    found = await read(database, with_open=False, ended=[TurnStatus.CANCELED])
    assert ([*found.open], [turn.inputs for turn in found.ended]) == ([], [["canceled"]])

    found = await read(database, ended=[])
    assert ([turn.inputs for turn in found.open], [*found.ended]) == ([["waiting"]], [])


async def test_a_turn_that_waits_for_its_retry_is_open_with_its_error(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "again")
    await end(database, settings, RETRY)

    [turn] = (await read(database)).open

    assert (turn.status, turn.inputs, turn.error_class) == (TurnStatus.PENDING, ["again"], "Boom")


async def test_long_lists_are_cut_where_a_page_needs_them_least(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_state, "MOST_TURNS", 2)
    for number in range(3):
        await submit_turns(database, settings, f"failed {number}")
        await end(database, settings, FAILURE)
    await submit_turns(database, settings, "first", "second", "third")

    found = await read(database)

    assert [turn.inputs for turn in found.open] == [["first"], ["second"]]
    assert found.more_open
    assert [turn.inputs for turn in found.ended] == [["failed 1"], ["failed 2"]]


async def test_large_inputs_make_the_lists_shorter_but_not_empty(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "x" * 100)
    await end(database, settings, FAILURE)
    await submit_turns(database, settings, *["x" * 100] * 5)

    found = await read(database, max_bytes=250)
    assert (len(found.open), found.more_open) == (2, True)

    found = await read(database, max_bytes=1)
    assert (len(found.open), len(found.ended), found.more_open) == (1, 1, True)


async def test_ended_turns_are_looked_for_so_many_turns_back(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_state, "RECENT_TURNS", 2)
    for settlement in (FAILURE, REPLY, FAILURE):
        [turn] = await submit_turns(database, settings, "x")
        await end(database, settings, settlement)

    assert [one.id for one in (await read(database)).ended] == [turn]


async def test_a_session_that_is_halted_says_so_of_each_turn(database: Database, settings: Settings) -> None:
    [failed] = await submit_turns(database, settings, "x")
    await database.fetch("UPDATE sessions SET halted_by = %(id)s", {"id": failed})

    found = await read(database)

    assert (found.halted_by, [turn.halted_by for turn in found.open]) == (failed, [failed])


async def test_there_is_no_such_session_in_another_tenant(database: Database, settings: Settings) -> None:
    await submit_turns(database, settings, "x")

    assert (
        await read_session_state(
            database, "stranger", "s", limit=20, max_bytes=UNBOUNDED, with_open=True, ended=[TurnStatus.FAILED]
        )
        is None
    )
