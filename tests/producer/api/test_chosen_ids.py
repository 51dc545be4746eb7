"""Turn ids that clients choose: no tenant can take another's, or learn that one exists."""

from uuid import UUID, uuid4, uuid5

import pytest
from httpx import AsyncClient

from tests.producer.api.calls import choose_id
from tests.producer.api.expectations import expect_problem, scrubbed
from turnstile.backends.postgres.database import Database

PATH = "/v1/sessions/s/turns"
NAME = "order/4711"


@pytest.fixture
async def theirs(client: AsyncClient) -> list[str]:
    """Ids of turns of acme: one that the product made, and one that a client chose."""
    bodies = [{"input": "secret"}, {"input": "secret", "turn_id": choose_id("acme")}]
    return [(await client.post(PATH, json=body)).json()["id"] for body in bodies]


async def test_a_tenant_takes_no_id_that_another_one_would_choose(
    client: AsyncClient, other_client: AsyncClient, database: Database
) -> None:
    """Also one that can be foretold, because it is made of known data."""
    wanted = choose_id("acme")[:13] + str(uuid5(UUID(int=0), NAME))[13:]

    squat = await other_client.post(PATH, json={"input": "squat", "turn_id": wanted})

    expect_problem(squat, 422, "invalid-body")
    (fault,) = squat.json()["errors"]
    assert fault["pointer"] == "/turn_id"
    assert choose_id("globex")[:13] in fault["detail"]
    assert await database.fetch("SELECT id FROM turns", {}) == []
    assert (await client.post(PATH, json={"input": "mine", "turn_id": wanted})).json()["id"] == wanted


async def test_no_client_takes_an_id_that_the_product_may_make(client: AsyncClient, database: Database) -> None:
    """It may be the id of a child or a compensation of the client's own turn: such ids are of version 7."""
    ours = choose_id("acme")[:13] + "-7" + str(uuid4())[15:]

    answer = await client.post(PATH, json={"input": "squat", "turn_id": ours})

    expect_problem(answer, 422, "invalid-body")
    assert await database.fetch("SELECT id FROM turns", {}) == []


async def test_a_submit_does_not_reveal_whether_another_tenant_has_the_id(
    other_client: AsyncClient, theirs: list[str]
) -> None:
    absent = choose_id("acme")

    for one in theirs:
        answers = [
            await other_client.post(PATH, json={"input": "x", "turn_id": turn_id}, headers=headers)
            for turn_id in (one, absent)
            for headers in ({}, {"Idempotency-Key": turn_id})
        ]
        assert len({str(scrubbed(answer, one, absent)) for answer in answers}) == 1, one


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/turns/{}"),
        ("GET", "/v1/turns/{}?wait=1"),
        ("GET", "/v1/turns/{}/events"),
        ("GET", "/v1/turns/{}/events?on_disconnect=cancel"),
        ("GET", "/v1/turns/{}/events?starting_after=1-1"),
        ("POST", "/v1/turns/{}/cancel"),
    ],
)
async def test_no_route_reveals_whether_another_tenant_has_the_id(
    client: AsyncClient, other_client: AsyncClient, theirs: list[str], method: str, path: str
) -> None:
    for absent in (str(uuid4()), choose_id("acme")):
        for one in theirs:
            there, nowhere = [await other_client.request(method, path.format(turn)) for turn in (one, absent)]
            expect_problem(there, 404, "not-found")
            assert scrubbed(there, one) == scrubbed(nowhere, absent)
    records = [(await client.get(f"/v1/turns/{one}")).json() for one in theirs]
    assert [(record["status"], record["cancel_requested_at"]) for record in records] == [("PENDING", None)] * 2


async def test_a_cancel_of_an_id_that_no_client_may_choose_is_not_kept(client: AsyncClient, database: Database) -> None:
    for nobodys in (str(uuid4()), choose_id("globex")):
        expect_problem(await client.post(f"/v1/turns/{nobodys}/cancel"), 404, "not-found")
    assert await database.fetch("SELECT turn_id FROM chosen_ids", {}) == []
