"""A queue where order comes before availability: a FAILED turn halts its session until a person decides (G9)."""

import asyncio
import secrets
from uuid import UUID

import pytest

from tests.e2e.conftest import StartWorker
from tests.e2e.rig import Product
from tests.support.probes import until
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.statements.halt import Resumed, read_halt, retry, skip
from turnstile.turn.identifiers import start_trace


@pytest.fixture
def settings(settings: Settings, queue: QueueSettings) -> Settings:
    """The test's queue halts."""
    return settings.model_copy(update={"queues": (queue.model_copy(update={"on_failure": "halt"}),)})


async def retry_turn(product: Product, turn_id: UUID) -> Resumed | None:
    trace = start_trace(secrets.randbits(192))
    return await retry(product.database, turn_id, trace, expires_in_seconds=60, requested_by="test")


async def halts(product: Product, turn_id: UUID) -> bool:
    halt = await read_halt(product.database, turn_id)
    return halt is not None and halt.halts


async def test_a_failed_turn_halts_its_session_until_it_is_retried(product: Product, start_worker: StartWorker) -> None:
    worker = start_worker()
    first, second = await product.submit({"do": "bug"}, {"do": "echo"})
    await product.submit({"do": "echo"}, session="other")
    await product.status_is(first, "FAILED")
    (late,) = await product.submit({"do": "echo"})
    await until(lambda: worker.said("turn.halted_session"))

    async def its_message_was_read_and_left() -> bool:
        idle = [line for line in worker.said("session.idle") if line["session_id"] == "s"]
        return bool(idle) and await product.queues.count(product.settings.queue) == 0

    await until(its_message_was_read_and_left)
    assert [(await product.row(turn))["status"] for turn in (second, late)] == ["PENDING", "PENDING"]
    assert await product.queues.count(product.settings.queue, dead=True) == 0
    [line] = worker.said("turn.halted_session")
    assert (line["level"], line["turn_id"], line["error_class"]) == ("error", str(first), "ValueError")

    await product.fetch_nothing(f"UPDATE messages SET content = '{{\"do\": \"echo\"}}' WHERE turn_id = '{first}'")
    assert await retry_turn(product, first)

    await product.all_in("SUCCEEDED")
    began = [row["turn_id"] for row in await product.evidence() if row["session_id"] == "s"]
    assert began == [first, first, second, late]
    await product.check_sessions()


async def test_a_skipped_turn_stays_failed_and_the_session_goes_on(product: Product, start_worker: StartWorker) -> None:
    start_worker()
    first, second = await product.submit({"do": "reject", "dead_letter": False}, {"do": "echo"})
    await product.status_is(first, "FAILED")
    assert await halts(product, first)

    assert await skip(product.database, first, requested_by="test")

    await product.status_is(second, "SUCCEEDED")
    assert (await product.row(first))["status"] == "FAILED"

    async def dead_lettered() -> bool:
        return await product.queues.count(product.settings.queue, dead=True) == 1

    await until(dead_lettered)
    await product.check_sessions()


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
async def test_a_turn_that_kills_its_workers_halts_its_session(product: Product, start_worker: StartWorker) -> None:
    first, second = await product.submit({"do": "die"}, {"do": "echo"})
    for _ in range(product.settings.queues[0].max_crashes):
        worker = start_worker()
        await until(lambda worker=worker: worker.exit_code is not None)
    last = start_worker()

    await product.status_is(first, "FAILED")

    await until(lambda: last.said("turn.halted_session"))
    row = await product.row(first)
    assert (row["error_class"], row["send_at"]) == ("crash_loop", None)
    assert await halts(product, first)
    assert (await product.row(second))["status"] == "PENDING"
    await skip(product.database, first, requested_by="test")
    await product.status_is(second, "SUCCEEDED")


async def test_order_holds_over_failures_retries_skips_and_kills(product: Product, start_worker: StartWorker) -> None:
    workers = [start_worker(), start_worker()]
    sessions = [f"s{number}" for number in range(6)]
    orders = [{"do": "echo"}, {"do": "bug"}, {"do": "echo"}, {"do": "bug"}, {"do": "echo"}]
    turns = {session: await product.submit(*orders, session=session) for session in sessions}
    decided: list[UUID] = []

    async def let_one_go_on() -> bool:
        failed = await product.rows("status = 'FAILED' AND generation = 1")
        for row in failed:
            # The first of each session is skipped, the other run again (and then fails for good).
            if row["id"] in decided or not await halts(product, row["id"]):
                continue
            if row["id"] == turns[row["session_id"]][1]:
                await skip(product.database, row["id"], requested_by="test")
            else:
                await retry_turn(product, row["id"])
            decided.append(row["id"])
        return len(decided) == 2 * len(sessions)

    deciding = asyncio.create_task(until(let_one_go_on, within=60))
    await until(lambda: len(decided) >= 3)
    workers[0].kill()
    start_worker()
    await deciding

    async def halted_again() -> bool:
        return len(await product.rows("status = 'FAILED' AND generation = 2")) == len(sessions)

    await until(halted_again, within=60)
    for session in sessions:
        await skip(product.database, turns[session][3], requested_by="test")
    await product.ended(within=60)

    for session, ids in turns.items():
        rows = await product.rows(f"session_id = '{session}'")
        assert [row["id"] for row in rows] == ids
        assert [row["status"] for row in rows] == ["SUCCEEDED", "FAILED", "SUCCEEDED", "FAILED", "SUCCEEDED"]
        finished = [row["finished_at"] for row in rows]
        assert finished == sorted(finished)
        claimed_in_order = [row["seq"] for row in await product.evidence() if row["session_id"] == session]
        assert claimed_in_order == sorted(claimed_in_order)
    await product.check_sessions()
