"""A role that may not do what its process does: an error says so and what to run. The process works once that has been run."""

from collections.abc import Iterator
from typing import LiteralString, cast

import psycopg
import pytest

from tests.backends.postgres.refusals import refusal
from tests.ops.invoke import invoke
from tests.support.database_roles import RoleUrls, database_with_roles
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.table_version import READ_VERSION
from turnstile.errors import DatabaseUnavailableError
from turnstile.ops.roles.grants import grant
from turnstile.ops.roles.kinds import Kind
from turnstile.statements.advance_fences import ADVANCE

WHAT_TO_DO = (
    "DATABASE_URL's role lacks rights on the tables: their owner runs `turnstile grant` (docs/running.md#roles)"
)

MISSING = pytest.mark.parametrize(
    ("revoked", "reason"),
    [
        ("USAGE ON SCHEMA turnstile", "permission denied for schema turnstile"),
        ("SELECT ON turnstile.turnstile_version", "permission denied for table turnstile_version"),
        ("EXECUTE ON FUNCTION turnstile.advance_sequences", "permission denied for function advance_sequences"),
    ],
)


@pytest.fixture(scope="module")
def roles(stack: Stack) -> Iterator[RoleUrls]:
    with database_with_roles(stack) as made:
        yield made


def as_owner(roles: RoleUrls, statements: str) -> None:
    with psycopg.connect(roles.owner, autocommit=True) as owner:
        owner.execute(cast("LiteralString", statements.replace("turnstile_app", roles.application_role)))


@MISSING
async def test_a_process_says_what_to_run_and_works_after_it(roles: RoleUrls, revoked: str, reason: str) -> None:
    async def works() -> bool:
        try:
            await database.fetch(ADVANCE, {})
        except DatabaseUnavailableError:
            return False
        return True

    as_owner(roles, f"REVOKE {revoked} FROM turnstile_app")
    place = DatabasePlace(roles.application)
    async with Database(place, "test", size=1, first=ADVANCE, wait_seconds=0.5) as database:
        assert await refusal(database) == f"{reason}; {WHAT_TO_DO}"

        grant(DatabasePlace(roles.owner), {})

        assert await until(works)


@pytest.mark.parametrize(
    ("revoked", "reason"),
    [
        ("USAGE ON SCHEMA turnstile", "permission denied for schema turnstile"),
        ("SELECT ON turnstile.turns", "permission denied for table turns"),
    ],
)
def test_a_command_says_what_to_run(roles: RoleUrls, revoked: str, reason: str) -> None:
    as_owner(roles, f"REVOKE {revoked} FROM turnstile_app")

    ran = invoke("list", DATABASE_URL=roles.application)
    grant(DatabasePlace(roles.owner), {})
    again = invoke("list", DATABASE_URL=roles.application)

    assert (ran.code, ran.err) == (4, f"turnstile: {reason}; {WHAT_TO_DO}\n")
    assert again.code == 0, again.err


async def test_a_role_from_which_every_row_is_hidden_is_told(roles: RoleUrls) -> None:
    as_owner(roles, "DROP POLICY worker ON turnstile.turns")
    place = DatabasePlace(roles.of[Kind.WORKER])
    async with Database(place, "test", size=1, first=READ_VERSION, wait_seconds=0.5) as database:
        said = await refusal(database)
    grant(DatabasePlace(roles.owner), {})
    async with Database(place, "test", size=1, first=READ_VERSION) as database:
        await database.ping()

    assert said == f"row-level security hides every row from this role; {WHAT_TO_DO}"
