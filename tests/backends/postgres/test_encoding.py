"""A database that can't hold every text: its connections are refused, and the error says what to do."""

import pytest
import structlog.testing

from tests.support.databases import database_in
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.errors import DatabaseUnavailableError


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_a_database_of_another_encoding_is_refused_by_name(stack: Stack, encoding: str) -> None:
    with database_in(stack, encoding) as url:
        async with Database(DatabasePlace(url), "test", size=1, wait_seconds=1.0) as database:
            with (
                structlog.testing.capture_logs() as lines,
                pytest.raises(DatabaseUnavailableError, match=f"has the encoding {encoding}, and turns need UTF8"),
            ):
                await database.ping()

    assert [line["log_level"] for line in lines if line["event"] == "database.refused"] == ["error"]
