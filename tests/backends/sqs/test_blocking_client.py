"""boto3's client: its errors are those of the product, and quote no URL."""

import asyncio

import pytest

from tests.backends.sqs.asking_sqs import CUT, give_environment
from tests.support.scripted_sqs import Act, answer, scripted
from turnstile.backends.sqs.blocking_client import blocking_client
from turnstile.errors import CredentialsMissingError, QueueUnavailableError


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


def create(address: str) -> None:
    with blocking_client("us-east-1", address) as client:
        client.create_queue(QueueName="turns")


async def failure(*acts: Act) -> str:
    """What a call says that SQS answers with `acts`."""
    async with scripted(*acts) as sqs:
        with pytest.raises(QueueUnavailableError) as raised:
            await asyncio.to_thread(create, sqs.address.replace("//", "//me:pa55@"))
        return str(raised.value)


async def test_a_refusal_is_named_with_its_operation_code_and_reason() -> None:
    refusal = answer(b'{"__type": "com.amazonaws.sqs#AccessDenied", "message": "not yours"}', "403 Forbidden")

    assert await failure(refusal) == "CreateQueue: AccessDenied: not yours"


async def test_an_outage_is_named_by_the_server_and_not_by_its_url() -> None:
    said = await failure(CUT, CUT)

    assert said.startswith("127.0.0.1 port ")
    assert "pa55" not in said


def test_missing_credentials_are_named_with_what_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")

    with pytest.raises(CredentialsMissingError):
        create("http://127.0.0.1:1")
