"""Ten incidents, staged on real processes: for each, at most three commands name what is wrong (`make incidents`)."""

import asyncio

import psycopg
import redis

from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.e2e.incidents.conftest import OperatorOnCall
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from tests.support.tampered_turns import tamper
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import name_lock

TENANT = ("--tenant", "t")


async def test_stuck_session(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """A lock that nobody gives back keeps a session from running."""
    worker = start_worker()
    await until(lambda: worker.said("worker.started"))
    lock = name_lock(settings, "t", "s", "gone:1")
    redis.Redis.from_url(settings.redis_url).set(lock.key, lock.token, px=600_000)
    await product.submit({"do": "echo"})
    await until(lambda: worker.said("session.lock"))

    await on_call.runs("why", "s", *TENANT)

    assert on_call.has_read("lock", lock.key)


async def test_deaf_worker(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """A handler ignores its cancellation: it keeps the worker's only slot, and the worker receives nothing any more."""
    start_worker(TURNSTILE_CONCURRENCY="1", TURNSTILE_CANCEL_GRACE_SECONDS="0.2")
    [turn] = await product.submit({"do": "deaf", "seconds": 60})
    await until(product.evidence)

    await on_call.runs("cancel", str(turn), "--yes")
    await product.status_is(turn, "CANCELED")

    async def deaf() -> bool:
        [row] = await product.fetch("SELECT max(deaf_for_seconds) AS seconds FROM workers")
        return bool(row["seconds"] and row["seconds"] > 1)

    await until(deaf)
    await on_call.runs("workers", TURNSTILE_DEAF_SECONDS="1")

    assert on_call.has_read(" deaf ")


async def test_poison_pill(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """A turn kills each worker that takes it, until it is given up."""
    [turn] = await product.submit({"do": "die"})
    for _ in range(3):
        victim = start_worker()
        await until(lambda victim=victim: victim.exit_code is not None, within=60)
    start_worker()
    await product.status_is(turn, "FAILED", within=60)

    await on_call.runs("stats")
    await on_call.runs("why", str(turn))

    assert on_call.has_read("crash_loop 1", "FAILED", "its worker was lost in attempt 3")


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


async def test_backlog(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """More turns come than the workers have slots."""
    start_worker(TURNSTILE_CONCURRENCY="1")
    for number in range(8):
        turns = await product.submit({"do": "sleep", "seconds": 30}, session=f"s{number}")

    async def reported_as_busy() -> bool:
        return bool(await product.fetch("SELECT FROM workers WHERE busy = slots"))

    await until(reported_as_busy)
    await on_call.runs("queues", "list")
    await on_call.runs("why", str(turns[0]))

    assert on_call.has_read("All slots of its queue's workers are busy: 1 slot in 1 worker")


async def test_dead_letter_flood(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """A provider refuses everything: turn after turn fails for good."""
    start_worker()
    for number in range(12):
        await product.submit({"do": "bug"}, session=f"s{number}")
    await product.ended()

    await on_call.runs("stats")
    await on_call.runs("queues", "list")

    assert on_call.has_read("FAILED 12", "ValueError 12")


async def test_lost_send(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """A wake-up was lost, and no relay runs that would send it again."""
    worker = start_worker(TURNSTILE_RELAY="false")
    await until(lambda: worker.said("worker.started"))
    [turn] = await product.submit({"do": "echo"}, send=False)
    await tamper(settings, "UPDATE turns SET send_at = now() - interval '5 min', queued_at = now() - interval '6 min'")

    await on_call.runs("why", str(turn))

    assert on_call.has_read("relay", f"turnstile wake {turn}")


async def test_runaway_retries(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """A turn is tried again and again, because its provider stays away."""
    start_worker(TURNSTILE_RETRY_BASE_SECONDS="0.01", TURNSTILE_RETRY_CAP_SECONDS="0.01")
    [turn] = await product.submit({"do": "fail"}, max_attempts=1000)

    async def many_attempts() -> bool:
        return bool((await product.row(turn))["failures"] > 10)

    await until(many_attempts)
    await on_call.runs("status", str(turn))

    assert on_call.has_read("retried", "ConnectionError: the provider is away")


async def test_bad_deploy(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """The new version's handler can't be imported: no worker starts."""
    worker = start_worker(TURNSTILE_HANDLER="nowhere:respond")
    await until(lambda: worker.exit_code is not None)
    [turn] = await product.submit({"do": "echo"})

    await on_call.runs("workers")
    await on_call.runs("why", str(turn))

    assert worker.exit_code != 0
    assert on_call.has_read("No worker")
