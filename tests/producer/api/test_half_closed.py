"""A client that closes its sending half after its request, as `nc -N` and some proxies do, gets the response all the same."""

import asyncio

import pytest

from tests.producer.api.calls import KEYS
from tests.producer.api.conversation import Conversation, conversing
from tests.support.probes import until
from turnstile.config.settings import Settings

HANGS_SECONDS = 60.0


def request(method: str, path: str, body: bytes = b"", *more: str) -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {KEYS['acme']}", *more]
    if body:
        head += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "".join(f"{line}\r\n" for line in [*head, ""]).encode() + body


class HalfClosed:
    """A connection that has sent its last byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def rest(self) -> bytes:
        """What comes until the server closes the connection."""
        async with asyncio.timeout(HANGS_SECONDS):
            return await self.reader.read()


async def say(talk: Conversation, words: bytes) -> HalfClosed:
    reader, writer = await asyncio.open_connection("127.0.0.1", talk.served.port)
    writer.write(words)
    writer.write_eof()
    return HalfClosed(reader, writer)


SUBMIT = request("POST", "/v1/sessions/s/turns", b'{"input": "hi"}')


async def test_a_submit_is_answered(talk: Conversation) -> None:
    answer = await (await say(talk, SUBMIT)).rest()

    assert answer.startswith(b"HTTP/1.1 202 ")


async def test_requests_in_one_piece_are_all_answered(talk: Conversation) -> None:
    answers = await (await say(talk, SUBMIT * 3)).rest()

    assert answers.count(b"HTTP/1.1 202 ") == 3


@pytest.mark.parametrize("cut", [20, len(SUBMIT) - 3], ids=["head", "body"])
async def test_half_a_request_is_the_end_of_its_connection(talk: Conversation, cut: int) -> None:
    assert await (await say(talk, SUBMIT[:cut])).rest() == b""


async def test_a_wait_is_answered_at_once(talk: Conversation) -> None:
    submitted = await (
        await say(talk, request("POST", "/v1/sessions/s/turns", b'{"input": "x"}', "Prefer: wait=50"))
    ).rest()
    turn = await talk.submit()
    read = await (await say(talk, request("GET", f"/v1/turns/{turn}?wait=50"))).rest()

    assert submitted.startswith(b"HTTP/1.1 202 ")
    assert (read[:13], b'"status":"PENDING"' in read) == (b"HTTP/1.1 200 ", True)


async def test_a_stream_is_followed_to_its_end_and_cancels_nothing(talk: Conversation) -> None:
    turn = await talk.submit()
    stream = await say(talk, request("GET", f"/v1/turns/{turn}/events?on_disconnect=cancel"))
    await until(lambda: talk.listeners == 1)
    talk.work(turn)
    talk.script.emit("so far")
    talk.script.reply("bye")

    received = await stream.rest()

    assert b"event: end\n" in received
    assert (await talk.client.get(f"/v1/turns/{turn}")).json()["status"] == "SUCCEEDED"


async def test_one_that_has_gone_is_noticed_without_the_usual_heartbeat(settings: Settings) -> None:
    async with conversing(settings.model_copy(update={"stream_heartbeat_seconds": 3600.0})) as talk:
        turn = await talk.submit()
        stream = await say(talk, request("GET", f"/v1/turns/{turn}/events?on_disconnect=cancel"))
        await until(lambda: talk.listeners == 1)
        stream.writer.close()

        async def canceled() -> bool:
            return bool((await talk.client.get(f"/v1/turns/{turn}")).json()["status"] == "CANCELED")

        await until(canceled)
