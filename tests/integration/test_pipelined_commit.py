"""Claims are committed before their rows are read: whoever is stopped while it reads keeps no row locked."""

from typing import Any

import psycopg
import pytest

from tests.integration.test_claim import claim_one, submit_turns
from turns.claimed_turn import ClaimedTurn
from turns.database import Database
from turns.settings import Settings


async def test_a_claim_is_committed_and_its_row_unlocked_before_the_answer_is_read(
    database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await submit_turns(database, settings, "one")
    seen: list[object] = []
    fetchall = psycopg.AsyncCursor.fetchall

    with psycopg.connect(settings.database_url, autocommit=True) as other:

        async def look_and_fetch(cursor: psycopg.AsyncCursor[Any]) -> list[Any]:
            seen.append(_status_if_unlocked(other))
            return await fetchall(cursor)

        with monkeypatch.context() as patched:
            patched.setattr(psycopg.AsyncCursor, "fetchall", look_and_fetch)
            turn = await claim_one(database, settings)
        seen.append(_status_if_unlocked(other))

    assert isinstance(turn, ClaimedTurn)
    assert seen == ["RUNNING"] * 3


def _status_if_unlocked(connection: psycopg.Connection[Any]) -> object:
    try:
        [(status,)] = connection.execute("SELECT status FROM turns FOR UPDATE NOWAIT").fetchall()
    except psycopg.errors.LockNotAvailable:
        return "locked"
    return status
