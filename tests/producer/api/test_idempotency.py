"""At most one turn per Idempotency-Key, or per client-chosen turn id, and tenant."""

import asyncio

from httpx import AsyncClient

from tests.producer.api.calls import choose_id
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.message_queue import MessageQueues

PATH = "/v1/sessions/s/turns"


async def test_fifty_equal_posts_at_once_make_one_turn_and_one_message(
    client: AsyncClient, database: Database, queues: MessageQueues, queue: QueueSettings
) -> None:
    headers = {"Idempotency-Key": "k"}
    answers = await asyncio.gather(*(client.post(PATH, json={"input": "x"}, headers=headers) for _ in range(50)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.text for answer in answers}) == 1
    answered = [
        {name: answer.headers[name] for name in ("location", "traceparent", "retry-after")} for answer in answers
    ]
    assert answered == [answered[0]] * 50
    assert sorted(answer.headers.get("idempotency-replayed", "") for answer in answers) == ["", *["true"] * 49]
    (row,) = await database.fetch("SELECT last_seq, (SELECT count(*) FROM turns) AS turns FROM sessions", {})
    assert row == {"last_seq": 1, "turns": 1}
    assert await queues.count(queue.name) == 1


async def test_a_chosen_turn_id_is_a_key_of_its_own(client: AsyncClient, database: Database) -> None:
    turn_id = choose_id()
    first = await client.post(PATH, json={"input": "x", "turn_id": turn_id})
    again = await client.post(PATH, json={"input": "x", "turn_id": turn_id.upper()})
    assert again.text == first.text
    assert again.headers["idempotency-replayed"] == "true"
    other = await client.post(PATH, json={"input": "y", "turn_id": turn_id})
    assert (other.status_code, other.json()["type"]) == (422, "/problems/idempotency-mismatch")
    assert len(await database.fetch("SELECT id FROM turns", {})) == 1


async def test_a_turn_id_of_another_submission_is_taken(client: AsyncClient, database: Database) -> None:
    body = {"input": "x", "turn_id": choose_id()}
    await client.post(PATH, json=body, headers={"Idempotency-Key": "old"})

    answers = [await client.post(PATH, json=body, headers=headers) for headers in ({}, {"Idempotency-Key": "new"})]

    assert [answer.status_code for answer in answers] == [409, 409]
    assert {answer.json()["type"] for answer in answers} == {"/problems/turn-id-taken"}
    assert await database.fetch("SELECT key FROM submissions", {}) == [{"key": "key:old"}]


async def test_one_turn_id_under_many_keys_at_once_is_given_once(client: AsyncClient, database: Database) -> None:
    turn_id = choose_id()
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
