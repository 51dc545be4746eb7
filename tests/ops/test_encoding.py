"""The commands on a database that can't hold every text: one sentence names its encoding."""

import pytest

from tests.ops.conftest import Turnstile
from tests.support.databases import database_in
from tests.support.stacks.stack import Stack
from turnstile.ops.terminal.exit_codes import ExitCode

RULE = "and turns need UTF8: make another with CREATE DATABASE"


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_migrate_makes_no_tables_there(turnstile: Turnstile, stack: Stack, encoding: str) -> None:
    with database_in(stack, encoding) as url:
        ran = await turnstile("migrate", DATABASE_URL=url)

    assert (ran.code, ran.out) == (ExitCode.USAGE, "")
    assert f"has the encoding {encoding}, {RULE}" in ran.err
    assert len(ran.err.splitlines()) == 1


async def test_doctor_and_list_say_so_too(turnstile: Turnstile, stack: Stack) -> None:
    with database_in(stack, "LATIN1") as url:
        found = await turnstile("doctor", DATABASE_URL=url)
        listed = await turnstile("list", DATABASE_URL=url)

    assert f"has the encoding LATIN1, {RULE}" in " ".join(found.out.split())
    assert (listed.code, f"has the encoding LATIN1, {RULE}" in listed.err) == (ExitCode.UNAVAILABLE, True)
