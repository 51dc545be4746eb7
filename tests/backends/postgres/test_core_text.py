"""Statements of SQLAlchemy Core as text for `Database`."""

import pytest
from sqlalchemy import bindparam, select

from turnstile.backends.postgres.core_text import LIMIT, TURNS, ago, constant, given, text_of
from turnstile.backends.postgres.database import Database


def written(statement: str) -> str:
    return " ".join(statement.split())


def test_a_statement_names_no_schema_and_casts_no_parameter() -> None:
    statement = select(TURNS.c.id).where(TURNS.c.queue == bindparam("queue"), TURNS.c.status == constant("FAILED"))

    assert written(text_of(statement.limit(LIMIT))) == (
        "SELECT turns.id FROM turns WHERE turns.queue = %(queue)s AND turns.status = 'FAILED' LIMIT %(limit)s"
    )


@pytest.mark.parametrize("statement", [select(TURNS).where(TURNS.c.queue == "q"), select(TURNS).limit(1)])
def test_a_statement_with_a_value_of_its_own_is_refused(statement: object) -> None:
    """Its text is cached, and would be used with other values."""
    with pytest.raises(ValueError, match="values of its own"):
        text_of(statement)  # type: ignore[arg-type]


async def test_the_database_runs_it_with_its_parameters(database: Database) -> None:
    statement = select(TURNS.c.id).where(TURNS.c.queue == bindparam("queue"), TURNS.c.created_at < ago("seconds"))

    assert await database.fetch(text_of(statement.limit(LIMIT)), {"queue": "q", "seconds": 0.5, "limit": 1}) == []


def test_an_option_is_given_unless_it_says_nothing() -> None:
    options = {"queue": None, "dropped": False, "turn_ids": (), "seconds": 0.0, "tenant_id": "", "halting": True}

    assert given(options) == {"seconds", "tenant_id", "halting"}
