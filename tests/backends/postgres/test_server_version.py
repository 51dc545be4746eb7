"""Servers of another version than the tests' own: too old, or without a transaction timeout."""

import psycopg
import pytest
import structlog.testing

from tests.support.stated_version import stating
from turnstile.backends.postgres.database import TRANSACTION_TIMEOUT_SECONDS, Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.server_version import has_transaction_timeout
from turnstile.errors import DatabaseUnavailableError

TIMEOUTS = """
SELECT name, setting::int / CASE unit WHEN 'ms' THEN 1000 ELSE 1 END AS seconds FROM pg_settings
 WHERE name IN ('statement_timeout', 'transaction_timeout')
"""


async def test_a_server_that_is_too_old_is_refused_by_its_version(database_url: str) -> None:
    async with (
        stating(database_url, 14) as url,
        Database(DatabasePlace(url), "test", size=1, wait_seconds=1.0) as database,
    ):
        with (
            structlog.testing.capture_logs() as lines,
            pytest.raises(DatabaseUnavailableError, match=r"PostgreSQL 14\.\d+, and Turnstile needs 15 or newer"),
        ):
            await database.ping()

    assert [line["log_level"] for line in lines if line["event"] == "database.refused"] == ["error"]


async def test_the_oldest_version_is_taken(database_url: str) -> None:
    async with stating(database_url, 15) as url, Database(DatabasePlace(url), "test", size=1) as database:
        await database.ping()


@pytest.mark.parametrize("pinned", [True, False])
async def test_a_hot_transaction_is_bounded_where_the_server_can_and_each_of_its_statements_everywhere(
    database_url: str, pinned: bool
) -> None:
    with psycopg.connect(database_url) as connection:
        bounds_transactions = has_transaction_timeout(connection)

    async with Database(DatabasePlace(database_url), "test", size=1, pinned=pinned) as database:
        found = {row["name"]: row["seconds"] for row in await database.fetch(TIMEOUTS, {})}

    hot = TRANSACTION_TIMEOUT_SECONDS
    assert found == {
        "statement_timeout": hot if pinned else 15,
        **({"transaction_timeout": hot if pinned else 0} if bounds_transactions else {}),
    }
