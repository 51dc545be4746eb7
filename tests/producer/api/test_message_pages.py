"""Pages of a history: so many messages and so many bytes at most, from the last one back."""

from typing import Any

import pytest
from httpx import AsyncClient

from tests.producer.api.calls import end, submit, succeed
from tests.producer.api.conftest import Connect
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.memory import history

PATH = "/v1/sessions/s/messages"


async def pages(client: AsyncClient, **query: Any) -> list[list[dict[str, Any]]]:
    """All of them, the last one first."""
    found = []
    cursor: str | None = None
    while True:
        answer = await client.get(PATH, params={**query, **({"cursor": cursor} if cursor else {})})
        assert answer.status_code == 200
        # Behind the one message that a page always has.
        assert len(answer.content) <= history.PAGE_BYTES + 210_000
        assert answer.json()["messages"]
        found.append(answer.json()["messages"])
        if (cursor := answer.json()["next_cursor"]) is None:
            return found


def joined(found: list[list[dict[str, Any]]]) -> list[Any]:
    return [message["content"] for page in reversed(found) for message in page]


async def converse(
    client: AsyncClient, database: Database, settings: Settings, replies: list[Any], start: int = 0
) -> list[Any]:
    for number, reply in enumerate(replies, start):
        await submit(client, text=f"in {number}")
        await end(database, settings, "s", succeed(reply))
    return [said for number, reply in enumerate(replies, start) for said in (f"in {number}", reply)]


@pytest.mark.parametrize("redis", [True, False], ids=["from Redis", "from Postgres"])
async def test_the_pages_of_a_history_neither_repeat_nor_skip_anything(
    connect: Connect, database: Database, settings: Settings, redis: bool
) -> None:
    away = {} if redis else {"memory_redis_url": "redis://127.0.0.1:1/0"}
    async with connect(settings.model_copy(update=away)) as client:
        said = await converse(client, database, settings, [f"out {number}" for number in range(3)])

        found = await pages(client, limit=3)
        again = await pages(client, limit=3)

    assert [len(page) for page in found] == [3, 3]
    assert joined(found) == said
    assert again == found


@pytest.mark.parametrize("reply", ["x" * 200_000, "x" * 20_000], ids=["left in the table", "in Redis"])
async def test_a_page_of_large_messages_ends_at_so_many_bytes(
    client: AsyncClient, database: Database, settings: Settings, reply: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.memory.history.PAGE_BYTES", 50_000)
    said = await converse(client, database, settings, [reply] * 3)

    found = await pages(client, limit=100)

    assert len(found) > 1
    assert joined(found) == said


async def test_new_messages_do_not_shift_the_next_page(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    said = await converse(client, database, settings, ["a", "b"])
    first = (await client.get(PATH, params={"limit": 2})).json()
    await converse(client, database, settings, ["c"], start=2)

    rest = (await client.get(PATH, params={"limit": 2, "cursor": first["next_cursor"]})).json()

    assert joined([first["messages"], rest["messages"]]) == said
    assert rest["next_cursor"] is None
