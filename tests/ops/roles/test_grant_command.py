"""`turnstile grant`: which roles it takes, what it prints, and when it grants again."""

from collections.abc import Iterator
from typing import LiteralString, cast

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.ops.invoke import Ran, invoke_plain
from tests.support.database_roles import RoleUrls, database_with_roles
from tests.support.outside import outside
from tests.support.stacks.stack import Stack
from turnstile.ops.roles.kinds import Kind
from turnstile.ops.terminal.exit_codes import ExitCode

READ_TURNS: LiteralString = "SELECT count(*) FROM turnstile.turns"


@pytest.fixture(scope="module")
def roles(stack: Stack) -> Iterator[RoleUrls]:
    with database_with_roles(stack) as made:
        yield made


@pytest.fixture
def newcomer(stack: Stack, roles: RoleUrls) -> Iterator[str]:
    """The name of a role that has no rights yet."""
    name = f"newcomer_{roles.name}"
    with psycopg.connect(stack.postgres.database_url(roles.name), autocommit=True) as superuser:
        superuser.execute(SQL("CREATE ROLE {}").format(Identifier(name)))
        yield name
        if superuser.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone():
            superuser.execute(SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(Identifier(name)))


@pytest.fixture
def superuser(stack: Stack, roles: RoleUrls) -> Iterator[psycopg.Connection]:
    with psycopg.connect(outside(stack.postgres.database_url(roles.name)), autocommit=True) as opened:
        yield opened


def run(roles: RoleUrls, *arguments: str) -> Ran:
    return invoke_plain("grant", *arguments, DATABASE_URL=roles.owner)


def may(superuser: psycopg.Connection, role: str, statement: LiteralString) -> bool:
    superuser.execute(SQL("SET ROLE {}").format(Identifier(role)))
    try:
        superuser.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return False
    finally:
        superuser.execute("RESET ROLE")
    return True


def test_a_role_gets_the_rights_of_its_kind(roles: RoleUrls, superuser: psycopg.Connection, newcomer: str) -> None:
    assert not may(superuser, newcomer, READ_TURNS)

    ran = run(roles, "--relay", newcomer)

    assert ran.code == 0, ran.err
    assert f"{newcomer}: relay" in ran.err
    assert may(superuser, newcomer, READ_TURNS)
    assert not may(superuser, newcomer, "SELECT nextval('turnstile.fence_seq')")


def test_a_role_of_two_kinds_has_the_rights_of_both(
    roles: RoleUrls, superuser: psycopg.Connection, newcomer: str
) -> None:
    ran = run(roles, "--worker", newcomer, "--relay", newcomer)

    assert f"{newcomer}: worker and relay" in ran.err
    assert may(superuser, newcomer, "SELECT nextval('turnstile.fence_seq')")
    assert may(superuser, newcomer, "DELETE FROM turnstile.submissions WHERE false")


def test_a_role_that_is_named_again_keeps_no_right_of_before(
    roles: RoleUrls, superuser: psycopg.Connection, newcomer: str
) -> None:
    run(roles, "--worker", newcomer)
    run(roles, "--api", newcomer)

    assert may(superuser, newcomer, "SELECT content FROM turnstile.messages")
    assert not may(superuser, newcomer, "SELECT nextval('turnstile.fence_seq')")
    assert not may(superuser, newcomer, "SELECT FROM turnstile.turn_attempts")


def test_a_migration_gives_the_roles_their_rights_in_what_it_has_made(
    roles: RoleUrls, superuser: psycopg.Connection, newcomer: str
) -> None:
    run(roles, "--api", newcomer)
    superuser.execute(SQL("REVOKE ALL ON turnstile.turns FROM {}").format(Identifier(newcomer)))

    ran = invoke_plain("migrate", DATABASE_URL=roles.owner)

    assert (ran.code, f"{newcomer}: api" in ran.err) == (0, True), ran.err
    assert may(superuser, newcomer, READ_TURNS)


def test_what_it_prints_does_the_same(roles: RoleUrls, superuser: psycopg.Connection, newcomer: str) -> None:
    printed = run(roles, "--api", newcomer, "--sql")
    assert not may(superuser, newcomer, READ_TURNS)

    with psycopg.connect(roles.owner, autocommit=True) as owner:
        owner.execute(cast("LiteralString", printed.out))

    assert may(superuser, newcomer, READ_TURNS)
    assert f"{newcomer}: api" in run(roles).err


def test_a_role_that_was_dropped_is_forgotten(roles: RoleUrls, superuser: psycopg.Connection, newcomer: str) -> None:
    run(roles, "--api", newcomer)
    superuser.execute(SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(Identifier(newcomer)))

    ran = run(roles)

    assert (ran.code, newcomer in ran.err) == (0, False)


def test_a_role_that_does_not_exist_is_named_with_what_makes_it(roles: RoleUrls) -> None:
    ran = run(roles, "--api", "nobody")

    assert ran.code == ExitCode.NOT_FOUND
    assert "there is no role nobody: whoever may create roles makes it: CREATE ROLE" in ran.err


def test_the_owner_of_the_tables_is_no_role_of_a_process(roles: RoleUrls) -> None:
    for role in (roles.owner, roles.master):
        name = psycopg.conninfo.conninfo_to_dict(role)["user"]

        ran = run(roles, "--worker", str(name))

        assert ran.code == ExitCode.USAGE
        assert ran.err.startswith(f"turnstile: {name} may do whatever the owner of the tables may")


def test_only_the_owner_grants(roles: RoleUrls) -> None:
    ran = invoke_plain("grant", "--api", roles.role(Kind.API), DATABASE_URL=roles.of[Kind.API])

    assert ran.code == ExitCode.USAGE
    assert "who owns the tables, can grant rights on them: set DATABASE_URL to that role" in ran.err


def test_a_role_that_may_make_temporary_tables_is_named(
    roles: RoleUrls, superuser: psycopg.Connection, newcomer: str
) -> None:
    grant = SQL("GRANT TEMPORARY ON DATABASE {} TO {}")
    superuser.execute(grant.format(Identifier(roles.name), Identifier(newcomer)))

    ran = run(roles, "--api", newcomer)

    assert ran.code == 0
    assert f'REVOKE TEMPORARY ON DATABASE "{roles.name}" FROM PUBLIC' in ran.err
