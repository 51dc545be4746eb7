"""The largest body that is accepted, and where a body without end is cut off."""

from collections.abc import AsyncIterator

import pytest
from httpx import AsyncClient

from tests.producer.api.expectations import expect_problem
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("claim", [{}, {"Content-Length": "10"}])
async def test_a_chunked_body_is_cut_off_at_the_limit(
    client: AsyncClient, settings: Settings, claim: dict[str, str]
) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        # Almost: a test that fails must not fill the memory of the machine.
        while taken < 20 * settings.max_body_bytes:
            taken += 1000
            yield b"x" * 1000

    answer = await client.post("/v1/sessions/s/turns", content=endless(), headers={**JSON, **claim})
    expect_problem(answer, 413, "body-too-large")
    assert taken <= settings.max_body_bytes + 2000


async def test_a_body_that_says_that_it_is_too_large_is_not_read(client: AsyncClient, settings: Settings) -> None:
    taken = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal taken
        taken += 1
        yield b"x"

    length = {"Content-Length": str(settings.max_body_bytes + 1)}
    answer = await client.post("/v1/sessions/s/turns", content=pieces(), headers={**JSON, **length})

    expect_problem(answer, 413, "body-too-large")
    assert taken == 0


async def test_the_largest_body_is_accepted_in_pieces_that_split_a_character(
    client: AsyncClient, database: Database
) -> None:
    head, tail = b'{"input": "', b'"}'
    text = "\u00e9".encode() * ((65_536 - len(head) - len(tail)) // 2)

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (head, text[:1], text[1:], tail):
            yield piece

    headers = {"Content-Type": 'Application/JSON; charset="UTF-8"'}
    answer = await client.post("/v1/sessions/s/turns", content=pieces(), headers=headers)

    assert answer.status_code == 202, answer.text
    assert await database.fetch("SELECT content FROM messages", {}) == [{"content": text.decode()}]
