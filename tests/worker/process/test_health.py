"""Health over HTTP: live without Redis and Postgres, ready with them."""

import asyncio
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest

from turnstile.errors import AddressUnusableError
from turnstile.worker.process.health import Health, serve_health


class Checks:
    """What the worker would say of itself."""

    def __init__(self) -> None:
        self.live: dict[str, bool] = {"loop": True, "receiving": True}
        self.ready: dict[str, bool] = {"postgres": True, "redis": True}
        self.asked_for_ready = 0

    def are_live(self) -> Mapping[str, bool]:
        return self.live

    async def are_ready(self) -> Mapping[str, bool]:
        self.asked_for_ready += 1
        return self.ready


@pytest.fixture
def checks() -> Checks:
    return Checks()


@pytest.fixture
async def server(checks: Checks) -> AsyncIterator[asyncio.Server]:
    opened = await serve_health(Health(checks.are_live, checks.are_ready), 0)
    yield opened
    opened.close()


def port_of(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


@pytest.fixture
async def client(server: asyncio.Server) -> AsyncIterator[httpx.AsyncClient]:
    address = f"http://127.0.0.1:{port_of(server)}"
    async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=30) as opened:
        yield opened


async def test_a_worker_that_works_is_live_and_ready(client: httpx.AsyncClient) -> None:
    live, ready = await client.get("/healthz"), await client.get("/readyz")

    assert (live.status_code, live.json()) == (200, {"ok": True, "checks": {"loop": True, "receiving": True}})
    assert ready.status_code == 200
    assert ready.json()["checks"] == {"loop": True, "receiving": True, "postgres": True, "redis": True}


@pytest.mark.parametrize("broken", ["loop", "receiving"])
async def test_a_worker_that_is_stuck_or_deaf_is_neither_live_nor_ready(
    client: httpx.AsyncClient, checks: Checks, broken: str
) -> None:
    checks.live[broken] = False

    live, ready = await client.get("/healthz"), await client.get("/readyz")

    assert (live.status_code, ready.status_code) == (503, 503)
    assert live.json()["checks"][broken] is False


@pytest.mark.parametrize("broken", ["postgres", "redis"])
async def test_an_outage_makes_a_worker_not_ready_and_kills_nobody(
    client: httpx.AsyncClient, checks: Checks, broken: str
) -> None:
    checks.ready[broken] = False

    live, ready = await client.get("/healthz"), await client.get("/readyz")

    assert (live.status_code, ready.status_code) == (200, 503)
    assert ready.json()["checks"][broken] is False


async def test_whether_it_is_live_is_answered_without_asking_anybody(client: httpx.AsyncClient, checks: Checks) -> None:
    await client.get("/healthz")

    assert checks.asked_for_ready == 0


async def test_a_query_is_ignored(client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz?from=balancer")).status_code == 200


@pytest.mark.parametrize("path", ["/", "/metrics", "/healthz/"])
async def test_other_paths_are_not_found(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 404


@pytest.mark.parametrize(
    "nonsense", [b"\r\n\r\n", b"GET", b"x" * 20_000, b"\x16\x03\x01\r\n\r\n"], ids=["empty", "cut", "long", "tls"]
)
async def test_nonsense_is_not_answered_and_does_no_harm(
    server: asyncio.Server, client: httpx.AsyncClient, nonsense: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server))
    writer.write(nonsense)
    writer.write_eof()
    try:
        answer = await asyncio.wait_for(reader.read(), 30)
    except ConnectionError:
        answer = b""
    writer.close()

    assert answer == b""
    assert (await client.get("/healthz")).status_code == 200


async def test_many_may_ask_at_once(client: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(client.get("/readyz") for _ in range(50)))

    assert {answer.status_code for answer in answers} == {200}


async def test_a_port_that_is_taken_is_refused_by_its_number(server: asyncio.Server, checks: Checks) -> None:
    with pytest.raises(AddressUnusableError, match=f"^port {port_of(server)} is taken$"):
        await serve_health(Health(checks.are_live, checks.are_ready), port_of(server))
