"""Waiting for a turn within a request: at once when it ends, within bounds, and never an error because of the wait."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.producer.api.cable import Cable, cable_to
from tests.producer.api.conversation import Conversation, conversing
from tests.support.probes import until
from tests.support.stacks.stack import Stack
from turnstile.config.settings import Settings
from turnstile.producer.watch.waiting import wanted_wait


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


def waiters(talk: Conversation) -> int:
    """How many wait, and have been heard of by Redis."""
    hints = talk.served.app.state.backend.watch._hints
    return sum(map(len, hints._listeners.values()))


def submitting(talk: Conversation, prefer: str, session: str = "s") -> "asyncio.Task[httpx.Response]":
    return asyncio.create_task(
        talk.client.post(f"/v1/sessions/{session}/turns", json={"input": "hi"}, headers={"Prefer": prefer})
    )


async def open_turn(talk: Conversation) -> Any:
    async def found() -> Any:
        turns = (await talk.client.get("/v1/turns")).json()["turns"]
        return turns[0]["id"] if turns else None

    return await until(found)


@pytest.mark.parametrize("redis_there", [True, False])
async def test_a_submit_that_waits_is_answered_with_the_turn_when_it_ends(
    talk: Conversation, cable: Cable, redis_there: bool
) -> None:
    if not redis_there:
        await cable.cut()
    waiting = submitting(talk, "respond-async, wait=50")
    turn = await open_turn(talk)
    await until(lambda: waiters(talk) == 1)
    talk.work(turn)
    talk.script.reply({"said": "bye"})
    # Long before its 50 seconds are over.
    answer = await asyncio.wait_for(waiting, 30)
    assert answer.status_code == 200
    assert (answer.json()["status"], answer.json()["output"]) == ("SUCCEEDED", {"said": "bye"})
    assert answer.headers["preference-applied"] == "wait=50"
    assert answer.headers["location"] == f"/v1/turns/{turn}"
    assert "retry-after" not in answer.headers


@pytest.mark.parametrize("redis_there", [True, False])
async def test_a_read_that_waits_is_answered_when_the_turn_ends(
    talk: Conversation, cable: Cable, redis_there: bool
) -> None:
    turn = await talk.submit()
    if not redis_there:
        await cable.cut()
    waiting = asyncio.create_task(talk.client.get(f"/v1/turns/{turn}", params={"wait": 50}))
    await until(lambda: waiters(talk) == 1)
    talk.work(turn)
    talk.script.fail(ValueError("no"))
    answer = await asyncio.wait_for(waiting, 30)
    assert (answer.status_code, answer.json()["status"]) == (200, "FAILED")
    assert answer.json()["error"] == {"class": "ValueError", "message": "no"}


async def test_what_a_worker_says_meanwhile_does_not_end_the_wait(talk: Conversation) -> None:
    turn = await talk.submit()
    waiting = asyncio.create_task(talk.client.get(f"/v1/turns/{turn}", params={"wait": 50}))
    await until(lambda: waiters(talk) == 1)
    talk.work(turn)
    talk.script.emit("still at it")
    await until(lambda: talk.script.contexts and talk.script._lines.empty())
    talk.script.reply("done")
    assert (await waiting).json()["output"] == "done"


async def test_a_submit_whose_time_is_over_is_accepted_as_ever(talk: Conversation) -> None:
    answer = await submitting(talk, "wait=0")
    assert (answer.status_code, answer.json()["status"]) == (202, "PENDING")
    assert answer.headers["preference-applied"] == "wait=0"
    assert answer.headers["retry-after"] == "1"


async def test_a_read_whose_time_is_over_shows_the_turn_as_it_is(talk: Conversation) -> None:
    turn = await talk.submit()
    answer = await talk.client.get(f"/v1/turns/{turn}", params={"wait": 0.01})
    assert (answer.status_code, answer.json()["status"]) == (200, "PENDING")
    assert "retry-after" in answer.headers


async def test_nobody_waits_longer_than_the_server_allows(settings: Settings) -> None:
    async with conversing(settings.model_copy(update={"max_wait_seconds": 0.0})) as talk:
        answer = await submitting(talk, "wait=100000")
        turn = await talk.client.get(answer.headers["location"], params={"wait": 100000})
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "wait=0")
    assert turn.json()["status"] == "PENDING"


async def test_a_repeat_that_waits_gets_the_turn_of_the_first(talk: Conversation) -> None:
    headers = {"Idempotency-Key": "k"}
    turn = await talk.submit(headers=headers)
    talk.work(turn)
    talk.script.reply("bye")
    answer = await talk.client.post(
        "/v1/sessions/s/turns", json={"input": "hi"}, headers={**headers, "Prefer": "wait=50"}
    )
    assert (answer.status_code, answer.json()["output"]) == (200, "bye")
    assert answer.headers["idempotency-replayed"] == "true"


async def test_a_client_that_leaves_is_not_waited_for(talk: Conversation) -> None:
    turn = await talk.submit()
    waiting = asyncio.create_task(talk.client.get(f"/v1/turns/{turn}", params={"wait": 50}))
    await until(lambda: waiters(talk) == 1)
    waiting.cancel()
    await until(lambda: waiters(talk) == 0)
    assert (await talk.client.get(f"/v1/turns/{turn}")).json()["status"] == "PENDING"


async def test_a_wait_for_somebody_elses_turn_is_none(talk: Conversation) -> None:
    turn = await talk.submit()
    async with talk.served.client("globex") as stranger:
        assert (await stranger.get(f"/v1/turns/{turn}", params={"wait": 50})).status_code == 404


@pytest.mark.parametrize("wait", ["-1", "x", "inf", "nan", ""])
async def test_a_wait_that_is_none_is_refused(talk: Conversation, wait: str) -> None:
    turn = await talk.submit()
    answer = await talk.client.get(f"/v1/turns/{turn}", params={"wait": wait})
    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/invalid-parameter")


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        (None, None),
        ("", None),
        ("wait=7", 7),
        ("Wait = 7", 7),
        ('wait="7"', 7),
        ("respond-async, wait=7; foo=bar", 7),
        ("wait=7, wait=8", 7),
        ("wait=70", 60),
        ("wait=-7", None),
        ("wait=soon", None),
        ("wait", None),
        ("await=7", None),
        ("return=minimal", None),
        ("wait=7777777777", None),
    ],
)
def test_a_preference_is_followed_or_passed_over(prefer: str | None, seconds: int | None) -> None:
    assert wanted_wait(prefer, 60.0) == seconds
