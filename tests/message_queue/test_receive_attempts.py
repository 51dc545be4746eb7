"""A poll of a FIFO queue whose answer was lost is asked for again under its id."""

from itertools import count
from types import SimpleNamespace

import pytest

from turnstile import message_queue
from turnstile.backends.sqs.sqs_client import CallRefusedError, Parameters, Response
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues


class Transport:
    def __init__(self, *failures: Exception | None) -> None:
        self._failures = list(failures)
        self.attempts: list[str | None] = []

    async def call(self, operation: str, parameters: Parameters) -> Response:
        self.attempts.append(parameters.get("ReceiveRequestAttemptId"))
        failure = self._failures.pop(0)
        if failure is not None:
            raise failure
        return {}


async def poll(url: str, *failures: Exception | None) -> list[str | None]:
    declared = QueueSettings(name="turns", sqs=url, dlq=url.replace("turns", "dead"))
    queues = MessageQueues(Settings(aws_region="us-east-1", queues=(declared,)))
    transport = Transport(*failures)
    await queues.close()
    queues._client = transport  # type: ignore[assignment]
    for _ in failures:
        try:
            await queues.receive("turns", 10)
        except QueueUnavailableError:
            continue
    return transport.attempts


async def test_the_next_poll_repeats_the_id_of_one_whose_answer_was_lost() -> None:
    first, again, after = await poll("http://sqs/1/turns.fifo", QueueUnavailableError("reset"), None, None)

    assert first is not None
    assert again == first
    assert after not in (None, first)


async def test_an_id_is_not_repeated_after_the_visibility_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its messages are visible again, and SQS would refuse the id."""
    hours = count(step=3600)
    monkeypatch.setattr(message_queue, "time", SimpleNamespace(monotonic=lambda: next(hours)))

    first, after = await poll("http://sqs/1/turns.fifo", QueueUnavailableError("reset"), None)

    assert after not in (None, first)


async def test_a_poll_that_sqs_refused_is_not_repeated() -> None:
    first, after = await poll("http://sqs/1/turns.fifo", CallRefusedError("Throttled", "slow down"), None)

    assert after not in (None, first)


@pytest.mark.parametrize("failure", [None, QueueUnavailableError("reset")])
async def test_a_standard_queue_has_no_such_ids(failure: Exception | None) -> None:
    assert await poll("http://sqs/1/turns", failure, None) == [None, None]
