"""What clients see of an error: the text that somebody wrote for them, or the class of any other error."""

import asyncio
from typing import Any
from uuid import UUID

import pytest
from httpx import AsyncClient

from tests.archive.archiving import age, archive
from tests.producer.api.calls import end, submit
from tests.producer.api.conversation import Conversation
from tests.producer.api.sse_client import Transcript, read_events, read_to_the_end
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.handlers.exceptions import Reject, Retry, Snooze
from turnstile.statements.compensate import COMPENSATE_FAILED
from turnstile.turn.settlement import AttemptOutcome, Settlement
from turnstile.turn.status import TurnStatus

SECRET = "cannot connect: postgresql://admin:hunter2@10.0.0.7/prod"


class OutOfStock(Reject):
    """As an author derives one."""


def failed(error_class: str, error: str) -> Settlement:
    return Settlement(
        status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class=error_class, error=error, fault=True
    )


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (RuntimeError(SECRET), {"class": "RuntimeError", "message": None}),
        (SystemExit(SECRET), {"class": "HandlerExitedError", "message": None}),
        (type("Reject", (Exception,), {})(SECRET), {"class": f"{__name__}.Reject", "message": None}),
        (Reject("ask support"), {"class": "Reject", "message": "ask support"}),
        (OutOfStock("ask support"), {"class": "Reject", "message": "ask support"}),
        (ExceptionGroup("g", [ValueError(SECRET), OutOfStock("sold")]), {"class": "Reject", "message": "sold"}),
    ],
    ids=["another error", "an exit", "a stranger named Reject", "Reject", "a subclass", "out of a group"],
)
async def test_stream_wait_and_read_show_the_same_error(
    talk: Conversation, raised: Any, expected: dict[str, Any]
) -> None:
    turn = await talk.submit()
    waiting = asyncio.create_task(talk.client.get(f"/v1/turns/{turn}", params={"wait": 50}))
    await until(lambda: talk.listeners == 1)
    talk.work(turn)
    talk.script.fail(raised)

    heard = await read_to_the_end(talk.client, turn)
    waited = await waiting
    answers = [await talk.client.get(path) for path in (f"/v1/turns/{turn}", "/v1/turns", "/v1/sessions/s/turns")]

    assert heard.end is not None
    shown = [waited.json(), answers[0].json(), *(page.json()["turns"][0] for page in answers[1:])]
    assert [one["error"] for one in (heard.end.data, *shown)] == [expected] * 5
    assert "hunter2" not in f"{heard.events}{waited.text}{[answer.text for answer in answers]}"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (Retry("the model is busy", after=500), {"class": "Retry", "message": "the model is busy"}),
        (ConnectionError(SECRET), {"class": "ConnectionError", "message": None}),
        (Snooze(SECRET, after=500), None),
    ],
    ids=["Retry", "an error that heals", "Snooze"],
)
async def test_a_turn_that_waits_shows_its_last_error(
    talk: Conversation, raised: Exception, expected: dict[str, Any] | None
) -> None:
    turn = await talk.submit()
    heard, following = talk.follow(turn)
    talk.work(turn)
    talk.script.fail(raised)
    await until(lambda: "outcome" in heard.events[-1].data if heard.events else False)

    answer = await talk.client.get(f"/v1/turns/{turn}")
    following.cancel()

    assert (answer.json()["status"], answer.json()["error"]) == ("PENDING", expected)
    assert "hunter2" not in f"{heard.events}{answer.text}"


async def test_an_archived_turn_shows_no_more_than_before(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    turn = await submit(client)
    await end(database, settings, "s", failed("RuntimeError", SECRET))
    await database.fetch("UPDATE turns SET dropped_at = now(), dropped_by = 'x', send_at = NULL", {})
    await age(database)
    await archive(database)
    assert await database.fetch("SELECT id FROM turns", {}) == []

    answer = await client.get(f"/v1/turns/{turn}")
    heard = Transcript()
    await read_events(client, UUID(turn), heard)

    assert answer.json()["error"] == heard.events[-1].data["error"] == {"class": "RuntimeError", "message": None}
    assert "hunter2" not in f"{answer.text}{heard.events}"


@pytest.mark.parametrize(
    ("error_class", "expected"), [("RuntimeError", None), ("Reject", SECRET)], ids=["another error", "Reject"]
)
async def test_the_input_of_a_compensation_shows_no_more_than_the_turn_that_failed(
    client: AsyncClient, database: Database, settings: Settings, error_class: str, expected: str | None
) -> None:
    await submit(client)
    await end(database, settings, "s", failed(error_class, SECRET))
    await compensate(database)
    [row] = await database.fetch("SELECT id, session_id FROM turns WHERE kind = 'compensation'", {})
    reply = Settlement(status=TurnStatus.SUCCEEDED, outcome=AttemptOutcome.SUCCEEDED, reply={"undone": True})
    await end(database, settings, row["session_id"], reply)

    turn = (await client.get(f"/v1/turns/{row['id']}")).json()
    [asked, answered] = (await client.get(f"/v1/sessions/{row['session_id']}/messages")).json()["messages"]

    assert turn["input"] == asked["content"]
    assert (turn["input"]["error_class"], turn["input"]["error"]) == (error_class, expected)
    assert turn["input"]["inputs"] == ["x"]
    assert answered["content"] == {"undone": True}


async def compensate(database: Database) -> None:
    """Creates what a settle with `on_failed` creates in its commit."""
    [row] = await database.fetch("SELECT id, fence FROM turns", {})
    given = {"ids": [row["id"]], "fences": [row["fence"]], "compensates": True, "compensation_expires": 900}
    await database.fetch(COMPENSATE_FAILED, given)


async def test_no_response_names_a_worker(client: AsyncClient, database: Database, settings: Settings) -> None:
    turn = await submit(client)
    await end(database, settings, "s", failed("Reject", "no"))

    answers = [await client.get(path) for path in (f"/v1/turns/{turn}", "/v1/turns", "/openapi.json")]

    assert not [answer.url for answer in answers if "worker_id" in answer.text or "worker-a" in answer.text]
