"""Health over HTTP: live without Redis and Postgres, ready with them."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from tests.support.probes import until
from turnstile.errors import AddressUnusableError
from turnstile.telemetry.side_port import MOST_CONNECTIONS
from turnstile.worker.lifecycle.health import HealthPort, serve_health


class Checks:
    """The results of the worker's checks."""

    def __init__(self) -> None:
        self.live: dict[str, bool] = {"loop": True, "receiving": True}
        self.ready: dict[str, bool | str] = {"postgres": True, "redis": True}
        self.asked_for_ready = 0

    def are_live(self) -> Mapping[str, bool]:
        return self.live

    async def are_ready(self) -> Mapping[str, bool | str]:
        self.asked_for_ready += 1
        return self.ready


@pytest.fixture
def checks() -> Checks:
    return Checks()


@pytest.fixture
async def server(checks: Checks) -> AsyncIterator[HealthPort]:
    opened = await serve_health(checks.are_live, checks.are_ready, "127.0.0.1", 0)
    yield opened
    await opened.cleanup()


@pytest.fixture
async def client(server: HealthPort) -> AsyncIterator[httpx.AsyncClient]:
    address = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as opened:
        yield opened


async def test_a_healthy_worker_is_live_without_a_call_to_a_server_and_ready(
    client: httpx.AsyncClient, checks: Checks
) -> None:
    live = await client.get("/healthz")
    assert checks.asked_for_ready == 0
    ready = await client.get("/readyz?from=balancer")

    assert (live.status_code, live.json()) == (200, {"ok": True, "checks": {"loop": True, "receiving": True}})
    assert ready.status_code == 200
    assert ready.json()["checks"] == {"loop": True, "receiving": True, "postgres": True, "redis": True}


async def test_a_worker_that_receives_nothing_is_neither_live_nor_ready(
    client: httpx.AsyncClient, checks: Checks
) -> None:
    checks.live["receiving"] = False

    live, ready = await client.get("/healthz"), await client.get("/readyz")

    assert (live.status_code, ready.status_code) == (503, 503)
    assert live.json()["checks"]["receiving"] is False


async def test_an_outage_makes_a_worker_not_ready_and_restarts_none(client: httpx.AsyncClient, checks: Checks) -> None:
    checks.ready["postgres"] = False

    live, ready = await client.get("/healthz"), await client.get("/readyz")

    assert (live.status_code, ready.status_code) == (200, 503)
    assert ready.json()["checks"]["postgres"] is False


async def test_readyz_shows_a_reason_and_counts_it_as_not_ready(client: httpx.AsyncClient, checks: Checks) -> None:
    checks.ready["postgres"] = "the database has no tables"

    ready = await client.get("/readyz")

    assert (ready.status_code, ready.json()["ok"]) == (503, False)
    assert ready.json()["checks"]["postgres"] == "the database has no tables"


async def test_a_taken_port_is_refused_with_its_number(server: HealthPort, checks: Checks) -> None:
    with pytest.raises(AddressUnusableError, match=f"^port {server.port} is taken by another program: stop it, "):
        await serve_health(checks.are_live, checks.are_ready, "127.0.0.1", server.port)


async def test_idle_connections_stop_no_probe_and_take_a_bounded_number_of_files(
    server: HealthPort, client: httpx.AsyncClient
) -> None:
    idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(3 * MOST_CONNECTIONS)]
    for _, writer in idle:
        writer.write(b"GET /h")

    assert (await client.get("/healthz")).status_code == 200

    async with asyncio.timeout(30):
        assert [await reader.read() for reader, _ in idle[: 2 * MOST_CONNECTIONS]] == [b""] * 2 * MOST_CONNECTIONS
    for _, writer in idle:
        writer.close()


async def test_a_connection_ends_after_a_time(server: HealthPort, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.worker.lifecycle.health.LONGEST_SECONDS", 0.01)

    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    async with asyncio.timeout(30):
        assert await reader.read() == b""
    writer.close()


class NoFilesLeft(socket.socket):
    """A listening socket that can accept nothing."""

    failures = 0

    def accept(self) -> Any:
        self.failures += 1
        raise OSError(errno.EMFILE, "Too many open files")


async def test_without_a_file_descriptor_a_probe_waits_and_the_log_has_one_line_a_try(
    checks: Checks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """asyncio tries again after a second, and would fail a hundred times in each try."""
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 60.0)
    listening = NoFilesLeft()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    monkeypatch.setattr("turnstile.worker.lifecycle.health.listen", lambda *_: listening)
    server = await serve_health(checks.are_live, checks.are_ready, "127.0.0.1", 0)

    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await until(lambda: listening.failures)
    writer.close()
    await server.cleanup()

    assert listening.failures == 1
    assert len([record for record in caplog.records if "out of system resource" in record.message]) == 1
