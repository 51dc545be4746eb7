"""Submits, cancels and reads have connections of their own: what waits on one side keeps nobody waiting on another."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import psycopg
import pytest
from httpx import AsyncClient

from tests.producer.api.calls import HANGS_SECONDS, HOLD, post
from tests.producer.api.conversation import conversing
from tests.producer.api.expectations import expect_problem
from tests.producer.api.listening import Transcript, read_events
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer.routes import turns as api
from turnstile.queries.history import read_version

Answer = TypeVar("Answer")

CANCELS = 10
"""Far more than the API has connections."""


async def submit(client: AsyncClient, session: str) -> str:
    answer = await client.post(f"/v1/sessions/{session}/turns", json={"input": "x"})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def some_waits(settings: Settings) -> None:
    """Somebody waits for a row that another transaction has locked."""
    async with await psycopg.AsyncConnection.connect(settings.database_url, autocommit=True) as looking:

        async def wait() -> bool:
            found = await looking.execute(
                "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            return await found.fetchone() is not None

        await until(wait)


@asynccontextmanager
async def again_and_again(call: Callable[[], Awaitable[Answer]]) -> AsyncIterator[list[Answer]]:
    """As many at a time as CANCELS says, until the block ends. What they were answered."""
    answers: list[Answer] = []

    async def repeat() -> None:
        while True:
            answers.append(await call())

    clients = [asyncio.create_task(repeat()) for _ in range(CANCELS)]
    try:
        yield answers
    finally:
        for client in clients:
            client.cancel()
        await asyncio.wait(clients)


@pytest.mark.parametrize("by", ["session", "turn"])
async def test_cancels_of_a_held_session_leave_other_sessions_alone(
    settings: Settings, client: AsyncClient, by: str
) -> None:
    turn = await submit(client, "held")
    path = "/v1/sessions/held/cancel" if by == "session" else f"/v1/turns/{turn}/cancel"
    await asyncio.gather(*(submit(client, f"stopped-{number}") for number in range(4)))
    with psycopg.connect(settings.database_url) as somebody:
        somebody.execute(HOLD)

        async with asyncio.timeout(HANGS_SECONDS), again_and_again(lambda: client.post(path)) as refused:
            await some_waits(settings)
            submits = await asyncio.gather(*(post(client, f"other-{number}") for number in range(20)))
            others = await asyncio.gather(*(client.post(f"/v1/sessions/stopped-{n}/cancel") for n in range(4)))
            await until(lambda: len(refused) > CANCELS)

    assert Counter(submits) == {202: 20}
    assert Counter(answer.status_code for answer in others) == {202: 4}
    for answer in refused:
        expect_problem(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "2"


async def test_a_session_can_be_cancelled_again_when_nobody_holds_it_any_more(
    settings: Settings, client: AsyncClient
) -> None:
    await submit(client, "held")
    with psycopg.connect(settings.database_url) as somebody:
        somebody.execute(HOLD)
        assert (await client.post("/v1/sessions/held/cancel")).status_code == 503

    answer = await client.post("/v1/sessions/held/cancel")

    assert (answer.status_code, answer.json()["canceled"]) == (202, 1)


async def test_readers_that_leave_a_held_session_with_a_cancel_leave_other_sessions_alone(settings: Settings) -> None:
    async with conversing(settings) as talk:
        turn = await talk.submit("held")

        async def come_and_go() -> None:
            heard = Transcript()
            reader = asyncio.create_task(read_events(talk.client, turn, heard, on_disconnect="cancel"))
            await until(lambda: heard.events or reader.done())
            reader.cancel()
            await asyncio.wait({reader})

        with psycopg.connect(settings.database_url) as somebody:
            somebody.execute(HOLD)

            async with asyncio.timeout(HANGS_SECONDS), again_and_again(come_and_go):
                await some_waits(settings)
                submits = await asyncio.gather(*(post(talk.client, f"other-{number}") for number in range(20)))
                stopped = await talk.client.post("/v1/sessions/other-0/cancel")

        assert Counter(submits) == {202: 20}
        assert stopped.status_code == 202


async def test_slow_reads_leave_submits_and_cancels_alone(client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = 0

    async def slowly(database: Database, tenant_id: str, session_id: str) -> object:
        nonlocal begun
        begun += 1
        await database.fetch("SELECT pg_sleep(4)", {})
        return await read_version(database, tenant_id, session_id)

    monkeypatch.setattr(api, "read_version", slowly)
    await submit(client, "s")
    reads = [asyncio.create_task(client.get("/v1/sessions/s/messages")) for _ in range(CANCELS)]
    await until(lambda: begun == CANCELS)

    async with asyncio.timeout(HANGS_SECONDS):
        submits = await asyncio.gather(*(post(client, f"other-{number}") for number in range(20)))
        stopped = await client.post("/v1/sessions/s/cancel")

    assert Counter(submits) == {202: 20}
    assert stopped.status_code == 202
    await asyncio.gather(*reads)
