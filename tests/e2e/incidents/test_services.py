"""Incidents of Postgres, Redis and SQS, staged on real processes: at most three commands name each (`make incidents`)."""

import asyncio
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest
import redis
from psycopg.sql import SQL, Identifier

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.e2e.incidents.conftest import OperatorOnCall
from tests.producer.api.network_faults import at_port, cable_to
from tests.support.database_clock import with_other_clock
from tests.support.database_roles import RoleUrls, database_with_roles
from tests.support.probes import until
from tests.support.row_locks import rows_locked
from tests.support.scripted_sqs import answer, scripted
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.ops.terminal.exit_codes import ExitCode


@pytest.fixture
def roles(stack: Stack) -> Iterator[RoleUrls]:
    """A database with roles, of which none is a superuser."""
    with database_with_roles(stack) as made:
        yield made


async def test_redis_down(product: Product, start_worker: StartWorker, on_call: OperatorOnCall, stack: Stack) -> None:
    """Redis is away. Turns go on without locks; the operator learns why they are slower."""
    start_worker()
    await asyncio.to_thread(stack.redis.stop)
    try:
        await product.submit({"do": "echo"})
        await product.ended()

        ran = await on_call.runs("doctor", "--no-dlq")
    finally:
        await asyncio.to_thread(stack.redis.start)

    assert ran.code != 0
    assert on_call.has_read("service-unreachable redis")


@pytest.mark.silent_redis
async def test_slow_redis(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """Redis answers, and later than workers wait."""
    start_worker()
    await product.submit({"do": "echo"})
    await product.ended()
    with redis.Redis.from_url(settings.redis_url) as server:
        server.client_pause(5000)

    await on_call.runs("doctor", "--no-dlq")

    assert on_call.has_read("redis-slow redis", "no answer within 1 s")


async def test_locked_row(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """Somebody's psql has locked the row of a turn, and stays open."""
    worker = start_worker()
    await until(lambda: worker.said("worker.started"))
    [turn] = await product.submit({"do": "echo"}, send=False)
    with rows_locked(settings) as transaction:
        pid = transaction.info.backend_pid
        await product.send(("s", turn))

        await on_call.runs("why", str(turn))

    assert on_call.has_read("Another transaction keeps its row locked", f"SELECT pg_terminate_backend({pid})")


async def test_locked_table(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """Somebody's psql has locked the whole table, and stays open."""
    worker = start_worker()
    await until(lambda: worker.said("worker.started"))
    with psycopg.connect(settings.database_url, application_name="notebook") as transaction:
        transaction.execute("LOCK TABLE turns")
        pid = transaction.info.backend_pid

        await on_call.runs("doctor", "--no-dlq")

    assert on_call.has_read(f"table-locked {pid}", "application notebook", f"SELECT pg_terminate_backend({pid})")


async def test_postgres_failover(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """The server has become a replica: it accepts connections and refuses writes."""
    start_worker()
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        [name] = connection.execute("SELECT current_database()").fetchone() or ("",)
        connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')  # type: ignore[arg-type]
    try:
        ran = await on_call.runs("doctor", "--no-dlq")
    finally:
        with psycopg.connect(settings.database_url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')  # type: ignore[arg-type]

    assert ran.code == 4
    assert on_call.has_read("read-only")


async def test_full_connections(
    roles: RoleUrls, start_worker: StartWorker, on_call: OperatorOnCall, stack: Stack
) -> None:
    """The fleet has all connections that Postgres gives it; the operator gets none."""
    worker = start_worker(DATABASE_URL=roles.application)
    await until(lambda: worker.said("worker.started"))
    with psycopg.connect(stack.postgres.url, autocommit=True) as superuser:
        superuser.execute(SQL("ALTER ROLE {} CONNECTION LIMIT 1").format(Identifier(roles.application_role)))

    ran = await on_call.runs("doctor", "--no-dlq", DATABASE_URL=roles.application)

    assert ran.code == ExitCode.UNAVAILABLE
    assert on_call.has_read("service-unreachable postgres", "too many connections for role")


async def test_other_clock(on_call: OperatorOnCall, settings: Settings, start_worker: StartWorker) -> None:
    """The database's clock is five minutes behind: as the operator's session sees it, for the server's own can't be set here."""
    start_worker()

    await on_call.runs("doctor", "--no-dlq", DATABASE_URL=with_other_clock(settings, -300))

    assert on_call.has_read("clocks-differ postgres", "the database's is 5m behind this machine's")


async def test_sqs_down(product: Product, start_worker: StartWorker, on_call: OperatorOnCall, stack: Stack) -> None:
    """SQS is away."""
    place = urlsplit(stack.sqs.address)
    async with cable_to(place.hostname or "", place.port or 0) as cable:
        url = at_port(stack.sqs.address, cable.port)
        worker = start_worker(AWS_ENDPOINT_URL_SQS=url)
        await until(lambda: worker.said("worker.started"))
        await cable.cut()
        await until(lambda: worker.said("consumer.receive_failed"))

        ran = await on_call.runs("doctor", "--no-dlq", AWS_ENDPOINT_URL_SQS=url)

    assert ran.code == ExitCode.UNAVAILABLE
    assert on_call.has_read("service-unreachable sqs", "sqs-throttled.md")


async def test_expired_keys(start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """AWS refuses the credentials of the workers, and those of the operator."""
    refusal = answer(b'{"__type": "com.amazonaws.sqs#ExpiredTokenException"}', "403 Forbidden")
    async with scripted(*[refusal] * 1000) as sqs:
        worker = start_worker(AWS_ENDPOINT_URL_SQS=sqs.address)
        # The second where the queue's URL is given: then the worker first calls SQS to receive.
        refused = ("worker.waits_for_sqs", "consumer.receive_failed")
        await until(lambda: any("ExpiredToken" in line["error"] for name in refused for line in worker.said(name)))

        ran = await on_call.runs("doctor", "--no-dlq", AWS_ENDPOINT_URL_SQS=sqs.address)

    assert ran.code == ExitCode.UNAVAILABLE
    assert on_call.has_read("service-unreachable sqs", "ExpiredTokenException")
