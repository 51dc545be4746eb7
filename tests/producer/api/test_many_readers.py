"""Many readers of events at a time."""

import asyncio
from typing import Any

import redis.asyncio

from tests.producer.api.calls import KEYS
from tests.producer.api.conversation import Conversation, conversing
from tests.support.probes import until
from turnstile.config.settings import Settings

READERS = 50


async def test_many_readers_share_a_handful_of_connections(settings: Settings, keys: redis.asyncio.Redis) -> None:
    # With a lease of 30 s Redis has a second to answer: all this happens on one event loop.
    async with conversing(settings.model_copy(update={"lease_seconds": 30.0})) as talk:
        turns = [await talk.submit(f"s{n}") for n in range(10)]
        before = await _connections(keys)
        heard = [bytearray() for _ in range(READERS)]
        readers = [
            asyncio.create_task(_read_plainly(talk.served.port, turns[place % 10], into))
            for place, into in enumerate(heard)
        ]
        await until(lambda: all(b"event: metadata" in one for one in heard), within=90)
        assert await _connections(keys) - before <= 3
        for n, turn in enumerate(turns):
            talk.work(turn, f"s{n}")
        talk.script.emit(*["hello"] * 10)
        await until(lambda: all(b"event: status" in one for one in heard), within=90)
        # Two of the API's, and the worker's own.
        assert await _connections(keys) - before <= 6
        for _ in turns:
            talk.script.reply("hello")
        await asyncio.gather(*readers)
    assert {one.count(b"event: end") for one in heard} == {1}


async def _read_plainly(port: int, turn: Any, into: bytearray) -> None:
    """As a client that costs next to nothing, so that hundreds fit on the server's machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    key = KEYS["acme"]
    head = (
        f"GET /v1/turns/{turn}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode())
    while data := await reader.read(65_536):
        into += data
    writer.close()


async def _connections(keys: redis.asyncio.Redis) -> int:
    return len(await keys.client_list())


async def test_a_reader_that_reads_nothing_does_not_delay_others(talk: Conversation) -> None:
    turn = await talk.submit()
    async with talk.served.client() as idle:
        request = idle.build_request("GET", f"/v1/turns/{turn}/events")
        asleep = await idle.send(request, stream=True)
        heard, following = talk.follow(turn)
        talk.work(turn)
        talk.script.emit(*["x" * 15_000, 0] * 60)
        talk.script.reply("bye")
        await following
        assert heard.text == "bye"
        await asleep.aclose()
