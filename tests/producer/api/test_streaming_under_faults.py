"""Connections that break, and a Redis that is flushed, stops or restarts: the reader gets the whole turn and one end."""

import asyncio
import random
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest
import redis.asyncio

from tests.producer.api.conversation import Conversation, conversing
from tests.producer.api.network_faults import Cable, cable_to
from tests.producer.api.sse_client import Transcript, read_events, read_to_the_end
from tests.producer.api.truncating_proxy import scissors_before
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.streaming.event import name_stream

WORDS = [f"word{n} " for n in range(60)]


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client, for looking and for breaking from outside."""
    async with redis.asyncio.Redis.from_url(settings.redis_url, decode_responses=True) as opened:
        yield opened


@pytest.fixture
async def cable(stack: Stack) -> AsyncIterator[Cable]:
    address = urlsplit(stack.redis.url)
    async with cable_to(address.hostname or "", address.port or 0) as plugged:
        yield plugged


@pytest.fixture
async def talk(settings: Settings, cable: Cable) -> AsyncIterator[Conversation]:
    """A conversation whose events go through the cable."""
    through = settings.model_copy(update={"memory_redis_url": f"redis://127.0.0.1:{cable.port}"})
    async with conversing(through) as conversation:
        yield conversation


@pytest.mark.parametrize("seed", range(2))
async def test_a_reader_whose_connections_break_gets_every_event_once(settings: Settings, seed: int) -> None:
    drawn = random.Random(seed)
    async with conversing(settings) as talk:
        # Behind the headers, so that each connection gets at least its metadata.
        budgets = [drawn.randint(450, 1800) for _ in range(1000)]
        async with scissors_before(talk.served.port, budgets.__getitem__) as (scissors, port):
            turn = await talk.submit()
            uncut, cut = Transcript(), Transcript()
            whole = asyncio.create_task(read_to_the_end(talk.client, turn, uncut))
            async with talk.served.client(port=port) as client:
                broken = asyncio.create_task(read_to_the_end(client, turn, cut))
                talk.work(turn)
                for n, word in enumerate(WORDS):
                    talk.script.emit(word, {"n": n})
                    if drawn.random() < 0.3:
                        said = "".join(WORDS[: n + 1])
                        await until(lambda said=said: uncut.text == said)
                talk.script.reply("".join(WORDS))
                await whole
                await broken
    assert scissors.cuts > 3
    said = [event for event in uncut.events if event.kind != "metadata"]
    assert [event for event in cut.events if event.kind != "metadata"] == said
    assert cut.text == uncut.text == "".join(WORDS)
    assert cut.customs == [{"n": n} for n in range(len(WORDS))]


async def test_after_a_flush_the_whole_text_is_sent_again(talk: Conversation, keys: redis.asyncio.Redis) -> None:
    turn = await talk.submit()
    heard = Transcript()
    following = asyncio.create_task(read_events(talk.client, turn, heard))
    talk.work(turn)
    talk.script.emit("Hello, ")
    await until(lambda: heard.text)
    await keys.flushall()
    talk.script.emit("world")
    await until(lambda: heard.text == "Hello, world")
    # A new reader gets the whole text, and one that reconnects only what it has missed.
    late, back = Transcript(), Transcript(text="Hello, ", last_id=heard.events[-2].id)
    others = [asyncio.create_task(read_events(talk.client, turn, one)) for one in (late, back)]
    await until(lambda: late.text == back.text == "Hello, world")
    talk.script.reply("Hello, world")
    await asyncio.gather(following, *others)
    assert heard.kinds == ["metadata", "status", "delta", "reset", "end"]
    assert late.kinds == back.kinds == ["metadata", "reset", "end"]
    places = [event.place for event in heard.events if event.id]
    assert [n for _, n in places] == [1, 2, 3, 4]


async def test_a_reader_with_a_gap_waits_for_the_whole_text(
    talk: Conversation, settings: Settings, keys: redis.asyncio.Redis
) -> None:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("One ")
    early = Transcript()
    following = asyncio.create_task(read_events(talk.client, turn, early))
    await until(lambda: early.text)
    key = name_stream(settings.redis_prefix, "acme", "s", turn)
    # A gap, made by hand: the product leaves none.
    await keys.xtrim(key, maxlen=1, approximate=False)
    heard = Transcript()
    late = asyncio.create_task(read_events(talk.client, turn, heard))
    talk.script.emit("two ")
    await until(lambda: early.text == "One two ")
    talk.script.reply("One two ")
    await asyncio.gather(following, late)
    assert (early.kinds, early.text) == (["metadata", "status", "delta", "end"], "One two ")
    assert (heard.kinds, heard.text) == (["metadata", "reset", "end"], "One two ")


async def test_without_redis_from_the_start_the_reply_comes_from_the_table(talk: Conversation, cable: Cable) -> None:
    await cable.cut()
    turn = await talk.submit()
    heard = Transcript()
    following = asyncio.create_task(read_events(talk.client, turn, heard))
    await until(lambda: heard.events)
    talk.work(turn)
    talk.script.emit("Hello")
    talk.script.reply("Hello!")
    await following
    assert (heard.kinds, heard.text) == (["metadata", "reset", "end"], "Hello!")


async def test_after_redis_is_lost_the_rest_comes_from_the_table(talk: Conversation, cable: Cable) -> None:
    turn = await talk.submit()
    heard = Transcript()
    following = asyncio.create_task(read_events(talk.client, turn, heard))
    talk.work(turn)
    talk.script.emit("Hel")
    await until(lambda: heard.text)
    await cable.cut()
    talk.script.emit("lo")
    talk.script.reply("Hello")
    await following
    assert (heard.kinds, heard.text) == (["metadata", "status", "delta", "reset", "end"], "Hello")
    places = [event.place for event in heard.events if event.id]
    assert places == sorted(set(places))


async def test_a_reader_that_got_the_reply_from_the_table_gets_only_the_end_after_that(
    talk: Conversation, cable: Cable
) -> None:
    turn = await talk.submit()
    heard = Transcript()
    following = asyncio.create_task(read_events(talk.client, turn, heard))
    talk.work(turn)
    talk.script.emit("Hel")
    await until(lambda: heard.text)
    await cable.cut()
    talk.script.emit("lo")
    talk.script.reply("Hello")
    await following
    await cable.plug_in()
    # As if the connection had broken between the reset and the end.
    heard.events.pop()
    heard.end, heard.last_id = None, heard.events[-1].id
    await read_to_the_end(talk.client, turn, heard)
    assert (heard.kinds[-2:], heard.text) == (["metadata", "end"], "Hello")


async def test_after_a_short_outage_of_redis_the_stream_goes_on(talk: Conversation, cable: Cable) -> None:
    turn = await talk.submit()
    heard = Transcript()
    following = asyncio.create_task(read_events(talk.client, turn, heard))
    talk.work(turn)
    talk.script.emit("one ")
    await until(lambda: heard.text)
    await cable.cut()
    talk.script.emit("two ", {"n": 1})
    await cable.plug_in()
    await until(lambda: heard.text == "one two " and heard.customs)
    talk.script.emit("three")
    talk.script.reply("one two three")
    await following
    assert heard.kinds == ["metadata", "status", "delta", "custom", "delta", "end"]


async def test_after_a_restart_of_redis_the_whole_text_is_sent_again(settings: Settings, stack: Stack) -> None:
    async with conversing(settings) as talk:
        turn = await talk.submit()
        heard = Transcript()
        following = asyncio.create_task(read_events(talk.client, turn, heard))
        talk.work(turn)
        talk.script.emit("one ")
        await until(lambda: heard.text)
        await asyncio.to_thread(stack.redis.stop)
        await asyncio.to_thread(stack.redis.start)
        talk.script.emit("two ")
        await until(lambda: heard.text == "one two ")
        talk.script.reply("one two ")
        await following
    assert heard.kinds == ["metadata", "status", "delta", "reset", "end"]


async def test_after_the_stream_has_expired_the_end_comes_from_the_table(
    settings: Settings, keys: redis.asyncio.Redis
) -> None:
    async with conversing(settings) as talk:
        turn = await talk.submit()
        talk.work(turn)
        talk.script.emit("Hello")
        talk.script.reply({"answer": "Hello"})
        first = await read_to_the_end(talk.client, turn)
        await keys.delete(name_stream(settings.redis_prefix, "acme", "s", turn))
        heard = await read_to_the_end(talk.client, turn)
        resumed = await read_to_the_end(talk.client, turn, Transcript(last_id=first.events[-2].id))
    assert heard.kinds == resumed.kinds == ["metadata", "end"]
    assert heard.end is not None
    assert heard.end.data["output"] == {"answer": "Hello"}


async def test_without_postgres_the_text_arrives_and_the_end_waits(settings: Settings) -> None:
    address = urlsplit(settings.database_url)
    async with cable_to(address.hostname or "", address.port or 0) as cable:
        url = address._replace(netloc=f"{address.netloc.rpartition(':')[0]}:{cable.port}").geturl()
        through = settings.model_copy(update={"database_url": url, "stream_heartbeat_seconds": 0.2})
        async with conversing(settings, served_by=through) as talk:
            turn = await talk.submit()
            heard = Transcript()
            following = asyncio.create_task(read_events(talk.client, turn, heard))
            await until(lambda: heard.events)
            await cable.cut()
            talk.work(turn)
            talk.script.emit("Hello")
            await until(lambda: heard.text == "Hello")
            talk.script.reply("Hello")
            beats = heard.heartbeats
            await until(lambda: heard.heartbeats > beats + 3)
            assert heard.end is None
            await cable.plug_in()
            await following
    assert heard.kinds == ["metadata", "status", "delta", "end"]
