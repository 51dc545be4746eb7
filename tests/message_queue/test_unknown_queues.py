"""A queue that is not where its declaration says: the error names what is wrong with the declaration."""

import json

import pytest

from tests.backends.sqs.asking_sqs import asking, give_environment
from tests.support.scripted_sqs import Act, answer
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.errors import UnknownQueueError
from turnstile.message_queue import MessageQueues

ELSEWHERE = ("https://sqs.eu-west-1.amazonaws.com/1/turns", "https://eu-west-1.queue.amazonaws.com/1/turns")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


def refusal(code: str) -> Act:
    return answer(json.dumps({"__type": f"com.amazonaws.sqs#{code}", "message": "no"}).encode(), "400 Bad Request")


async def error_about(url: str, code: str) -> str:
    settings = Settings(queues=(QueueSettings(name="turns", sqs=url, dlq=f"{url}-dlq"),))
    async with asking(refusal(code)) as (client, _):
        with pytest.raises(UnknownQueueError) as refused:
            await MessageQueues(settings, client).attributes("turns")
    return str(refused.value)


@pytest.mark.parametrize("code", ["QueueDoesNotExist", "InvalidAddress"])
@pytest.mark.parametrize("url", ELSEWHERE)
async def test_the_url_of_another_region_is_named(url: str, code: str) -> None:
    error = await error_about(url, code)

    assert error == "SQS has no queue 'turns': its URL is of eu-west-1, and AWS_REGION is us-east-1"


async def test_any_other_missing_queue_is_to_be_created() -> None:
    error = await error_about("https://sqs.us-east-1.amazonaws.com/1/turns", "QueueDoesNotExist")

    assert error == "SQS has no queue 'turns'; `turnstile queues create` makes the declared ones"
