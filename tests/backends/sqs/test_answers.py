"""Responses of SQS: errors, retries, and servers that are not SQS."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.backends.sqs.asking_sqs import COMMAND, CUT, asking, give_environment
from tests.support.fleet.certificates import Certificates, make
from tests.support.fleet.tls_front import TlsFront
from tests.support.probes import until
from tests.support.scripted_sqs import SILENCE, Act, answer
from turnstile.backends.sqs.sqs_client import POLL, CallRefusedError, SqsClient
from turnstile.dev.stack.stack import LocalStack
from turnstile.errors import QueueUnavailableError, SettingsError

OverTls = Callable[..., SqsClient]

BROKEN = answer(b'{"__type": "com.amazonaws.sqs#InternalError"}', "500 Internal Server Error")
THROTTLED = answer(
    b'{"__type": "com.amazonaws.sqs#RequestThrottled", "message": "slow down"}',
    "400 Bad Request",
    x_amzn_query_error="RequestThrottled;Sender",
)
BUSY = answer(b"<html>", "429 Too Many Requests")
FORBIDDEN = answer(b'{"__type": "com.amazonaws.sqs#AccessDeniedException", "Message": "no"}', "403 Forbidden")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


# --- answers


@pytest.mark.parametrize("act", [CUT, BROKEN, THROTTLED, BUSY], ids=["cut off", "500", "throttled", "429"])
async def test_a_command_is_tried_again_after_a_passing_failure(act: Act) -> None:
    async with asking(act, answer(b'{"Successful": []}')) as (client, sqs):
        assert await client.call(COMMAND, {}) == {"Successful": []}

        assert len(sqs.requests) == 2


@pytest.mark.parametrize(
    ("act", "code"),
    [(THROTTLED, "RequestThrottled"), (FORBIDDEN, "AccessDeniedException"), (answer(b"<html>", "502 Bad"), "502")],
    ids=["throttled", "403", "no JSON"],
)
async def test_an_error_response_has_its_code(act: Act, code: str) -> None:
    async with asking(act) as (client, _):
        with pytest.raises(CallRefusedError) as refused:
            await client.call(POLL, {})

        assert refused.value.code == code


NOT_OF_SQS = {
    "a page in Latin-1": answer("<!DOCTYPE html>é".encode("latin-1"), "502 Bad Gateway"),
    "a list": answer(b"[1]"),
    "no HTTP": Act(b"SSH-2.0-OpenSSH\r\n\r\n", closes=True),
}


@pytest.mark.parametrize("act", NOT_OF_SQS.values(), ids=NOT_OF_SQS)
async def test_a_response_that_is_not_of_sqs_is_an_outage(act: Act) -> None:
    """From a proxy, for instance. Any other error would end the poller."""
    async with asking(act) as (client, _):
        with pytest.raises(QueueUnavailableError):
            await client.call(POLL, {})


async def test_a_command_that_is_forbidden_is_tried_once() -> None:
    async with asking(FORBIDDEN) as (client, sqs):
        with pytest.raises(CallRefusedError):
            await client.call(COMMAND, {})

        assert len(sqs.requests) == 1


async def test_a_message_with_a_lone_surrogate_can_be_received_and_sent() -> None:
    async with asking(answer(b'{"Messages": [{"Body": "\\ud800"}]}')) as (client, sqs):
        assert await client.call(POLL, {}) == {"Messages": [{"Body": "\ud800"}]}

        await client.call("SendMessage", {"MessageBody": "\ud800"})

        assert json.loads(sqs.requests[1].body) == {"MessageBody": "\ud800"}


async def test_a_response_that_arrived_in_time_counts_although_the_loop_was_blocked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with asking(SILENCE) as (client, sqs):
        poll = asyncio.create_task(client.call(POLL, {}))
        await until(lambda: len(sqs.requests) == 1)

        # The answer and the end of the time-out wait for the loop together.
        sqs.writers[0].write(answer(b'{"Messages": []}').said)
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 20.0)

        assert (await poll) == {"Messages": []}


# --- TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def front(stack: LocalStack, certificates: Certificates) -> Iterator[TlsFront]:
    with TlsFront(stack.sqs.port, certificates.server) as opened:
        yield opened


@pytest.fixture
def over_tls(monkeypatch: pytest.MonkeyPatch) -> OverTls:
    def made(port: int, authority: Path) -> SqsClient:
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
        return SqsClient.open("us-east-1", f"https://127.0.0.1:{port}")

    return made


async def test_the_bundle_of_authorities_is_trusted(
    front: TlsFront, certificates: Certificates, over_tls: OverTls
) -> None:
    client = over_tls(front.port, certificates.authority)

    assert await client.call("ListQueues", {"QueueNamePrefix": "none-such"}) is not None
    await client.close()


async def test_a_server_of_another_authority_is_refused(
    front: TlsFront, certificates: Certificates, over_tls: OverTls
) -> None:
    client = over_tls(front.port, certificates.stranger)

    with pytest.raises(QueueUnavailableError, match="certificate verify failed"):
        await client.call(POLL, {})


async def test_a_certificate_for_another_host_is_refused(
    stack: LocalStack, certificates: Certificates, over_tls: OverTls
) -> None:
    with TlsFront(stack.sqs.port, certificates.elsewhere) as elsewhere:
        client = over_tls(elsewhere.port, certificates.authority)

        with pytest.raises(QueueUnavailableError, match=r"not valid for '127\.0\.0\.1'"):
            await client.call(POLL, {})


def test_a_bundle_that_does_not_exist_is_a_settings_error(over_tls: OverTls, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="AWS_CA_BUNDLE"):
        over_tls(1, tmp_path / "none.pem")
