"""Responses of Postgres and Redis that the proxy drops: the command is done, the client gets an error."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import psycopg
import pytest
import redis.asyncio
import redis.exceptions
from structlog.testing import capture_logs

from tests.proof.proxy.control import ProxyControl
from tests.proof.tests.proxy.conftest import connect, through
from tests.support.claims import submit_turns
from tests.support.processors import message_about, processing
from tests.support.redis_hands import OwnSessionLock
from tests.support.stacks.stack import Stack
from turnstile.backends.postgres.database import Database
from turnstile.backends.postgres.place import DatabasePlace
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.worker.session_lock import Extension, Guard, name_lock

HANG_SECONDS = 20.0

Session = psycopg.AsyncConnection[tuple[object, ...]]


# --- Postgres


@pytest.fixture
async def port(proxy: ProxyControl) -> int:
    return await proxy.open("postgres", "worker-1")


@pytest.fixture
async def outside(database_url: str) -> AsyncIterator[Session]:
    """A connection past the proxy, and a table to write to."""
    opened = await connect(database_url)
    await opened.execute("CREATE TABLE notes (n int)")
    yield opened
    await opened.close()


async def notes(outside: Session) -> list[object]:
    return [row[0] for row in await (await outside.execute("SELECT n FROM notes ORDER BY n")).fetchall()]


async def lose(proxy: ProxyControl, **parameters: object) -> None:
    await proxy.set("postgres", "worker-1", "answer_lost", **parameters)


@pytest.mark.parametrize("prepare", [False, True], ids=["plain", "prepared"])
async def test_an_insert_whose_answer_is_lost_is_committed_and_its_client_gets_an_error(
    proxy: ProxyControl, database_url: str, port: int, outside: Session, prepare: bool
) -> None:
    session = await connect(database_url, port)
    for number in (1, 2):
        await session.execute("INSERT INTO notes VALUES (%s)", (number,), prepare=prepare)
    await lose(proxy, count=1)

    with pytest.raises(psycopg.OperationalError):
        async with asyncio.timeout(HANG_SECONDS):
            await session.execute("INSERT INTO notes VALUES (%s)", (3,), prepare=prepare)

    assert await notes(outside) == [1, 2, 3]
    assert await proxy.hits("postgres", "answer_lost") == 1
    async with await connect(database_url, port) as again:
        await again.execute("INSERT INTO notes VALUES (4)")


async def test_reads_are_answered_and_do_not_use_the_fault_up(
    proxy: ProxyControl, database_url: str, port: int, outside: Session
) -> None:
    session = await connect(database_url, port)
    await lose(proxy, count=1)

    assert await (await session.execute("SELECT n FROM notes WHERE n > %s", (0,))).fetchall() == []
    assert await proxy.hits("postgres", "answer_lost") == 0
    with pytest.raises(psycopg.OperationalError):
        await session.execute("INSERT INTO notes VALUES (1)")


async def test_of_a_pipeline_everything_is_committed_and_nothing_answered(
    proxy: ProxyControl, settings: Settings, port: int, outside: Session
) -> None:
    async with Database(
        DatabasePlace(through(settings.database_url, port)), "test", size=1, wait_seconds=10.0
    ) as database:
        statements = [
            ("SELECT n FROM notes", {}),
            ("INSERT INTO notes VALUES (%(n)s) RETURNING n", {"n": 1}),
            ("SELECT n FROM notes", {}),
        ]
        assert await database.fetch_pipelined(statements) == [[], [{"n": 1}], [{"n": 1}]]
        await lose(proxy, count=1)

        with pytest.raises(DatabaseUnavailableError):
            await database.fetch_pipelined(statements)

        assert await notes(outside) == [1, 1]
        assert len((await database.fetch_pipelined(statements))[2]) == 3


async def test_a_sync_before_the_statement_does_not_cut_it_short(
    proxy: ProxyControl, database_url: str, port: int, outside: Session
) -> None:
    session = await connect(database_url, port)
    await lose(proxy, count=1)

    async def write() -> None:
        async with session.pipeline() as pipeline:
            await session.execute("SELECT 1")
            await pipeline.sync()
            await session.execute("INSERT INTO notes VALUES (1)")

    with pytest.raises(psycopg.OperationalError):
        await write()
    assert await notes(outside) == [1]


async def test_inside_a_transaction_it_is_the_commit_whose_answer_is_lost(
    proxy: ProxyControl, database_url: str, port: int, outside: Session
) -> None:
    session = await connect(database_url, port)
    await lose(proxy, count=1)

    async def write() -> None:
        async with session.transaction():
            await session.execute("INSERT INTO notes VALUES (1)")
            await session.execute("INSERT INTO notes VALUES (2)")

    with pytest.raises(psycopg.OperationalError):
        await write()
    assert await notes(outside) == [1, 2]


# --- Redis


@pytest.fixture
async def keys_port(proxy: ProxyControl) -> int:
    return await proxy.open("redis", "worker-1")


@pytest.fixture
async def through_proxy(settings: Settings, keys_port: int) -> Settings:
    """The settings of a worker whose Redis is behind the proxy."""
    return settings.model_copy(update={"redis_url": through(settings.redis_url, keys_port)})


async def test_a_set_whose_answer_is_lost_is_set(
    proxy: ProxyControl, stack: Stack, keys_port: int, settings: Settings
) -> None:
    key = f"{settings.redis_prefix}x"
    client = redis.asyncio.Redis.from_url(through(stack.redis.url, keys_port), retry=None)
    await proxy.set("redis", "worker-1", "answer_lost", count=1)

    assert await client.get(key) is None
    with pytest.raises(redis.exceptions.ConnectionError):
        await client.set(key, "1")

    assert await client.get(key) == b"1"
    assert await client.set(key, "2")
    assert await proxy.hits("redis", "answer_lost") == 1
    await client.aclose()


async def test_a_lock_whose_answer_is_lost_is_given_back_at_the_end_of_its_hold(
    proxy: ProxyControl, through_proxy: Settings, database: Database, stack: Stack
) -> None:
    # Otherwise the lock would stay for a lease without an owner, and refuse every wake-up of its session.
    await submit_turns(database, through_proxy, "hello")
    lock = OwnSessionLock(through_proxy)
    assert await lock.acquire(name_lock(through_proxy, "t", "other", "ours")) is Guard.LOCKED
    await proxy.set("redis", "worker-1", "answer_lost", count=1)

    with processing(through_proxy, database, lock, "worker-1") as processor, capture_logs() as said:
        await processor.process(message_about(uuid4()))

    assert await proxy.hits("redis", "answer_lost") == 1
    # The alarms count what was unguarded, for whatever reason.
    assert [line["result"] for line in said if line["event"] == "session.lock"] == ["unguarded"]
    async with redis.asyncio.Redis.from_url(stack.redis.url, decode_responses=True) as outside:
        left = [key async for key in outside.scan_iter(f"{through_proxy.redis_prefix}lock:*")]
    assert [key for key in left if "other" not in key] == []
    await lock.close()


async def test_of_a_pipeline_of_locks_all_are_extended(
    proxy: ProxyControl, through_proxy: Settings, stack: Stack
) -> None:
    extender = OwnSessionLock(through_proxy)
    locks = [name_lock(through_proxy, "t", f"s-{number}", "ours") for number in range(5)]
    async with redis.asyncio.Redis.from_url(stack.redis.url) as outside:
        for lock in locks:
            await outside.set(lock.key, lock.token)
        await proxy.set("redis", "worker-1", "answer_lost", count=1)

        assert await extender.extend(locks) == [Extension.UNKNOWN] * 5

        assert all([await outside.pttl(lock.key) > 0 for lock in locks])
    await extender.close()
