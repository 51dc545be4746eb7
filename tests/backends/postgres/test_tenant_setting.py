"""The API tells Postgres which tenants a call is about, in the same send. Its role sees no other rows."""

from collections.abc import AsyncIterator
from typing import Any, LiteralString

import pytest

from tests.support.factories import make_submission
from tests.support.process_roles import url_of
from turnstile.archive.reads import TurnKey
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.tenant_setting import tenants_in
from turnstile.config.settings import Settings
from turnstile.ops.roles.kinds import Kind
from turnstile.queries.turns import read_turns
from turnstile.statements.submit import submit

# Without a condition on the tenant, as a mistake would be.
EVERY: LiteralString = "SELECT tenant_id FROM turns ORDER BY 1"


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Database]:
    """A pool as the API's, with one connection."""
    place = DatabasePlace(url_of(Kind.API, database_url))
    async with Database(place, "test", size=1, pinned=True, names_tenants=True) as opened:
        yield opened


@pytest.fixture
async def ids(database: Database, settings: Settings) -> dict[str, Any]:
    """The turn of each tenant."""
    wanted = [make_submission(settings.queue, "s", "said", tenant_id=tenant) for tenant in ("one", "two")]
    await submit(database, wanted, resend_seconds=settings.resend_seconds)
    return {one.tenant_id: one.turn_id for one in wanted}


@pytest.mark.parametrize(
    ("parameters", "seen"),
    [
        ({"tenant": "one"}, ["one"]),
        ({"tenant_id": "two"}, ["two"]),
        ({"tenants": ["one", "two"]}, ["one", "two"]),
        ({"tenant": "three"}, []),
        ({}, []),
    ],
)
async def test_a_statement_that_forgets_the_tenant_sees_those_that_its_call_names(
    api: Database, ids: dict[str, Any], parameters: dict[str, Any], seen: list[str]
) -> None:
    assert [row["tenant_id"] for row in await api.fetch(EVERY, parameters)] == seen


async def test_a_call_leaves_nothing_to_the_next_one_on_its_connection(api: Database, ids: dict[str, Any]) -> None:
    await api.fetch(EVERY, {"tenant": "one"})

    assert await api.fetch(EVERY, {}) == []


async def test_a_transaction_sees_its_tenant_in_each_statement(api: Database, ids: dict[str, Any]) -> None:
    async with api.transaction("two") as connection:
        rows = [await (await connection.execute(EVERY)).fetchall() for _ in range(2)]

    assert rows == [[{"tenant_id": "two"}]] * 2
    assert await api.fetch(EVERY, {}) == []


async def test_a_read_by_ids_finds_the_turns_of_its_tenants(api: Database, ids: dict[str, Any]) -> None:
    wanted = [TurnKey("one", ids["one"]), TurnKey("two", ids["two"]), TurnKey("one", ids["two"])]

    found = await read_turns(api, wanted)

    assert [turn and turn.tenant_id for turn in found] == ["one", "two", None]


def test_the_names_of_all_calls_of_a_pipeline_count() -> None:
    calls = [{"tenant": "one", "tenants": ["two"]}, {"tenant_id": "three"}, {"ids": []}]

    assert tenants_in(calls) == {"one", "two", "three"}
