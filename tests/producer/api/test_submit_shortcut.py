"""An ordinary submit goes past FastAPI, and is answered as by FastAPI.

The long way is taken by whoever prefers something, whatever it is.
"""

from typing import Any

import pytest
from fastapi import FastAPI
from httpx import AsyncClient, Response

from tests.producer.api.bad_bodies import BODIES, JSON
from turnstile.backends.postgres.database import Database

LONG = {"Prefer": "handling=lenient"}
URL = "/v1/sessions/s/turns"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def told(answer: Response) -> tuple[int, list[tuple[str, str]], bytes]:
    """All of an answer."""
    return answer.status_code, answer.headers.multi_items(), answer.content


@pytest.mark.parametrize("body", [body for body, _, _ in BODIES.values()], ids=BODIES)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_bad_body_is_refused_in_the_same_words_both_ways(offline: AsyncClient, body: bytes) -> None:
    short = await offline.post(URL, content=body, headers=JSON)
    long = await offline.post(URL, content=body, headers={**JSON, **LONG})

    assert told(short) == told(long)


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        (URL, {"Content-Type": "text/plain"}),
        (URL, {"Content-Type": "application/json; charset=latin-1"}),
        (URL, {**JSON, "Content-Encoding": "gzip"}),
        ("/v1/sessions/compensation:s/turns", JSON),
        (URL, JSON),
    ],
    ids=["a media type", "a charset", "a packed body", "a reserved session", "a database that is away"],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_cannot_be_taken_is_refused_in_the_same_words_both_ways(
    offline: AsyncClient, url: str, headers: dict[str, str]
) -> None:
    short = await offline.post(url, content=b'{"input": "x"}', headers=headers)
    long = await offline.post(url, content=b'{"input": "x"}', headers={**headers, **LONG})

    assert told(short) == told(long)
    assert short.status_code >= 400


async def test_a_repeat_by_the_other_way_is_answered_alike(client: AsyncClient) -> None:
    headers = {"Idempotency-Key": "once", "traceparent": TRACE}
    first = await client.post(URL, json={"input": "é"}, headers=headers)
    short = await client.post(URL, json={"input": "é"}, headers=headers)
    long = await client.post(URL, json={"input": "é"}, headers={**headers, **LONG})

    assert told(short) == told(long)
    assert (short.status_code, short.content) == (202, first.content)
    assert short.headers["idempotency-replayed"] == "true"


async def test_an_ordinary_submit_is_answered_without_fastapi(
    client: AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any) -> None:
        raise AssertionError("not the long way")

    monkeypatch.setattr(FastAPI, "__call__", refuse)

    answer = await client.post(URL, json={"input": "x"})

    assert answer.status_code == 202
    assert answer.headers["x-content-type-options"] == "nosniff"
    with pytest.raises(AssertionError):
        await client.post(URL, json={"input": "x"}, headers=LONG)
    assert len(await database.fetch("SELECT FROM turns", {})) == 1
