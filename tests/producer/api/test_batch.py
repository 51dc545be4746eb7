"""`POST /v1/turns/batch`: many submits, each with the result of a single one."""

import asyncio
from typing import Any

import pytest
from httpx import AsyncClient, Response

from tests.producer.api.calls import submit
from tests.producer.api.conftest import Connect
from tests.producer.api.expectations import expect_problem
from turnstile.backends.postgres.database import Database
from turnstile.config.rate_rules import RateRule
from turnstile.config.settings import Settings
from turnstile.producer.routes import batch_route
from turnstile.submission.turn_batch import MOST_TURNS

PATH = "/v1/turns/batch"


def turn(session: str = "s", text: Any = "x", **fields: Any) -> dict[str, Any]:
    return {"session_id": session, "input": text, **fields}


async def send(client: AsyncClient, *turns: Any, headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    answer = await client.post(PATH, json={"turns": turns}, headers=headers)
    assert answer.status_code == 200, answer.text
    results: list[dict[str, Any]] = answer.json()["results"]
    assert len(results) == len(turns)
    return results


def statuses(results: list[dict[str, Any]]) -> list[int]:
    return [result["status"] for result in results]


async def listed(database: Database, session: str = "s") -> list[str]:
    """The ids of the session's turns, in their order."""
    rows = await database.fetch("SELECT id FROM turns WHERE session_id = %(s)s ORDER BY seq", {"s": session})
    return [str(row["id"]) for row in rows]


async def test_each_turn_gets_the_answer_of_a_single_submit(client: AsyncClient) -> None:
    single = (await client.post("/v1/sessions/s/turns", json={"input": "x"})).json()

    [accepted, refused] = await send(client, turn(), turn(text=" "))

    assert (accepted["status"], accepted["replayed"]) == (202, False)
    assert set(accepted["turn"]) == set(single)
    assert accepted["turn"]["links"]["events"] == f"/v1/turns/{accepted['turn']['id']}/events"
    alone = await client.post("/v1/sessions/s/turns", json={"input": " "})
    assert refused == {"status": 422, "problem": alone.json()}


async def test_the_turns_of_a_session_are_in_the_order_of_the_batch(client: AsyncClient, database: Database) -> None:
    results = await send(client, *(turn(f"s{number % 2}", f"{number}") for number in range(MOST_TURNS)))

    ids = [result["turn"]["id"] for result in results]
    assert [await listed(database, f"s{session}") for session in (0, 1)] == [ids[0::2], ids[1::2]]
    assert (await client.get(f"/v1/turns/{ids[-1]}")).json()["input"] == f"{MOST_TURNS - 1}"


async def test_a_bad_turn_harms_no_other(client: AsyncClient, database: Database) -> None:
    taken = turn(turn_id="00000000-0000-4000-8000-000000000000")
    bad = ["text", None, {}, turn("."), turn(queue="none"), turn(webhook_url="https://a.example/"), taken]
    too_deep: Any = []
    for _ in range(190):
        too_deep = [too_deep]

    results = await send(client, turn(text="first"), *bad, turn(text={"a": too_deep}), turn(text="last"))

    assert statuses(results) == [202, *[422] * 7, 202, 202]
    assert {result["problem"]["type"] for result in results if "problem" in result} == {
        "/problems/invalid-body",
        "/problems/unknown-queue",
        "/problems/webhook-not-allowed",
    }
    accepted = [result["turn"]["id"] for result in results if "turn" in result]
    assert await listed(database) == accepted


async def test_a_turn_that_is_too_large_for_a_submit_is_refused_alone(client: AsyncClient, settings: Settings) -> None:
    large = "x" * settings.max_body_bytes

    results = await send(client, turn(text=large), turn())

    assert statuses(results) == [413, 202]
    expect = await client.post("/v1/sessions/s/turns", json={"input": large})
    assert results[0]["problem"] == expect.json()


async def test_a_repeat_finds_each_turn_also_as_a_single_submit(client: AsyncClient) -> None:
    turns = [turn(text=f"{number}", idempotency_key=f"k{number}") for number in range(3)]
    first = await send(client, *turns)

    again = await send(client, *turns, turn(text="new", idempotency_key="k9"))
    alone = await client.post("/v1/sessions/s/turns", json={"input": "1"}, headers={"Idempotency-Key": "k1"})

    assert [result["turn"]["id"] for result in again[:3]] == [result["turn"]["id"] for result in first]
    assert [result["replayed"] for result in again] == [True, True, True, False]
    assert (alone.json()["id"], alone.headers["idempotency-replayed"]) == (first[1]["turn"]["id"], "true")


async def test_two_turns_of_one_key_in_a_batch_are_one(client: AsyncClient) -> None:
    equal, other = turn(text="a", idempotency_key="k"), turn(text="b", idempotency_key="k")

    results = await send(client, equal, equal, other)

    assert statuses(results) == [202, 202, 422]
    assert results[0]["turn"]["id"] == results[1]["turn"]["id"]
    assert results[2]["problem"]["type"] == "/problems/idempotency-mismatch"


async def test_policies_hold_for_each_turn(client: AsyncClient) -> None:
    open_turn = await submit(client)

    results = await send(client, turn(on_busy="reject"), turn(text="more", on_busy="enqueue"), turn("other"))

    assert statuses(results) == [409, 202, 202]
    assert results[0]["problem"]["turn_id"] == open_turn


async def test_concurrent_batches_of_one_session_do_not_mix_up_their_orders(
    client: AsyncClient, database: Database
) -> None:
    batches = await asyncio.gather(
        *(send(client, *(turn(text=f"{batch}.{number}") for number in range(15))) for batch in range(3))
    )

    order = await listed(database)
    for results in batches:
        ids = [result["turn"]["id"] for result in results]
        assert [one for one in order if one in ids] == ids


async def test_all_turns_continue_the_trace_of_the_request(client: AsyncClient) -> None:
    trace, span = "1" * 32, "2" * 16

    results = await send(client, turn(), turn(), headers={"traceparent": f"00-{trace}-{span}-01"})

    shown = [(await client.get(result["turn"]["links"]["self"])).json() for result in results]
    assert [(one["trace_id"], one["parent_span_id"]) for one in shown] == [(trace, span)] * 2
    assert len({one["span_id"] for one in shown}) == 2


@pytest.mark.parametrize(
    ("body", "status", "slug"),
    [
        (b"{", 400, "invalid-json"),
        (b"[]", 422, "invalid-body"),
        (b'{"turns": []}', 422, "invalid-body"),
        (b'{"turns": [1], "more": 1}', 422, "invalid-body"),
        (b'{"turns": [1], "turns": [1]}', 422, "invalid-body"),
    ],
)
async def test_a_body_that_is_no_batch_is_refused_as_a_whole(
    client: AsyncClient, database: Database, body: bytes, status: int, slug: str
) -> None:
    answer = await client.post(PATH, content=body, headers={"Content-Type": "application/json"})

    expect_problem(answer, status, slug)
    assert await database.fetch("SELECT 1 FROM turns", {}) == []


async def test_a_body_that_is_too_large_is_refused_as_a_whole(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.setattr(batch_route, "MOST_BYTES", 10)
    limit = settings.max_body_bytes

    answer = await client.post(PATH, json={"turns": [turn(text="x" * (limit // 2)), turn(text="x" * (limit // 2))]})

    expect_problem(answer, 413, "body-too-large")


async def test_a_page_submits_to_its_session_alone(client: AsyncClient) -> None:
    wanted = {"session_id": "mine", "verbs": ["submit"]}
    page = {"Authorization": f"Bearer {(await client.post('/v1/tokens', json=wanted)).json()['token']}"}

    results = await send(client, turn("mine"), turn("other"), headers=page)

    assert statuses(results) == [202, 404]
    reader = {**wanted, "verbs": ["read"]}
    page = {"Authorization": f"Bearer {(await client.post('/v1/tokens', json=reader)).json()['token']}"}
    expect_problem(await client.post(PATH, json={"turns": [turn("mine")]}, headers=page), 403, "forbidden")


async def test_each_turn_counts_against_the_rate_limits(settings: Settings, connect: Connect) -> None:
    of_session = RateRule(name="of-session", per="session", limit=2, seconds=600)
    async with connect(settings.model_copy(update={"rates": (of_session,)})) as client:
        results = await send(client, *[turn("loud")] * 4, turn("quiet"))
    assert statuses(results) == [202, 202, 429, 429, 202]
    assert results[2]["problem"]["type"] == "/problems/rate-limited"
    assert 0 < results[2]["retry_after_seconds"] <= 600

    of_tenant = RateRule(name="of-tenant", per="tenant", calls="submits", limit=4, seconds=600)
    async with connect(settings.model_copy(update={"rates": (of_tenant,)})) as client:
        results = await send(client, *(turn(f"s{number}") for number in range(7)))
    assert sorted(statuses(results)) == [202] * 4 + [429] * 3


async def test_each_turn_counts_against_the_caps_on_open_turns(settings: Settings, connect: Connect) -> None:
    async with connect(settings.model_copy(update={"session_open_turns": 2})) as client:
        first = await send(client, *(turn(text=f"{n}", idempotency_key=f"k{n}") for n in range(3)), turn("other"))
        again = await send(client, *(turn(text=f"{n}", idempotency_key=f"k{n}") for n in range(3)))

    assert statuses(first) == [202, 202, 429, 202]
    assert first[2]["problem"]["type"] == "/problems/too-many-open-turns"
    assert statuses(again) == [202, 202, 429]


async def test_a_batch_needs_no_parameters(client: AsyncClient) -> None:
    answer: Response = await client.post(f"{PATH}?wait=1", json={"turns": [turn()]})

    expect_problem(answer, 422, "invalid-parameter")
