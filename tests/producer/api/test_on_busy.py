"""Double texting over HTTP: what is asked for, what is answered, and the same answer again."""

from typing import Any

from httpx import AsyncClient, Response

from tests.producer.api.expectations import expect_problem
from tests.support.factories import make_claim, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.statements.claim import claim

PATH = "/v1/sessions/s/turns"


async def text(client: AsyncClient, on_busy: str, content: str = "x", key: str | None = None) -> Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await client.post(PATH, json={"input": content, "on_busy": on_busy}, headers=headers)


async def contents(database: Database) -> list[list[Any]]:
    rows = await database.fetch(
        "SELECT json_agg(m.content ORDER BY m.ordinal) AS said FROM turns t JOIN messages m ON m.turn_id = t.id"
        " GROUP BY t.seq ORDER BY t.seq",
        {},
    )
    return [row["said"] for row in rows]


async def test_reject_gets_409_with_the_open_turn(client: AsyncClient, database: Database) -> None:
    first = (await text(client, "reject", "one")).json()["id"]

    answer = await text(client, "reject", "two")

    expect_problem(answer, 409, "session-busy")
    assert answer.json()["turn_id"] == first
    assert await contents(database) == [["one"]]


async def test_a_repeat_of_a_refused_request_is_refused_again(
    client: AsyncClient,
) -> None:
    first = (await text(client, "enqueue")).json()["id"]
    refused = await text(client, "reject", key="k")
    await client.post(f"/v1/turns/{first}/cancel")

    again = await text(client, "reject", key="k")

    expect_problem(again, 409, "session-busy")
    assert again.json() == refused.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert (await text(client, "reject", key="another")).status_code == 202


async def test_a_repeat_of_a_merge_gets_the_same_response(
    client: AsyncClient, database: Database, queues: MessageQueues, queue: QueueSettings
) -> None:
    first = await text(client, "merge", "one")

    merged = await text(client, "merge", "two", key="k")
    again = await text(client, "merge", "two", key="k")

    assert (first.json()["merged"], merged.json()["merged"]) == (False, True)
    assert {merged.headers["location"], again.headers["location"]} == {first.headers["location"]}
    assert again.text == merged.text
    assert again.headers["idempotency-replayed"] == "true"
    assert await contents(database) == [["one", "two"]]
    assert await queues.count(queue.name) == 1


async def test_an_interrupt_stops_what_runs_and_cancels_what_waits(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    for content in ("one", "two"):
        await text(client, "enqueue", content)
    await claim(database, make_terms(settings), [make_claim(tenant_id="acme")])

    answer = await text(client, "interrupt", "three")

    assert answer.status_code == 202
    rows = await database.fetch("SELECT status, cancel_reason FROM turns ORDER BY seq", {})
    assert [(row["status"], row["cancel_reason"]) for row in rows] == [
        ("RUNNING", "superseded"),
        ("CANCELED", "superseded"),
        ("PENDING", None),
    ]
