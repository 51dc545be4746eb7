"""The queues are gone; then SQS is."""

from tests.conftest import sqs_client
from tests.runbooks.reader import Reader
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.ops.terminal.exit_codes import ExitCode


async def test_the_page(
    reader: Reader, settings: Settings, queues: MessageQueues, stack: Stack, environment: dict[str, str]
) -> None:
    address = await queues.find(settings.queue)
    for url in (address.url, address.dlq_url):
        sqs_client(stack).delete_queue(QueueUrl=url)

    await reader.up_to("turnstile queues create")
    assert await queues.find(settings.queue) == address
    working = environment["AWS_ENDPOINT_URL_SQS"]
    environment["AWS_ENDPOINT_URL_SQS"] = "http://127.0.0.1:1"
    assert "SQS is away" in (await reader.up_to("turnstile queues list")).out
    assert "service-unreachable" in (await reader.up_to("turnstile doctor", code=ExitCode.UNAVAILABLE)).out

    environment["AWS_ENDPOINT_URL_SQS"] = working
    await reader.to_the_end()
