"""Pages of a history: so many messages and so many bytes at most, from the last one back."""

from typing import Any

import pytest
from httpx import AsyncClient

from tests.producer.api.calls import end, pages, submit, succeed
from tests.producer.api.expectations import expect_problem
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer.routes.page_cursor import encode_message
from turnstile.producer.routes.turn_routes import PAGE_BYTES

PATH = "/v1/sessions/s/messages"


async def read_all(client: AsyncClient, **query: Any) -> list[list[dict[str, Any]]]:
    """All pages, the last one first."""
    found = [page async for page in pages(client, PATH, **query)]
    # Behind the one message that a page always has.
    assert all(len(page.content) <= PAGE_BYTES + 1_100_000 for page in found)
    return [page.json()["messages"] for page in found]


def joined(found: list[list[dict[str, Any]]]) -> list[Any]:
    return [message["content"] for page in reversed(found) for message in page]


async def converse(
    client: AsyncClient, database: Database, settings: Settings, replies: list[Any], start: int = 0
) -> list[Any]:
    for number, reply in enumerate(replies, start):
        await submit(client, text=f"in {number}")
        await end(database, settings, "s", succeed(reply))
    return [said for number, reply in enumerate(replies, start) for said in (f"in {number}", reply)]


async def test_the_pages_of_a_history_neither_repeat_nor_skip_anything(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    said = await converse(client, database, settings, [f"out {number}" for number in range(5)])

    found = await read_all(client, limit=3)

    assert [len(page) for page in found] == [3, 3, 3, 1]
    assert joined(found) == said


async def test_a_page_that_has_all_has_no_next(client: AsyncClient, database: Database, settings: Settings) -> None:
    said = await converse(client, database, settings, ["out"] * 2)

    found = await read_all(client, limit=4)

    assert (len(found), joined(found)) == (1, said)


async def test_a_page_of_large_messages_ends_at_so_many_bytes(
    client: AsyncClient, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.producer.routes.turn_routes.PAGE_BYTES", 50_000)
    said = await converse(client, database, settings, ["x" * 20_000] * 6)

    found = await read_all(client, limit=100)

    assert len(found) > 2
    assert all(page for page in found)
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


async def test_a_message_larger_than_a_page_is_shown_alone(
    client: AsyncClient, database: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.producer.routes.turn_routes.PAGE_BYTES", 5)
    said = await converse(client, database, settings, ["more than five"] * 2)

    found = await read_all(client)

    assert [len(page) for page in found] == [1, 1, 1, 1]
    assert joined(found) == said


@pytest.mark.parametrize("cursor", ["", "1", encode_message(1, 0) + "A"])
async def test_a_bad_cursor_is_refused(client: AsyncClient, cursor: str) -> None:
    await submit(client)

    expect_problem(await client.get(PATH, params={"cursor": cursor}), 422, "invalid-parameter")
