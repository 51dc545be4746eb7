"""JWTs at the API, beside keys and in their place."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient
from structlog.testing import capture_logs

from tests.producer.api.calls import KEYS
from tests.producer.api.expectations import expect_problem, expect_unavailable
from tests.support.token_issuer import AUDIENCE, ISSUER, Issuer, issuing
from turnstile.backends.postgres.database import Database
from turnstile.config.jwt_settings import JwtSettings
from turnstile.config.settings import Settings
from turnstile.producer.app import create_app

Open = Callable[..., AbstractAsyncContextManager[AsyncClient]]


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    async with issuing() as made:
        yield made


@pytest.fixture
def opened(settings: Settings, issuer: Issuer) -> Open:
    """The API that accepts the issuer's tokens: `async with opened(…) as client`. The client shows none."""

    @asynccontextmanager
    async def open_api(**more: Any) -> AsyncIterator[AsyncClient]:
        given = JwtSettings(issuer=ISSUER, audience=AUDIENCE, jwks_url=issuer.url)
        app = create_app(settings.model_copy(update={"jwt": given, **more}))
        async with (
            app.router.lifespan_context(app),
            AsyncClient(transport=ASGITransport(app), base_url="http://localhost") as client,
        ):
            yield client

    return open_api


def bearer(credential: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {credential}"}


async def test_a_token_works_beside_a_key(opened: Open, issuer: Issuer, database: Database) -> None:
    async with opened() as client:
        submitted = await client.post("/v1/sessions/s/turns", json={"input": "x"}, headers=bearer(issuer.sign()))
        turn = submitted.headers["location"]
        other = await client.get(turn, headers=bearer(issuer.sign(tenant="globex")))
        lesser = await client.post(
            "/v1/sessions/s/turns", json={"input": "x"}, headers=bearer(issuer.sign(role="read"))
        )

        assert submitted.status_code == 202
        assert (await client.get(turn, headers=bearer(KEYS["acme"]))).status_code == 200
        expect_problem(other, 404, "not-found")
        expect_problem(lesser, 403, "forbidden")
    assert await database.fetch("SELECT tenant_id FROM turns", {}) == [{"tenant_id": "acme"}]


async def test_an_api_with_an_issuer_needs_a_credential(opened: Open, issuer: Issuer) -> None:
    async with opened(api_keys=()) as client:
        expect_problem(await client.get("/v1/turns"), 401, "unauthorized")
        expect_problem(await client.get("/v1/turns", headers=bearer("x")), 401, "unauthorized")
        assert (await client.get("/v1/turns", headers=bearer(issuer.sign()))).status_code == 200


async def test_a_refused_token_is_like_a_refused_key_and_is_in_no_log(opened: Open, issuer: Issuer) -> None:
    expired = issuer.sign(exp=1)
    with capture_logs() as lines:
        async with opened() as client:
            answers = [await client.get("/v1/turns", headers=bearer(one)) for one in (expired, "wrong")]

    assert answers[0].text == answers[1].text
    expect_problem(answers[0], 401, "unauthorized")
    assert next(line["reason"] for line in lines if line["event"] == "api.unauthorized") == "expired"
    assert expired not in str(lines)


async def test_while_the_issuer_is_away_a_token_is_not_called_wrong(opened: Open, issuer: Issuer) -> None:
    issuer.status = 503
    async with opened() as client:
        expect_unavailable(await client.get("/v1/turns", headers=bearer(issuer.sign())))
        assert (await client.get("/v1/turns", headers=bearer(KEYS["acme"]))).status_code == 200
