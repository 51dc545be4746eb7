"""At most one turn per Idempotency-Key, or per client-chosen turn id, and tenant."""

import asyncio
from uuid import uuid4

from httpx import AsyncClient

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
    told = [{name: answer.headers[name] for name in ("location", "traceparent", "retry-after")} for answer in answers]
    assert told == [told[0]] * 50
    assert sorted(answer.headers.get("idempotency-replayed", "") for answer in answers) == ["", *["true"] * 49]
    (row,) = await database.fetch("SELECT last_seq, (SELECT count(*) FROM turns) AS turns FROM sessions", {})
    assert row == {"last_seq": 1, "turns": 1}
    assert await queues.count(queue.name) == 1


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
