"""A database that another application uses: with alembic, with tables of our names, with a search path of its own."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from psycopg.sql import SQL, Identifier, Literal
from sqlalchemy import MetaData, create_engine

from tests.conftest import ROOT
from tests.e2e.database_dumps import dump, restore
from tests.ops.conftest import Turnstile
from tests.ops.neighbour import TABLES, Neighbour
from tests.support.claims import claimed, settle_one
from tests.support.factories import make_submission
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.ops.terminal.exit_codes import ExitCode
from turnstile.statements.advance_fences import ADVANCE
from turnstile.statements.submit import submit

OURS = (
    "SELECT relname FROM pg_class WHERE relnamespace = 'turnstile'::regnamespace AND relkind IN ('r', 'S') ORDER BY 1"
)
DOWN = ("migrate", "--down", "--revision", "base", "--yes")


@pytest.fixture
def url(stack: Stack) -> Iterator[str]:
    """A database without a table of ours."""
    name = f"shared_{uuid4().hex}"
    yield stack.postgres.create_database(name)
    stack.postgres.drop_database(name)


@pytest.fixture
def role_url(stack: Stack, url: str) -> Iterator[str]:
    """The same for a role that may make schemas, and has no schema of its name."""
    role = Identifier(f"migrator_{uuid4().hex[:12]}")
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute(SQL("CREATE ROLE {} LOGIN PASSWORD 'x'").format(role))
        superuser.execute(SQL("GRANT CREATE ON DATABASE {} TO {}").format(Identifier(superuser.info.dbname), role))
        yield psycopg.conninfo.make_conninfo(url, user=role.as_string()[1:-1], password="x")
        superuser.execute(SQL("DROP OWNED BY {0} CASCADE; DROP ROLE {0}").format(role))


async def answer_a_turn(settings: Settings, place: DatabasePlace) -> None:
    """As API, relay and worker do, in statements that write to most of the tables."""
    async with Database(place, "test", size=1, pinned=True, first=ADVANCE) as database:
        wanted = make_submission(settings.queue, "s", "hello", webhook_url="https://example.com")
        await submit(database, [wanted], resend_seconds=60.0)
        await settle_one(database, settings, await claimed(database, settings))
        [row] = await database.fetch("SELECT t.status, w.url FROM turns t JOIN webhooks w ON w.turn_id = t.id", {})
    assert row == {"status": "SUCCEEDED", "url": "https://example.com"}


@pytest.mark.parametrize("revision", ["0001", "ae1027a6acf"])
@pytest.mark.parametrize("they_come", ["before", "after"])
async def test_an_application_with_alembic_and_tables_of_our_names_is_left_alone(
    turnstile: Turnstile, settings: Settings, url: str, tmp_path: Path, revision: str, they_come: str
) -> None:
    neighbour = Neighbour(url, tmp_path, revision)
    if they_come == "before":
        neighbour.migrate()
    up = await turnstile("migrate", DATABASE_URL=url)
    if they_come == "after":
        neighbour.migrate()
    whole = neighbour.look()

    await answer_a_turn(settings, DatabasePlace(url))
    listed = await turnstile("list", "--json", DATABASE_URL=url)
    found = await turnstile("doctor", "--json", DATABASE_URL=url)
    again = neighbour.look()
    down = await turnstile(*DOWN, DATABASE_URL=url)

    assert (up.code, up.err.splitlines()[0]) == (0, "the tables went from nothing to 0001")
    assert (listed.code, down.code) == (0, 0), down.err
    assert "schema-revision" not in found.out
    assert set(whole) == {*TABLES, "alembic_version", "fence_seq"}
    assert whole["alembic_version"] == [(revision,)]
    assert again == neighbour.look() == whole


async def test_an_alembic_that_compares_all_schemas_leaves_ours_out_as_the_page_says(
    turnstile: Turnstile, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/running.md").read_text()
    [code] = re.findall(r"^(def include_name.*?)^\n*context", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "env_of_the_page.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    include_name = importlib.import_module("env_of_the_page").include_name
    await turnstile("migrate", DATABASE_URL=url)
    engine = create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(url, options="-c search_path=public")
    )

    def tables(**more: object) -> int:
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"include_schemas": True, **more})
            return len(compare_metadata(context, MetaData()))

    assert tables() > 0
    assert tables(include_name=include_name) == 0
    engine.dispose()


@pytest.mark.parametrize("of", ["ROLE", "DATABASE"])
@pytest.mark.parametrize("path", ["public", "", "elsewhere, public"])
async def test_a_search_path_of_the_role_or_the_database_does_not_matter(
    turnstile: Turnstile, settings: Settings, role_url: str, url: str, tmp_path: Path, of: str, path: str
) -> None:
    neighbour = Neighbour(url, tmp_path, "0001")
    neighbour.migrate()
    whole = neighbour.look()
    given = psycopg.conninfo.conninfo_to_dict(role_url)
    name = str(given["user" if of == "ROLE" else "dbname"])
    with psycopg.connect(url, autocommit=True) as superuser:
        change = SQL("ALTER {} {} SET search_path = {}")
        superuser.execute(change.format(SQL(of), Identifier(name), Literal(path)))  # type: ignore[arg-type]

    up = await turnstile("migrate", DATABASE_URL=role_url)
    await answer_a_turn(settings, DatabasePlace(role_url))
    found = await turnstile("doctor", "--no-dlq", "--json", DATABASE_URL=role_url)
    down = await turnstile(*DOWN, DATABASE_URL=role_url)

    assert (up.code, down.code) == (0, 0), (up.err, down.err)
    assert found.code in {ExitCode.OK, ExitCode.FINDINGS}, found.err
    assert neighbour.look() == whole


async def test_another_schema_is_made_and_used_where_the_setting_names_one(
    turnstile: Turnstile, settings: Settings, url: str
) -> None:
    # A word of SQL: nowhere without its quotes.
    schema = "user"
    ran = await turnstile("migrate", DATABASE_URL=url, TURNSTILE_DATABASE_SCHEMA=schema)
    await answer_a_turn(settings, DatabasePlace(url, schema))
    listed = await turnstile("list", "--json", DATABASE_URL=url, TURNSTILE_DATABASE_SCHEMA=schema)
    elsewhere = await turnstile("list", DATABASE_URL=url)

    assert (ran.code, listed.code) == (0, 0), (ran.err, listed.err)
    assert elsewhere.code == ExitCode.UNAVAILABLE
    with psycopg.connect(url) as looking:
        assert looking.execute("SELECT to_regnamespace('turnstile'), to_regclass('public.turns')").fetchone() == (
            None,
            None,
        )


async def test_the_way_down_leaves_the_schema_without_our_tables(turnstile: Turnstile, url: str) -> None:
    await turnstile("migrate", DATABASE_URL=url)

    down = await turnstile(*DOWN, DATABASE_URL=url)

    assert down.code == 0, down.err
    with psycopg.connect(url) as looking:
        assert looking.execute(OURS).fetchall() == [("turnstile_version",)]
    assert (await turnstile("migrate", DATABASE_URL=url)).code == 0


async def test_the_printed_sql_makes_the_schema_and_everything_in_it(
    turnstile: Turnstile, settings: Settings, url: str
) -> None:
    printed = (await turnstile("migrate", "--sql", DATABASE_URL=url)).out

    with psycopg.connect(url, options="-c search_path=public", autocommit=True) as by_hand:
        by_hand.execute(printed.encode())

    await answer_a_turn(settings, DatabasePlace(url))
    again = await turnstile("migrate", DATABASE_URL=url)
    assert again.err.splitlines()[0] == "the tables are at 0001"


@pytest.mark.parametrize(
    "theirs",
    [
        "CREATE TABLE turnstile.messages (id int)",
        "CREATE SEQUENCE turnstile.fence_seq",
        "CREATE FUNCTION turnstile.turns_owe_webhook() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    ],
)
async def test_a_name_that_another_program_has_taken_in_the_schema_is_refused_in_one_line(
    turnstile: Turnstile, url: str, theirs: str
) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("CREATE SCHEMA turnstile")
        other.execute(theirs)  # type: ignore[call-overload]
        before = other.execute(OURS).fetchall()

        ran = await turnstile("migrate", DATABASE_URL=url)

        assert (ran.code, ran.out) == (ExitCode.USAGE, "")
        assert len(ran.err.splitlines()) == 1
        assert "already exists" in ran.err
        assert "set TURNSTILE_DATABASE_SCHEMA to a schema that only Turnstile uses; nothing was changed" in ran.err
        assert other.execute(OURS).fetchall() == before


@pytest.mark.parametrize("there", [None, "turnstile"])
async def test_migrate_says_what_to_run_if_its_role_may_not_make_or_use_the_schema(
    turnstile: Turnstile, url: str, role_url: str, there: str | None
) -> None:
    role = str(psycopg.conninfo.conninfo_to_dict(role_url)["user"])
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute(
            SQL("REVOKE CREATE ON DATABASE {} FROM {}").format(Identifier(superuser.info.dbname), Identifier(role))
        )
        if there:
            superuser.execute(SQL("CREATE SCHEMA {}").format(Identifier(there)))

        ran = await turnstile("migrate", DATABASE_URL=role_url)
        superuser.execute("DROP SCHEMA IF EXISTS turnstile")
        superuser.execute(SQL("CREATE SCHEMA turnstile AUTHORIZATION {}").format(Identifier(role)))
        mended = await turnstile("migrate", DATABASE_URL=role_url)

    assert (ran.code, len(ran.err.splitlines())) == (ExitCode.USAGE, 1), ran.err
    assert "CREATE SCHEMA turnstile AUTHORIZATION role; nothing was changed" in ran.err
    assert mended.code == 0, mended.err


@pytest.mark.parametrize(("path", "named"), [('"$user", public', True), ("public", False)])
async def test_a_role_whose_other_programs_would_make_their_tables_in_the_schema_is_named(
    turnstile: Turnstile, url: str, role_url: str, path: str, named: bool
) -> None:
    # Postgres' own search path begins with the schema that is called like the role.
    role = str(psycopg.conninfo.conninfo_to_dict(role_url)["user"])
    with psycopg.connect(url, autocommit=True) as superuser:
        superuser.execute(SQL("ALTER ROLE {} SET search_path = {}").format(Identifier(role), SQL(path)))  # type: ignore[arg-type]

    ran = await turnstile("migrate", DATABASE_URL=role_url, TURNSTILE_DATABASE_SCHEMA=role)

    assert (ran.code, ran.err.splitlines()[0]) == (0, "the tables went from nothing to 0001")
    assert (f'ALTER ROLE "{role}" SET search_path = public' in ran.err) is named


async def test_a_dump_of_the_schema_is_the_whole_of_turnstile(
    turnstile: Turnstile, settings: Settings, stack: Stack, url: str, tmp_path: Path
) -> None:
    neighbour = Neighbour(url, tmp_path, "0001")
    neighbour.migrate()
    await turnstile("migrate", DATABASE_URL=url)
    await answer_a_turn(settings, DatabasePlace(url))

    dump(stack, url, tmp_path / "dump", "--schema=turnstile")
    restore(stack, url, tmp_path / "dump")

    listed = await turnstile("list", "--json", DATABASE_URL=url)
    assert '"SUCCEEDED"' in listed.out, listed.err
    assert neighbour.look() == {}
