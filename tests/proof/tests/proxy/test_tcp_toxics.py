"""What every TCP connection through the proxy may suffer, seen by real clients of Postgres and Redis."""

import asyncio
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
import redis.asyncio
import redis.exceptions

from tests.proof.proxy.control import ProxyControl
from tests.proof.tests.proxy.conftest import connect, through
from tests.support.probes import until
from tests.support.stacks.stack import Stack

HANG_SECONDS = 20.0
LARGE = 3_000_000

Session = psycopg.AsyncConnection[tuple[object, ...]]


@pytest.fixture
async def port(proxy: ProxyControl) -> int:
    return await proxy.open("postgres", "worker-1")


@pytest.fixture
async def session(stack: Stack, port: int) -> AsyncIterator[Session]:
    """A connection through the gate of worker-1."""
    opened = await connect(stack.postgres.url, port)
    yield opened
    await opened.close()


async def struck(proxy: ProxyControl, toxic: str) -> None:
    """Returns when the toxic has had an effect."""

    async def has_struck() -> bool:
        return await proxy.hits("postgres", toxic) > 0

    await until(has_struck)


async def ask(session: Session, statement: str = "SELECT 1") -> object:
    async with asyncio.timeout(HANG_SECONDS):
        row = await (await session.execute(statement)).fetchone()  # type: ignore[call-overload]
    return row[0]


async def test_without_toxics_all_passes_both_ways(proxy: ProxyControl, session: Session) -> None:
    assert await ask(session, f"SELECT length('{'x' * LARGE}')") == LARGE
    assert await ask(session, f"SELECT repeat('x', {LARGE})") == "x" * LARGE

    counts = (await proxy.counts())["postgres/worker-1"]
    assert (counts["connections"], counts["open"], counts["requests"]) == (1, 1, 2)


async def test_latency_delays_the_answer(proxy: ProxyControl, session: Session) -> None:
    await proxy.set("postgres", "worker-1", "latency", delay=0.2, jitter=0.05)
    began = time.monotonic()

    assert await ask(session) == 1

    # Once on the way there and once on the way back, neither less than 0.15 s.
    assert time.monotonic() - began >= 0.3
    assert await proxy.hits("postgres", "latency") >= 2


async def test_a_stalled_connection_goes_on_after_the_heal_and_has_lost_nothing(
    proxy: ProxyControl, session: Session
) -> None:
    await proxy.set("postgres", "worker-1", "stall")
    asked = asyncio.create_task(ask(session, f"SELECT repeat('x', {LARGE})"))
    await struck(proxy, "stall")
    assert not asked.done()
    await proxy.heal("postgres", "worker-1")

    assert await asked == "x" * LARGE
    assert await ask(session) == 1


async def test_what_was_stalled_arrives_although_its_sender_is_gone(
    proxy: ProxyControl, stack: Stack, session: Session, database_url: str, port: int
) -> None:
    gone = await connect(database_url, port)
    outside = await connect(database_url)
    await outside.execute("CREATE TABLE late (n int)")
    await proxy.set("postgres", "worker-1", "stall")
    insert = asyncio.create_task(gone.execute("INSERT INTO late VALUES (1)"))
    await struck(proxy, "stall")
    insert.cancel()
    gone.pgconn.finish()
    await proxy.heal()

    async def arrived() -> object:
        return await ask(outside, "SELECT count(*) FROM late")

    await until(arrived)
    await outside.close()


async def test_a_dripping_connection_delivers_all_of_it(proxy: ProxyControl, session: Session) -> None:
    await proxy.set("postgres", "worker-1", "drip", size=5, interval=0.005)

    assert await ask(session, "SELECT repeat('x', 300)") == "x" * 300

    assert await proxy.hits("postgres", "drip") >= 60


async def test_a_reset_breaks_connections_and_new_ones_until_healed(
    proxy: ProxyControl, stack: Stack, session: Session, port: int
) -> None:
    await proxy.set("postgres", "worker-1", "reset")

    with pytest.raises(psycopg.OperationalError):
        await ask(session)
    with pytest.raises(psycopg.OperationalError, match=r"reset by peer|server closed"):
        await connect(stack.postgres.url, port)
    # The one that was open and the one that came.
    assert await proxy.hits("postgres", "reset") >= 2

    await proxy.heal()
    async with await connect(stack.postgres.url, port) as again:
        assert await ask(again) == 1


async def test_a_cut_closes_connections_and_refuses_new_ones_at_the_same_port_until_healed(
    proxy: ProxyControl, stack: Stack, session: Session, port: int
) -> None:
    await proxy.set("postgres", "worker-1", "cut")

    with pytest.raises(psycopg.OperationalError):
        await ask(session)
    with pytest.raises(psycopg.OperationalError, match="refused"):
        await connect(stack.postgres.url, port)
    assert await proxy.hits("postgres", "cut") >= 1

    await proxy.heal()
    async with await connect(stack.postgres.url, port) as again:
        assert await ask(again) == 1


async def test_a_half_open_connection_swallows_everything_and_is_reset_by_the_heal(
    proxy: ProxyControl, session: Session
) -> None:
    await proxy.set("postgres", "worker-1", "half_open")
    asked = asyncio.create_task(ask(session))
    await struck(proxy, "half_open")
    assert not asked.done()
    await proxy.heal()

    with pytest.raises(psycopg.OperationalError):
        await asked


async def test_a_new_connection_to_a_half_open_gate_is_accepted_and_times_out(
    proxy: ProxyControl, stack: Stack
) -> None:
    port = await proxy.open("redis", "worker-1")
    await proxy.set("redis", "worker-1", "half_open")
    client = redis.asyncio.Redis.from_url(
        through(stack.redis.url, port), socket_timeout=0.3, socket_connect_timeout=5, retry=None
    )

    with pytest.raises(redis.exceptions.TimeoutError):
        await client.execute_command("PING")

    await proxy.heal()
    assert await client.execute_command("PING")
    await client.aclose()


async def test_one_worker_is_cut_off_from_postgres_but_not_from_redis_and_the_others_from_neither(
    proxy: ProxyControl, stack: Stack, port: int
) -> None:
    others, keys = await proxy.open("postgres", "worker-2"), await proxy.open("redis", "worker-1")

    await proxy.set("postgres", "worker-1", "cut")

    with pytest.raises(psycopg.OperationalError):
        await connect(stack.postgres.url, port)
    async with await connect(stack.postgres.url, others) as session:
        assert await ask(session) == 1
    async with redis.asyncio.Redis.from_url(through(stack.redis.url, keys)) as client:
        assert await client.execute_command("PING")
