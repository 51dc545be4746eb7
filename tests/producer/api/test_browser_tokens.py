"""Tokens for pages: one session, named verbs, a quarter of an hour."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from httpx import AsyncClient, Response

from tests.producer.api.calls import choose_id, submit
from tests.producer.api.conftest import Connect
from tests.producer.api.expectations import expect_problem, scrubbed
from tests.support.stored_keys import id_of, revoke, store_key
from turnstile.access.role import Role
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer.credentials import key_cache
from turnstile.statements.browser_tokens import forget_tokens

ALL = ["read", "submit", "cancel"]
ABSENT = "01900000-0000-7000-8000-000000000000"


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


async def ask(client: AsyncClient, session: str = "mine", verbs: Any = ALL, key: str | None = None) -> Response:
    headers = {} if key is None else bearer(key)
    return await client.post("/v1/tokens", json={"session_id": session, "verbs": verbs}, headers=headers)


async def make(client: AsyncClient, session: str = "mine", verbs: Any = ALL, key: str | None = None) -> dict[str, str]:
    """The header with a new token."""
    answer = await ask(client, session, verbs, key)
    assert answer.status_code == 201, answer.text
    return bearer(answer.json()["token"])


@pytest.fixture
def always_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer of the tables is fresh."""
    monkeypatch.setattr(key_cache, "FRESH_SECONDS", 0.0)


async def test_a_token_is_shown_once_and_lasts_for_a_quarter_of_an_hour(
    client: AsyncClient, database: Database
) -> None:
    answer = await ask(client, verbs=["submit", "read", "read"])

    found = answer.json()
    assert found["verbs"] == ["read", "submit"]
    lasts = datetime.fromisoformat(found["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=14) < lasts < timedelta(minutes=16)
    [row] = await database.fetch("SELECT * FROM browser_tokens", {})
    assert (row["tenant_id"], row["session_id"], row["made_by"]) == ("acme", "mine", "settings:1")
    assert found["token"].startswith(f"{row['token_id']}_")
    assert found["token"].removeprefix(f"{row['token_id']}_") not in str(row)


async def test_a_page_can_hold_its_conversation(client: AsyncClient) -> None:
    page = await make(client)

    submitted = await client.post("/v1/sessions/mine/turns", json={"input": "x"}, headers=page)
    turn = submitted.headers["location"]

    assert submitted.status_code == 202
    for path in (turn, "/v1/sessions/mine", "/v1/sessions/mine/turns", "/v1/sessions/mine/messages"):
        assert (await client.get(path, headers=page)).status_code == 200, path
    assert (await client.post(f"{turn}/cancel", headers=page)).status_code == 202
    assert (await client.get(turn)).json()["status"] == "CANCELED"


async def test_another_session_of_the_same_tenant_is_like_one_that_does_not_exist(
    client: AsyncClient, database: Database
) -> None:
    other = await submit(client, "other", "secret")
    page = await make(client)
    before = await database.fetch("SELECT * FROM turns", {})

    for method, path in (
        ("GET", "/v1/turns/{}"),
        ("GET", "/v1/turns/{}/events"),
        ("POST", "/v1/turns/{}/cancel"),
        ("GET", "/v1/sessions/{}/turns"),
        ("GET", "/v1/sessions/{}/messages"),
        ("GET", "/v1/sessions/{}"),
        ("POST", "/v1/sessions/{}/turns"),
    ):
        there, nowhere = ("other", "absent") if "sessions" in path else (other, ABSENT)
        answers = [
            await client.request(
                method, path.format(one), headers=page, json={"input": "x"} if "turns" in path else None
            )
            for one in (there, nowhere)
        ]
        expect_problem(answers[0], 404, "not-found")
        assert scrubbed(answers[0], there) == scrubbed(answers[1], nowhere)
    # A cancel ahead of its submit would name no session.
    expect_problem(await client.post(f"/v1/turns/{choose_id()}/cancel", headers=page), 404, "not-found")
    assert await database.fetch("SELECT * FROM turns", {}) == before
    assert await database.fetch("SELECT 1 FROM chosen_ids", {}) == []


async def test_what_names_no_session_is_not_for_a_token(client: AsyncClient) -> None:
    page = await make(client)

    for path in ("/v1/turns", "/v1/sessions"):
        expect_problem(await client.get(path, headers=page), 403, "forbidden")
    expect_problem(await ask(client, key=page["Authorization"].removeprefix("Bearer ")), 403, "forbidden")
    expect_problem(await client.post("/v1/sessions/mine/cancel", headers=page), 403, "forbidden")


@pytest.mark.parametrize("verb", ALL)
async def test_a_token_does_what_its_verbs_name_and_nothing_else(client: AsyncClient, verb: str) -> None:
    turn = await submit(client, "mine")
    page = await make(client, verbs=[verb])
    calls = {
        "read": [("GET", f"/v1/turns/{turn}"), ("GET", "/v1/sessions/mine/messages")],
        "submit": [("POST", "/v1/sessions/mine/turns")],
        "cancel": [("POST", f"/v1/turns/{turn}/cancel"), ("GET", f"/v1/turns/{ABSENT}/events?on_disconnect=cancel")],
    }

    for needed, requests in calls.items():
        for method, path in requests:
            answer = await client.request(method, path, headers=page)
            if needed != verb:
                assert answer.status_code in {403, 404}, path
            elif "events" not in path:
                assert answer.status_code not in {401, 403, 404}, path


async def test_nobody_hands_on_more_than_they_may_do(client: AsyncClient, database: Database) -> None:
    reader, submitter = [await store_key(database, role=role) for role in (Role.READ, Role.SUBMIT)]

    assert (await ask(client, verbs=["read"], key=reader)).status_code == 201
    for verb in ("submit", "cancel"):
        expect_problem(await ask(client, verbs=["read", verb], key=reader), 403, "forbidden")
    assert (await ask(client, verbs=ALL, key=submitter)).status_code == 201


@pytest.mark.usefixtures("always_read")
async def test_a_token_ends_with_its_time_and_with_the_key_that_asked_for_it(
    client: AsyncClient, database: Database
) -> None:
    revoked, deleted = await store_key(database), await store_key(database)
    expired = await store_key(database, lives_seconds=3600)
    pages = [await make(client, key=key) for key in (revoked, deleted, expired)]
    own = await make(client)

    async def statuses() -> list[int]:
        return [(await client.get("/v1/sessions/mine/turns", headers=one)).status_code for one in (*pages, own)]

    assert await statuses() == [404] * 4
    await revoke(database, revoked)
    await database.fetch("DELETE FROM api_keys WHERE key_id = %(id)s", {"id": id_of(deleted)})
    await database.fetch("UPDATE api_keys SET expires_at = now() WHERE key_id = %(id)s", {"id": id_of(expired)})
    assert await statuses() == [401, 401, 401, 404]
    await database.fetch("UPDATE browser_tokens SET expires_at = now()", {})
    assert await statuses() == [401] * 4

    assert not await forget_tokens(database)
    assert await database.fetch("SELECT 1 FROM browser_tokens", {}) == []
    assert await statuses() == [401] * 4


@pytest.mark.parametrize("path", ["/v1/sessions/mine/turns?token={}", "/v1/sessions/mine/turns?access_token={}"])
async def test_a_token_counts_in_the_header_alone(client: AsyncClient, path: str) -> None:
    token = (await make(client))["Authorization"].removeprefix("Bearer ")
    del client.headers["authorization"]

    expect_problem(await client.get(path.format(token)), 401, "unauthorized")
    expect_problem(
        await client.get("/v1/sessions/mine/turns", headers={"Cookie": f"token={token}"}), 401, "unauthorized"
    )


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"session_id": "mine", "verbs": []}, "/verbs"),
        ({"session_id": "mine", "verbs": ["operate"]}, "/verbs/0"),
        ({"session_id": ".mine", "verbs": ["read"]}, "/session_id"),
        ({"session_id": "mine"}, "/verbs"),
        ({"session_id": "mine", "verbs": ["read"], "seconds": 86_400}, "/seconds"),
        ([], ""),
    ],
    ids=str,
)
async def test_a_request_that_is_wrong_is_refused(client: AsyncClient, body: Any, pointer: str) -> None:
    answer = await client.post("/v1/tokens", json=body)

    expect_problem(answer, 422, "invalid-body")
    assert pointer in [fault["pointer"] for fault in answer.json()["errors"]]


async def test_a_page_of_a_named_origin_may_call_and_no_other(connect: Connect, settings: Settings) -> None:
    page = "https://chat.example"
    async with connect(settings.model_copy(update={"api_cors_origins": (page,)})) as client:
        wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
        asked = await client.options("/v1/sessions/s/turns", headers={"Origin": page, **wanted})
        other = await client.options("/v1/sessions/s/turns", headers={"Origin": "https://evil.example", **wanted})
        refused = await client.get("/v1/turns", headers={"Origin": page, "Authorization": "Bearer wrong"})

    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, page)
    assert "access-control-allow-origin" not in other.headers
    expect_problem(refused, 401, "unauthorized")
    assert refused.headers["access-control-allow-origin"] == page


async def test_by_default_no_page_may_call(client: AsyncClient) -> None:
    answer = await client.get("/v1/turns", headers={"Origin": "https://chat.example"})

    assert not [name for name in answer.headers if name.startswith("access-control")]
