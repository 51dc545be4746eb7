"""`GET /v1/sessions`: the tenant's sessions, and nothing of what was said in them."""

import pytest
from httpx import AsyncClient

from tests.producer.api.calls import end, pages, submit, succeed
from tests.producer.api.expectations import expect_problem
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer.routes.session_responses import SessionSummary

CANARY = "canary"


async def read_all(client: AsyncClient, meanwhile: str | None = None, **query: int) -> list[list[str]]:
    found = []
    async for page in pages(client, "/v1/sessions", **query):
        found.append([session["id"] for session in page.json()["sessions"]])
        if meanwhile is not None:
            await submit(client, meanwhile)
    return found


async def test_a_session_has_its_state_and_none_of_its_contents(
    client: AsyncClient, database: Database, settings: Settings
) -> None:
    turn = await submit(client, text=CANARY)
    await end(database, settings, "s", succeed(CANARY))

    answer = await client.get("/v1/sessions")

    assert CANARY not in answer.text
    [session] = answer.json()["sessions"]
    assert set(session) == set(SessionSummary.model_fields)
    assert (session["id"], session["last_turn_id"], session["has_open_turns"]) == ("s", turn, False)
    assert session["last_turn_at"] == (await client.get(f"/v1/turns/{turn}")).json()["created_at"]
    for path in session["links"].values():
        assert (await client.get(path)).status_code == 200, path


async def test_a_session_with_a_new_turn_is_neither_repeated_nor_do_others_shift(client: AsyncClient) -> None:
    for session in ("a", "b", "c", "d", "e"):
        await submit(client, session)

    assert await read_all(client, meanwhile="e", limit=2) == [["e", "d"], ["c", "b"], ["a"]]


async def test_a_busy_session_makes_pages_short_and_hides_none(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.queries.session_lists.REACH", 3)
    for session in ("first", *["busy"] * 7, "last"):
        await submit(client, session)

    found = await read_all(client)

    assert [session for page in found for session in page] == ["last", "busy", "first"]
    assert [] in found


async def test_a_tenant_sees_its_own_sessions(client: AsyncClient, other_client: AsyncClient) -> None:
    await submit(client, "theirs")

    assert await read_all(other_client) == [[]]


@pytest.mark.parametrize("query", ["cursor=1", "cursor=", "limit=0", "limit=101", "status=PENDING"])
async def test_a_bad_parameter_is_refused(client: AsyncClient, query: str) -> None:
    expect_problem(await client.get(f"/v1/sessions?{query}"), 422, "invalid-parameter")
