"""A program of somebody's has all connections that Postgres gives the application."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.runbooks.deployment import NAME, Deployment
from tests.runbooks.reader import Reader
from tests.support.database_roles import RoleUrls
from tests.support.stacks.stack import Stack
from turnstile.ops.terminal.exit_codes import ExitCode


async def test_the_page(reader: Reader, roles: RoleUrls, stack: Stack, emulated: Callable[[], Deployment]) -> None:
    def allow(connections: int) -> None:
        with psycopg.connect(stack.postgres.url, autocommit=True) as superuser:
            role = Identifier(roles.application_role)
            superuser.execute(SQL("ALTER ROLE {} CONNECTION LIMIT {}").format(role, connections))

    await reader.up_to("aws ecs update-service")
    found = emulated().client("ecs").describe_services(cluster=NAME, services=[f"{NAME}-api"])
    assert found["services"][0]["desiredCount"] == 4

    with psycopg.connect(roles.application, application_name="notebook") as greedy:
        allow(1)
        seen = await reader.up_to("turnstile doctor", code=ExitCode.UNAVAILABLE)
        assert "too many connections for role" in seen.out
        assert "docs/runbooks/postgres-failover.md" in seen.out
        assert "notebook" in (await reader.up_to('psql "$OWNER_URL" -c "SELECT usename')).out
        await reader.up_to('psql "$OWNER_URL" -c "SELECT pg_terminate_backend', APPLICATION="notebook")
        with pytest.raises(psycopg.OperationalError):
            greedy.execute("SELECT")
    allow(-1)

    await reader.to_the_end(QUEUE="turns")
