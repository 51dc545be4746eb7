"""The database roles of infra/README.md: one owns the tables, the other is for the application."""

import json
from collections.abc import Iterator

import psycopg
import pytest

from tests.archive.archiving import age, archive, in_archive
from tests.e2e.conftest import EVIDENCE, StartWorker
from tests.e2e.harness import Product
from tests.support.database_roles import database_with_roles
from tests.support.outside import outside
from tests.support.stacks.stack import Stack
from turnstile.ops.doctor.run_checks import look
from turnstile.queries.turns import read_turn


@pytest.fixture
def database_url(stack: Stack) -> Iterator[str]:
    """The application's URL of a database with the roles of the page."""
    with database_with_roles(stack) as made:
        with psycopg.connect(outside(made.owner), autocommit=True) as connection:
            connection.execute(EVIDENCE)
        yield made.application


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
