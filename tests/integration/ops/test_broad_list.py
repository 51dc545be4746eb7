"""`turnstile list` with a filter that no index serves, in a large table."""

from typing import Any

import pytest
from sqlalchemy import literal_column

from tests.factories import make_submission
from tests.integration.ops.conftest import Turnstile
from turns.database import Database
from turns.reading import UNREAD
from turns.settings import Settings
from turns.submission import submit

pytestmark = pytest.mark.stack


async def test_a_list_that_takes_too_long_says_how_to_narrow_it(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow: Any = literal_column("pg_sleep(60)::text").label("output")
    monkeypatch.setattr("turns.reading.UNREAD", (slow, UNREAD[1]))
    monkeypatch.setattr("turns.database.STATEMENT_TIMEOUT_SECONDS", 1)
    await submit(database, [make_submission(settings.queue, "a")], net_seconds=60)

    ran = await turnstile("list", "--status", "pending")

    assert (ran.code, len(ran.err.splitlines())) == (1, 1), ran.err
    assert "--session" in ran.err
