"""Reading a turn's events over HTTP: in order, without gaps, and to exactly one end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from tests.producer.api.conversation import Conversation, conversing
from tests.producer.api.sse_client import Transcript, read_events, read_to_the_end
from tests.support.probes import until
from turnstile.config.settings import Settings
from turnstile.handlers.context import Context, Turn
from turnstile.handlers.exceptions import Retry
from turnstile.handlers.handler import handler
from turnstile.streaming.event import name_stream


@pytest.fixture
async def talk(settings: Settings) -> AsyncIterator[Conversation]:
    async with conversing(settings) as conversation:
        yield conversation


@pytest.fixture
async def keys(settings: Settings) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client, for looking from outside."""
    async with redis.asyncio.Redis.from_url(settings.redis_url, decode_responses=True) as opened:
        yield opened


def reading(talk: Conversation, turn: Any, transcript: Transcript, **parameters: Any) -> asyncio.Task[None]:
    return asyncio.create_task(read_events(talk.client, turn, transcript, **parameters))


async def test_a_reader_gets_the_state_then_the_text_then_the_end(talk: Conversation) -> None:
    turn = await talk.submit()
    heard = Transcript()
    following = reading(talk, turn, heard)
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


async def test_ids_rise_without_gaps_within_an_attempt(talk: Conversation) -> None:
    turn = await talk.submit()
    talk.work(turn)
    for n in range(5):
        talk.script.emit(f"word {n} ", n)
    talk.script.reply("done")
    heard = await read_to_the_end(talk.client, turn)
    numbered = [event.place for event in heard.events if event.id]
    fence = numbered[0][0]
    assert numbered == [(fence, n) for n in range(1, len(numbered) + 1)]
    assert heard.end is not None
    assert heard.end.id == f"{fence}-{len(numbered)}"


async def test_an_end_that_arrives_late_and_without_a_hint_is_sent(
    talk: Conversation, keys: redis.asyncio.Redis
) -> None:
    turn = await talk.submit()
    work = talk.work(turn)
    talk.script.emit("Hello!")
    talk.script.reply("Hello!")
    await work
    key = name_stream(talk.settings.redis_prefix, "acme", "s", turn)

    async def whole_stream() -> Any:
        entries = await keys.xrange(key)
        return entries if entries and entries[-1][1]["kind"] == "end" else None

    *said, end = await until(whole_stream)
    await keys.delete(key)
    for entry_id, fields in said:
        await keys.xadd(key, fields, entry_id)

    heard = Transcript()
    following = reading(talk, turn, heard)
    await until(lambda: heard.text)
    await keys.xadd(key, end[1], end[0])
    await following

    assert heard.kinds == ["metadata", "status", "delta", "end"]
    assert heard.end is not None
    assert heard.end.id == end[0]


async def test_a_new_attempt_discards_the_text(talk: Conversation) -> None:
    turn = await talk.submit()
    heard = Transcript()
    following = reading(talk, turn, heard)
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
    talk.script.fail(ValueError("no such model"))
    heard = await read_to_the_end(talk.client, turn)
    assert heard.kinds == ["metadata", "status", "delta", "error"]
    assert heard.end is not None
    assert heard.end.data["error"] == {"class": "ValueError", "message": "no such model"}


async def test_the_end_of_a_turn_that_no_worker_took_comes_from_the_table(talk: Conversation) -> None:
    turn = await talk.submit()
    heard = Transcript()
    following = reading(talk, turn, heard)
    await until(lambda: heard.events)
    await talk.client.post(f"/v1/turns/{turn}/cancel")
    await following
    assert heard.kinds == ["metadata", "end"]
    assert heard.end is not None
    assert heard.end.data == {"turn_id": str(turn), "status": "CANCELED", "reason": "user"}


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
        heard = Transcript()
        following = reading(talk, turn, heard)
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
        heard = Transcript()
        following = reading(talk, turn, heard)
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


async def test_last_event_id_and_starting_after_continue_after_that_event(talk: Conversation) -> None:
    turn = await talk.submit()
    talk.work(turn)
    for n in range(3):
        talk.script.emit(f"word {n} ", n)
    talk.script.reply("bye")
    whole = await read_to_the_end(talk.client, turn)
    for place, event in enumerate(whole.events):
        if event.id is None or event is whole.end:
            continue
        resumed, asked = Transcript(last_id=event.id), Transcript()
        await read_events(talk.client, turn, resumed)
        await read_events(talk.client, turn, asked, starting_after=event.id)
        assert resumed.events[1:] == asked.events[1:] == whole.events[place + 1 :]
        assert resumed.events[0].kind == "metadata"
    again = Transcript()
    await read_events(talk.client, turn, again, starting_after="-1")
    assert again.events[1:] == whole.events[1:]


async def test_a_client_that_has_the_end_gets_204(talk: Conversation) -> None:
    turn = await talk.submit()
    talk.work(turn)
    talk.script.reply("bye")
    heard = await read_to_the_end(talk.client, turn)
    assert heard.last_id is not None
    answer = await talk.client.get(f"/v1/turns/{turn}/events", headers={"Last-Event-ID": heard.last_id})
    assert (answer.status_code, answer.content) == (204, b"")


async def test_an_event_id_from_before_a_restore_starts_from_the_beginning(talk: Conversation) -> None:
    """The database was restored to a moment before the claim whose events the client has seen."""
    turn = await talk.submit()
    talk.work(turn)
    talk.script.emit("word")
    talk.script.reply("bye")
    whole = await read_to_the_end(talk.client, turn)
    resumed = Transcript(last_id=f"{2**50}-7")

    await read_events(talk.client, turn, resumed)

    assert resumed.events[1:] == whole.events[1:]


# --- connections


async def test_a_quiet_stream_sends_heartbeats(settings: Settings) -> None:
    async with conversing(settings.model_copy(update={"stream_heartbeat_seconds": 0.05})) as talk:
        turn = await talk.submit()
        heard = Transcript()
        following = reading(talk, turn, heard)
        await until(lambda: heard.heartbeats > 2)
        following.cancel()


async def test_a_disconnect_cancels_only_if_the_client_asked_for_that(talk: Conversation) -> None:
    kept, dropped = await talk.submit("kept"), await talk.submit("dropped")
    for turn, wish in ((kept, "continue"), (dropped, "cancel")):
        heard = Transcript()
        following = reading(talk, turn, heard, on_disconnect=wish)
        await until(lambda heard=heard: heard.events)
        following.cancel()
        await asyncio.wait({following})

    async def canceled() -> bool:
        return bool((await talk.client.get(f"/v1/turns/{dropped}")).json()["status"] == "CANCELED")

    await until(canceled)
    assert (await talk.client.get(f"/v1/turns/{kept}")).json()["status"] == "PENDING"


async def test_the_cancel_by_a_disconnect_is_signalled_to_the_worker(
    talk: Conversation, settings: Settings, keys: redis.asyncio.Redis
) -> None:
    async with keys.pubsub() as hints:
        await hints.subscribe(f"{settings.redis_prefix}hints:cancel")
        turn = await talk.submit()
        talk.work(turn)
        talk.script.emit("so far")
        heard = Transcript()
        following = reading(talk, turn, heard, on_disconnect="cancel")
        await until(lambda: heard.text)
        following.cancel()

        async def hinted() -> bool:
            message = await hints.get_message(ignore_subscribe_messages=True, timeout=0.1)
            return message is not None and message["data"] == str(turn)

        await until(hinted)
    talk.script.reply("nobody hears this")
    await until(lambda: all(task.done() for task in talk._tasks))


async def test_a_reader_that_gets_the_end_cancels_nothing(talk: Conversation) -> None:
    turn = await talk.submit()
    heard = Transcript()
    following = reading(talk, turn, heard, on_disconnect="cancel")
    await until(lambda: heard.events)
    talk.work(turn)
    talk.script.reply("bye")
    await following
    assert (await talk.client.get(f"/v1/turns/{turn}")).json()["cancel_requested_at"] is None


async def test_readers_continue_at_another_server_when_theirs_stops(settings: Settings) -> None:
    heard = Transcript()
    async with conversing(settings) as talk:
        turn = await talk.submit()
        talk.work(turn)
        talk.script.emit("so far")
        following = reading(talk, turn, heard)
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
