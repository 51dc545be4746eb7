"""A submit with a completion webhook, and what a read shows of it."""

from collections.abc import AsyncIterator

import pytest
from httpx import AsyncClient

from tests.producer.api.conftest import Connect
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings

URL = "https://hooks.example.com/done"


@pytest.fixture
async def allowed(settings: Settings, connect: Connect) -> AsyncIterator[AsyncClient]:
    """A client of a deployment that allows one host."""
    given = {"webhook_hosts": ("hooks.example.com",), "webhook_secrets": ("whsec_" + "QUJD" * 8,)}
    async with connect(settings.model_copy(update=given)) as client:
        yield client


async def test_a_turn_with_a_webhook_is_accepted_and_its_state_is_shown_at_the_end(
    allowed: AsyncClient, database: Database
) -> None:
    accepted = await allowed.post("/v1/sessions/s/turns", json={"input": "x", "webhook_url": URL})
    where = accepted.headers["location"]
    before = (await allowed.get(where)).json()
    await allowed.post(f"{where}/cancel")

    after = (await allowed.get(where)).json()

    assert (accepted.status_code, before["webhook"]) == (202, None)
    assert after["status"] == "CANCELED"
    assert {name: after["webhook"][name] for name in ("tries", "delivered_at", "error")} == {
        "tries": 0,
        "delivered_at": None,
        "error": None,
    }
    assert after["webhook"]["next_try_at"] is not None
    [row] = await database.fetch("SELECT webhook_url FROM turns", {})
    assert row["webhook_url"] == URL


async def test_without_configured_webhooks_a_submit_with_one_is_refused(
    client: AsyncClient, database: Database
) -> None:
    answer = await client.post("/v1/sessions/s/turns", json={"input": "x", "webhook_url": URL})

    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/webhook-not-allowed")
    assert answer.json()["errors"] == [{"detail": "webhooks are not enabled here", "pointer": "/webhook_url"}]
    assert await database.fetch("SELECT id FROM turns", {}) == []


async def test_another_host_is_refused_without_naming_the_allowed_ones(allowed: AsyncClient) -> None:
    body = {"input": "x", "webhook_url": "https://elsewhere.example.org/"}
    answer = await allowed.post("/v1/sessions/s/turns", json=body)

    assert (answer.status_code, answer.json()["type"]) == (422, "/problems/webhook-not-allowed")
    assert "hooks.example.com" not in answer.text
