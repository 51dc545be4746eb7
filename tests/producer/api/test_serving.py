"""The server: it starts, says where, and finishes what was begun before it stops."""

import asyncio
import json
import os
import signal
import struct
import sys
from asyncio.subprocess import PIPE
from socket import SO_LINGER, SOL_SOCKET

from structlog.testing import capture_logs

from tests.producer.api.calls import KEYS
from tests.producer.api.sse_client import serving
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings

PROGRAM = "from turnstile.producer.app import serve; from turnstile.config.config_file import load; serve(load())"


def submit(body: bytes, length: int | None = None) -> bytes:
    lines = [
        "POST /v1/sessions/s/turns HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"Authorization: Bearer {KEYS['acme']}",
        f"Content-Length: {length or len(body)}",
    ]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode() + body


async def ask(port: int, request: bytes) -> str:
    """The head of the response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode()
    writer.close()
    return answer


async def test_the_process_serves_prints_nothing_and_ends_in_order(settings: Settings) -> None:
    environment = {
        **os.environ,
        "DATABASE_URL": settings.database_url,
        "TURNSTILE_QUEUES": json.dumps([queue.model_dump() for queue in settings.queues]),
        "TURNSTILE_API_KEYS": ",".join(f"{tenant}:{key}" for tenant, key in KEYS.items()),
        "TURNSTILE_API_PORT": "0",
        "TURNSTILE_LEASE_SECONDS": "1.5",
        "TURNSTILE_LOG_FORMAT": "json",
    }
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, stdout=PIPE, stderr=PIPE, env=environment
    )
    try:
        assert server.stderr is not None
        listening = json.loads(await server.stderr.readline())
        assert listening["event"] == "api.listening"
        head = await ask(listening["port"], submit(b'{"input": "hello"}'))
        server.send_signal(signal.SIGTERM)
        printed, logged = await asyncio.wait_for(server.communicate(), 20)
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()

    assert head.startswith("HTTP/1.1 202 Accepted\r\n")
    assert "server:" not in head.lower()
    assert (server.returncode, printed) == (0, b"")
    assert [json.loads(line)["event"] for line in logged.splitlines()] == ["turn.submitted", "api.used", "api.stopped"]


async def test_a_body_that_breaks_off_leaves_nothing(settings: Settings, database: Database) -> None:
    with capture_logs() as lines:
        async with serving(settings) as served:
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            writer.write(submit(b'{"input": "hel', length=18))
            await writer.drain()
            writer.transport.abort()
            await ask(served.port, submit(b'{"input": "after"}'))

    assert await database.fetch("SELECT content FROM messages", {}) == [{"content": "after"}]
    assert {line["log_level"] for line in lines} == {"info"}


async def test_a_submit_is_finished_though_its_client_has_left_and_the_server_stops(
    settings: Settings, database: Database
) -> None:
    waiting = "SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = relation WHERE relname = 'sessions' AND NOT granted"
    async with serving(settings) as served, database.connection() as connection, connection.transaction():
        await connection.execute("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(submit(b'{"input": "bye"}'))
        await until(lambda: database.fetch(waiting, {}))
        # A reset: after a plain close the server would first write, to see whether the client still reads.
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        await until(lambda: not served.server.server_state.connections)
        served.server.should_exit = True

    assert await database.fetch("SELECT content FROM messages", {}) == [{"content": "bye"}]


async def test_health_answers_head_as_some_load_balancers_ask(settings: Settings) -> None:
    async with serving(settings) as served:
        heads = [
            await ask(served.port, f"HEAD {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            for path in ("/healthz", "/readyz")
        ]

    assert [head.split(" ", 2)[1] for head in heads] == ["200", "200"]


async def test_a_request_in_absolute_form_is_answered_as_the_same_in_origin_form(
    settings: Settings, database: Database
) -> None:
    absolute = submit(b'{"input": "hi"}').replace(b" /v1", b" http://api.example.com:8080/v1", 1)
    async with serving(settings) as served:
        submitted = await ask(served.port, absolute)
        health = await ask(served.port, b"GET http://api.example.com/healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        root = await ask(served.port, b"GET http://api.example.com HTTP/1.1\r\nHost: x\r\n\r\n")

    assert [head.split(" ", 2)[1] for head in (submitted, health, root)] == ["202", "200", "404"]
    assert await database.fetch("SELECT content FROM messages", {}) == [{"content": "hi"}]
