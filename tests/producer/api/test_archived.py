"""What clients are answered about turns that have been archived."""

from uuid import UUID

import pytest
from httpx import AsyncClient

from tests.archive.archiving import age, archive, claim_head, in_table, settle_as
from tests.producer.api.sse_client import Transcript, read_events
from tests.support.factories import make_submission
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.statements.submit import submit
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


async def test_an_archived_turn_is_answered_as_before(
    client: AsyncClient, other_client: AsyncClient, database: Database, turn: str
) -> None:
    before = await client.get(f"/v1/turns/{turn}")
    await archive(database)
    assert await in_table(database) == []

    after = await client.get(f"/v1/turns/{turn}", params={"wait": 30})
    heard = Transcript()
    await read_events(client, turn, heard)

    assert (after.status_code, after.json()) == (200, before.json())
    assert heard.end is not None
    assert heard.end.data["output"] == after.json()["output"] == "re hi"
    for path in (f"/v1/turns/{turn}", f"/v1/turns/{turn}/events"):
        assert (await other_client.get(path)).status_code == 404


async def test_an_archived_turn_is_found_though_another_tenants_turn_has_its_id(
    client: AsyncClient, other_client: AsyncClient, database: Database, queue: QueueSettings, turn: str
) -> None:
    """No client can make such a turn; only a statement can."""
    await archive(database)
    theirs = make_submission(queue.name, "o", turn_id=UUID(turn), tenant_id="globex")
    await submit(database, [theirs], resend_seconds=60.0)

    mine, other = await client.get(f"/v1/turns/{turn}"), await other_client.get(f"/v1/turns/{turn}")
    heard = Transcript()
    await read_events(client, turn, heard)

    assert (mine.json()["output"], other.json()["status"]) == ("re hi", "PENDING")
    assert heard.events[-1].data["output"] == "re hi"


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
