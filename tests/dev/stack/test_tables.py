"""The tables of the embedded stack: their owner makes them, and each process has a role with its own rights."""

from collections.abc import Iterator
from typing import LiteralString, get_args
from uuid import uuid4

import psycopg
import pytest

from tests.ops.invoke import invoke_plain
from turnstile.backends.postgres.database import conninfo
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.config_file import load
from turnstile.config.database_roles import Process
from turnstile.config.settings import Settings
from turnstile.dev.stack.roles import ROLES
from turnstile.dev.stack.stack import LocalStack
from turnstile.dev.stack.tables import make_tables
from turnstile.process.database_role import connecting_as

WHO: LiteralString = """
SELECT current_user::text, rolsuper, has_table_privilege('turns', 'DELETE') FROM pg_roles WHERE rolname = current_user
"""

pytestmark = pytest.mark.not_on("containers", "it is about the embedded stack itself")


@pytest.fixture
def database(stack: LocalStack) -> Iterator[str]:
    """The name of one with tables."""
    name = f"stand_{uuid4().hex}"
    stack.postgres.create_database(name)
    for _ in range(2):
        make_tables(stack.postgres, name)
    yield name
    stack.postgres.drop_database(name)


@pytest.fixture
def shell(stack: LocalStack, database: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of whoever has the stack's environment."""
    for name, value in stack.environment(database).items():
        monkeypatch.setenv(name, value)
    return load()


def found_as(place: DatabasePlace) -> tuple[str, bool, bool]:
    """Who connects there, whether it is a superuser, and whether it may delete turns."""
    with psycopg.connect(conninfo(place, "test")) as connection:
        row = connection.execute(WHO).fetchone()
    assert row is not None
    return row


def test_each_process_has_its_role_and_its_rights(shell: Settings) -> None:
    found = {process: found_as(connecting_as(shell, process).database) for process in get_args(Process)}

    assert found == {
        "api": ("turnstile_api", False, False),
        "worker": ("turnstile_worker", False, True),
        "relay": ("turnstile_relay", False, True),
        "owner": ("turnstile_schema", False, True),
    }
    assert found_as(shell.database) == ("turnstile_operator", False, True)


def test_each_role_has_a_password_of_its_own(stack: LocalStack) -> None:
    passwords = {login.partition(":")[2] for login in stack.postgres.logins.values()}

    assert len(passwords) == len(ROLES)


def test_commands_of_operators_and_of_the_owner_work_with_one_environment(stack: LocalStack, database: str) -> None:
    environment = stack.environment(database)

    for line in ("migrate", "grant", "list --json", "key list", "doctor --no-dlq --json"):
        ran = invoke_plain(*line.split(), **environment)

        assert "permission denied" not in ran.out + ran.err
        assert ran.code == 0 or line.startswith("doctor"), (line, ran)


def test_an_application_makes_its_tables_beside_those_of_turnstile(shell: Settings) -> None:
    with psycopg.connect(shell.database_url) as application:
        application.execute("CREATE TABLE orders ()")
        [schema] = application.execute(
            "SELECT schemaname::text FROM pg_tables WHERE tablename = 'orders'"
        ).fetchone() or [""]

    assert schema == "public"
