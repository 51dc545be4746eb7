"""Turns that a time-out has failed, on a queue whose DLQ also has a message that nobody understands."""

import asyncio
from pathlib import Path
from uuid import UUID

from tests.conftest import sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.ops.dead_turns import make_dead
from tests.runbooks.reader import Reader
from tests.support.stacks.stack import Stack

FOURTY_DAYS_AGO = "UPDATE turns SET finished_at = finished_at - interval '40 days' WHERE status = 'FAILED'"


async def test_the_page(
    reader: Reader, product: Product, start_worker: StartWorker, stack: Stack, tmp_path: Path
) -> None:
    async def fail(*sessions: str) -> list[UUID]:
        return await make_dead(product.database, product.queues, product.settings, [*sessions], error_class="timeout")

    failed = await fail("a", "b")
    trace = (await product.row(failed[0]))["trace_id"]
    reader.names |= {"TURN": str(failed[0]), "TRACE": trace, "turns": product.settings.queue}
    start_worker()

    assert "timeout" in (await reader.up_to("turnstile dlq list --groups")).out
    assert str(failed[0]) in (await reader.up_to("turnstile dlq list --error")).out
    await reader.up_to("turnstile redrive --error timeout --younger-than 6h --dry-run")
    assert {row["status"] for row in await product.rows()} == {"FAILED"}
    await reader.up_to("turnstile redrive --error timeout --younger-than 6h --canary")
    await product.all_in("SUCCEEDED")
    assert "timeout" in (await reader.up_to("turnstile redrives")).out

    [named] = await fail("named")
    (tmp_path / "ids.txt").write_text(f"{named}\n")
    await reader.up_to("turnstile redrive --turn -")
    await product.status_is(named, "SUCCEEDED")

    [given_up] = await fail("given-up")
    await product.fetch_nothing(FOURTY_DAYS_AGO)
    await reader.up_to("turnstile dlq export failed.jsonl")
    assert str(given_up) in (tmp_path / "failed.jsonl").read_text()
    await reader.up_to("turnstile dlq drop --error")
    assert str(given_up) in (await reader.up_to("turnstile dlq list --dropped")).out
    assert str(failed[0]) in (await reader.up_to("turnstile trace TRACE")).out

    dlq = (await product.queues.find(product.settings.queue)).dlq_url
    await asyncio.to_thread(sqs_client(stack).send_message, QueueUrl=dlq, MessageBody="not ours")
    assert "malformed" in (await reader.up_to("turnstile dlq list --messages")).out
    await reader.up_to("turnstile dlq export --malformed")
    assert "not ours" in (tmp_path / "bad.jsonl").read_text()
    await reader.up_to("turnstile dlq drop --malformed")
    assert (await reader.up_to("turnstile doctor")).out == ""

    # A redrive that was killed before its sweep.
    await fail("killed")
    await product.fetch_nothing("UPDATE turns SET dropped_at = now(), dropped_by = 'ada' WHERE status = 'FAILED'")
    assert "dead-letters-outlived" in (await reader.up_to("turnstile doctor --fix")).out
    await reader.to_the_end()
