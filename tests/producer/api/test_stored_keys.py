"""Keys of the table at the API: their tenant, their role, their end, and an API that has none yet."""

import pytest
from httpx import AsyncClient, Response
from structlog.testing import capture_logs

from tests.producer.api.calls import submit
from tests.producer.api.conftest import Connect, OpenApi
from tests.producer.api.expectations import expect_problem, expect_unavailable
from tests.producer.api.network_faults import Cable
from tests.support.probes import until
from tests.support.stored_keys import id_of, revoke, store_key
from turnstile.access.role import Role
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer.credentials import key_cache
from turnstile.statements.api_keys import NewKey, rotate_key

TURN = "/v1/turns/2f1c1b52-8f0e-4c39-a1bb-5ab4b3bb3b1e"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def status(client: AsyncClient, key: str) -> int:
    return (await client.get("/v1/turns", headers=bearer(key))).status_code


@pytest.fixture
def always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer of the table is fresh."""
    monkeypatch.setattr(key_cache, "FRESH_SECONDS", 0.0)


# --- tenant and role


async def test_a_key_of_the_table_works_beside_those_of_the_settings(client: AsyncClient, database: Database) -> None:
    theirs = await submit(client)
    key = await store_key(database, "initech", Role.SUBMIT)

    answer = await client.post("/v1/sessions/s/turns", json={"input": "x"}, headers=bearer(key))

    assert answer.status_code == 202
    assert (await client.get(answer.headers["location"], headers=bearer(key))).status_code == 200
    assert (await client.get(f"/v1/turns/{theirs}", headers=bearer(key))).status_code == 404
    assert (await client.get(answer.headers["location"])).status_code == 404


CALLS = [
    ("GET", "/v1/turns", Role.READ),
    ("GET", TURN, Role.READ),
    ("GET", f"{TURN}/events", Role.READ),
    ("GET", f"{TURN}/events?on_disconnect=cancel", Role.SUBMIT),
    ("POST", "/v1/sessions/s/turns", Role.SUBMIT),
    ("POST", f"{TURN}/cancel", Role.SUBMIT),
    ("POST", "/v1/sessions/s/cancel", Role.OPERATE),
]


@pytest.mark.parametrize("role", Role)
async def test_a_role_that_does_not_suffice_gets_403_with_the_one_that_is_needed(
    client: AsyncClient, database: Database, role: Role
) -> None:
    client.headers.update(bearer(await store_key(database, role=role)))
    for method, path, needed in CALLS:
        answer = await client.request(method, path)
        if role.includes(needed):
            assert answer.status_code not in {401, 403}, (method, path)
        else:
            expect_problem(answer, 403, "forbidden")
            assert f"`{needed}`" in answer.json()["detail"]
    assert await database.fetch("SELECT 1 FROM turns UNION ALL SELECT 1 FROM chosen_ids", {}) == []


# --- the end of a key


@pytest.mark.usefixtures("always_read")
async def test_a_revoked_key_and_an_expired_one_are_refused_like_an_unknown_one(
    client: AsyncClient, database: Database
) -> None:
    revoked, expired = await store_key(database), await store_key(database, lives_seconds=3600)
    assert [await status(client, key) for key in (revoked, expired)] == [200, 200]
    await revoke(database, revoked)
    await database.fetch("UPDATE api_keys SET expires_at = now() WHERE key_id = %(id)s", {"id": id_of(expired)})

    with capture_logs() as lines:
        answers: list[Response] = [
            await client.get("/v1/turns", headers=bearer(key))
            for key in (revoked, expired, revoked[:-1] + "~", id_of(revoked) + "_" + "A" * 43, "tsk_" + "0" * 16)
        ]

    for answer in answers:
        expect_problem(answer, 401, "unauthorized")
    assert len({answer.text for answer in answers}) == 1
    first = next(line for line in lines if line["event"] == "api.unauthorized")
    assert (first["reason"], first["key_id"]) == ("revoked", id_of(revoked))
    assert revoked not in str(lines)


async def test_the_id_without_the_secret_is_worth_nothing(client: AsyncClient, database: Database) -> None:
    key, other = [await store_key(database) for _ in range(2)]
    assert await status(client, key) == 200

    assert await status(client, id_of(key) + other.removeprefix(id_of(other))) == 401


@pytest.mark.usefixtures("always_read")
async def test_a_rotation_refuses_neither_key_until_the_overlap_ends(client: AsyncClient, database: Database) -> None:
    old = await store_key(database)
    before = await status(client, old)
    new = NewKey(key_id="tsk_0123456789abcdef", digest=bytes(32), by="operator", lives_seconds=None)

    async with database.connection() as connection:
        await rotate_key(connection, id_of(old), new, overlap_seconds=3600)
    during = await status(client, old)
    await database.fetch("UPDATE api_keys SET expires_at = now() WHERE replaced_by IS NOT NULL", {})

    assert (before, during, await status(client, old)) == (200, 200, 401)


async def test_the_use_of_a_key_is_noted(client: AsyncClient, database: Database) -> None:
    used, unused = [await store_key(database) for _ in range(2)]
    await status(client, used)
    await status(client, unused[:-3] + "AAA")

    noted = await until(lambda: database.fetch("SELECT key_id FROM api_keys WHERE last_used_at IS NOT NULL", {}))

    assert noted == [{"key_id": id_of(used)}]


async def test_the_log_says_which_key_has_called_what(connect: Connect, settings: Settings, database: Database) -> None:
    key = await store_key(database)
    with capture_logs() as lines:
        async with connect(settings) as client:
            for path in ("/v1/turns", TURN, f"{TURN}?nonsense=1", "/v1/nowhere"):
                await client.get(path, headers=bearer(key))

    used = {line["route"]: line["count"] for line in lines if line["event"] == "api.used"}
    assert used == {"/v1/turns": 1, "/v1/turns/{turn_id}": 2, "none": 1}
    assert {line["key_id"] for line in lines if line["event"] == "api.used"} == {id_of(key)}
    assert key not in str(lines)


# --- Postgres is away


async def test_while_postgres_is_away_a_known_key_is_let_in_and_an_unknown_one_is_not_called_wrong(
    cabled: AsyncClient, database_cable: Cable, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, unknown = [await store_key(database) for _ in range(2)]
    assert await status(cabled, known) == 200
    monkeypatch.setattr(key_cache, "FRESH_SECONDS", 0.0)
    await database_cable.cut()

    # A path that needs no database once its key is valid.
    expect_problem(await cabled.get("/v1/nowhere", headers=bearer(known)), 404, "not-found")
    expect_unavailable(await cabled.get("/v1/nowhere", headers=bearer(unknown)))
    # What has not the form of a key of the table needs no look at it.
    expect_problem(await cabled.get("/v1/nowhere", headers=bearer("wrong-key")), 401, "unauthorized")


# --- an API without keys


async def test_without_any_key_there_is_one_tenant(unconfigured: OpenApi, database: Database) -> None:
    async with unconfigured() as client:
        assert (await client.post("/v1/sessions/s/turns", json={"input": "x"})).status_code == 202
        rebound = await client.get("/v1/turns", headers={"Host": "rebound.example"})
        expect_problem(rebound, 421, "not-local")
    assert await database.fetch("SELECT tenant_id FROM turns", {}) == [{"tenant_id": "default"}]


@pytest.mark.usefixtures("always_read")
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104
async def test_the_first_key_closes_an_open_api(unconfigured: OpenApi, database: Database, host: str) -> None:
    strangers = host != "127.0.0.1"
    async with (
        unconfigured(host, called="api.example", api_serves_strangers_without_keys=True)
        if strangers
        else unconfigured() as client
    ):
        assert (await client.get("/v1/turns")).status_code == 200
        key = await store_key(database)
        await revoke(database, key)

        expect_problem(await client.get("/v1/turns"), 401, "unauthorized")
        # Behind a proxy of this machine it has any name.
        assert (
            await client.get("/v1/turns", headers={"Host": "x", **bearer(await store_key(database))})
        ).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])  # noqa: S104
async def test_an_api_for_other_machines_serves_nobody_without_a_key(
    unconfigured: OpenApi, database: Database, host: str
) -> None:
    async with unconfigured(host, called="api.example") as client:
        expect_problem(await client.get("/v1/turns"), 401, "unauthorized")
        expect_problem(await client.get("/v1/turns", headers=bearer("anything")), 401, "unauthorized")
        assert await status(client, await store_key(database)) == 200


async def test_tenants_with_keys_of_the_table_share_the_process(
    connect: Connect, settings: Settings, database: Database
) -> None:
    async with connect(settings.model_copy(update={"api_keys": settings.api_keys[:1]})) as client:
        tenants = client._transport.app.state.backend.tenants  # type: ignore[attr-defined]
        await client.get("/v1/turns")
        alone = bool(tenants)
        await status(client, await store_key(database, "initech"))
        assert (alone, bool(tenants)) == (False, True)
