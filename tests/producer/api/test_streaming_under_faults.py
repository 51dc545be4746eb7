"""Connections that break, and a Redis that is flushed or away: the reader gets the whole turn and one end."""

import asyncio
import random
from itertools import count
from urllib.parse import urlsplit

import pytest
import redis.asyncio

from tests.producer.api.conversation import Conversation, conversing
from tests.producer.api.network_faults import Cable, at_port, cable_to
from tests.producer.api.sse_client import Transcript, read_events, read_to_the_end
from tests.support.probes import until
from turnstile.config.settings import Settings
from turnstile.streaming.event import name_stream

WORDS = [f"word{n} " for n in range(60)]


async def test_a_reader_whose_connections_break_gets_every_event_once(talk: Conversation) -> None:
    drawn = random.Random(0)
    async with cable_to("127.0.0.1", talk.served.port) as cable, talk.served.client(port=cable.port) as client:
        # Behind the headers, so that each connection gets at least its metadata.
        cable.budgets = (drawn.randint(450, 1800) for _ in count())
        turn = await talk.submit()
        uncut, cut = Transcript(), Transcript()
        readers = [
            asyncio.create_task(read_to_the_end(by, turn, into)) for by, into in ((talk.client, uncut), (client, cut))
        ]
        talk.work(turn)
        for n, word in enumerate(WORDS):
            talk.script.emit(word, {"n": n})
            if drawn.random() < 0.3:
                said = "".join(WORDS[: n + 1])
                await until(lambda said=said: uncut.text == said)
        talk.script.reply("".join(WORDS))
        await asyncio.gather(*readers)
    assert cable.breaks > 3
    assert [event for event in cut.events if event.id] == [event for event in uncut.events if event.id]
    assert cut.text == uncut.text == "".join(WORDS)
    assert cut.customs == [{"n": n} for n in range(len(WORDS))]


async def test_after_a_flush_the_whole_text_is_sent_again(talk: Conversation, keys: redis.asyncio.Redis) -> None:
    turn = await talk.submit()
    heard, following = talk.follow(turn)
    talk.work(turn)
    talk.script.emit("Hello, ")
    await until(lambda: heard.text)
    await keys.flushall()
    talk.script.emit("world")
    await until(lambda: heard.text == "Hello, world")
    # A new reader gets the whole text, and one that reconnects only what it has missed.
    back = Transcript(text="Hello, ", last_id=heard.events[-2].id)
    resuming = asyncio.create_task(read_events(talk.client, turn, back))
    late, beginning = talk.follow(turn)
    await until(lambda: late.text == back.text == "Hello, world")
    talk.script.reply("Hello, world")
    await asyncio.gather(following, resuming, beginning)
    assert heard.kinds == ["metadata", "status", "delta", "reset", "end"]
    assert late.kinds == back.kinds == ["metadata", "reset", "end"]
    status, delta, reset, end = (event.place[1] for event in heard.events if event.id)
    assert (status, delta, end) == (1, 2, reset + 1)
    assert reset > delta, "the number of a lost event is not used again"


async def test_a_reader_with_a_gap_waits_for_the_whole_text(talk: Conversation, keys: redis.asyncio.Redis) -> None:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("One ")
    early, following = talk.follow(turn)
    await until(lambda: early.text)
    # A gap, made by hand: the product leaves none.
    await keys.xtrim(name_stream(talk.settings.redis_prefix, "acme", "s", turn), maxlen=1, approximate=False)
    heard, late = talk.follow(turn)
    talk.script.emit("two ")
    await until(lambda: early.text == "One two ")
    talk.script.reply("One two ")
    await asyncio.gather(following, late)
    assert (early.kinds, early.text) == (["metadata", "status", "delta", "end"], "One two ")
    assert (heard.kinds, heard.text) == (["metadata", "reset", "end"], "One two ")


async def test_without_redis_from_the_start_the_reply_comes_from_the_table(
    cabled_talk: Conversation, redis_cable: Cable
) -> None:
    await redis_cable.cut()
    turn = await cabled_talk.submit()
    heard, following = cabled_talk.follow(turn)
    await until(lambda: heard.events)
    cabled_talk.work(turn)
    cabled_talk.script.emit("Hello")
    cabled_talk.script.reply("Hello!")
    await following
    assert (heard.kinds, heard.text) == (["metadata", "reset", "end"], "Hello!")


async def test_after_redis_is_lost_the_rest_comes_from_the_table_once(
    cabled_talk: Conversation, redis_cable: Cable
) -> None:
    turn = await cabled_talk.submit()
    heard, following = cabled_talk.follow(turn)
    cabled_talk.work(turn)
    cabled_talk.script.emit("Hel")
    await until(lambda: heard.text)
    await redis_cable.cut()
    cabled_talk.script.emit("lo")
    cabled_talk.script.reply("Hello")
    await following
    assert (heard.kinds, heard.text) == (["metadata", "status", "delta", "reset", "end"], "Hello")
    places = [event.place for event in heard.events if event.id]
    assert places == sorted(set(places))

    await redis_cable.plug_in()
    # As if the connection had broken between the reset and the end.
    heard.events.pop()
    heard.end, heard.last_id = None, heard.events[-1].id
    await read_to_the_end(cabled_talk.client, turn, heard)
    assert (heard.kinds[-2:], heard.text) == (["metadata", "end"], "Hello")


async def test_after_a_short_outage_of_redis_the_stream_goes_on(cabled_talk: Conversation, redis_cable: Cable) -> None:
    turn = await cabled_talk.submit()
    heard, following = cabled_talk.follow(turn)
    cabled_talk.work(turn)
    cabled_talk.script.emit("one ")
    await until(lambda: heard.text)
    await redis_cable.cut()
    cabled_talk.script.emit("two ", {"n": 1})
    await redis_cable.plug_in()
    await until(lambda: heard.text == "one two " and heard.customs)
    cabled_talk.script.emit("three")
    cabled_talk.script.reply("one two three")
    await following
    assert heard.kinds == ["metadata", "status", "delta", "custom", "delta", "end"]


async def test_after_the_stream_has_expired_the_end_comes_from_the_table(
    talk: Conversation, keys: redis.asyncio.Redis
) -> None:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("Hello")
    talk.script.reply({"answer": "Hello"})
    first = await read_to_the_end(talk.client, turn)
    await keys.delete(name_stream(talk.settings.redis_prefix, "acme", "s", turn))
    heard = await read_to_the_end(talk.client, turn)
    resumed = await read_to_the_end(talk.client, turn, Transcript(last_id=first.events[-2].id))
    assert heard.kinds == resumed.kinds == ["metadata", "end"]
    assert heard.end is not None
    assert heard.end.data["output"] == {"answer": "Hello"}


async def test_without_postgres_the_text_arrives_and_the_end_waits(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.producer.app.DATABASE_WAIT_SECONDS", 0.1)
    address = urlsplit(settings.database_url)
    async with cable_to(address.hostname or "", address.port or 0) as cable:
        url = at_port(settings.database_url, cable.port)
        through = settings.model_copy(update={"database_url": url, "stream_heartbeat_seconds": 0.2})
        async with conversing(settings, served_by=through) as talk:
            turn = await talk.submit()
            heard, following = talk.follow(turn)
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
