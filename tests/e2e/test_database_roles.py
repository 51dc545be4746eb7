"""The roles of infra/README.md: each process works with what its own may do."""

import json
from collections.abc import Iterator

import psycopg
import pytest

from tests.archive.archiving import age, archive, in_archive
from tests.e2e.conftest import EVIDENCE, StartWorker
from tests.e2e.harness import Product
from tests.support.database_roles import RoleUrls, database_with_roles
from tests.support.outside import outside
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.ops.doctor.run_checks import look
from turnstile.ops.roles.kinds import Kind
from turnstile.queries.turns import read_turn


@pytest.fixture
def roles(stack: Stack) -> Iterator[RoleUrls]:
    with database_with_roles(stack) as made:
        with psycopg.connect(outside(made.owner), autocommit=True) as connection:
            connection.execute(EVIDENCE)
        yield made


@pytest.fixture
def database_url(roles: RoleUrls) -> str:
    """Of those who look at the tables from outside."""
    return roles.owner


@pytest.fixture
def evidence() -> None:
    """Made with the other tables, by their owner."""


async def test_a_worker_and_a_relay_work_with_what_theirs_may_do(
    product: Product, start_worker: StartWorker, roles: RoleUrls
) -> None:
    worker = start_worker(DATABASE_URL=roles.of[Kind.WORKER], TURNSTILE_RELAY="false")
    relay = start_worker("relay", DATABASE_URL=roles.of[Kind.RELAY])

    await product.submit({"do": "echo"}, {"do": "flaky", "times": 1}, {"do": "bug"}, session="a")
    await product.submit({"do": "echo"}, session="b")
    await product.ended()

    assert sorted(row["status"] for row in await product.rows()) == ["FAILED", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]
    await product.check_sessions()
    assert "permission denied" not in json.dumps([*worker.lines(), *relay.lines()])


async def test_the_doctor_works_with_what_an_operator_may_do(product: Product, roles: RoleUrls) -> None:
    await product.submit({"do": "echo"})

    found = await look(product.settings.model_copy(update={"database_url": roles.of[Kind.OPERATOR]}), dlq=False)

    assert found == []


async def test_the_archive_works_with_what_an_operator_may_do(
    product: Product, start_worker: StartWorker, roles: RoleUrls
) -> None:
    start_worker(DATABASE_URL=roles.application)
    [turn] = await product.submit({"do": "echo"})
    await product.ended()
    await age(product.database)

    async with Database(DatabasePlace(roles.of[Kind.OPERATOR]), "test", size=1) as database:
        await archive(database)
        found = await read_turn(database, "t", turn)

    assert found is not None
    assert (found.status, await in_archive(product.database)) == ("SUCCEEDED", [turn])
