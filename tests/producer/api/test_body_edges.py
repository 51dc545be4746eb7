"""The largest and strangest bodies that are let in, and where a body that never ends is cut off."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import AsyncClient

from tests.producer.api.expectations import expect_problem
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings

JSON = {"Content-Type": "application/json"}


def request(**fields: Any) -> bytes:
    return json.dumps({"input": "x", **fields}).encode()


def nested(levels: int) -> bytes:
    return b'{"input":' + b'{"a":' * (levels - 1) + b"1" + b"}" * levels


def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    async def send() -> AsyncIterator[bytes]:
        for part in parts:
            yield part

    return send()


@pytest.mark.parametrize("claim", [{}, {"Content-Length": "10"}])
async def test_a_chunked_body_is_cut_off_at_the_limit(
    client: AsyncClient, settings: Settings, claim: dict[str, str]
) -> None:
    taken = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal taken
        while True:
            taken += 1000
            yield b"x" * 1000

    answer = await client.post("/v1/sessions/s/turns", content=endless(), headers={**JSON, **claim})
    expect_problem(answer, 413, "body-too-large")
    assert taken <= settings.max_body_bytes + 2000


async def test_what_is_just_allowed(client: AsyncClient, database: Database) -> None:
    head, tail = b'{"input": "', b'"}'
    largest = head + b"x" * (65_536 - len(head) - len(tail)) + tail
    bodies: list[Any] = [
        largest,
        chunks(b'{"in', b'put": "', "é".encode()[:1], "é".encode()[1:], b'"}'),
        nested(32),
        b'{"input": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\"[[["}',
        b'{"input": "\\ud83d\\ude00 \\\\u0000"}',
        b' {"input": {"a": [1e127, -0.0, 123456789012345678901234567890, "", null, true]}} \n',
        request(metadata={"a": "x" * 4088}),
        request(queue=None, execute_at=None, max_attempts=None, metadata=None, turn_id=None),
    ]
    for body in bodies:
        headers = {"Content-Type": 'Application/JSON; charset="UTF-8"'}
        answer = await client.post("/v1/sessions/s/turns", content=body, headers=headers)
        assert answer.status_code == 202, answer.text
    rows = await database.fetch("SELECT content FROM messages WHERE json_typeof(content) = 'string'", {})
    assert {"é", "\U0001f600 \\u0000"} <= {row["content"] for row in rows}
