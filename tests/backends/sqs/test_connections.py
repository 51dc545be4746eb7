"""Connections to SQS, by either transport of the event loop: kept, given up, closed, and found among several addresses."""

import asyncio
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest

import turnstile.backends.sqs.http_calls
from tests.support.asking_sqs import (
    COMMAND,
    CUT,
    Opened,
    TransportName,
    either,
    give_environment,
    make,
    said,
    settings_for,
)
from tests.support.probes import until
from tests.support.scripted_sqs import SILENCE, Act, answer, chunked, scripted
from turnstile.backends.sqs.boto3_transport import open_boto3
from turnstile.backends.sqs.http_answer import HttpAnswer
from turnstile.backends.sqs.transport import POLL
from turnstile.errors import QueueUnavailableError

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
NO_CONTENT = Act(b"HTTP/1.1 204 No Content\r\n\r\n")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


@pytest.fixture(params=["boto3", "lean"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """A hand on a scripted SQS; by each transport of the event loop in its turn."""
    name: TransportName = request.param
    return partial(either, name)


async def test_calls_one_after_the_other_share_a_connection(opened: Opened) -> None:
    async with opened() as (transport, sqs):
        for operation in (COMMAND, POLL, COMMAND):
            await transport.call(operation, {})

        assert [request.connection for request in sqs.requests] == [1, 1, 1]


@pytest.mark.parametrize("act", [chunked(b"{", b"}"), Act(CONTINUE + answer().said), NO_CONTENT])
async def test_a_connection_is_kept_after_an_answer_of_any_form(opened: Opened, act: Act) -> None:
    async with opened(act, act) as (transport, sqs):
        for _ in range(3):
            assert said(await transport.call(COMMAND, {})) == {}

        assert [request.connection for request in sqs.requests] == [1, 1, 1]


async def test_calls_at_the_same_time_do_not(opened: Opened) -> None:
    async with opened() as (transport, sqs):
        await asyncio.gather(*(transport.call(COMMAND, {}) for _ in range(3)))

        assert {request.connection for request in sqs.requests} == {1, 2, 3}


@pytest.mark.parametrize("operation", [POLL, COMMAND])
async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(opened: Opened, operation: str) -> None:
    async with opened() as (transport, sqs):
        await transport.call(COMMAND, {})
        kept = transport._http._idle[0]
        sqs.writers[0].close()
        await until(lambda: not kept.is_idle)

        await transport.call(operation, {})

        assert [request.connection for request in sqs.requests] == [1, 2]


@pytest.mark.parametrize("operation", [POLL, COMMAND])
async def test_a_connection_that_the_server_has_just_closed_is_not_used_again(opened: Opened, operation: str) -> None:
    """Its end lies in the socket: a handler has held the loop up, or a Lambda function has rested."""
    async with opened() as (transport, sqs):
        await transport.call(COMMAND, {})
        sqs.writers[0].transport.abort()
        # The server's end is closed within this one step of the loop; the client's has heard nothing yet.
        sqs.writers[0].transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

        assert said(await transport.call(operation, {})) == {}

        assert [request.connection for request in sqs.requests] == [1, 2]


async def test_commands_at_a_time_are_bounded_and_so_are_the_connections_they_leave(opened: Opened) -> None:
    """Else a thousand messages that are given back one by one would be a thousand connections."""
    async with opened() as (transport, sqs):
        await asyncio.gather(*(transport.call(COMMAND, {}) for _ in range(100)))

        assert len(sqs.requests) == 100
        assert len(sqs.writers) <= turnstile.backends.sqs.http_calls.COMMANDS


@pytest.mark.parametrize("name", ["boto3", "lean"])
async def test_a_request_names_the_host_as_boto3_signs_it(name: TransportName) -> None:
    """In lower case, and without the port that goes without saying."""
    for given, told in [
        ("http://SQS.test:80", "sqs.test"), ("http://sqs.test:8080", "sqs.test:8080"), ("http://[::1]:9", "[::1]:9")
    ]:  # fmt: skip
        transport = make(settings_for(given, name))
        asked: list[bytes] = []

        async def exchange(_: str, request: bytes, __: Any, asked: list[bytes] = asked) -> HttpAnswer:
            asked.append(request)
            return HttpAnswer(200, {}, b"{}", is_last=False)

        transport._http.exchange = exchange  # type: ignore[method-assign]
        await transport.call(COMMAND, {})

        assert f"\r\nhost: {told}\r\n".encode() in asked[0]
        transport.close()


async def test_a_call_that_ends_after_the_close_leaves_no_connection_open(opened: Opened) -> None:
    async with opened(SILENCE) as (transport, sqs):
        poll = asyncio.create_task(transport.call(POLL, {}))
        await until(lambda: len(sqs.requests) == 1)

        transport.close()
        sqs.writers[0].write(answer().said)
        await poll

        await until(lambda: sqs.gone == 1)


UNASKED = [answer(b'{"stale": true}', "408 Request Timeout").said, chunked(b'{"stale": true}').said, CONTINUE, b"\r\n"]


@pytest.mark.parametrize("word", UNASKED, ids=["an answer", "one in chunks", "an interim one", "a line end"])
@pytest.mark.parametrize("operation", [POLL, COMMAND])
async def test_what_a_server_says_unasked_is_nobodys_answer(opened: Opened, operation: str, word: bytes) -> None:
    async with opened() as (transport, sqs):
        await transport.call(COMMAND, {})
        kept = transport._http._idle[0]
        sqs.writers[0].write(word)
        await until(lambda: not kept.is_idle)

        assert said(await transport.call(operation, {})) == {}


async def test_a_connection_that_the_server_says_it_will_close_is_not_used_again(opened: Opened) -> None:
    async with opened(answer(Connection="close")) as (transport, sqs):
        await transport.call(COMMAND, {})
        await transport.call(COMMAND, {})

        assert [request.connection for request in sqs.requests] == [1, 2]


async def test_a_poll_that_is_cancelled_closes_its_connection_and_its_answer_is_nobody_elses(opened: Opened) -> None:
    async with opened(SILENCE) as (transport, sqs):
        poll = asyncio.create_task(transport.call(POLL, {}))
        await until(lambda: len(sqs.requests) == 1)

        poll.cancel()

        await until(lambda: sqs.gone == 1)
        assert said(await transport.call(COMMAND, {})) == {}
        assert [request.connection for request in sqs.requests] == [1, 2]


async def test_a_server_that_is_silent_is_given_up_and_a_command_tried_once_more(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turnstile.backends.sqs.http_calls, "COMMAND_SECONDS", 0.2)
    async with opened(SILENCE, SILENCE) as (transport, sqs):
        with pytest.raises(QueueUnavailableError, match="TimeoutError"):
            await transport.call(COMMAND, {})

        await until(lambda: [request.connection for request in sqs.requests] == [1, 2])


async def test_a_poll_of_a_silent_server_ends_after_its_wait_and_is_not_tried_again(
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turnstile.backends.sqs.http_calls, "POLL_SLACK_SECONDS", -0.8)
    async with opened(SILENCE) as (transport, sqs):
        with pytest.raises(QueueUnavailableError, match="TimeoutError"):
            await transport.call(POLL, {})

        await until(lambda: len(sqs.requests) == 1)
        assert len(sqs.writers) == 1


async def test_after_a_broken_connection_the_next_try_takes_none_that_was_idle(opened: Opened) -> None:
    async with opened(answer(), answer(), CUT) as (transport, sqs):
        await asyncio.gather(*(transport.call(COMMAND, {}) for _ in range(2)))

        assert said(await transport.call(COMMAND, {})) == {}

        assert [request.connection for request in sqs.requests] == [1, 2, 2, 3]


UNKEPT = {
    "Connection: close": answer(Connection="close").said,
    "bytes beyond the answer": answer().said + b"HTTP/1.1 200",
    "bytes beyond the last chunk": chunked(b"{}").said + b"HTTP/1.1 200",
    "bytes where there is no content": NO_CONTENT.said + b"{}",
    "chunks and a length": chunked(b"{}", Content_Length="2").said,
}


@pytest.mark.parametrize("said", UNKEPT.values(), ids=UNKEPT)
async def test_a_connection_that_is_not_kept_is_closed_although_the_server_leaves_it_open(
    opened: Opened, said: bytes
) -> None:
    async with opened(*[Act(said)] * 3) as (transport, sqs):
        for _ in range(3):
            await transport.call(COMMAND, {})

        await until(lambda: sqs.gone == 3)


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-OpenSSH\r\n\r\n", chunked().said[:-4] + b"x\r\n"], ids=["no HTTP", "no size"]
)
async def test_a_connection_whose_answer_made_no_sense_is_closed_although_its_time_was_up_too(
    opened: Opened, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(SILENCE) as (transport, sqs):
        poll = asyncio.create_task(transport.call(POLL, {}))
        await until(lambda: len(sqs.requests) == 1)

        sqs.writers[0].write(said)
        loop = asyncio.get_running_loop()
        told = loop.time
        with monkeypatch.context() as held_up:
            held_up.setattr(loop, "time", lambda: told() + 60.0)
            with pytest.raises(QueueUnavailableError, match="ValueError"):
                await poll

        await until(lambda: sqs.gone == 1)


@contextmanager
def black_hole() -> Iterator[int]:
    """A port of 127.0.0.1 that answers no attempt to connect: its listener's queue is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting: list[socket.socket] = []
        try:
            # How many the queue holds is the kernel's to say: it is full when one does not get in.
            full = False
            while not full:
                waiting.append(socket.socket())
                waiting[-1].setblocking(False)
                waiting[-1].connect_ex(listener.getsockname())
                full = not select.select([], waiting[-1:], [], 0.2)[1]
                assert len(waiting) < 100
            yield listener.getsockname()[1]
        finally:
            for one in waiting:
                one.close()


@pytest.mark.parametrize("name", ["boto3", "lean"])
async def test_an_address_that_is_dead_does_not_keep_the_next_one_waiting(
    name: TransportName, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with scripted() as sqs:
        with black_hole() as dead:
            ports = [dead, urlsplit(sqs.address).port]

            async def resolve(*_: Any, **__: Any) -> list[Any]:
                return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
            transport = make(settings_for("http://sqs.test", name))

            assert said(await transport.call(POLL, {})) == {}
            transport.close()


async def test_behind_a_proxy_boto3_goes_its_own_way_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted() as proxy:
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        transport = open_boto3(settings_for("http://sqs.test", "boto3"))

        await transport.call(COMMAND, {})

        assert [request.line for request in proxy.requests] == ["POST http://sqs.test/ HTTP/1.1"]
        transport.close()
