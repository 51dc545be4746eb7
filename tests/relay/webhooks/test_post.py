"""One POST to an address that a client chose: what it does, and what it refuses to do."""

import asyncio
import ssl
import threading
from typing import Any

import psutil
import pytest

from tests.relay.webhooks.receiver import HOST, Receiver
from tests.support.probes import until
from turnstile.relay.webhooks import post as webhook_post
from turnstile.relay.webhooks.post import CONCURRENT, NotPostedError, WebhookPost
from turnstile.webhooks.webhook_url import WebhookTarget

OK = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.fixture
def target(receiver: Receiver) -> WebhookTarget:
    return WebhookTarget(HOST, receiver.port, "/done?x=1")


def resolving_to(*addresses: str, **fields: Any) -> WebhookPost:
    return WebhookPost(look_up=lambda host: addresses, **fields)


async def refusal(post: WebhookPost, target: WebhookTarget) -> str:
    with pytest.raises(NotPostedError) as refused:
        await post(target, {}, b"{}")
    return str(refused.value)


async def test_a_post_returns_the_status(post: WebhookPost, receiver: Receiver) -> None:
    as_it_is = "/a/../%7e?x=a+b%20c&y=%2B"

    assert await post(WebhookTarget(HOST, receiver.port, as_it_is), {"webhook-id": "7"}, b'{"a":1}') == 204

    [got] = receiver.got
    assert got.line == f"POST {as_it_is} HTTP/1.1"
    assert (got.headers["host"], got.headers["user-agent"]) == (f"{HOST}:{receiver.port}", "Turnstile")
    assert (got.headers["webhook-id"], got.headers["content-type"], got.body) == ("7", "application/json", b'{"a":1}')


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.0 410 Gone\r\n\r\n", 410),
        (b"HTTP/1.1 500\r\n\r\n", 500),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 202 Accepted\r\n\r\n", 202),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\nand so on", 200),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\nnot unpacked", 200),
    ],
)
async def test_only_the_status_of_the_response_counts(
    post: WebhookPost, receiver: Receiver, target: WebhookTarget, answer: bytes, status: int
) -> None:
    receiver.answers = [answer]

    assert await post(target, {}, b"{}") == status


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "connection lost"),
        (b"hello\r\n\r\n", "no HTTP answer"),
        (OK[:-2] + b"a: b\r\n" * 100_000, "no HTTP answer"),
    ],
    ids=["nothing", "no HTTP", "endless headers"],
)
async def test_a_response_that_is_not_http_is_a_failure(
    post: WebhookPost, receiver: Receiver, target: WebhookTarget, answer: bytes, reason: str
) -> None:
    receiver.answers = [answer]

    assert await refusal(post, target) == reason


async def test_a_redirect_is_not_followed(post: WebhookPost, receiver: Receiver, target: WebhookTarget) -> None:
    there = f"https://{HOST}:{receiver.port}/there"
    receiver.answers = [f"HTTP/1.1 307 Temporary\r\nLocation: {there}\r\n\r\n".encode(), OK]

    assert await post(target, {}, b"{}") == 307
    assert len(receiver.got) == 1


async def test_a_proxy_of_the_environment_is_not_used(
    post: WebhookPost, receiver: Receiver, target: WebhookTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")

    assert await post(target, {}, b"{}") == 204


async def test_a_cookie_is_not_sent_back(post: WebhookPost, receiver: Receiver, target: WebhookTarget) -> None:
    receiver.answers = [b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n\r\n"]

    for _ in range(2):
        await post(target, {}, b"{}")

    assert "cookie" not in receiver.got[1].headers


NO_ADDRESS = "name has no public address"
"""One reason, whether there is no such name or its address is private: a client could map our network with two."""


@pytest.mark.parametrize("addresses", [("169.254.169.254",), ("93.184.216.34", "10.0.0.1")])
async def test_a_name_with_an_address_that_is_not_public_is_refused(
    receiver: Receiver, target: WebhookTarget, trusted: ssl.SSLContext, addresses: tuple[str, ...]
) -> None:
    assert await refusal(resolving_to(*addresses, tls=trusted), target) == NO_ADDRESS
    assert receiver.connections == 0


async def test_an_ip_address_as_host_is_refused(receiver: Receiver, trusted: ssl.SSLContext) -> None:
    number = WebhookTarget("127.0.0.1", receiver.port, "/")

    assert await refusal(resolving_to("93.184.216.34", tls=trusted), number) == "not reachable"
    assert receiver.connections == 0


async def test_an_address_from_the_systems_resolver_is_checked(target: WebhookTarget) -> None:
    assert await refusal(WebhookPost(), WebhookTarget("localhost", target.port, "/")) == NO_ADDRESS


async def test_the_name_is_looked_up_once_and_the_checked_address_is_connected_to(
    receiver: Receiver, target: WebhookTarget, trusted: ssl.SSLContext
) -> None:
    answers = [["127.0.0.1"], ["127.0.0.2"]]
    post = WebhookPost(look_up=lambda host: answers.pop(0), may_reach="127.0.0.1".__eq__, tls=trusted)

    assert await post(target, {}, b"{}") == 204
    assert len(answers) == 1


@pytest.mark.parametrize("error", [UnicodeError("no name at all"), None])
async def test_a_name_without_an_address_is_refused(target: WebhookTarget, error: Exception | None) -> None:
    def look_up(host: str) -> list[str]:
        if error is not None:
            raise error
        return []

    assert await refusal(WebhookPost(look_up=look_up), target) == NO_ADDRESS


async def test_a_certificate_for_another_name_is_refused(post: WebhookPost, receiver: Receiver) -> None:
    elsewhere = WebhookTarget("other.example.com", receiver.port, "/")

    assert await refusal(post, elsewhere) == "certificate or TLS refused"
    assert receiver.got == []


async def test_a_certificate_of_an_unknown_authority_is_refused(receiver: Receiver, target: WebhookTarget) -> None:
    post = resolving_to("127.0.0.1", may_reach=lambda address: True)

    assert await refusal(post, target) == "certificate or TLS refused"


async def test_an_address_that_refuses_connections_is_skipped(
    receiver: Receiver, target: WebhookTarget, trusted: ssl.SSLContext
) -> None:
    post = resolving_to("127.0.0.2", "127.0.0.1", may_reach=lambda address: True, tls=trusted)

    assert await post(target, {}, b"{}") == 204


async def test_a_receiver_that_never_responds_times_out(
    post: WebhookPost, receiver: Receiver, target: WebhookTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_post, "TOTAL_SECONDS", 0.3)
    receiver.answers = [None]

    assert await refusal(post, target) == "timeout"


async def test_a_receiver_that_never_hangs_up_keeps_no_connection(
    post: WebhookPost, receiver: Receiver, target: WebhookTarget
) -> None:
    receiver.hangs_up = False

    assert await post(target, {}, b"{}") == 204

    def open_here() -> bool:
        connections = psutil.Process().net_connections("tcp")
        return any(one.raddr and one.raddr.port == receiver.port for one in connections)

    await until(lambda: not open_here())


async def test_a_lookup_that_hangs_times_out_and_occupies_one_thread(
    target: WebhookTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_post, "TOTAL_SECONDS", 0.1)
    over = threading.Event()
    asked: list[str] = []

    def look_up(host: str) -> list[str]:
        asked.append(host)
        over.wait()
        return []

    post = WebhookPost(look_up=look_up)
    try:
        for _ in range(2):
            refusals = await asyncio.gather(*(refusal(post, target) for _ in range(CONCURRENT)))
            assert {*refusals} == {"timeout"}
    finally:
        over.set()

    assert asked == [HOST]
