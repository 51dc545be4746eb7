"""Connections to SQS: kept, given up, closed, and found among several addresses."""

import asyncio

import pytest

import turnstile.backends.sqs.sqs_client
from tests.backends.sqs.asking_sqs import COMMAND, CUT, asking, give_environment
from tests.support.probes import until
from tests.support.scripted_sqs import SILENCE, Act, answer, scripted
from turnstile.backends.sqs.sqs_client import COMMANDS, POLL, SqsClient
from turnstile.errors import QueueUnavailableError


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    give_environment(monkeypatch)


async def test_concurrent_commands_and_their_connections_are_bounded() -> None:
    """Otherwise a thousand messages that are given back one by one would open a thousand connections."""
    async with asking() as (client, sqs):
        await asyncio.gather(*(client.call(COMMAND, {}) for _ in range(100)))

        assert len(sqs.requests) == 100
        assert len(sqs.writers) <= COMMANDS


async def test_a_cancelled_poll_closes_its_connection() -> None:
    async with asking(SILENCE) as (client, sqs):
        poll = asyncio.create_task(client.call(POLL, {}))
        await until(lambda: len(sqs.requests) == 1)

        poll.cancel()

        await until(lambda: sqs.gone == 1)
        assert await client.call(COMMAND, {}) == {}
        assert [request.connection for request in sqs.requests] == [1, 2]


async def test_a_command_to_a_silent_server_is_tried_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with asking(SILENCE, SILENCE) as (client, sqs):
        with pytest.raises(QueueUnavailableError, match="Timeout"):
            await client.call(COMMAND, {}, seconds=0.2)

        await until(lambda: [request.connection for request in sqs.requests] == [1, 2])


async def test_a_poll_of_a_silent_server_is_tried_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turnstile.backends.sqs.sqs_client, "POLL_SLACK_SECONDS", 0.2)
    async with asking(SILENCE) as (client, sqs):
        with pytest.raises(QueueUnavailableError, match="Timeout"):
            await client.call(POLL, {})

        await until(lambda: len(sqs.requests) == 1)
        assert len(sqs.writers) == 1


async def test_a_response_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turnstile.backends.sqs.sqs_client, "DRIP_SECONDS", 0.5)
    async with asking(Act(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")) as (client, sqs):

        def drip_until_closed() -> bool:
            # Behind the head of the response.
            for writer in sqs.writers if sqs.requests else ():
                writer.write(b" ")
            return sqs.gone == 1

        dripping = asyncio.create_task(until(drip_until_closed))
        with pytest.raises(QueueUnavailableError, match="Timeout"):
            await client.call(COMMAND, {}, seconds=1.0, tries=1)
        await dripping


async def test_after_a_broken_connection_the_second_try_uses_a_new_one() -> None:
    async with asking(answer(), answer(), CUT) as (client, sqs):
        await asyncio.gather(*(client.call(COMMAND, {}) for _ in range(2)))

        assert await client.call(COMMAND, {}) == {}

        assert [request.connection for request in sqs.requests][-1] == 3


async def test_forgotten_connections_are_not_used_again() -> None:
    async with asking() as (client, sqs):
        await client.call(COMMAND, {})
        await client.forget_connections()
        await client.call(COMMAND, {})

        assert [request.connection for request in sqs.requests] == [1, 2]


async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted() as proxy:
        monkeypatch.delenv("NO_PROXY")
        monkeypatch.setenv("HTTP_PROXY", proxy.address)
        client = SqsClient.open("us-east-1", "http://sqs.test")

        await client.call(COMMAND, {})

        assert [request.line for request in proxy.requests] == ["POST http://sqs.test/ HTTP/1.1"]
        await client.close()


async def test_a_closed_client_opens_no_connection() -> None:
    async with asking(answer(b"{}")) as (client, sqs):
        await client.close()

        with pytest.raises(QueueUnavailableError, match="after the end"):
            await client.call(POLL, {})

        assert sqs.requests == []
