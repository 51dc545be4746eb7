"""The database roles of infra/README.md: one owns the tables, the other is for the application."""

import json
import re
from collections.abc import Iterator
from typing import LiteralString, cast
from urllib.parse import quote, urlsplit
from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from tests.archive.archiving import age, archive, in_archive
from tests.conftest import ROOT
from tests.e2e.conftest import EVIDENCE, StartWorker
from tests.e2e.harness import Product
from tests.support.stacks.stack import Stack
from turnstile.ops.doctor.run_checks import look
from turnstile.ops.migration_run import apply
from turnstile.queries.turns import read_turn

[ROLES] = re.findall(r"^ *```sql\n(.*?)^ *```", (ROOT / "infra/README.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def database_url(stack: Stack) -> Iterator[str]:
    """The application's URL of a database whose master is no superuser, as on RDS. The master has run the statements of the page,
    and the owner has migrated it."""
    suffix = uuid4().hex[:12]
    name, master = f"test_{suffix}", f"master_{suffix}"
    passwords = dict(re.findall(r"ROLE (\w+) LOGIN PASSWORD '([^']+)'", ROLES))
    statements = ROLES
    for role in passwords:
        # A role is of the whole cluster, and tests run side by side.
        statements = re.sub(rf"\b{role}\b", f"{role}_{suffix}", statements)

    def url(role: str, password: str) -> str:
        place = urlsplit(stack.postgres.database_url(name))
        return place._replace(netloc=f"{role}:{quote(password)}@{place.hostname}:{place.port}").geturl()

    with psycopg.connect(stack.postgres.url, autocommit=True) as superuser:
        superuser.execute(SQL("CREATE ROLE {} LOGIN CREATEROLE CREATEDB PASSWORD 'master'").format(Identifier(master)))
        superuser.execute(SQL("CREATE DATABASE {} OWNER {}").format(Identifier(name), Identifier(master)))
        with psycopg.connect(url(master, "master"), autocommit=True) as connection:
            connection.execute(cast("LiteralString", statements))
        owner, application = (url(f"{role}_{suffix}", password) for role, password in passwords.items())
        apply(owner)
        with psycopg.connect(owner, autocommit=True) as connection:
            connection.execute(EVIDENCE)
        yield application
        stack.postgres.drop_database(name)
        for role in (*(f"{role}_{suffix}" for role in passwords), master):
            superuser.execute(SQL("DROP ROLE {}").format(Identifier(role)))


@pytest.fixture
def evidence() -> None:
    """Made with the other tables, by their owner."""


async def test_the_application_role_is_enough_for_a_worker(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker()

    await product.submit({"do": "echo"}, {"do": "flaky", "times": 1}, {"do": "bug"}, session="a")
    await product.submit({"do": "echo"}, session="b")
    await product.ended()

    assert sorted(row["status"] for row in await product.rows()) == ["FAILED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]
    await product.check_sessions()
    assert "permission denied" not in json.dumps(worker.lines())


async def test_the_application_role_can_not_change_the_schema(product: Product) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await product.fetch_nothing("CREATE TABLE more (id int)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        await product.fetch_nothing("ALTER TABLE turns DISABLE TRIGGER turns_legal_transition")


async def test_the_application_role_is_enough_for_the_doctor(product: Product) -> None:
    await product.submit({"do": "echo"})

    assert await look(product.settings, dlq=False) == []


async def test_the_application_role_is_enough_for_the_archive(product: Product, start_worker: StartWorker) -> None:
    start_worker()
    [turn] = await product.submit({"do": "echo"})
    await product.ended()
    await age(product.database)

    await archive(product.database)

    found = await read_turn(product.database, "t", turn)
    assert found is not None
    assert (found.status, await in_archive(product.database)) == ("SUCCEEDED", [turn])
