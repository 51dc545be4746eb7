"""What the API says of its queues when it starts."""

from typing import cast

import structlog.testing

from turnstile.message_queue import MessageQueues
from turnstile.producer.routes.readiness import report_queues
from turnstile.submit.wake_ups import WakeUpSending


class BrokenQueues:
    """Fails in a way that nobody expects."""

    async def find(self, queue: str) -> None:
        raise LookupError(queue)


async def test_a_report_that_fails_is_logged() -> None:
    queues = cast("MessageQueues", BrokenQueues())

    with structlog.testing.capture_logs() as lines:
        await report_queues(queues, cast("WakeUpSending", None), ["turns"])

    assert [line["event"] for line in lines] == ["api.queues_not_checked"]
