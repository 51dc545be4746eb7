"""One POST to an address that a client named: what it does, and what it refuses to do."""

import asyncio
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.relay.webhooks.receiver import HOST, Receiver
from turnstile.relay.webhooks import post as webhook_post
from turnstile.relay.webhooks.post import NotPostedError, WebhookPost
from turnstile.webhooks.url import WebhookTarget, is_public

OK = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.fixture
def target(receiver: Receiver) -> WebhookTarget:
    return WebhookTarget(HOST, receiver.port, "/done?x=1")


def resolving_to(*addresses: str, asked: list[str] | None = None, **fields: object) -> WebhookPost:
    async def resolve(host: str, port: int) -> Sequence[str]:
        if asked is not None:
            asked.append(host)
        return addresses

    return WebhookPost(resolve=resolve, **fields)  # type: ignore[arg-type]


async def refusal(post: WebhookPost, target: WebhookTarget) -> str:
    with pytest.raises(NotPostedError) as refused:
        await post(target, {}, b"{}")
    return str(refused.value)


async def test_it_posts_and_brings_the_status_back(
    post: WebhookPost, receiver: Receiver, target: WebhookTarget
) -> None:
    assert await post(target, {"webhook-id": "7"}, b'{"a":1}') == 204

    [got] = receiver.got
    assert got.line == "POST /done?x=1 HTTP/1.1"
    assert got.headers["host"] == f"{HOST}:{receiver.port}"
    assert (got.headers["webhook-id"], got.headers["content-type"], got.body) == ("7", "application/json", b'{"a":1}')


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (OK, 200),
        (b"HTTP/1.0 410 Gone\r\n\r\n", 410),
        (b"HTTP/1.1 500\r\n\r\n", 500),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n", 202),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nand so on", 200),
    ],
)
async def test_of_the_answer_only_the_status_counts(
    post: WebhookPost, receiver: Receiver, target: WebhookTarget, answer: bytes, status: int
) -> None:
    receiver.answers = [answer]

    assert await post(target, {}, b"{}") == status


@pytest.mark.parametrize(
    "answer",
    [b"", b"hello\r\n\r\n", b"HTTP/1.1 2000\r\n\r\n", b"HTTP/2 200\r\n\r\n", b"HTTP/1.1 " + b"9" * 100_000],
    ids=["nothing", "no HTTP", "no status", "another version", "endless"],
)
async def test_what_is_no_answer_is_said(
    post: WebhookPost, receiver: Receiver, target: WebhookTarget, answer: bytes
) -> None:
    receiver.answers = [answer]

    assert await refusal(post, target) in {"no HTTP answer", "connection lost"}


async def test_a_redirect_is_not_followed(post: WebhookPost, receiver: Receiver, target: WebhookTarget) -> None:
    receiver.answers = [
        f"HTTP/1.1 307 Temporary\r\nLocation: https://{HOST}:{receiver.port}/there\r\n\r\n".encode(),
        OK,
    ]

    assert await post(target, {}, b"{}") == 307
    assert len(receiver.got) == 1


async def test_a_name_that_means_a_private_address_is_refused_before_anything_is_sent(
    receiver: Receiver, target: WebhookTarget, trusted: ssl.SSLContext
) -> None:
    assert await refusal(resolving_to("127.0.0.1", tls=trusted), target) == "address refused"
    assert receiver.connections == 0


async def test_one_private_address_among_public_ones_refuses_them_all(
    receiver: Receiver, target: WebhookTarget
) -> None:
    assert await refusal(resolving_to("93.184.216.34", "10.0.0.1"), target) == "address refused"
    assert receiver.connections == 0


async def test_the_name_is_resolved_once_and_the_judged_address_is_the_one_connected_to(
    receiver: Receiver, target: WebhookTarget, trusted: ssl.SSLContext
) -> None:
    asked: list[str] = []
    judged: list[str] = []

    def judge(address: str) -> bool:
        judged.append(address)
        return True

    post = resolving_to("127.0.0.1", asked=asked, may_reach=judge, tls=trusted)

    assert await post(target, {}, b"{}") == 204
    assert (asked, judged) == ([HOST], ["127.0.0.1"])


async def test_a_resolver_that_fails_refuses(target: WebhookTarget) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    assert await refusal(WebhookPost(resolve=resolve), target) == "name not resolved"
    assert await refusal(resolving_to(), target) == "name not resolved"


async def test_the_real_resolver_knows_this_machine_and_is_refused(target: WebhookTarget) -> None:
    local = WebhookTarget("localhost", target.port, "/")

    assert await refusal(WebhookPost(), local) == "address refused"
    assert not is_public("127.0.0.1")


async def test_a_certificate_for_another_name_is_refused(post: WebhookPost, receiver: Receiver) -> None:
    elsewhere = WebhookTarget("other.example.com", receiver.port, "/")

    assert await refusal(post, elsewhere) == "certificate or TLS refused"
    assert receiver.got == []


async def test_a_certificate_that_nobody_vouches_for_is_refused(receiver: Receiver, target: WebhookTarget) -> None:
    post = resolving_to("127.0.0.1", may_reach=lambda address: True)

    assert await refusal(post, target) == "certificate or TLS refused"


async def test_an_address_where_nobody_listens_is_passed_over(
    receiver: Receiver, target: WebhookTarget, trusted: ssl.SSLContext
) -> None:
    post = resolving_to("127.0.0.2", "127.0.0.1", may_reach=lambda address: True, tls=trusted)

    assert await post(target, {}, b"{}") == 204


async def test_a_receiver_that_never_answers_has_its_bound(
    post: WebhookPost, receiver: Receiver, target: WebhookTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_post, "TOTAL_SECONDS", 0.3)
    receiver.answers = [None]

    assert await refusal(post, target) == "timeout"


async def test_a_resolver_that_hangs_has_its_bound(target: WebhookTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_post, "TOTAL_SECONDS", 0.1)

    async def resolve(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        raise AssertionError

    assert await refusal(WebhookPost(resolve=resolve), target) == "timeout"


def test_the_certificate_is_the_receivers_own(certificate: Path) -> None:
    assert certificate.read_text().count("BEGIN") == 2
