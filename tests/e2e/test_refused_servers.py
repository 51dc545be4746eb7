"""Processes that do not start because Postgres is too old."""

import pytest

from tests.e2e.conftest import StartWorker
from tests.support.probes import until
from tests.support.stated_version import stating
from turnstile.ops.terminal.exit_codes import ExitCode


@pytest.mark.parametrize("command", ["worker", "api", "relay"])
async def test_a_process_whose_postgres_is_too_old_ends_with_one_line(
    start_worker: StartWorker, database_url: str, command: str
) -> None:
    async with stating(database_url, 14) as url:
        process = start_worker(command, DATABASE_URL=url, TURNSTILE_API_PORT="0")

        await until(lambda: process.exit_code is not None)
    assert process.exit_code == ExitCode.USAGE
    [line] = process.log_path.read_text().splitlines()
    assert "DATABASE_URL: the server is PostgreSQL 14." in line
    assert "Turnstile needs 15 or newer: upgrade it, or set DATABASE_URL to another server" in line
