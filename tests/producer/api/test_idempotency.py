"""At most one turn per Idempotency-Key, or per client-chosen turn id, and tenant."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from httpx import AsyncClient, Response

from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.message_queue import MessageQueues

PATH = "/v1/sessions/s/turns"


def told(answer: Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in ("location", "traceparent", "retry-after")}


async def test_fifty_equal_posts_at_once_make_one_turn_and_one_message(
    client: AsyncClient, database: Database, queues: MessageQueues, queue: QueueSettings
) -> None:
    headers = {"Idempotency-Key": "k"}
    answers = await asyncio.gather(*(client.post(PATH, json={"input": "x"}, headers=headers) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    assert len({str(told(answer)) for answer in answers}) == 1
    assert sorted(answer.headers.get("idempotency-replayed", "") for answer in answers) == ["", *["true"] * 49]
    (row,) = await database.fetch("SELECT last_seq, (SELECT count(*) FROM turns) AS turns FROM sessions", {})
    assert row == {"last_seq": 1, "turns": 1}
    assert await queues.count(queue.name) == 1


async def test_a_client_that_lost_its_answer_gets_the_same_again_whatever_became_of_the_turn(
    client: AsyncClient,
) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for number, extra in enumerate([{}, {"execute_at": later}]):
        headers = {"Idempotency-Key": f"k{number}"}
        first = await client.post(PATH, json={"input": "x", **extra}, headers=headers)
        await client.post(f"{first.headers['location']}/cancel")
        again = await client.post(PATH, json={**extra, "input": "x"}, headers=headers)
        assert again.status_code == 202
        assert again.text == first.text
        assert told(again) == told(first)
        assert again.headers["idempotency-replayed"] == "true"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (PATH, {"input": "y"}),
        (PATH, {"input": "x", "max_attempts": 2}),
        (PATH, {"input": "x", "turn_id": "2f1c1b52-8f0e-4c39-a1bb-5ab4b3bb3b1e"}),
        ("/v1/sessions/other/turns", {"input": "x"}),
    ],
)
async def test_the_same_key_with_another_request_is_refused(
    client: AsyncClient, database: Database, path: str, body: dict[str, str]
) -> None:
    headers = {"Idempotency-Key": "k"}
    await client.post(PATH, json={"input": "x"}, headers=headers)
    answer = await client.post(path, json=body, headers=headers)
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/idempotency-mismatch"
    assert len(await database.fetch("SELECT id FROM turns", {})) == 1


async def test_two_tenants_may_use_the_same_key_and_session(
    client: AsyncClient, other_client: AsyncClient, database: Database
) -> None:
    for each in (client, other_client):
        answer = await each.post(PATH, json={"input": each.headers["authorization"]}, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 202
    rows = await database.fetch("SELECT tenant_id, seq FROM turns ORDER BY 1", {})
    assert rows == [{"tenant_id": "acme", "seq": 1}, {"tenant_id": "globex", "seq": 1}]


async def test_a_chosen_turn_id_is_a_key_of_its_own(client: AsyncClient, database: Database) -> None:
    turn_id = str(uuid4())
    first = await client.post(PATH, json={"input": "x", "turn_id": turn_id})
    again = await client.post(PATH, json={"input": "x", "turn_id": turn_id.upper()})
    assert again.text == first.text
    assert again.headers["idempotency-replayed"] == "true"
    other = await client.post(PATH, json={"input": "y", "turn_id": turn_id})
    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-mismatch")
    assert len(await database.fetch("SELECT id FROM turns", {})) == 1


async def test_a_turn_id_of_another_submission_is_taken(
    client: AsyncClient, other_client: AsyncClient, database: Database
) -> None:
    taken = (await client.post(PATH, json={"input": "x"})).json()["id"]
    for each in (client, other_client):
        answer = await each.post(PATH, json={"input": "x", "turn_id": taken})
        assert (answer.status_code, answer.json()["type"]) == (409, "/problems/turn-id-taken")
    keyed = await client.post(PATH, json={"input": "x", "turn_id": taken}, headers={"Idempotency-Key": "new"})
    assert keyed.status_code == 409
    assert len(await database.fetch("SELECT key FROM submissions", {})) == 0


async def test_one_turn_id_under_many_keys_at_once_is_given_once(client: AsyncClient, database: Database) -> None:
    turn_id = str(uuid4())
    answers = await asyncio.gather(
        *(
            client.post(f"/v1/sessions/s{n}/turns", json={"input": "x", "turn_id": turn_id}, headers=headers)
            for n in range(30)
            for headers in [{"Idempotency-Key": f"k{n}"}]
        ),
        *(client.post(f"/v1/sessions/bystander{n}/turns", json={"input": "x"}) for n in range(30)),
    )
    assert sorted(answer.status_code for answer in answers[:30]) == [202, *[409] * 29]
    assert {answer.status_code for answer in answers[30:]} == {202}
    assert len(await database.fetch("SELECT id FROM turns", {})) == 31


async def test_one_turn_id_repeated_at_once_is_one_turn(client: AsyncClient, database: Database) -> None:
    body = {"input": "x", "turn_id": str(uuid4())}
    answers = await asyncio.gather(*(client.post(PATH, json=body) for _ in range(30)))
    assert {answer.status_code for answer in answers} == {202}
    assert sorted(answer.headers.get("idempotency-replayed", "") for answer in answers) == ["", *["true"] * 29]
    (row,) = await database.fetch("SELECT last_seq, (SELECT count(*) FROM turns) AS turns FROM sessions", {})
    assert row == {"last_seq": 1, "turns": 1}


async def test_white_space_key_order_and_zone_do_not_make_another_request(client: AsyncClient) -> None:
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    first = await client.post(
        PATH, content=b'{"input":{"a":1,"b":2},"execute_at":"2024-01-01T12:00:00Z"}', headers=headers
    )
    again = await client.post(
        PATH,
        content=b' {"execute_at": "2024-01-01T13:00:00+01:00", "input": {"b":2, "a":1}, "queue": null}',
        headers=headers,
    )
    assert again.text == first.text
