"""Reading over HTTP: one turn, lists with cursors, the history."""

import json
from uuid import uuid4

import pytest
from httpx import AsyncClient

from tests.producer.api.calls import end, pages, submit, succeed
from tests.support.factories import nest
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer.routes.turn_responses import TurnDetail, TurnSummary
from turnstile.statements.settle import AttemptOutcome, Settlement
from turnstile.turn.settlement import JoinPolicy
from turnstile.turn.status import TurnStatus
from turnstile.turn.stored_json import MAX_DEPTH

PATH = "/v1/sessions/s/turns"


FAILURE = Settlement(
    status=TurnStatus.FAILED, outcome=AttemptOutcome.FAILED, error_class="Boom", error="it went off", fault=True
)


async def test_only_an_open_turn_has_a_retry_after(client: AsyncClient, database: Database, settings: Settings) -> None:
    turn = await submit(client)
    answer = await client.get(f"/v1/turns/{turn}")
    body = answer.json()
    assert set(body) == set(TurnDetail.model_fields)
    assert not {"tenant_id", "worker_id", "fence", "claim_id", "lease_until", "send_at"} & set(body), "not for clients"
    assert (body["status"], body["seq"], body["output"], body["error"]) == ("PENDING", 1, None, None)
    assert answer.headers["retry-after"] == "1"

    await database.fetch("UPDATE turns SET created_at = created_at - interval '75 s'", {})
    assert (await client.get(f"/v1/turns/{turn}")).headers["retry-after"] == "7"

    await end(database, settings, "s", succeed({"text": "hi"}))
    answer = await client.get(f"/v1/turns/{turn}")
    assert (answer.json()["status"], answer.json()["output"]) == ("SUCCEEDED", {"text": "hi"})
    assert "retry-after" not in answer.headers


async def test_a_turn_shows_its_input_also_after_its_failure(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    turn = await submit(client, text="hello")

    assert (await client.get(f"/v1/turns/{turn}")).json()["input"] == "hello"
    await end(database, settings, "s", FAILURE)
    ended = (await client.get(f"/v1/turns/{turn}?wait=10")).json()
    assert (ended["status"], ended["input"]) == ("FAILED", "hello")
    assert ended["error"] == {"class": "Boom", "message": None}
    assert "input" not in (await client.get("/v1/turns")).json()["turns"][0]


async def test_json_is_returned_with_its_numbers_and_the_order_of_its_keys(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    said = {"b": [1e308, -1e-300, -0.0, 10**40], "a": {"longer": None, "c": "\u00fc"}}
    turn = (await client.post(PATH, json={"input": said, "metadata": said})).json()["id"]
    await end(database, settings, "s", succeed(said))

    body = (await client.get(f"/v1/turns/{turn}")).json()
    shown = (await client.get("/v1/sessions/s/messages")).json()["messages"]

    values = [body["input"], body["metadata"], body["output"], *(message["content"] for message in shown)]
    assert [str(value) for value in values] == [str(said)] * 5


async def test_merged_inputs_are_shown_as_the_handler_gets_them(client: AsyncClient) -> None:
    await client.post(PATH, json={"input": "busy with this"})
    await client.post(PATH, json={"input": "one", "on_busy": "merge"})
    turn = (await client.post(PATH, json={"input": "two", "on_busy": "merge"})).json()["id"]

    assert (await client.get(f"/v1/turns/{turn}")).json()["input"] == "busy with this\none\ntwo"


async def test_the_deepest_reply_that_a_handler_may_give_can_be_read(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    deepest = nest("x", MAX_DEPTH)
    turn = await submit(client)
    await end(database, settings, "s", succeed(deepest))

    assert (await client.get(f"/v1/turns/{turn}")).json()["output"] == deepest
    assert (await client.get("/v1/sessions/s/messages")).json()["messages"][-1]["content"] == deepest
    assert json.dumps(deepest, separators=(",", ":")) in (await client.get(f"/v1/turns/{turn}/events")).text


async def test_pages_are_newest_first_and_neither_repeat_nor_skip(client: AsyncClient) -> None:
    ids = [await submit(client, f"s{number % 3}") for number in range(5)]
    seen: list[list[str]] = []
    async for page in pages(client, "/v1/turns", limit=2):
        turns = page.json()["turns"]
        assert all(set(turn) == set(TurnSummary.model_fields) for turn in turns)
        seen.append([turn["id"] for turn in turns])
        # A new turn belongs before the first page.
        await submit(client, "meanwhile")
    assert seen == [[ids[4], ids[3]], [ids[2], ids[1]], [ids[0]]]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("turns?status=CANCELED", [0]),
        ("turns?status=cancelled", [0]),
        ("turns?queue=another", []),
        ("sessions/b/turns?status=pending", [2]),
    ],
)
async def test_filters_narrow_the_list(client: AsyncClient, query: str, found: list[int]) -> None:
    turns = [await submit(client, session) for session in ("a", "a", "b")]
    await client.post(f"/v1/turns/{turns[0]}/cancel")

    page = (await client.get(f"/v1/{query}")).json()

    assert [turn["id"] for turn in page["turns"]] == [turns[at] for at in found]


async def test_the_history_has_the_messages_of_answered_turns(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    for number in range(3):
        await submit(client, text=f"question {number}")
        await end(database, settings, "s", FAILURE if number == 1 else succeed(f"answer {number}"))
    await submit(client, text="still open")
    messages = (await client.get("/v1/sessions/s/messages")).json()["messages"]
    assert [(each["seq"], each["role"], each["content"]) for each in messages] == [
        (1, "user", "question 0"),
        (1, "assistant", "answer 0"),
        (3, "user", "question 2"),
        (3, "assistant", "answer 2"),
    ]
    last = (await client.get("/v1/sessions/s/messages", params={"limit": 1})).json()["messages"]
    assert last == messages[-1:]


async def test_a_parent_that_waits_for_children_has_a_short_retry_after(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    turn, child = await submit(client), uuid4()
    joins = Settlement(
        status=TurnStatus.PENDING, outcome=AttemptOutcome.JOINED, refund=True, after_seconds=900.0,
        joining=(child,), join_policy=JoinPolicy.ALL,
    )  # fmt: skip
    await end(database, settings, "s", joins)

    answer = await client.get(f"/v1/turns/{turn}")

    assert (answer.json()["joining"], answer.headers["retry-after"]) == ([str(child)], "1")


async def test_a_turn_names_the_turn_that_halts_its_session(client: AsyncClient, database: Database) -> None:
    location = f"/v1/turns/{await submit(client)}"
    assert (await client.get(location)).json()["halted_by"] is None
    await database.fetch("UPDATE sessions SET halted_by = (SELECT id FROM turns)", {})

    turn = (await client.get(location)).json()

    assert turn["halted_by"] == turn["id"]
