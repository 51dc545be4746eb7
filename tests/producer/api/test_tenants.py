"""Another tenant's things do not exist."""

import pytest
from httpx import AsyncClient

from tests.producer.api.calls import end, submit, succeed
from tests.producer.api.conftest import Connect
from tests.producer.api.expectations import expect_problem, scrubbed
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings


@pytest.fixture
async def turn(client: AsyncClient) -> str:
    """A turn of acme's."""
    return str((await client.post("/v1/sessions/s/turns", json={"input": "x"})).json()["id"])


async def test_another_tenants_resources_are_not_found(
    client: AsyncClient, other_client: AsyncClient, database: Database, turn: str
) -> None:
    before = await database.fetch("SELECT * FROM turns", {})
    routes = [
        ("GET", f"/v1/turns/{turn}"),
        ("GET", f"/v1/turns/{turn}/events"),
        ("GET", "/v1/sessions/s/turns"),
        ("GET", "/v1/sessions/s/messages"),
        ("GET", "/v1/sessions/s?include=open,failed,canceled,partial"),
        ("POST", "/v1/sessions/s/cancel"),
    ]
    for route in routes:
        expect_problem(await other_client.request(*route), 404, "not-found")
    assert (await other_client.get("/v1/turns")).json()["turns"] == []
    assert await database.fetch("SELECT * FROM turns", {}) == before

    assert [each["id"] for each in (await client.get("/v1/turns")).json()["turns"]] == [turn]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/sessions/{}/turns"),
        ("GET", "/v1/sessions/{}/turns?status=PENDING"),
        ("GET", "/v1/sessions/{}"),
        ("GET", "/v1/sessions/{}/messages"),
        ("GET", "/v1/sessions/{}/messages?cursor=9.0"),
        ("POST", "/v1/sessions/{}/cancel"),
    ],
)
async def test_no_route_reveals_whether_another_tenant_has_the_session(
    client: AsyncClient, other_client: AsyncClient, method: str, path: str
) -> None:
    await submit(client, "theirs")

    there, nowhere = [await other_client.request(method, path.format(name)) for name in ("theirs", "absent")]

    expect_problem(there, 404, "not-found")
    assert scrubbed(there, "theirs") == scrubbed(nowhere, "absent")


async def test_a_session_of_another_tenant_may_have_the_same_name(
    client: AsyncClient, other_client: AsyncClient, database: Database, settings: Settings
) -> None:
    for one in (client, other_client, client):
        await submit(one, "s")
    await end(database, settings, "s", succeed("secret"))
    theirs = (await client.get("/v1/turns?limit=1")).json()["next_cursor"]

    (own,) = (await other_client.get(f"/v1/turns?cursor={theirs}")).json()["turns"]
    answers = [await other_client.get(f"/v1/sessions/s/{what}") for what in ("turns", "messages")]

    assert [turn["id"] for turn in answers[0].json()["turns"]] == [own["id"]]
    assert answers[1].json()["messages"] == []
    assert "secret" in (await client.get("/v1/sessions/s/messages")).text


async def test_health_and_description_need_no_key(client: AsyncClient) -> None:
    del client.headers["authorization"]
    for path in ("/healthz", "/readyz", "/openapi.json", "/docs"):
        assert (await client.get(path)).status_code == 200, path


async def test_a_key_that_is_not_ascii_works(settings: Settings, connect: Connect) -> None:
    keyed = settings.model_copy(update={"api_keys": (("acme", "schlüssel-1"),)})
    async with connect(keyed) as client:
        for sent, status in (("schlüssel-1".encode("latin-1"), 200), ("schlüssel-2".encode("latin-1"), 401)):
            answer = await client.get("/v1/turns", headers=[(b"authorization", b"Bearer " + sent)])
            assert answer.status_code == status
