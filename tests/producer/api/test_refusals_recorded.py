"""A request without a valid key is in the audit, and its key is nowhere."""

from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient

from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer.app import create_app

GUESS = "guessed-key-7d1"


async def request_twice(app: FastAPI) -> None:
    """Once with a key that nobody has, and once without one, through a proxy."""
    transport = ASGITransport(app, client=("10.0.0.7", 1))
    async with app.router.lifespan_context(app), AsyncClient(transport=transport, base_url="http://api") as client:
        for headers in ({"Authorization": f"Bearer {GUESS}"}, {}):
            answer = await client.get("/v1/turns", headers={"X-Forwarded-For": "203.0.113.9", **headers})
            assert answer.status_code == 401


async def test_a_refusal_is_recorded_with_the_address_and_the_reason(settings: Settings, database: Database) -> None:
    await request_twice(create_app(settings))

    [row] = await database.fetch("SELECT * FROM audit", {})
    assert (row["kind"], row["actor"], row["tenant_id"]) == ("key.refused", "10.0.0.7 for 203.0.113.9", None)
    assert row["counts"] == {"unknown": 1, "missing": 1}
    assert GUESS not in str(row)
