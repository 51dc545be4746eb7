"""What clients are answered about turns that have been archived."""

from uuid import uuid4

import pytest
from httpx import AsyncClient

from tests.archive.archiving import age, archive, claim_head, in_table, settle_as
from tests.producer.api.sse_client import Transcript, read_events
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.turn.status import TurnStatus


@pytest.fixture
async def turn(client: AsyncClient, database: Database, settings: Settings) -> str:
    """The id of an answered turn of the session `s`, which is archived by `archive`."""
    submitted = await client.post("/v1/sessions/s/turns", json={"input": "hi"})
    await settle_as(
        database, settings, await claim_head(database, settings, "s", tenant_id="acme"), TurnStatus.SUCCEEDED
    )
    await age(database)
    return str(submitted.json()["id"])


async def test_an_archived_turn_is_answered_as_before(client: AsyncClient, database: Database, turn: str) -> None:
    before = await client.get(f"/v1/turns/{turn}")
    await archive(database)
    assert await in_table(database) == []

    after = await client.get(f"/v1/turns/{turn}")

    assert (after.status_code, after.json()) == (200, before.json())
    assert after.json()["output"] == "re hi"
    assert "Retry-After" not in after.headers


async def test_a_wait_for_an_archived_turn_ends_at_once(client: AsyncClient, database: Database, turn: str) -> None:
    await archive(database)

    answer = await client.get(f"/v1/turns/{turn}", params={"wait": 30})

    assert (answer.status_code, answer.json()["status"]) == (200, "SUCCEEDED")


async def test_the_events_of_an_archived_turn_are_its_text_and_its_end(
    client: AsyncClient, database: Database, turn: str
) -> None:
    await archive(database)
    heard = Transcript()

    await read_events(client, turn, heard)

    assert heard.events[-1].kind == "end"
    assert heard.events[-1].data["output"] == "re hi"


async def test_another_tenants_archived_turn_is_not_found(
    client: AsyncClient, other_client: AsyncClient, database: Database, turn: str
) -> None:
    await archive(database)

    for path in (f"/v1/turns/{turn}", f"/v1/turns/{turn}/events"):
        assert (await other_client.get(path)).status_code == 404
        assert (await client.get(path)).status_code == 200


@pytest.fixture
async def taken_id(client: AsyncClient, other_client: AsyncClient, database: Database, settings: Settings) -> str:
    """The id of an archived turn of one tenant, under which another tenant has submitted one since."""
    turn_id = str(uuid4())
    await client.post("/v1/sessions/s/turns", json={"input": "mine", "turn_id": turn_id})
    await settle_as(
        database, settings, await claim_head(database, settings, "s", tenant_id="acme"), TurnStatus.SUCCEEDED
    )
    await age(database)
    await archive(database)
    again = await other_client.post("/v1/sessions/o/turns", json={"input": "theirs", "turn_id": turn_id})
    assert again.status_code == 202
    return turn_id


async def test_an_archived_turn_is_found_beside_another_tenants_turn_with_its_id(
    client: AsyncClient, other_client: AsyncClient, taken_id: str
) -> None:
    mine, theirs = await client.get(f"/v1/turns/{taken_id}"), await other_client.get(f"/v1/turns/{taken_id}")
    heard = Transcript()
    await read_events(client, taken_id, heard)

    assert (mine.json()["output"], theirs.json()["status"]) == ("re mine", "PENDING")
    assert heard.events[-1].data["output"] == "re mine"


async def test_two_archived_turns_with_one_id_are_told_apart_by_tenant(
    client: AsyncClient, other_client: AsyncClient, database: Database, settings: Settings, taken_id: str
) -> None:
    theirs = await claim_head(database, settings, "o", tenant_id="globex")
    await settle_as(database, settings, theirs, TurnStatus.SUCCEEDED)
    await age(database, days=95)
    await archive(database)
    assert await in_table(database) == []

    for asked_by, output in ((client, "re mine"), (other_client, "re theirs")):
        heard = Transcript()
        await read_events(asked_by, taken_id, heard)
        assert heard.events[-1].data["output"] == output
        assert (await asked_by.get(f"/v1/turns/{taken_id}")).json()["output"] == output


async def test_lists_and_the_history_do_not_include_archived_turns(
    client: AsyncClient, database: Database, turn: str
) -> None:
    await archive(database)

    for path, name in (
        ("/v1/turns", "turns"),
        ("/v1/sessions/s/turns", "turns"),
        ("/v1/sessions/s/messages", "messages"),
    ):
        answer = await client.get(path)
        assert (answer.status_code, answer.json()[name]) == (200, []), path
