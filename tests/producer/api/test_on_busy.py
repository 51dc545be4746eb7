"""Double texting over HTTP: what is asked for, what is answered, and the same answer again."""

from httpx import AsyncClient, Response

from tests.producer.api.expectations import expect_problem
from turnstile.config.queue_settings import QueueSettings
from turnstile.message_queue import MessageQueues

PATH = "/v1/sessions/s/turns"


async def text(client: AsyncClient, on_busy: str, content: str = "x", key: str | None = None) -> Response:
    headers = {} if key is None else {"Idempotency-Key": key}
    return await client.post(PATH, json={"input": content, "on_busy": on_busy}, headers=headers)


async def test_reject_gets_409_with_the_open_turn_also_if_it_is_repeated_after_its_end(client: AsyncClient) -> None:
    first = (await text(client, "enqueue")).json()["id"]
    refused = await text(client, "reject", key="k")
    await client.post(f"/v1/turns/{first}/cancel")

    again = await text(client, "reject", key="k")

    expect_problem(again, 409, "session-busy")
    assert again.json() == refused.json()
    assert again.json()["turn_id"] == first
    assert (refused.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    assert (await text(client, "reject", key="another")).status_code == 202


async def test_a_repeat_of_a_merge_gets_the_same_response(
    client: AsyncClient, queues: MessageQueues, queue: QueueSettings
) -> None:
    first = await text(client, "merge", "one")

    merged = await text(client, "merge", "two", key="k")
    again = await text(client, "merge", "two", key="k")

    assert (first.json()["merged"], merged.json()["merged"]) == (False, True)
    assert {merged.headers["location"], again.headers["location"]} == {first.headers["location"]}
    assert again.text == merged.text
    assert again.headers["idempotency-replayed"] == "true"
    assert await queues.count(queue.name) == 1
