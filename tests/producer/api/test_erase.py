"""The erasure of a session over HTTP: its response, its effect, and that it is the tenant's own."""

from httpx import AsyncClient

from tests.archive.archiving import in_table
from tests.erasure.erasing import finish
from tests.support.factories import make_claim, make_terms
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.erasure.eraser import Eraser
from turnstile.erasure.keys import SessionKeysInRedis
from turnstile.erasure.request import Erasure
from turnstile.process.redis_clients import connect_memory
from turnstile.statements.claim import claim

SESSION = "/v1/sessions/s"


async def finish_all(database: Database, settings: Settings) -> None:
    redis = connect_memory(settings)
    try:
        for row in await database.fetch("SELECT * FROM erasures WHERE finished_at IS NULL AND part_of IS NULL", {}):
            await finish(database, Eraser(database, SessionKeysInRedis(redis, settings.redis_prefix)), Erasure.of(row))
    finally:
        await redis.close()


async def test_a_session_is_being_erased_until_nothing_is_left(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    turn = (await client.post(f"{SESSION}/turns", json={"input": "x"})).json()["id"]

    first, again = await client.delete(SESSION), await client.delete(SESSION)
    assert [(one.status_code, one.json()) for one in (first, again)] == [
        (202, {"session_id": "s", "erasing": True})
    ] * 2
    assert (await client.get(f"/v1/turns/{turn}")).json()["status"] == "CANCELED"

    await finish_all(database, settings)
    assert (await client.delete(SESSION)).status_code == 404
    assert (await client.get(f"/v1/turns/{turn}")).status_code == 404
    [event] = await database.fetch("SELECT kind, actor, tenant_id FROM audit WHERE kind = 'session.erased'", {})
    assert (event["tenant_id"], event["actor"].startswith("key ")) == ("acme", True)


async def test_a_running_turn_is_asked_to_stop(client: AsyncClient, database: Database, settings: Settings) -> None:
    turn = (await client.post(f"{SESSION}/turns", json={"input": "x"})).json()["id"]
    await claim(database, make_terms(settings), [make_claim(tenant_id="acme")])

    assert (await client.delete(SESSION)).status_code == 202

    assert (await client.get(f"/v1/turns/{turn}")).json()["cancel_requested_at"] is not None


async def test_a_submit_during_the_erasure_is_accepted_and_stays(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    await client.post(f"{SESSION}/turns", json={"input": "x"})
    await client.delete(SESSION)
    new = await client.post(f"{SESSION}/turns", json={"input": "y"})
    assert new.status_code == 202

    await finish_all(database, settings)

    assert [str(one) for one in await in_table(database)] == [new.json()["id"]]


async def test_a_repeated_submit_brings_nothing_back(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    request = {"json": {"input": "x"}, "headers": {"Idempotency-Key": "k"}}
    first = await client.post(f"{SESSION}/turns", **request)
    await client.delete(SESSION)
    await finish_all(database, settings)

    again = await client.post(f"{SESSION}/turns", **request)

    assert (again.json()["id"], await in_table(database)) == (first.json()["id"], [])


async def test_the_session_of_another_tenant_is_not_found(
    client: AsyncClient, other_client: AsyncClient, database: Database
) -> None:
    await client.post(f"{SESSION}/turns", json={"input": "x"})

    assert (await other_client.delete(SESSION)).status_code == 404
    assert await database.fetch("SELECT 1 FROM erasures", {}) == []


async def test_what_does_not_exist_is_not_found(client: AsyncClient) -> None:
    assert (await client.delete(SESSION)).status_code == 404
