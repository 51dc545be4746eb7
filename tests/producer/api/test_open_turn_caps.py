"""Caps on open turns: which submits are refused, and when there is room again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from httpx import AsyncClient
from structlog.testing import capture_logs

from tests.producer.api.calls import KEYS, end, submit, succeed
from tests.producer.api.conftest import Connect
from tests.producer.api.expectations import expect_problem
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer.routes import error_handlers

PATH = "/v1/sessions/s/turns"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_handlers, "REFUSAL_SECONDS", 0.0)


def capped(settings: Settings, **caps: int) -> Settings:
    return settings.model_copy(update=caps)


async def post(client: AsyncClient, path: str = PATH, headers: dict[str, str] | None = None, **body: Any) -> int:
    answer = await client.post(path, json={"input": "x", **body}, headers=headers)
    return answer.status_code


async def test_a_session_with_as_many_open_turns_as_it_may_have_takes_no_more(
    settings: Settings, connect: Connect, database: Database
) -> None:
    async with connect(capped(settings, session_open_turns=2)) as client:
        for _ in range(2):
            await submit(client)
        with capture_logs() as logs:
            refused = await client.post(PATH, json={"input": "x"})
        assert await post(client, "/v1/sessions/other/turns") == 202

        await end(database, settings, "s", succeed("done"))

        async def accepted() -> bool:
            return await post(client) == 202

        await until(accepted)

    expect_problem(refused, 429, "too-many-open-turns")
    assert int(refused.headers["retry-after"]) > 0
    assert "this session has 2 open turns" in refused.json()["detail"]
    assert [line["what"] for line in logs if line["event"] == "api.overloaded"] == ["open turns of one session"]


async def test_the_scheduled_turns_of_all_sessions_count_for_the_tenant_and_for_no_other(
    settings: Settings, connect: Connect
) -> None:
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    async with connect(capped(settings, tenant_open_turns=2)) as client:
        assert await post(client, "/v1/sessions/a/turns", execute_at=later) == 202
        assert await post(client, "/v1/sessions/b/turns") == 202
        assert await post(client, "/v1/sessions/c/turns") == 429
        globex = {"Authorization": f"Bearer {KEYS['globex']}"}
        assert await post(client, "/v1/sessions/c/turns", globex) == 202


async def test_a_repeat_is_answered_as_before_whatever_the_cap(settings: Settings, connect: Connect) -> None:
    keyed = {"Idempotency-Key": "7"}
    async with connect(capped(settings, session_open_turns=1)) as client:
        first = await client.post(PATH, json={"input": "x"}, headers=keyed)
        assert await post(client) == 429
        again = await client.post(PATH, json={"input": "x"}, headers=keyed)

    assert (again.status_code, again.json()) == (202, first.json())
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_submit_that_interrupts_its_session_is_not_refused_for_its_length(
    settings: Settings, connect: Connect
) -> None:
    async with connect(capped(settings, session_open_turns=1)) as client:
        assert await post(client) == 202
        assert await post(client) == 429
        assert await post(client, on_busy="interrupt") == 202
