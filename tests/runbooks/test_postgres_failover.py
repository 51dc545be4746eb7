"""Somebody's transaction is open and holds the rows of turns."""

from collections.abc import Callable

import psycopg
import pytest

from tests.runbooks.deployment import NAME, Deployment
from tests.runbooks.reader import Reader
from tests.support.database_roles import RoleUrls
from tests.support.outside import outside
from tests.support.tampered_turns import make_pending
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.terminal.exit_codes import ExitCode


async def test_the_page(
    reader: Reader, database: Database, settings: Settings, roles: RoleUrls, emulated: Callable[[], Deployment]
) -> None:
    await make_pending(database, settings)
    with psycopg.connect(outside(roles.owner)) as forgotten:
        forgotten.execute("SELECT FROM turns FOR UPDATE")
        pid = forgotten.info.backend_pid

        await reader.up_to("aws rds modify-db-instance")
        [instance] = (
            emulated().client("rds").describe_db_instances(DBInstanceIdentifier=f"{NAME}-postgres")["DBInstances"]
        )
        assert instance["AllocatedStorage"] == 200
        assert "idle in transaction" in (await reader.up_to('psql "$OWNER_URL" -c "SELECT application_name')).out
        seen = await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)
        assert f"rows-locked  {pid}\n" in seen.out
        assert f"{pid} " in (await reader.up_to('psql "$OWNER_URL" -c "SELECT pid')).out
        await reader.up_to('psql "$OWNER_URL" -c "SELECT pg_terminate_backend', PID=pid)
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("SELECT")

    await reader.to_the_end()
