"""The hazards of calls that the event loop carries: answers that do not hold, and servers that are somebody else."""

import asyncio
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.asking_sqs import (
    COMMAND,
    CUT,
    OnTheLoop,
    Opened,
    TransportName,
    either,
    give_environment,
    said,
    settings_for,
)
from tests.support.asking_sqs import make as make_transport
from tests.support.fleet.certificates import Certificates, make
from tests.support.fleet.tls_front import TlsFront
from tests.support.probes import until
from tests.support.scripted_sqs import SILENCE, Act, answer, chunked
from turnstile.backends.sqs.transport import POLL, CallRefusedError
from turnstile.errors import QueueUnavailableError, SettingsError
from turnstile.ops.dev.stack.stack import LocalStack

OverTls = Callable[..., OnTheLoop]

BROKEN = answer(b'{"__type": "com.amazonaws.sqs#InternalError"}', "500 Internal Server Error")
THROTTLED = answer(
    b'{"__type": "com.amazonaws.sqs#RequestThrottled", "message": "slow down"}',
    "400 Bad Request",
    x_amzn_query_error="RequestThrottled;Sender",
)
FORBIDDEN = answer(b'{"__type": "com.amazonaws.sqs#AccessDeniedException", "Message": "no"}', "403 Forbidden")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


@pytest.fixture(params=["boto3", "lean"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """A hand on a scripted SQS; by each transport of the event loop in its turn."""
    name: TransportName = request.param
    return partial(either, name)


# --- answers


@pytest.mark.parametrize("act", [CUT, BROKEN, THROTTLED], ids=["cut off", "500", "throttled"])
async def test_a_command_that_fails_in_passing_is_tried_once_more(opened: Opened, act: Act) -> None:
    async with opened(act, answer(b'{"Successful": []}')) as (transport, sqs):
        assert said(await transport.call(COMMAND, {})) == {"Successful": []}

        assert len(sqs.requests) == 2


@pytest.mark.parametrize("act", [CUT, BROKEN, THROTTLED], ids=["cut off", "500", "throttled"])
async def test_a_command_that_keeps_failing_is_given_up_after_its_second_try(opened: Opened, act: Act) -> None:
    async with opened(act, act) as (transport, sqs):
        with pytest.raises(QueueUnavailableError):
            await transport.call(COMMAND, {})

        assert len(sqs.requests) == 2


@pytest.mark.parametrize("act", [CUT, BROKEN, THROTTLED, FORBIDDEN], ids=["cut off", "500", "throttled", "403"])
async def test_a_poll_is_tried_once(opened: Opened, act: Act) -> None:
    async with opened(act) as (transport, sqs):
        with pytest.raises(QueueUnavailableError):
            await transport.call(POLL, {})

        assert len(sqs.requests) == 1


@pytest.mark.parametrize(
    ("act", "code"),
    [(THROTTLED, "RequestThrottled"), (FORBIDDEN, "AccessDeniedException"), (answer(b"<html>", "502 Bad"), "502")],
    ids=["throttled", "403", "no JSON"],
)
async def test_a_refusal_is_told_by_its_code(opened: Opened, act: Act, code: str) -> None:
    async with opened(act) as (transport, _):
        with pytest.raises(CallRefusedError) as refused:
            await transport.call(POLL, {})

        assert refused.value.code == code


NO_WORDS_OF_SQS = {
    "a page in Latin-1": answer("<!DOCTYPE html>é".encode("latin-1"), "502 Bad Gateway"),
    "a list": answer(b"[]", "502 Bad Gateway"),
    "a list that refuses": answer(b"[1]", "403 Forbidden"),
    "a list that is well": answer(b"[1]"),
    "no text": answer(b"\xff\xfe"),
}


@pytest.mark.parametrize("act", NO_WORDS_OF_SQS.values(), ids=NO_WORDS_OF_SQS)
async def test_an_answer_of_somebody_who_is_not_sqs_is_an_outage(opened: Opened, act: Act) -> None:
    """Of a proxy, for instance. Anything else would end the poller."""
    async with opened(act) as (transport, _):
        with pytest.raises(QueueUnavailableError):
            await transport.call(POLL, {})


async def test_what_will_not_heal_by_itself_is_not_asked_again(opened: Opened) -> None:
    async with opened(FORBIDDEN) as (transport, sqs):
        with pytest.raises(CallRefusedError):
            await transport.call(COMMAND, {})

        assert len(sqs.requests) == 1


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{}\r\n",
    ],
    ids=["no HTTP", "no length", "no number", "no size"],
)
async def test_an_answer_that_makes_no_sense_is_none(opened: Opened, said: bytes) -> None:
    async with opened(Act(said)) as (transport, _):
        with pytest.raises(QueueUnavailableError, match="ValueError"):
            await transport.call(POLL, {})


@pytest.mark.parametrize("form", [answer, chunked])
async def test_an_answer_that_comes_in_pieces_is_put_together(opened: Opened, form: Callable[[bytes], Act]) -> None:
    body = b'{"Messages": [{"Body": "' + b"x" * 500_000 + b'"}]}'
    async with opened(SILENCE) as (transport, sqs):
        poll = asyncio.create_task(transport.call(POLL, {}))
        await until(lambda: len(sqs.requests) == 1)
        whole = form(body).said
        for piece in (whole[:10], whole[10:45], whole[45:]):
            sqs.writers[0].write(piece)
            await sqs.writers[0].drain()

        assert len((await poll)["Messages"][0]["Body"]) == 500_000


async def test_a_refusal_in_chunks_is_told_by_its_code_too(opened: Opened) -> None:
    async with opened(chunked(b'{"__type": "com.amazonaws.sqs#', b'AccessDenied"}', status="403 Forbidden")) as (
        transport,
        _,
    ):
        with pytest.raises(CallRefusedError) as refused:
            await transport.call(POLL, {})

        assert refused.value.code == "AccessDenied"


async def test_a_body_that_is_half_a_surrogate_pair_makes_nobody_deaf(opened: Opened) -> None:
    async with opened(answer(b'{"Messages": [{"Body": "\\ud800"}]}')) as (transport, sqs):
        assert said(await transport.call(POLL, {})) == {"Messages": [{"Body": "\ud800"}]}

        await transport.call("SendMessage", {"MessageBody": "\ud800"})

        assert json.loads(sqs.requests[1].body) == {"MessageBody": "\ud800"}


async def test_an_answer_that_came_in_time_counts_although_the_loop_was_held_up(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(SILENCE) as (transport, sqs):
        poll = asyncio.create_task(transport.call(POLL, {}))
        await until(lambda: len(sqs.requests) == 1)

        # The answer and the end of the time-out wait for the loop together.
        sqs.writers[0].write(answer(b'{"Messages": []}').said)
        loop = asyncio.get_running_loop()
        told = loop.time
        monkeypatch.setattr(loop, "time", lambda: told() + 60.0)

        assert said(await poll) == {"Messages": []}


# --- TLS


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def front(stack: LocalStack, certificates: Certificates) -> Iterator[TlsFront]:
    with TlsFront(stack.sqs.port, certificates.server) as opened:
        yield opened


@pytest.fixture(params=["boto3", "lean"])
def over_tls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> OverTls:
    def made(port: int, authority: Path, named: str = "AWS_CA_BUNDLE") -> OnTheLoop:
        for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(named, str(authority))
        return make_transport(settings_for(f"https://127.0.0.1:{port}", request.param))

    return made


async def test_a_server_of_the_authority_in_the_bundle_is_spoken_to(
    front: TlsFront, certificates: Certificates, over_tls: OverTls
) -> None:
    transport = over_tls(front.port, certificates.authority)

    assert await transport.call("ListQueues", {"QueueNamePrefix": "none-such"}) is not None
    transport.close()


async def test_the_bundle_of_other_libraries_is_heeded_as_boto3_does(
    front: TlsFront, certificates: Certificates, over_tls: OverTls
) -> None:
    transport = over_tls(front.port, certificates.authority, "REQUESTS_CA_BUNDLE")

    assert await transport.call("ListQueues", {"QueueNamePrefix": "none-such"}) is not None
    transport.close()


async def test_a_server_of_another_authority_is_not(
    front: TlsFront, certificates: Certificates, over_tls: OverTls
) -> None:
    transport = over_tls(front.port, certificates.stranger)

    with pytest.raises(QueueUnavailableError, match="certificate verify failed"):
        await transport.call(POLL, {})


async def test_a_server_with_a_certificate_for_another_host_is_not(
    stack: LocalStack, certificates: Certificates, over_tls: OverTls
) -> None:
    with TlsFront(stack.sqs.port, certificates.elsewhere) as elsewhere:
        transport = over_tls(elsewhere.port, certificates.authority)

        with pytest.raises(QueueUnavailableError, match=r"not valid for '127\.0\.0\.1'"):
            await transport.call(POLL, {})


def test_a_bundle_that_is_not_there_is_refused_at_the_start(over_tls: OverTls, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="AWS_CA_BUNDLE"):
        over_tls(1, tmp_path / "none.pem")
