"""A database that another program uses, which also keeps revisions with alembic."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from tests.ops.commands.conftest import Turnstile
from tests.support.stacks.stack import Stack
from turnstile.ops.terminal.exit_codes import ExitCode

TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"


@pytest.fixture
def url(stack: Stack) -> Iterator[str]:
    """A database without a table of ours."""
    name = f"shared_{uuid4().hex}"
    yield stack.postgres.create_database(name)
    stack.postgres.drop_database(name)


@pytest.mark.parametrize("revisions", [["0001"], ["ae1027a6acf"], ["0001", "0002"]])
async def test_the_revision_of_another_program_is_neither_read_nor_changed(
    turnstile: Turnstile, url: str, revisions: list[str]
) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        for revision in revisions:
            other.execute("INSERT INTO alembic_version VALUES (%s)", [revision])

        ran = await turnstile("migrate", DATABASE_URL=url)
        listed = await turnstile("list", "--json", DATABASE_URL=url)
        found = await turnstile("doctor", "--json", DATABASE_URL=url)
        kept = [row[0] for row in other.execute("SELECT version_num FROM alembic_version ORDER BY 1")]

    assert (ran.code, ran.err) == (0, "the tables went from nothing to 0001\n")
    assert (listed.code, kept) == (0, revisions)
    assert "schema-revision" not in found.out


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE messages (id int)",
        "CREATE TABLE sessions (id int)",
        "CREATE SEQUENCE fence_seq",
        "CREATE FUNCTION turns_owe_webhook() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    ],
)
async def test_a_name_that_another_program_has_taken_is_refused_in_one_line(
    turnstile: Turnstile, url: str, theirs: str
) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(theirs)  # type: ignore[call-overload]
        before = other.execute(TABLES).fetchall()

        ran = await turnstile("migrate", DATABASE_URL=url)

        assert (ran.code, ran.out) == (ExitCode.USAGE, "")
        assert len(ran.err.splitlines()) == 1
        assert "already exists" in ran.err
        assert (
            "of another program: let DATABASE_URL name a database that is Turnstile's own; nothing was changed"
            in ran.err
        )
        assert other.execute(TABLES).fetchall() == before
