"""Connections that break, and a Redis that forgets, stops or restarts: the reader hears the whole turn, and one end."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis.asyncio

from tests.producer.api.cable import Cable, cable_to
from tests.producer.api.conftest import KEYS
from tests.producer.api.conversation import Conversation, conversing
from tests.producer.api.listening import Transcript, read_events, read_to_the_end
from tests.producer.api.scissors import scissors_before
from tests.support.probes import until
from tests.support.redis_hands import OwnEventHints, OwnEventWriter
from tests.support.stacks.stack import Stack
from turnstile.backends.redis.client import Command
from turnstile.backends.redis.guarded import Guarded
from turnstile.config.settings import Settings
from turnstile.streaming.event import EventKind, Saying, name_stream, numbered
from turnstile.streaming.stream import Append, Appended, EventWriter

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


@pytest.mark.parametrize("seed", range(4))
async def test_the_transcript_over_any_cuts_is_that_of_an_uncut_reader(settings: Settings, seed: int) -> None:
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


async def test_after_a_flush_the_text_is_said_anew(talk: Conversation, keys: redis.asyncio.Redis) -> None:
    turn = await talk.submit()
    heard = Transcript()
    following = asyncio.create_task(read_events(talk.client, turn, heard))
    talk.work(turn)
    talk.script.emit("Hello, ")
    await until(lambda: heard.text)
    await keys.flushall()
    talk.script.emit("world")
    await until(lambda: heard.text == "Hello, world")
    # Who comes now finds the whole text, and who comes back hears only what he missed.
    late, back = Transcript(), Transcript(text="Hello, ", last_id=heard.events[-2].id)
    others = [asyncio.create_task(read_events(talk.client, turn, one)) for one in (late, back)]
    await until(lambda: late.text == back.text == "Hello, world")
    talk.script.reply("Hello, world")
    await asyncio.gather(following, *others)
    assert heard.kinds == ["metadata", "status", "delta", "reset", "end"]
    assert late.kinds == back.kinds == ["metadata", "reset", "end"]
    places = [event.place for event in heard.events if event.id]
    assert [n for _, n in places] == [1, 2, 3, 4]


async def test_a_reader_whose_place_is_lost_waits_for_what_begins_anew(
    talk: Conversation, settings: Settings, keys: redis.asyncio.Redis
) -> None:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("One ")
    early = Transcript()
    following = asyncio.create_task(read_events(talk.client, turn, early))
    await until(lambda: early.text)
    key = name_stream(settings.redis_prefix, "acme", "s", turn)
    # A hole that nobody has announced: made by hand, since the product leaves none.
    await keys.xtrim(key, maxlen=1, approximate=False)
    heard = Transcript()
    late = asyncio.create_task(read_events(talk.client, turn, heard))
    talk.script.emit("two ")
    await until(lambda: early.text == "One two ")
    talk.script.reply("One two ")
    await asyncio.gather(following, late)
    assert (early.kinds, early.text) == (["metadata", "status", "delta", "end"], "One two ")
    assert (heard.kinds, heard.text) == (["metadata", "reset", "end"], "One two ")


async def test_with_redis_away_from_the_start_the_answer_comes_from_the_table(talk: Conversation, cable: Cable) -> None:
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


async def test_with_redis_lost_in_the_middle_the_rest_comes_from_the_table(talk: Conversation, cable: Cable) -> None:
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


async def test_a_reader_that_was_closed_from_the_table_hears_nothing_of_the_stream_any_more(
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


async def test_when_redis_comes_back_the_reader_hears_on(talk: Conversation, cable: Cable) -> None:
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


async def test_a_restart_of_redis_costs_a_reset(settings: Settings, stack: Stack) -> None:
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


async def test_after_the_stream_has_expired_the_reader_gets_the_answer_and_the_end(
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


async def test_with_postgres_away_what_is_said_is_heard_and_the_end_comes_when_it_is_back(settings: Settings) -> None:
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


async def test_every_stream_has_a_time_to_live(settings: Settings, keys: redis.asyncio.Redis) -> None:
    async with conversing(settings) as talk:
        turn = await talk.submit()
        talk.work(turn)
        talk.script.reply("bye")
        await read_to_the_end(talk.client, turn)
    assert 0 < await keys.ttl(name_stream(settings.redis_prefix, "acme", "s", turn)) <= settings.events_ttl_seconds


# --- fencing


@pytest.fixture
async def writer(settings: Settings) -> AsyncIterator[EventWriter]:
    opened = OwnEventWriter(settings)
    yield opened
    await opened.close()


def append(settings: Settings, fence: int, first: int, *kinds: EventKind) -> Append:
    return Append(f"{settings.redis_prefix}stream", numbered(fence, first, [Saying(kind, "{}") for kind in kinds]))


STATUS, DELTA, RESET = EventKind.STATUS, EventKind.DELTA, EventKind.RESET


async def test_a_superseded_worker_is_refused(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    assert await writer.append(append(settings, 7, 1, STATUS)) is Appended.APPENDED
    assert await writer.append(append(settings, 9, 1, STATUS)) is Appended.APPENDED
    assert await writer.append(append(settings, 7, 2, DELTA)) is Appended.SUPERSEDED
    assert await writer.append(append(settings, 7, 2, RESET)) is Appended.SUPERSEDED
    assert [entry for entry, _ in await keys.xrange(f"{settings.redis_prefix}stream")] == ["9-1"]


async def test_an_append_whose_answer_was_lost_finds_itself(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    for _ in range(2):
        assert await writer.append(append(settings, 7, 1, STATUS, DELTA)) is Appended.APPENDED
    for _ in range(2):
        assert await writer.append(append(settings, 7, 3, DELTA, DELTA)) is Appended.APPENDED
    assert [entry for entry, _ in await keys.xrange(f"{settings.redis_prefix}stream")] == ["7-1", "7-2", "7-3", "7-4"]


async def test_an_append_behind_a_hole_is_not_carried_out(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    assert await writer.append(append(settings, 7, 3, DELTA)) is Appended.LOST
    assert await writer.append(append(settings, 7, 3, RESET, DELTA)) is Appended.APPENDED
    assert await writer.append(append(settings, 7, 6, DELTA)) is Appended.LOST
    assert [entry for entry, _ in await keys.xrange(f"{settings.redis_prefix}stream")] == ["7-3", "7-4"]


async def test_what_begins_anew_drops_what_was_before(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    await writer.append(append(settings, 7, 1, STATUS, DELTA))
    await writer.append(append(settings, 7, 3, RESET))
    assert [entry for entry, _ in await keys.xrange(f"{settings.redis_prefix}stream")] == ["7-3"]


async def test_a_key_that_is_no_stream_hurts_nobody_else(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    await keys.set(f"{settings.redis_prefix}stream", "not a stream")
    other = Append(f"{settings.redis_prefix}other", append(settings, 7, 1, STATUS).events)
    answers = await asyncio.gather(writer.append(append(settings, 7, 1, STATUS)), writer.append(other))
    assert answers == [Appended.AWAY, Appended.APPENDED]


LARGE = Saying(EventKind.CUSTOM, f'"{"x" * 600_000}"')


def large_appends(settings: Settings) -> list[Append]:
    return [Append(f"{settings.redis_prefix}large-{turn}", numbered(7, 1, [LARGE])) for turn in range(12)]


async def test_what_many_turns_say_at_once_goes_out_in_calls_of_a_size_that_redis_answers_in_time(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    run = Guarded.run

    async def note(redis: Guarded, commands: Sequence[Command]) -> list[Any] | None:
        calls.append(sum(len(str(word)) for command in commands for word in command[4:]))
        return await run(redis, commands)

    monkeypatch.setattr(Guarded, "run", note)
    wanted = large_appends(settings)

    assert await asyncio.gather(*map(writer.append, wanted)) == [Appended.APPENDED] * 12

    assert max(calls) < 2_000_000
    assert [await keys.xlen(one.key) for one in wanted] == [1] * 12


async def test_when_redis_goes_away_between_such_calls_what_was_answered_counts(
    settings: Settings, writer: EventWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Guarded.run
    calls = 0

    async def answer_once(redis: Guarded, commands: Sequence[Command]) -> list[Any] | None:
        nonlocal calls
        calls += 1
        return await run(redis, commands) if calls == 1 else None

    monkeypatch.setattr(Guarded, "run", answer_once)

    answers = await asyncio.gather(*map(writer.append, large_appends(settings)))

    assert answers[0] is Appended.APPENDED
    assert answers[-1] is Appended.AWAY


# --- many readers


async def test_a_thousand_readers_share_a_handful_of_connections(settings: Settings, keys: redis.asyncio.Redis) -> None:
    # With a lease of 30 s Redis has a second to answer: all this happens on one event loop.
    async with conversing(settings.model_copy(update={"lease_seconds": 30.0})) as talk:
        turns = [await talk.submit(f"s{n}") for n in range(10)]
        before = await _connections(keys)
        heard = [bytearray() for _ in range(1000)]
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
    """As a client that costs next to nothing, so that a thousand fit beside the server."""
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


async def test_a_reader_that_takes_nothing_holds_nobody_up(talk: Conversation) -> None:
    turn = await talk.submit()
    async with talk.served.client() as idle:
        request = idle.build_request("GET", f"/v1/turns/{turn}/events")
        asleep = await idle.send(request, stream=True)
        heard = Transcript()
        following = asyncio.create_task(read_events(talk.client, turn, heard))
        talk.work(turn)
        text = "x" * 15_000
        for _ in range(60):
            talk.script.emit(text, 0)
        talk.script.reply("bye")
        await following
        assert heard.text == "bye"
        await asleep.aclose()


# --- hints


async def test_a_hint_reaches_those_that_wait_for_it(
    settings: Settings, writer: EventWriter, keys: redis.asyncio.Redis
) -> None:
    hints = OwnEventHints(settings)
    key = f"{settings.redis_prefix}stream"
    with hints.listen(key) as anything, hints.listen(key, only_ends=True) as ends:
        assert await ends.wait(30), "told when it is subscribed"
        await anything.wait(30)
        await writer.append(append(settings, 7, 1, STATUS))
        assert await anything.wait(30)
        await writer.append(append(settings, 7, 2, EventKind.END))
        assert await ends.wait(30)
    await hints.close()


async def test_when_the_connection_of_the_hints_breaks_all_are_told_to_look(settings: Settings, cable: Cable) -> None:
    hints = OwnEventHints(settings.model_copy(update={"memory_redis_url": f"redis://127.0.0.1:{cable.port}"}))
    with hints.listen("channel") as listener:
        assert await listener.wait(30)
        await cable.cut()
        assert await listener.wait(30)
        await cable.plug_in()

        assert await until(lambda: listener.wait(1))
    await hints.close()


async def test_a_connection_that_is_merely_quiet_is_kept_and_one_that_is_dead_is_given_up(
    settings: Settings, cable: Cable, keys: redis.asyncio.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.backends.redis.subscribe.QUIET_SECONDS", 0.3)
    hints = OwnEventHints(settings.model_copy(update={"memory_redis_url": f"redis://127.0.0.1:{cable.port}"}))
    with hints.listen("channel") as listener:
        assert await listener.wait(30)
        # Long enough for several pings; a connection that was given up would tell all to look.
        assert not await listener.wait(1.5)
        await keys.publish("channel", "delta")
        assert await listener.wait(30)
        cable.silent = True
        assert await listener.wait(30)
        cable.silent = False
    await hints.close()
