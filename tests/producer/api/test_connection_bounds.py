"""A server that may open few files, and clients that want more connections than that: others are served all the same."""

import asyncio
import json
import os
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.producer.api.conftest import KEYS
from tests.producer.api.expectations import expect_problem
from tests.support.probes import until
from turnstile.config.settings import Settings

OPEN_FILES = 256
MORE_THAN_THAT = 320
"""With what the tests have open besides, below the 1,024 that a shell allows."""

PROGRAM = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({OPEN_FILES}, {OPEN_FILES}))
from turnstile.producer.app import serve
from turnstile.config.load_settings import load
serve(load())
"""
HANGS_SECONDS = 120.0
LOG_BYTES = 100_000


@dataclass(frozen=True, slots=True)
class Small:
    """A server with a low limit of open files."""

    process: Process
    port: int
    log: Path

    def client(self, tenant: str) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {KEYS[tenant]}"}
        return httpx.AsyncClient(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=60, trust_env=False)

    def events(self) -> Counter[str]:
        return Counter(json.loads(line)["event"] for line in self.log.read_text().splitlines())


@pytest.fixture
async def small(settings: Settings, tmp_path: Path) -> AsyncIterator[Small]:
    environment = {
        **os.environ,
        "DATABASE_URL": settings.database_url,
        "REDIS_URL": settings.redis_url,
        "TURNSTILE_QUEUES": json.dumps([queue.model_dump() for queue in settings.queues]),
        "TURNSTILE_API_KEYS": ",".join(f"{tenant}:{key}" for tenant, key in KEYS.items()),
        "TURNSTILE_API_PORT": "0",
        "TURNSTILE_LEASE_SECONDS": "1.5",
        "TURNSTILE_LOG_FORMAT": "json",
    }
    path = tmp_path / "log"
    with path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, stderr=log, env=environment)
    try:
        port = await until(lambda: port_of(path) or process.returncode, within=120)
        assert process.returncode is None, path.read_text()
        yield Small(process, port, path)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def port_of(log: Path) -> int | None:
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    return next((line["port"] for line in lines if line["event"] == "api.listening"), None)


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


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /v1/turns HTTP/1.1\r\nX: ",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/sessions/s/turns HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
        b"POST /v1/sessions/s/turns HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer " + KEYS["acme"].encode() + b"\r\n\r\n",
    ],
    ids=["silent", "half-a-head", "idle-after-an-answer", "refused-body", "half-a-body"],
)
async def test_connections_that_send_no_whole_request_keep_nobody_out(small: Small, sent: bytes) -> None:
    others = connections(small.port, sent, MORE_THAN_THAT)
    async with asyncio.timeout(HANGS_SECONDS), others, small.client("globex") as client:
        await expect_served(client, "other")

    assert small.log.stat().st_size < LOG_BYTES
    assert small.events()["api.connections_full"] > 0
    assert small.process.returncode is None


async def test_readers_of_one_tenant_keep_nobody_out(small: Small) -> None:
    async with small.client("acme") as acme, small.client("globex") as globex:
        links = (await acme.post("/v1/sessions/s/turns", json={"input": "x"})).json()["links"]
        wish = f"GET {links['self']}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEYS['acme']}\r\n\r\n"

        # One after the other, as they would come: all are let in to ask, and each is answered.
        async with asyncio.timeout(HANGS_SECONDS), connections(small.port, wish.encode(), 150) as readers:
            answers = [await answer_to(reader) for reader, _ in readers]
            refused = await acme.get(f"{links['self']}/events")
            await expect_served(acme, "mine")
            await expect_served(globex, "theirs")
            theirs = (await globex.post("/v1/sessions/s/turns", json={"input": "x"})).json()["links"]
            async with globex.stream("GET", f"{theirs['self']}/events") as stream:
                assert stream.status_code == 200

    # Of the 256 files three quarters are for connections, half of these for streams, half of those for one tenant.
    assert Counter(status for status, _ in answers) == {200: 48, 429: 102}
    expect_problem(refused, 429, "too-many-streams")
    assert refused.headers["retry-after"] == "2"
    assert small.log.stat().st_size < LOG_BYTES


async def test_a_wait_that_finds_no_place_is_answered_at_once(small: Small) -> None:
    async with small.client("acme") as acme:
        turn = (await acme.post("/v1/sessions/s/turns", json={"input": "x"})).json()["links"]["self"]
        wish = f"GET {turn}?wait=50 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEYS['acme']}\r\n\r\n"

        async with asyncio.timeout(HANGS_SECONDS), connections(small.port, wish.encode(), 60) as waiting:
            answered = [asyncio.create_task(answer_to(reader)) for reader, _ in waiting]
            # One wait takes long. The bound is reached when the first is answered before its time.
            await asyncio.wait(answered, return_when=asyncio.FIRST_COMPLETED)
            await until(lambda: sum(task.done() for task in answered) == 12)
            more = await acme.get(turn, params={"wait": 50})
            submitted = await acme.post("/v1/sessions/t/turns", json={"input": "x"}, headers={"Prefer": "wait=50"})
            for task in answered:
                task.cancel()

    assert (more.status_code, more.json()["status"]) == (200, "PENDING")
    assert more.headers["retry-after"]
    assert submitted.status_code == 202


async def test_a_flood_of_wrong_keys_is_a_few_lines_of_the_log(small: Small) -> None:
    async with small.client("acme") as client:
        wrong: dict[str, Any] = {"headers": {"Authorization": "Bearer guessed-key"}}
        answers = [await client.get("/v1/turns", **wrong) for _ in range(200)]

    assert {answer.status_code for answer in answers} == {401}

    def told() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in small.log.read_text().splitlines()]
        return [line for line in lines if line["event"] == "api.unauthorized"]

    await until(lambda: sum(line["count"] for line in told()) == 200)
    assert len(told()) < 50
    assert "guessed-key" not in small.log.read_text()
