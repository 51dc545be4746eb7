"""A turn that has killed three workers, a message that nobody understands, and a flood."""

from tests.conftest import sqs_client
from tests.e2e.conftest import StartWorker
from tests.e2e.harness import Product
from tests.ops.dead_turns import make_failed, send_dead_letters
from tests.runbooks.reader import Reader
from tests.support.claims import claim_one, expire_leases
from tests.support.stacks.stack import Stack
from tests.support.tampered_turns import make_pending
from turnstile.statements.claim import EndedAtClaim
from turnstile.statements.paused_queues import read_paused_queues


async def test_the_page(reader: Reader, product: Product, start_worker: StartWorker, stack: Stack) -> None:
    database, settings, queues = product.database, product.settings, product.queues
    pill = await make_pending(database, settings)
    for _ in range(3):
        await claim_one(database, settings)
        await expire_leases(database)
    assert isinstance(await claim_one(database, settings), EndedAtClaim)
    coming = await make_pending(database, settings, "coming")
    await send_dead_letters(database, queues, settings)
    address = await queues.find(settings.queue)
    reader.names |= {"TURN": str(pill)}

    assert (await reader.up_to("turnstile status TURN")).out.count("lost") >= 3
    assert "crash_loop" in (await reader.up_to("turnstile dlq show TURN")).out
    await reader.up_to("turnstile cancel TURN", TURN=coming)
    assert (await product.row(coming))["status"] == "CANCELED"
    await reader.up_to("turnstile redrive --turn TURN")
    assert (await product.row(pill))["status"] == "PENDING"
    [hopeless] = await make_failed(database, settings, ["hopeless"])
    await reader.up_to("turnstile dlq drop --turn TURN", TURN=hopeless)
    assert (await product.row(hopeless))["dropped_at"] is not None

    sqs_client(stack).send_message(QueueUrl=address.dlq_url, MessageBody="not ours")
    assert "not ours" in (await reader.up_to("turnstile dlq list --messages")).out
    await reader.up_to("turnstile dlq drop --malformed --dry-run")
    await reader.up_to("turnstile dlq drop --malformed --yes")

    flood = await make_failed(database, settings, [f"s{number}" for number in range(12)], error_class="timeout")
    await reader.up_to("turnstile queues pause")
    assert [*await read_paused_queues(database)] == [settings.queue]
    assert "12" in (await reader.up_to("turnstile dlq list --groups")).out
    await reader.up_to("turnstile queues resume")
    start_worker()
    await reader.up_to("turnstile redrive --queue QUEUE")
    for turn in flood:
        await product.status_is(turn, "SUCCEEDED")
    [unwanted] = await make_failed(database, settings, ["unwanted"], error_class="timeout")
    await reader.up_to("turnstile dlq drop --queue QUEUE")
    assert (await product.row(unwanted))["dropped_at"] is not None

    assert settings.queue not in (await reader.up_to("turnstile dlq list")).out
    await reader.to_the_end()
