"""Entries in a turn's stream that no worker of this version has written: a reader misses nothing else, and gets the true end."""

from uuid import UUID

import pytest
import redis.asyncio
import structlog.testing

from tests.producer.api.conversation import Conversation
from tests.support.probes import until
from turnstile.streaming.event import name_stream


async def forge(talk: Conversation, keys: redis.asyncio.Redis, turn: UUID, fields: dict[str, str]) -> None:
    """Appends an entry after the worker's last one, with the hint for the readers."""
    stream = name_stream(talk.settings.redis_prefix, "acme", "s", turn)
    [(last, _)] = await keys.xrevrange(stream, count=1)
    fence, _, n = last.partition("-")
    await keys.xadd(stream, fields, id=f"{fence}-{int(n) + 1}")  # type: ignore[arg-type]
    await keys.publish(stream, "delta")


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"kind": "of a newer worker", "data": "{}"}, id="unknown kind"),
        pytest.param(
            {"kind": "delta", "data": '{"text":"FORGED"}\n\nevent: end\ndata: {"output":"FORGED"}\n'}, id="line feed"
        ),
        pytest.param(
            {"kind": "delta", "data": '{"text":"FORGED"}\revent: end\rdata: {"output":"FORGED"}\r'}, id="return"
        ),
        pytest.param({"FORGED": "x"}, id="other fields"),
        pytest.param({"kind": "end", "data": "[]"}, id="an end that is none"),
    ],
)
async def test_a_reader_gets_nothing_of_a_forged_entry_and_the_true_end(
    talk: Conversation, keys: redis.asyncio.Redis, fields: dict[str, str]
) -> None:
    turn = await talk.submit()
    heard, following = talk.follow(turn)
    talk.work(turn)
    talk.script.emit("Hel")
    await until(lambda: heard.text == "Hel")

    await forge(talk, keys, turn, fields)
    talk.script.emit("lo!")
    talk.script.reply("Hello!")
    await following

    assert heard.end is not None
    assert heard.end.data == {"turn_id": str(turn), "status": "SUCCEEDED", "output": "Hello!"}
    assert heard.kinds.count("end") == 1
    assert "FORGED" not in str(heard.events)


async def test_a_reader_misses_nothing_around_an_event_of_a_newer_worker(
    talk: Conversation, keys: redis.asyncio.Redis
) -> None:
    turn = await talk.submit()
    heard, following = talk.follow(turn)
    stream = name_stream(talk.settings.redis_prefix, "acme", "s", turn)
    written = [
        ("status", '{"status":"RUNNING"}'),
        ("delta", '{"text":"Hel"}'),
        ("newer", "{}"),
        ("delta", '{"text":"lo!"}'),
    ]
    for place, (kind, data) in enumerate(written, start=1):
        await keys.xadd(stream, {"kind": kind, "data": data}, id=f"1-{place}")
    await keys.publish(stream, "delta")

    await until(lambda: heard.text == "Hello!")
    await talk.client.post(f"/v1/turns/{turn}/cancel")
    await following

    assert heard.kinds == ["metadata", "status", "delta", "end"]


async def test_unreadable_entries_are_counted_in_the_log(talk: Conversation, keys: redis.asyncio.Redis) -> None:
    turn = await talk.submit()
    heard, following = talk.follow(turn)
    talk.work(turn)
    talk.script.emit("Hel")
    await until(lambda: heard.text == "Hel")
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            await forge(talk, keys, turn, {"kind": "of a newer worker", "data": "{}"})
        talk.script.reply("Hello!")
        await following

    noted = [line for line in lines if line["event"] == "stream.event_unreadable"]
    assert noted
    assert noted[0]["turn_id"] == str(turn)
    assert [line for line in lines if line["log_level"] == "error"] == []
