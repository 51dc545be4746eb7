"""Clients that want more connections, streams and waits than the API has: other clients are served all the same."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from httpx import AsyncClient
from structlog.testing import capture_logs

from tests.producer.api.calls import KEYS, submit
from tests.producer.api.conftest import Connect
from tests.producer.api.expectations import expect_problem
from tests.producer.api.sse_client import serving
from tests.support.probes import until
from turnstile.config.settings import Settings

OPEN_FILES = 40
"""As `ulimit -n` allows them. A connection above three quarters of them closes another."""
HANGS_SECONDS = 120.0

UNFINISHED = {
    "half a head": b"GET /v1/turns HTTP/1.1\r\nX: ",
    "idle after a response": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "half a body": b"POST /v1/sessions/s/turns HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer " + KEYS["acme"].encode() + b"\r\n\r\n",
}
CONNECTIONS = 32
"""Half of them for streams and waits, three quarters of those for one tenant."""


@asynccontextmanager
async def connections(port: int, sent: bytes, count: int) -> AsyncIterator[list[tuple[StreamReader, StreamWriter]]]:
    """So many that have sent this."""
    opened: list[tuple[StreamReader, StreamWriter]] = []
    try:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            opened.append((reader, writer))
        yield opened
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def answer_to(reader: StreamReader) -> tuple[int, bytes]:
    """The status and the headers, after them what is there of the body."""
    head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), head.lower()


async def expect_served(client: httpx.AsyncClient, session: str) -> None:
    submitted = await client.post(f"/v1/sessions/{session}/turns", json={"input": "x"})
    assert submitted.status_code == 202, submitted.text
    assert (await client.get(submitted.json()["links"]["self"])).status_code == 200
    assert (await client.post(submitted.json()["links"]["cancel"])).status_code == 202


@pytest.mark.parametrize("kind", UNFINISHED)
async def test_unfinished_requests_do_not_keep_other_clients_out(
    settings: Settings, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.producer.app.getrlimit", lambda _: (OPEN_FILES, OPEN_FILES))
    async with serving(settings) as served, served.client("globex") as client, asyncio.timeout(HANGS_SECONDS):
        with capture_logs() as logs:
            async with connections(served.port, UNFINISHED[kind], 2 * OPEN_FILES):
                await expect_served(client, "s")

    assert 0 < [line["event"] for line in logs].count("api.connections_full") < OPEN_FILES / 2


async def test_streams_of_one_tenant_do_not_keep_others_out(settings: Settings) -> None:
    async with (
        serving(settings.model_copy(update={"api_connections": CONNECTIONS})) as served,
        served.client("acme") as acme,
        served.client("globex") as globex,
    ):
        path = f"/v1/turns/{await submit(acme)}/events"
        request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEYS['acme']}\r\n\r\n"

        async with asyncio.timeout(HANGS_SECONDS), connections(served.port, request.encode(), 16) as readers:
            answers = [await answer_to(reader) for reader, _ in readers]
            refused = await acme.get(path)
            await expect_served(acme, "mine")
            await expect_served(globex, "theirs")
            async with globex.stream("GET", f"/v1/turns/{await submit(globex)}/events") as stream:
                assert stream.status_code == 200

    assert Counter(status for status, _ in answers) == {200: 12, 429: 4}
    expect_problem(refused, 429, "too-many-streams")
    assert refused.headers["retry-after"] == "2"


async def test_a_wait_without_a_place_gets_its_response_at_once(settings: Settings, connect: Connect) -> None:
    async with connect(settings.model_copy(update={"api_connections": CONNECTIONS})) as client:
        turn = f"/v1/turns/{await submit(client)}"
        waits = [asyncio.create_task(client.get(turn, params={"wait": 50})) for _ in range(16)]
        await until(lambda: sum(task.done() for task in waits) == 4)
        more = await client.get(turn, params={"wait": 50})
        submitted = await client.post("/v1/sessions/t/turns", json={"input": "x"}, headers={"Prefer": "wait=50"})
        for task in waits:
            task.cancel()
        await asyncio.wait(waits)

    assert (more.status_code, more.json()["status"]) == (200, "PENDING")
    assert more.headers["retry-after"]
    assert submitted.status_code == 202


async def test_a_flood_of_wrong_keys_is_a_few_lines_of_the_log(client: AsyncClient) -> None:
    with capture_logs() as logs:
        answers = [await client.get("/v1/turns", headers={"Authorization": "Bearer guessed-key"}) for _ in range(20)]

    assert {answer.status_code for answer in answers} == {401}
    assert 0 < [line["event"] for line in logs].count("api.unauthorized") < 10
    assert "guessed-key" not in str(logs)
