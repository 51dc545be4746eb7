"""The API on tables that are missing or of another version: not ready, 503 with what to do, and never a 500."""

import asyncio
from typing import Any
from uuid import uuid4

import pytest
from httpx import AsyncClient, Response
from structlog.testing import capture_logs

from tests.producer.api.conftest import Connect
from tests.producer.api.expectations import expect_unavailable
from tests.support.poolers import refusing_pooler
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.backends.postgres.table_version import MISSING
from turnstile.config.settings import Settings
from turnstile.ops.migration_run import apply
from turnstile.ops.roles.grants import grant_again

PATH = "/v1/sessions/s/turns"


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.producer.app.DATABASE_WAIT_SECONDS", 0.5)


@pytest.fixture
def long_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests in which each call gets a connection, on a busy machine, too."""
    monkeypatch.setattr("turnstile.producer.app.DATABASE_WAIT_SECONDS", 30.0)


async def answers(client: AsyncClient) -> list[Response]:
    turn = f"/v1/turns/{uuid4()}"
    return await asyncio.gather(
        client.post(PATH, json={"input": "x"}),
        client.post(PATH, json={"input": "x", "on_busy": "reject"}),
        client.get(turn),
        client.get(f"{turn}/events"),
        client.post(f"{turn}/cancel"),
        client.post("/v1/sessions/s/cancel"),
        client.get("/v1/turns"),
        client.get(PATH),
        client.get("/v1/sessions/s/messages"),
    )


async def is_ready(client: AsyncClient) -> bool:
    return (await client.get("/readyz")).status_code == 200


async def takes_turns(client: AsyncClient) -> bool:
    return (await client.post(PATH, json={"input": "x"})).status_code == 202


async def each_says(client: AsyncClient, what: str) -> bool:
    found = await answers(client)
    for answer in found:
        expect_unavailable(answer)
    return {answer.json()["detail"] for answer in found} == {what}


def refusals(lines: list[Any]) -> list[str]:
    return [line["reason"] for line in lines if line["event"] == "database.refused"]


@pytest.mark.usefixtures("short_wait")
async def test_without_tables_every_route_says_what_to_do_until_they_are_there(
    settings: Settings, bare_url: str, connect: Connect
) -> None:
    with capture_logs() as lines:
        async with connect(settings.model_copy(update={"database_url": bare_url})) as client:
            # Each pool finds out for itself, a moment after the start.
            await until(lambda: each_says(client, MISSING))
            assert (await client.get("/healthz")).status_code == 200

            await asyncio.to_thread(apply, DatabasePlace(bare_url))

            assert await until(lambda: is_ready(client))
            assert await until(lambda: takes_turns(client))

    # One for each pool, however many calls there were.
    assert refusals(lines) == [MISSING] * 5
    assert not [line for line in lines if line["event"] == "api.unexpected_error"]


@pytest.mark.usefixtures("short_wait")
async def test_a_pooler_that_refuses_the_connections_is_named(settings: Settings, connect: Connect) -> None:
    refused = (
        "what DATABASE_URL leads to refuses a connection's startup options, as PgBouncer does; "
        "let it lead to Postgres itself"
    )
    with capture_logs() as lines:
        async with (
            refusing_pooler(": options") as url,
            connect(settings.model_copy(update={"database_url": url})) as client,
        ):
            await until(lambda: each_says(client, refused))

    # One for each pool, however many calls there were.
    assert refusals(lines) == [refused] * 5


@pytest.mark.usefixtures("long_wait")
async def test_no_call_waits_for_tables_that_are_known_to_be_missing(
    settings: Settings, bare_url: str, connect: Connect
) -> None:
    with capture_logs() as lines:
        async with connect(settings.model_copy(update={"database_url": bare_url})) as client:
            await until(lambda: refusals(lines) == [MISSING] * 5)

            async with asyncio.timeout(20):
                assert await each_says(client, MISSING)


@pytest.mark.usefixtures("short_wait")
@pytest.mark.parametrize(("serves_from", "status"), [("0001", 200), ("9998", 503)])
async def test_newer_tables_take_down_only_a_program_that_they_do_not_serve(
    settings: Settings, database: Database, connect: Connect, serves_from: str, status: int
) -> None:
    """As in a rolling deploy, and after going back by more than one release."""
    await database.fetch(
        "UPDATE turnstile_version SET version_num = '9999', serves_from = %(from)s", {"from": serves_from}
    )

    async with connect(settings) as client:
        if status == 200:
            assert await until(lambda: is_ready(client))
            assert await until(lambda: takes_turns(client))
        else:
            newer = "the tables are newer than this program can use: start a newer release of Turnstile"
            await until(lambda: each_says(client, newer))


@pytest.mark.usefixtures("long_wait")
async def test_a_running_api_whose_tables_go_down_responds_503(
    settings: Settings, connect: Connect, database_url: str
) -> None:
    place = DatabasePlace(database_url)
    async with connect(settings) as client:
        for _ in range(2):
            await asyncio.gather(*(answers(client) for _ in range(3)))

        await asyncio.to_thread(apply, place, "base", down=True)

        with capture_logs() as lines:
            found = await answers(client)
            not_ready = await client.get("/readyz")
        await asyncio.to_thread(apply, place)
        await asyncio.to_thread(grant_again, place)
        assert await until(lambda: is_ready(client))

    for answer in found:
        expect_unavailable(answer)
        assert "run `turnstile migrate`" in answer.json()["detail"]
    expect_unavailable(not_ready)
    assert MISSING not in not_ready.text
    assert not [line for line in lines if line["event"] == "api.unexpected_error"]
    assert [line["reason"] for line in lines if line["event"] == "api.not_ready"] == [MISSING]
