"""Connections to SQS: kept, given up, closed, and found among several addresses."""

import asyncio
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

import turnstile.backends.sqs.client
from tests.support.asking_sqs import COMMAND, CUT, asking, give_environment
from tests.support.probes import until
from tests.support.scripted_sqs import SILENCE, Act, answer, scripted
from turnstile.backends.sqs.client import COMMANDS, POLL, SqsClient
from turnstile.errors import QueueUnavailableError


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


async def test_calls_one_after_the_other_share_a_connection() -> None:
    async with asking() as (client, sqs):
        for operation in (COMMAND, POLL, COMMAND):
            await client.call(operation, {})

        assert [request.connection for request in sqs.requests] == [1, 1, 1]


async def test_calls_at_the_same_time_do_not() -> None:
    async with asking() as (client, sqs):
        await asyncio.gather(*(client.call(COMMAND, {}) for _ in range(3)))

        assert {request.connection for request in sqs.requests} == {1, 2, 3}


async def test_commands_at_a_time_are_bounded_and_so_are_the_connections_they_leave() -> None:
    """Else a thousand messages that are given back one by one would be a thousand connections."""
    async with asking() as (client, sqs):
        await asyncio.gather(*(client.call(COMMAND, {}) for _ in range(100)))

        assert len(sqs.requests) == 100
        assert len(sqs.writers) <= COMMANDS


async def test_a_connection_that_the_server_says_it_will_close_is_not_used_again() -> None:
    async with asking(answer(Connection="close")) as (client, sqs):
        await client.call(COMMAND, {})
        await client.call(COMMAND, {})

        assert [request.connection for request in sqs.requests] == [1, 2]


async def test_a_poll_that_is_cancelled_closes_its_connection_and_its_answer_is_nobody_elses() -> None:
    async with asking(SILENCE) as (client, sqs):
        poll = asyncio.create_task(client.call(POLL, {}))
        await until(lambda: len(sqs.requests) == 1)

        poll.cancel()

        await until(lambda: sqs.gone == 1)
        assert await client.call(COMMAND, {}) == {}
        assert [request.connection for request in sqs.requests] == [1, 2]


async def test_a_server_that_is_silent_is_given_up_and_a_command_tried_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with asking(SILENCE, SILENCE) as (client, sqs):
        with pytest.raises(QueueUnavailableError, match="Timeout"):
            await client.call(COMMAND, {}, seconds=0.2)

        await until(lambda: [request.connection for request in sqs.requests] == [1, 2])


async def test_a_poll_of_a_silent_server_ends_after_its_wait_and_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turnstile.backends.sqs.client, "POLL_SLACK_SECONDS", 0.2)
    async with asking(SILENCE) as (client, sqs):
        with pytest.raises(QueueUnavailableError, match="Timeout"):
            await client.call(POLL, {})

        await until(lambda: len(sqs.requests) == 1)
        assert len(sqs.writers) == 1


async def test_a_response_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstile.backends.sqs.client, "DRIP_SECONDS", 0.5)
    async with asking(Act(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")) as (client, sqs):

        def drip_until_closed() -> bool:
            for writer in sqs.writers:
                writer.write(b" ")
            return sqs.gone == 1

        dripping = asyncio.create_task(until(drip_until_closed))
        with pytest.raises(QueueUnavailableError, match="Timeout"):
            await client.call(COMMAND, {}, seconds=1.0, tries=1)
        await dripping


async def test_after_a_broken_connection_the_next_try_takes_none_that_was_idle() -> None:
    async with asking(answer(), answer(), CUT) as (client, sqs):
        await asyncio.gather(*(client.call(COMMAND, {}) for _ in range(2)))

        assert await client.call(COMMAND, {}) == {}

        assert [request.connection for request in sqs.requests][-1] == 3


@pytest.mark.parametrize("operation", [POLL, COMMAND])
async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(operation: str) -> None:
    async with asking() as (client, sqs):
        await client.call(COMMAND, {})
        sqs.writers[0].close()
        await until(lambda: sqs.gone == 1)

        assert await client.call(operation, {}) == {}


async def test_after_a_rest_connections_are_new() -> None:
    async with asking() as (client, sqs):
        await client.call(COMMAND, {})
        await client.forget_connections()
        await client.call(COMMAND, {})

        assert [request.connection for request in sqs.requests] == [1, 2]


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


async def test_an_address_that_is_dead_does_not_keep_the_next_one_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted() as sqs:
        with black_hole() as dead:
            ports = [dead, urlsplit(sqs.address).port]

            async def resolve(*_: Any, **__: Any) -> list[Any]:
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
            client = SqsClient.open("us-east-1", "http://sqs.test")

            assert await client.call(POLL, {}) == {}
            await client.close()


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted() as proxy:
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        client = SqsClient.open("us-east-1", "http://sqs.test")

        await client.call(COMMAND, {})

        assert [request.line for request in proxy.requests] == ["POST http://sqs.test/ HTTP/1.1"]
        await client.close()
