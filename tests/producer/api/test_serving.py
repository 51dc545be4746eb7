"""The server as a process: it starts, says where, takes raw requests, and ends in order."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator

import pytest

from tests.producer.api.conftest import KEYS
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings

PROGRAM = "from turnstile.producer.app import serve; from turnstile.config.load_settings import load; serve(load())"


@pytest.fixture
async def server(settings: Settings) -> AsyncIterator[Process]:
    environment = {
        **os.environ,
        "DATABASE_URL": settings.database_url,
        "TURNSTILE_QUEUES": json.dumps([queue.model_dump() for queue in settings.queues]),
        "TURNSTILE_API_KEYS": ",".join(f"{tenant}:{key}" for tenant, key in KEYS.items()),
        "TURNSTILE_API_PORT": "0",
        "TURNSTILE_LEASE_SECONDS": "1.5",
        "TURNSTILE_LOG_FORMAT": "json",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, stdout=PIPE, stderr=PIPE, env=environment
    )
    yield process
    if process.returncode is None:
        process.kill()
        await process.wait()


async def port_of(server: Process) -> int:
    assert server.stderr is not None
    async for line in server.stderr:
        told = json.loads(line)
        if told["event"] == "api.listening":
            return int(told["port"])
    raise AssertionError("the server ended before it listened")


def head_of_submit(extra: str) -> bytes:
    lines = [
        "POST /v1/sessions/s/turns HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Authorization: Bearer {KEYS['acme']}",
        extra,
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode()


async def ask(port: int, *parts: bytes, headers: str) -> tuple[str, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head_of_submit(headers))
    for part in parts:
        writer.write(part)
    answer = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode()
    writer.close()
    return answer.partition("\r\n")[0], answer.lower()


async def test_it_serves_prints_nothing_and_ends_in_order(server: Process, database: Database) -> None:
    port = await port_of(server)
    body = b'{"input": "hello"}'
    status, headers = await ask(port, body, headers=f"Content-Length: {len(body)}")
    assert status == "HTTP/1.1 202 Accepted"
    assert "server:" not in headers
    server.send_signal(signal.SIGTERM)
    printed, logged = await asyncio.wait_for(server.communicate(), 20)
    assert server.returncode == 0
    assert printed == b""
    events = [json.loads(line)["event"] for line in logged.splitlines()]
    assert events == ["turn.submitted", "api.stopped"]


async def test_endless_chunks_are_refused_while_they_come(server: Process) -> None:
    port = await port_of(server)
    chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
    status, _ = await ask(port, *[chunk] * 6, headers="Transfer-Encoding: chunked")
    assert status.startswith("HTTP/1.1 413 ")


async def test_a_body_that_breaks_off_leaves_nothing(server: Process, database: Database) -> None:
    port = await port_of(server)
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(head_of_submit("Content-Length: 18") + b'{"input": "hel')
    await writer.drain()
    writer.transport.abort()
    body = b'{"input": "after"}'
    await ask(port, body, headers=f"Content-Length: {len(body)}")
    server.send_signal(signal.SIGTERM)
    _, logged = await asyncio.wait_for(server.communicate(), 20)
    assert [json.loads(line)["event"] for line in logged.splitlines()] == ["turn.submitted", "api.stopped"]
    rows = await database.fetch("SELECT content FROM messages", {})
    assert rows == [{"content": "after"}]


async def test_a_client_that_does_not_wait_for_its_answer_has_sent_its_turn(
    server: Process, database: Database
) -> None:
    port = await port_of(server)
    body = b'{"input": "bye"}'
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    async with database.connection() as connection, connection.transaction():
        await connection.execute("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
        writer.write(head_of_submit(f"Content-Length: {len(body)}") + body)
        await writer.drain()
        waiting = (
            "SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = relation WHERE relname = 'sessions' AND NOT granted"
        )
        await until(lambda: database.fetch(waiting, {}))
        writer.transport.abort()
        # Gone, and asked to stop as well: what was begun is still finished.
        server.send_signal(signal.SIGTERM)
    _, logged = await asyncio.wait_for(server.communicate(), 20)
    assert [json.loads(line)["event"] for line in logged.splitlines()] == ["turn.submitted", "api.stopped"]
    assert server.returncode == 0
    assert len(await database.fetch("SELECT 1 FROM turns", {})) == 1
