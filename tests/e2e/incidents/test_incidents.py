"""Incidents of turns, handlers and workers, staged on real processes: at most three commands name each (`make incidents`).

With those of the services they are twenty. Some have two forms, one after the other.
"""

import asyncio
import json
import signal
from typing import LiteralString

import httpx
import pytest
import redis

from tests.conftest import sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.e2e.incidents.conftest import OperatorOnCall
from tests.producer.api.calls import KEYS
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from tests.support.tampered_turns import tamper
from turnstile.config.settings import Settings
from turnstile.worker.session_lock import name_lock

TENANT = ("--tenant", "t")

LONG_LEASE = {"TURNSTILE_LEASE_SECONDS": "10", "TURNSTILE_HEARTBEAT_SECONDS": "0.5"}
"""For workers that the commands must find alive, however slow the machine is."""

FOR_TEN_MINUTES: LiteralString = """
UPDATE turns SET queued_at = queued_at - interval '10 min', first_started_at = first_started_at - interval '10 min',
                 started_at = started_at - interval '10 min'"""


async def until_no_slot_is_free(product: Product) -> None:
    """Waits until each worker has said so in a heartbeat."""
    await until(lambda: product.fetch("SELECT FROM workers WHERE busy = slots"))


async def test_endless_handler(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """One handler awaits what never comes. Its user asks."""
    start_worker(**LONG_LEASE)
    [turn] = await product.submit({"do": "sleep", "seconds": 60})
    await until(product.evidence)
    await tamper(settings, FOR_TEN_MINUTES)

    await on_call.runs("why", "s", *TENANT)

    assert on_call.has_read("It runs in worker", "(10m ago)", f"turnstile cancel {turn}")


async def test_hanging_provider(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """The handlers of all turns await what never comes."""
    start_worker(TURNSTILE_CONCURRENCY="2", **LONG_LEASE)
    for session in "abc":
        await product.submit({"do": "sleep", "seconds": 60}, session=session)
    await until_no_slot_is_free(product)
    await tamper(settings, FOR_TEN_MINUTES)

    await on_call.runs("doctor", "--no-dlq")

    assert on_call.has_read("standstill", "running 2 of 2 slots (longest 10m", "no slot is free")


async def test_frozen_worker(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """The processor stands still under a worker."""
    worker = start_worker()
    await product.submit({"do": "sleep", "seconds": 60})
    await until(product.evidence)
    worker.signal(signal.SIGSTOP)
    await until(lambda: product.fetch("SELECT FROM workers WHERE seen_at < now() - interval '2.5 s'"))

    await on_call.runs("doctor", "--no-dlq")

    assert on_call.has_read("worker-silent", "turns that it runs: 1")


@pytest.mark.usefixtures("soon")
async def test_blocked_worker(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """A handler computes on the event loop, and freezes its innocent neighbour."""
    start_worker(**LONG_LEASE)
    [innocent] = await product.submit({"do": "sleep", "seconds": 60}, session="innocent")
    await until(product.evidence)
    [guilty] = await product.submit({"do": "block", "seconds": 60}, session="guilty")
    await until(lambda: product.fetch("SELECT FROM workers WHERE blocked_for_seconds > 1 AND blocked_by IS NOT NULL"))

    await on_call.runs("doctor", "--no-dlq")
    await on_call.runs("why", str(innocent))

    assert on_call.has_read("worker-blocked", f"whose event loop turn {guilty} blocks since", "stop the worker")


async def test_deaf_worker(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """A handler ignores its cancellation: it keeps the worker's only slot, and the worker no longer receives anything."""
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


async def test_bad_deploy(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """The new version of the handler fails with each turn: its worker takes no more."""
    bad = start_worker()
    for number in range(6):
        await product.submit({"do": "bug"}, session=f"s{number}")
    await until(lambda: bad.said("worker.handler_broken"))
    await until(lambda: product.fetch("SELECT FROM workers WHERE broken_by IS NOT NULL"))

    await on_call.runs("doctor", "--no-dlq")
    await on_call.runs("workers")

    assert on_call.has_read("worker-broken", "docs/runbooks/bad-deploy.md", "broken ValueError")


async def test_failing_turns(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """The handler has worked before, and now fails with each turn."""
    start_worker()
    await product.submit({"do": "echo"}, session="well")
    await product.ended()
    for number in range(6):
        await product.submit({"do": "bug"}, session=f"s{number}")
    await product.ended()

    await on_call.runs("doctor", "--no-dlq")

    assert on_call.has_read("failing", "6 of 7, most often ValueError", "turnstile dlq list --groups")


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


async def test_flood_of_one_tenant(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """One tenant has submitted more than everybody else, and everybody waits."""
    start_worker(TURNSTILE_CONCURRENCY="1")
    await product.submit({"do": "sleep", "seconds": 60})
    await until(product.evidence)
    for number in range(18):
        await product.submit({"do": "echo"}, session=f"s{number}", tenant_id="bigcorp")
    for number in range(2):
        await product.submit({"do": "echo"}, session=f"s{number}", tenant_id="acme")

    await on_call.runs("queues", "list")

    assert on_call.has_read("bigcorp 90%")


async def test_backlog(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """More turns come than the workers have slots."""
    start_worker(TURNSTILE_CONCURRENCY="1", **LONG_LEASE)
    for number in range(8):
        turns = await product.submit({"do": "sleep", "seconds": 30}, session=f"s{number}")
    await until_no_slot_is_free(product)

    await on_call.runs("queues", "list")
    await on_call.runs("why", str(turns[0]))

    assert on_call.has_read("All slots of its queue's workers are busy: 1 slot in 1 worker")


async def test_no_worker(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """The new version's handler can't be imported: no worker starts."""
    worker = start_worker(TURNSTILE_HANDLER="nowhere:respond")
    await until(lambda: worker.exit_code is not None)
    [turn] = await product.submit({"do": "echo"})

    await on_call.runs("workers")
    await on_call.runs("why", str(turn))

    assert worker.exit_code != 0
    assert on_call.has_read("No worker")


async def test_purged_queue(product: Product, start_worker: StartWorker, on_call: OperatorOnCall, stack: Stack) -> None:
    """Somebody has purged the queue."""
    [turn] = await product.submit({"do": "echo"})
    sqs_client(stack).purge_queue(QueueUrl=(await product.queues.find(product.settings.queue)).url)
    start_worker(**LONG_LEASE)
    await until(lambda: product.fetch("SELECT FROM workers"))

    await on_call.runs("why", str(turn))

    assert on_call.has_read("no worker has begun it yet", "its wake-up was sent", "a relay sends it again at")


async def test_lost_send(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """A wake-up was lost, and no relay runs that would send it again."""
    start_worker(TURNSTILE_RELAY="false")
    await until(lambda: product.fetch("SELECT FROM workers"))
    [turn] = await product.submit({"do": "echo"}, send=False)
    await tamper(settings, "UPDATE turns SET send_at = now() - interval '5 min', queued_at = now() - interval '6 min'")

    await on_call.runs("why", str(turn))

    assert on_call.has_read("relay", f"turnstile wake {turn}")


async def test_provider_refuses(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """The provider says 429 to everybody: the handler snoozes each turn, and none ends."""
    start_worker(**LONG_LEASE)
    for session in "abc":
        await product.submit({"do": "snooze", "seconds": 60}, session=session)
    await until(lambda: product.fetch("SELECT FROM turn_attempts HAVING count(*) = 3"))
    await tamper(settings, FOR_TEN_MINUTES)

    await on_call.runs("doctor", "--no-dlq")

    assert on_call.has_read("standstill", "snoozed 3, running 0 of")


async def test_runaway_retries(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """A turn is tried again and again, because its provider stays away."""
    start_worker(TURNSTILE_RETRY_BASE_SECONDS="0.01", TURNSTILE_RETRY_CAP_SECONDS="0.01")
    [turn] = await product.submit({"do": "fail"}, max_attempts=1000)

    async def many_attempts() -> bool:
        return bool((await product.row(turn))["failures"] > 10)

    await until(many_attempts)
    await on_call.runs("status", str(turn))

    assert on_call.has_read("retried", "ConnectionError: the provider is away")


async def test_halted_session(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """A turn of a queue that halts has failed: its session waits for the operator."""
    queue = settings.find_queue(settings.queue).model_copy(update={"on_failure": "halt"})
    start_worker(TURNSTILE_QUEUES=json.dumps([queue.model_dump()]))
    failed, _ = await product.submit({"do": "bug"}, {"do": "echo"})
    await product.status_is(failed, "FAILED")

    await on_call.runs("doctor", "--no-dlq")

    assert on_call.has_read("session-halted", f"turnstile retry {failed}", f"turnstile skip {failed}")


async def test_stuck_session(
    product: Product, start_worker: StartWorker, on_call: OperatorOnCall, settings: Settings
) -> None:
    """A lock that its dead worker has not given back keeps a session from running, until it expires."""
    worker = start_worker()
    await until(lambda: worker.said("worker.started"))
    lock = name_lock(settings, "t", "s", "gone:1")
    keys, lease_milliseconds = redis.Redis.from_url(settings.redis_url), int(settings.lease_seconds * 1000)
    keys.set(lock.key, lock.token, px=lease_milliseconds)
    await product.submit({"do": "echo"})
    await until(lambda: worker.said("session.lock"))
    # For the time that a slow machine takes until the look.
    keys.set(lock.key, lock.token, px=2 * lease_milliseconds)

    await on_call.runs("why", "s", *TENANT)

    assert on_call.has_read("lock", lock.key)


async def test_dead_letter_flood(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """Turns have failed for good for three reasons."""
    start_worker()
    await product.submit({"do": "echo"}, session="well")
    await product.ended()
    for reason, turns in (("bug", 6), ("fail", 4), ("nonsense", 2)):
        for number in range(turns):
            await product.submit({"do": reason}, session=f"{reason}{number}", max_attempts=1)
    await product.ended()

    await on_call.runs("dlq", "list", "--groups")

    assert on_call.has_read("ValueError 6", "ConnectionError 4", "AssertionError 2")


async def test_two_releases(product: Product, start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """The old and the new version of the handler run side by side, and the new one takes a text for an object."""
    start_worker(TURNSTILE_RELEASE="r8", TURNSTILE_HANDLER="tests.e2e.handlers:remember_in_thread")
    await product.submit({"word": "hello"}, session="well")
    await product.ended()
    start_worker(TURNSTILE_RELEASE="r7")
    sessions = iter(range(1000))

    async def both_have_worked() -> bool:
        for _ in range(4):
            await product.submit("a text", session=f"s{next(sessions)}")
        await product.ended()
        return len(await product.fetch("SELECT DISTINCT release FROM turn_attempts")) == 2

    await until(both_have_worked)
    [failed] = await product.fetch("SELECT count(*) AS turns FROM turns WHERE status = 'FAILED'")

    await on_call.runs("stats", "--by", "release")

    assert on_call.has_read(f"r8 {failed['turns'] + 1} {failed['turns']} AttributeError", "r7")


async def test_slow_clients(start_worker: StartWorker, on_call: OperatorOnCall) -> None:
    """Clients begin more requests than the API may have connections, and end none. Others are served."""
    api = start_worker(
        "api", TURNSTILE_API_PORT="0", TURNSTILE_API_CONNECTIONS="16", TURNSTILE_API_KEYS=f"acme:{KEYS['acme']}"
    )
    [listening] = await until(lambda: api.said("api.listening"))
    writers = []
    for _ in range(40):
        _, writer = await asyncio.open_connection("127.0.0.1", listening["port"])
        writer.write(b"POST /v1/sessions/s/turns HTTP/1.1\r\nX: ")
        writers.append(writer)
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {KEYS['acme']}"}) as client:
        url = f"http://127.0.0.1:{listening['port']}/v1/sessions/s/turns"
        answer = await client.post(url, json={"input": "hello"})

    await until(lambda: api.said("api.connections_full"))
    on_call.searches_log(api, "warning")

    for writer in writers:
        writer.transport.abort()
    assert answer.status_code == 202
    assert on_call.has_read("api.connections_full")
