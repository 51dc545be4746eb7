"""Lists with a filter that few turns meet: each page reads a limited number of turns, and the next page continues there."""

from typing import Any

import pytest
from httpx import AsyncClient

from tests.producer.api.calls import pages, submit
from turnstile.backends.postgres.database import Database
from turnstile.queries import turn_lists as reading

REACH = 5


@pytest.fixture(autouse=True)
def short_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.queries.turn_lists.REACH", REACH)


async def read_all(client: AsyncClient, meanwhile: int = 0, **query: Any) -> list[list[str]]:
    found = []
    async for page in pages(client, "/v1/turns", **query):
        found.append([turn["id"] for turn in page.json()["turns"]])
        for _ in range(meanwhile):
            await submit(client, "meanwhile")
    return found


async def submit_and_cancel(client: AsyncClient, canceled: set[int], many: int) -> list[str]:
    """The ids of those that were cancelled, newest first."""
    ids = [await submit(client, f"s{number}") for number in range(many)]
    for number in canceled:
        await client.post(f"/v1/turns/{ids[number]}/cancel")
    return [ids[number] for number in sorted(canceled, reverse=True)]


async def test_rare_turns_are_neither_repeated_nor_skipped(client: AsyncClient) -> None:
    canceled = await submit_and_cancel(client, {0, 1, 2, 13}, 17)

    found = await read_all(client, meanwhile=2, status="canceled", limit=2)

    assert [turn for page in found for turn in page] == canceled
    assert [] in found


async def test_turns_submitted_between_the_two_reads_of_a_page_repeat_nothing(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second look ends nearer than the first: what lies between is the next page's."""
    canceled = await submit_and_cancel(client, {2}, REACH + 2)
    look = reading.query_rows
    looks = 0

    async def look_while_others_come(database: Database, statement: Any, values: Any) -> Any:
        nonlocal looks
        found = await look(database, statement, values)
        looks += 1
        if looks == 1:
            for number in range(2):
                await submit(client, f"between{number}")
        return found

    monkeypatch.setattr(reading, "query_rows", look_while_others_come)

    found = await read_all(client, status="canceled")

    assert [turn for page in found for turn in page] == canceled


async def test_a_rare_queue_is_found(client: AsyncClient, database: Database) -> None:
    ids = [await submit(client, f"s{number}") for number in range(2 * REACH)]
    await database.fetch("UPDATE turns SET queue = 'rare' WHERE id = %(id)s", {"id": ids[0]})

    found = await read_all(client, queue="rare")

    assert [turn for page in found for turn in page] == [ids[0]]
    assert [turn for page in await read_all(client, queue="rare", status="pending") for turn in page] == [ids[0]]


async def test_turns_of_another_tenant_do_not_count_for_a_page(client: AsyncClient, other_client: AsyncClient) -> None:
    canceled = await submit_and_cancel(client, {0}, 1)
    for number in range(2 * REACH):
        await submit(other_client, f"s{number}")

    assert await read_all(client, status="canceled") == [canceled]
