"""A retry is due and no relay runs; one that is started anywhere sends it."""

from tests.conftest import sqs_client
from tests.e2e.harness import Product
from tests.ops.dead_turns import make_failed
from tests.runbooks.reader import Reader
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from tests.support.waiting_turns import make_worker
from turnstile.ops.terminal.exit_codes import ExitCode

LATE = "UPDATE turns SET send_at = now() - interval '5 min' WHERE status = 'PENDING'"


async def test_the_page(reader: Reader, product: Product, stack: Stack) -> None:
    await make_worker(product.database, product.settings)
    await product.submit({"do": "echo"}, session="late", send=False)
    await product.fetch_nothing(LATE)
    [failed] = await make_failed(product.database, product.settings, ["failed"])
    [halting] = await make_failed(product.database, product.settings, ["halted"], halt=True)

    assert str(failed) in (await reader.up_to("turnstile list --status failed")).out
    assert str(halting) in (await reader.up_to("turnstile list --halting")).out
    await reader.up_to("turnstile relay")
    url = (await product.queues.find(product.settings.queue)).url
    [message] = await until(lambda: sqs_client(stack).receive_message(QueueUrl=url).get("Messages"))
    assert "late" in message["Body"]

    seen = await reader.up_to("turnstile doctor", code=ExitCode.FINDINGS)
    assert "send-overdue" not in seen.out
