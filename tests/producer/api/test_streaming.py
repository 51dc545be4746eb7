"""Reading a turn's events over HTTP: in order, without gaps, and to exactly one end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import redis.asyncio

from tests.producer.api.conversation import Conversation, conversing
from tests.producer.api.sse_client import Transcript, read_events, read_to_the_end
from tests.support.probes import until
from turnstile.config.settings import Settings
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.exceptions import Reject, Retry
from turnstile.handlers.handler import handler
from turnstile.streaming.event import name_stream


async def test_a_reader_gets_the_state_then_the_text_then_the_end(talk: Conversation) -> None:
    turn = await talk.submit()
    heard, following = talk.follow(turn)
    await until(lambda: heard.events)
    talk.work(turn)
    talk.script.emit("Hel", "lo", {"sources": [1, 2]}, "!")
    talk.script.reply("Hello!")
    await following
    assert heard.kinds == ["metadata", "status", "delta", "custom", "delta", "end"]
    assert heard.events[0].data == {"turn_id": str(turn), "session_id": "s", "status": "PENDING", "attempt": 0}
    assert heard.events[0].id is None
    assert heard.events[1].data == {"status": "RUNNING", "attempt": 1}
    assert heard.customs == [{"sources": [1, 2]}]
    assert heard.text == "Hello!"
    assert heard.end is not None
    assert heard.end.data == {"turn_id": str(turn), "status": "SUCCEEDED", "output": "Hello!"}


async def answer(talk: Conversation, keys: redis.asyncio.Redis, *emitted: Any, reply: Any) -> UUID:
    """The id of a turn whose stream is complete. Before that, a reader that finds the turn ended in the table makes an end of its
    own, whose id is not the next."""
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit(*emitted)
    talk.script.reply(reply)
    key = name_stream(talk.settings.redis_prefix, "acme", "s", turn)

    async def complete() -> bool:
        entries = await keys.xrevrange(key, count=1)
        return bool(entries) and entries[0][1]["kind"] == "end"

    await until(complete)
    return turn


async def test_ids_rise_without_gaps_within_an_attempt(talk: Conversation, keys: redis.asyncio.Redis) -> None:
    turn = await answer(talk, keys, *(event for n in range(5) for event in (f"word {n} ", n)), reply="done")
    heard = await read_to_the_end(talk.client, turn)
    numbered = [event.place for event in heard.events if event.id]
    fence = numbered[0][0]
    assert numbered == [(fence, n) for n in range(1, len(numbered) + 1)]
    assert heard.end is not None
    assert heard.end.id == f"{fence}-{len(numbered)}"


async def test_an_end_that_arrives_late_and_without_a_hint_is_sent(
    talk: Conversation, keys: redis.asyncio.Redis
) -> None:
    turn = await answer(talk, keys, "Hello!", reply="Hello!")
    key = name_stream(talk.settings.redis_prefix, "acme", "s", turn)
    *said, end = await keys.xrange(key)
    await keys.delete(key)
    for entry_id, fields in said:
        await keys.xadd(key, fields, entry_id)

    heard, following = talk.follow(turn)
    await until(lambda: heard.text)
    await keys.xadd(key, end[1], end[0])
    await following

    assert heard.kinds == ["metadata", "status", "delta", "end"]
    assert heard.end is not None
    assert heard.end.id == end[0]


async def test_a_new_attempt_discards_the_text(talk: Conversation) -> None:
    turn = await talk.submit()
    heard, following = talk.follow(turn)
    talk.work(turn)
    talk.script.emit("Wrong")
    await until(lambda: heard.text)
    talk.script.fail(Retry(after=0))
    await until(lambda: {"status": "PENDING"}.items() <= heard.events[-1].data.items())
    talk.script.emit("Right")
    talk.script.reply("Right")
    await until(lambda: talk.work(turn) and heard.end)
    await following
    statuses = [event.data["status"] for event in heard.events if event.kind == "status"]
    assert statuses == ["RUNNING", "PENDING", "RUNNING"]
    assert (heard.text, heard.kinds[-1]) == ("Right", "end")
    places = [event.place for event in heard.events if event.id]
    assert places == sorted(set(places))


async def test_a_reply_that_was_not_emitted_is_sent_before_the_end(talk: Conversation) -> None:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("Draft")
    talk.script.reply("Final")
    heard = await read_to_the_end(talk.client, turn)
    assert heard.kinds == ["metadata", "status", "delta", "reset", "end"]
    assert heard.text == "Final"


async def test_a_failure_ends_the_stream_with_one_error(talk: Conversation) -> None:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("Hm")
    talk.script.fail(Reject("no such model"))
    heard = await read_to_the_end(talk.client, turn)
    assert heard.kinds == ["metadata", "status", "delta", "error"]
    assert heard.end is not None
    assert heard.end.data["error"] == {"class": "Reject", "message": "no such model"}


async def test_the_text_of_an_async_generator_is_streamed_and_is_the_reply(settings: Settings) -> None:
    go_on = asyncio.Event()

    @handler()
    async def speak(turn: Turn, ctx: Context) -> AsyncIterator[Any]:
        yield "One, "
        await go_on.wait()
        yield {"thinking": True}
        yield "two."

    async with conversing(settings, speak) as talk:
        turn = await talk.submit()
        heard, following = talk.follow(turn)
        talk.work(turn)
        await until(lambda: heard.text == "One, ")
        go_on.set()
        await following
    assert heard.kinds == ["metadata", "status", "delta", "custom", "delta", "end"]
    assert heard.end is not None
    assert (heard.text, heard.end.data["output"]) == ("One, two.", "One, two.")


async def test_a_stream_above_its_cap_begins_again_with_the_whole_text(
    settings: Settings, keys: redis.asyncio.Redis
) -> None:
    async with conversing(settings.model_copy(update={"events_cap": 100})) as talk:
        turn = await talk.submit()
        heard, following = talk.follow(turn)
        talk.work(turn)
        for n in range(150):
            talk.script.emit(f"{n} ", n)
        said = "".join(f"{n} " for n in range(150))
        await until(lambda: heard.text == said)
        talk.script.emit("done")
        talk.script.reply(said + "done")
        await following
        [stream] = [key async for key in keys.scan_iter(f"{settings.redis_prefix}events:*")]
        assert await keys.xlen(stream) < 400
        late = await read_to_the_end(talk.client, turn)
    assert heard.text == late.text == said + "done"
    assert "reset" in late.kinds


# --- going on after a break


async def test_last_event_id_and_starting_after_continue_after_that_event(
    talk: Conversation, keys: redis.asyncio.Redis
) -> None:
    turn = await answer(talk, keys, "word", 1, reply="bye")
    whole = await read_to_the_end(talk.client, turn)
    for place, event in enumerate(whole.events):
        if event.id is None or event is whole.end:
            continue
        resumed, asked = Transcript(last_id=event.id), Transcript()
        await read_events(talk.client, turn, resumed)
        await read_events(talk.client, turn, asked, starting_after=event.id)
        assert resumed.events[1:] == asked.events[1:] == whole.events[place + 1 :]
        assert resumed.events[0].kind == "metadata"
    assert whole.last_id is not None
    ended = await talk.client.get(f"/v1/turns/{turn}/events", headers={"Last-Event-ID": whole.last_id})
    assert (ended.status_code, ended.content) == (204, b"")
    # A later claim than the turn's: the database was restored to an earlier moment.
    for start in ("-1", f"{2**50}-7"):
        again = Transcript()
        await read_events(talk.client, turn, again, starting_after=start)
        assert again.events[1:] == whole.events[1:]


# --- connections


async def test_a_quiet_stream_sends_heartbeats(settings: Settings) -> None:
    async with conversing(settings.model_copy(update={"stream_heartbeat_seconds": 0.05})) as talk:
        turn = await talk.submit()
        heard, following = talk.follow(turn)
        await until(lambda: heard.heartbeats > 2)
        following.cancel()


async def test_a_disconnect_cancels_only_if_the_client_asked_for_that(talk: Conversation) -> None:
    kept, dropped = await talk.submit("kept"), await talk.submit("dropped")
    for turn, wish in ((kept, "continue"), (dropped, "cancel")):
        heard, following = talk.follow(turn, on_disconnect=wish)
        await until(lambda heard=heard: heard.events)
        following.cancel()
        await asyncio.wait({following})

    async def canceled() -> bool:
        return bool((await talk.client.get(f"/v1/turns/{dropped}")).json()["status"] == "CANCELED")

    await until(canceled)
    assert (await talk.client.get(f"/v1/turns/{kept}")).json()["status"] == "PENDING"


async def test_a_reader_that_gets_the_end_cancels_nothing(talk: Conversation) -> None:
    turn = await talk.submit()
    heard, following = talk.follow(turn, on_disconnect="cancel")
    await until(lambda: heard.events)
    talk.work(turn)
    talk.script.reply("bye")
    await following
    assert (await talk.client.get(f"/v1/turns/{turn}")).json()["cancel_requested_at"] is None


async def test_readers_continue_at_another_server_when_theirs_stops(settings: Settings) -> None:
    async with conversing(settings) as talk:
        turn = await talk.submit()
        talk.work(turn)
        talk.script.emit("so far")
        heard, following = talk.follow(turn)
        await until(lambda: heard.text)
        talk.served.server.should_exit = True
        await following
        assert heard.end is None
        await until(lambda: not talk.served.server.server_state.connections)
        talk.script.reply("so far")
        await until(lambda: all(task.done() for task in talk._tasks))
    async with conversing(settings) as elsewhere:
        await read_to_the_end(elsewhere.client, turn, heard)
    assert (heard.text, heard.end is not None) == ("so far", True)
