"""`turnstile list` with a filter that no index serves, in a large table."""

from typing import Any

import pytest
from sqlalchemy import literal_column

from tests.ops.commands.conftest import Turnstile
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.queries.turns import COLUMNS
from turnstile.statements.submit import submit


async def test_a_list_that_takes_too_long_says_how_to_narrow_it(
    turnstile: Turnstile, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow: Any = literal_column("pg_sleep(60)::text").label("output")
    monkeypatch.setattr("turnstile.queries.turns.COLUMNS", [*COLUMNS, slow])
    monkeypatch.setattr("turnstile.backends.postgres.database.STATEMENT_TIMEOUT_SECONDS", 1)
    await submit(database, [make_submission(settings.queue, "a")], net_seconds=60)

    ran = await turnstile("list", "--status", "pending")

    assert (ran.code, len(ran.err.splitlines())) == (1, 1), ran.err
    assert "--session" in ran.err
