"""Requests that wait for a turn: the response comes when the turn ends, at the latest when the time is over."""

import asyncio

import pytest

from tests.producer.api.conftest import Connect
from tests.producer.api.conversation import Conversation
from tests.producer.api.network_faults import Cable
from tests.support.probes import until
from turnstile.config.settings import Settings
from turnstile.producer.watch.wait_for_end import wanted_wait


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        (None, None),
        ('Wait = "7"', 7),
        ("respond-async, wait=7; foo=bar, wait=8", 7),
        ("wait=7777777", 60),
        ("wait=-7", None),
        ("await=7", None),
        ("wait=7777777777", None),
    ],
)
def test_the_first_valid_wait_of_a_preference_counts(prefer: str | None, seconds: int | None) -> None:
    assert wanted_wait(prefer, 60.0) == seconds


async def test_a_submit_that_waits_gets_the_turn_when_it_ends(talk: Conversation) -> None:
    submit = talk.client.post(
        "/v1/sessions/s/turns", json={"input": "hi"}, headers={"Prefer": "respond-async, wait=50"}
    )
    waiting = asyncio.create_task(submit)
    await until(lambda: talk.listeners == 1)
    [turn] = [found["id"] for found in (await talk.client.get("/v1/turns")).json()["turns"]]
    talk.work(turn)
    talk.script.reply({"said": "bye"})
    # Long before its 50 seconds are over.
    answer = await asyncio.wait_for(waiting, 30)
    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["output"]) == ("SUCCEEDED", {"said": "bye"})
    assert answer.headers["preference-applied"] == "wait=50"
    assert answer.headers["location"] == f"/v1/turns/{turn}"
    assert "retry-after" not in answer.headers


async def test_without_redis_a_read_that_waits_gets_the_turn_when_it_ends(
    cabled_talk: Conversation, redis_cable: Cable
) -> None:
    turn = await cabled_talk.submit()
    await redis_cable.cut()
    waiting = asyncio.create_task(cabled_talk.client.get(f"/v1/turns/{turn}", params={"wait": 50}))
    await until(lambda: cabled_talk.listeners == 1)
    cabled_talk.work(turn)
    cabled_talk.script.fail(ValueError("no"))
    answer = await asyncio.wait_for(waiting, 30)
    assert (answer.status_code, answer.json()["status"]) == (200, "FAILED")
    assert answer.json()["error"] == {"class": "ValueError", "message": None}


async def test_events_before_the_end_do_not_end_the_wait(talk: Conversation) -> None:
    turn = await talk.submit()
    waiting = asyncio.create_task(talk.client.get(f"/v1/turns/{turn}", params={"wait": 50}))
    await until(lambda: talk.listeners == 1)
    talk.work(turn)
    talk.script.emit("still at it")
    await until(lambda: talk.script.contexts and talk.script._lines.empty())
    talk.script.reply("done")
    assert (await waiting).json()["output"] == "done"


async def test_the_wait_ends_when_the_client_disconnects(talk: Conversation) -> None:
    turn = await talk.submit()
    waiting = asyncio.create_task(talk.client.get(f"/v1/turns/{turn}", params={"wait": 50}))
    await until(lambda: talk.listeners == 1)
    waiting.cancel()
    await until(lambda: talk.listeners == 0)
    assert (await talk.client.get(f"/v1/turns/{turn}")).json()["status"] == "PENDING"


async def test_when_the_time_is_over_the_response_is_as_without_a_wait(settings: Settings, connect: Connect) -> None:
    headers = {"Idempotency-Key": "k"}
    async with connect(settings.model_copy(update={"max_wait_seconds": 0.01})) as client:
        answer = await client.post(
            "/v1/sessions/s/turns", json={"input": "hi"}, headers={"Prefer": "wait=100000", **headers}
        )
        turn = await client.get(answer.headers["location"], params={"wait": 100000})
        await client.post(f"{answer.headers['location']}/cancel")
        again = await client.post("/v1/sessions/s/turns", json={"input": "hi"}, headers={"Prefer": "wait=5", **headers})

    assert (answer.status_code, answer.json()["status"]) == (202, "PENDING")
    assert (answer.headers["preference-applied"], answer.headers["retry-after"]) == ("wait=0", "1")
    assert (turn.status_code, turn.json()["status"]) == (200, "PENDING")
    assert "retry-after" in turn.headers
    # The turn of a repeat has ended by now.
    assert (again.status_code, again.json()["status"], again.headers["idempotency-replayed"]) == (
        200,
        "CANCELED",
        "true",
    )
