"""Credentials that are missing, end, or can't be refreshed: an outage by either transport, until they are there."""

import asyncio
from collections.abc import Callable

import pytest
from botocore.credentials import Credentials
from botocore.exceptions import CredentialRetrievalError

from tests.support.asking_sqs import COMMAND, TransportName, either, give_environment, settings_for
from tests.support.giving_credentials import Given, found, given, refused_by_sts, signed_by, temporary
from tests.support.probes import until
from tests.support.scripted_sqs import scripted
from turnstile.backends.sqs.transport import POLL
from turnstile.config.queue_settings import QueueSettings
from turnstile.errors import QueueUnavailableError
from turnstile.message_queue import MessageQueues
from turnstile.turn.envelope import ReceivedMessage
from turnstile.worker.consumer import Consumer
from turnstile.worker.slots.slots import Slots

both = pytest.mark.parametrize("transport_name", ["boto3", "lean"])


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


def still_expired() -> Given:
    return given(minutes=-1)


def without_its_file() -> Given:
    raise FileNotFoundError(2, "No such file", "/var/run/secrets/token")


def not_answered() -> Given:
    raise CredentialRetrievalError(provider="test", error_msg="nobody there")


WAYS_TO_FAIL = [refused_by_sts, still_expired, without_its_file, not_answered]


@both
@pytest.mark.parametrize("refresh", WAYS_TO_FAIL)
async def test_credentials_that_can_not_be_refreshed_are_an_outage(
    transport_name: TransportName, refresh: Callable[[], Given], monkeypatch: pytest.MonkeyPatch
) -> None:
    found(monkeypatch, lambda: temporary(refresh))
    async with either(transport_name) as (transport, sqs):
        for operation in (POLL, COMMAND):
            with pytest.raises(QueueUnavailableError):
                await transport.call(operation, {})
        with pytest.raises(QueueUnavailableError):
            await asyncio.to_thread(transport.call_blocking, COMMAND, {"QueueUrl": sqs.address, "Entries": []})

        assert sqs.requests == []


@both
async def test_a_consumer_goes_on_polling_while_its_credentials_can_not_be_refreshed(
    transport_name: TransportName, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = [refused_by_sts, still_expired, without_its_file]

    def refresh() -> Given:
        return (ways.pop() if ways else given)()

    async def process(_: ReceivedMessage) -> None:
        raise AssertionError("no message is ever received")

    found(monkeypatch, lambda: temporary(refresh))
    async with scripted() as sqs:
        url = f"{sqs.address}/1/turns"
        declared = QueueSettings(name="turns", sqs=url, dlq=f"{url}-dlq")
        queues = MessageQueues(settings_for(sqs.address, transport_name).model_copy(update={"queues": (declared,)}))
        stopping = asyncio.Event()
        running = asyncio.create_task(Consumer(queues, "turns", Slots(4), process, stopping).run())
        await until(lambda: sqs.requests or running.done())
        stopping.set()

        await running
        assert ways == []
        queues.close()


# --- missing


@both
async def test_without_credentials_a_call_is_an_outage_and_the_next_one_looks_again(
    transport_name: TransportName, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[Credentials] = []
    found(monkeypatch, lambda: there[0] if there else None)
    async with either(transport_name) as (transport, sqs):
        for _ in range(2):
            with pytest.raises(QueueUnavailableError, match="credentials"):
                await transport.call(COMMAND, {"QueueUrl": sqs.address, "Entries": []})
        assert sqs.requests == []

        there.append(Credentials("LATE", "late"))
        await transport.call(COMMAND, {"QueueUrl": sqs.address, "Entries": []})
        await asyncio.to_thread(transport.call_blocking, COMMAND, {"QueueUrl": sqs.address, "Entries": []})

        assert signed_by(sqs) == ["LATE", "LATE"]


@both
async def test_a_provider_that_fails_when_it_is_first_asked_is_asked_again(
    transport_name: TransportName, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = [not_answered, without_its_file]

    def look() -> Credentials:
        if ways:
            ways.pop()()
        return Credentials("LATE", "late")

    found(monkeypatch, look)
    async with either(transport_name) as (transport, sqs):
        for _ in range(2):
            with pytest.raises(QueueUnavailableError):
                await transport.call(COMMAND, {"QueueUrl": sqs.address, "Entries": []})
        await transport.call(COMMAND, {"QueueUrl": sqs.address, "Entries": []})

        assert signed_by(sqs) == ["LATE"]
