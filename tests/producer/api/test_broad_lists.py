"""A list whose filter has no index reads many turns: it is refused after a while, and delays no other read."""

import asyncio
from typing import LiteralString

import pytest
from httpx import AsyncClient

from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.queries import turn_lists

LISTING: LiteralString = """
SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE '%pg_sleep(60)%'
   AND pid <> pg_backend_pid()
"""


@pytest.fixture(autouse=True)
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.producer.app.LIST_TIMEOUT_SECONDS", 0.5)


@pytest.fixture(autouse=True)
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list takes a minute for each turn."""
    make = turn_lists._page
    slow = "SELECT pg_sleep(60)::text AS output,"
    monkeypatch.setattr(turn_lists, "_page", lambda *given: make(*given).replace("SELECT", slow, 1))


@pytest.fixture
async def turn_id(client: AsyncClient) -> str:
    answer = await client.post("/v1/sessions/s/turns", json={"input": "hello"})
    return str(answer.json()["id"])


async def test_a_list_that_takes_too_long_is_too_broad(client: AsyncClient, turn_id: str) -> None:
    answer = await client.get("/v1/turns?status=pending")

    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/list-too-broad"), answer.text
    assert "retry-after" not in answer.headers


async def test_slow_lists_do_not_delay_reads_of_a_turn(client: AsyncClient, database: Database, turn_id: str) -> None:
    async def listing() -> bool:
        return bool(await database.fetch(LISTING, {}))

    lists = [asyncio.create_task(client.get("/v1/turns")) for _ in range(3)]
    assert await until(listing)

    answers = await asyncio.gather(*(client.get(f"/v1/turns/{turn_id}") for _ in range(4)))

    assert {answer.status_code for answer in answers} == {200}
    await asyncio.gather(*lists)
