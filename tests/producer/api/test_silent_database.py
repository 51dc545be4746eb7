"""A Postgres that accepts requests and never responds: each client gets a response."""

import asyncio
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from tests.producer.api.conftest import Connect, cabled, database_cable
from tests.producer.api.expectations import expect_unavailable
from tests.producer.api.network_faults import Cable, at_port
from tests.support.probes import until
from turnstile.backends.postgres import database as database_module
from turnstile.config.settings import Settings
from turnstile.producer.watch.turn_watch import TurnWatch
from turnstile.queries.turns import Standing

__all__ = ["cabled", "database_cable"]

HANGS_SECONDS = 60.0
"""Of something that was to be over within a few seconds."""


async def test_every_submit_gets_503_while_the_database_is_silent(
    settings: Settings, database_cable: Cable, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "TRANSACTION_TIMEOUT_SECONDS", 1)
    url = at_port(settings.database_url, database_cable.port)
    async with connect(settings.model_copy(update={"database_url": url})) as client:
        for _ in range(5):
            assert (await client.post("/v1/sessions/s/turns", json={"input": "x"})).status_code == 202
        database_cable.silent = True

        async with asyncio.timeout(HANGS_SECONDS):
            answers = await asyncio.gather(
                *(client.post(f"/v1/sessions/{number}/turns", json={"input": "x"}) for number in range(30))
            )

    for answer in answers:
        expect_unavailable(answer)


async def test_a_wait_ends_in_time_when_the_database_is_silent_from_the_start(
    settings: Settings, database_cable: Cable, connect: Connect
) -> None:
    url = at_port(settings.database_url, database_cable.port)
    async with connect(settings.model_copy(update={"database_url": url})) as client:
        with capture_logs() as logs:
            submit = client.post("/v1/sessions/s/turns", json={"input": "x"}, headers={"Prefer": "wait=2"})
            waiting = asyncio.create_task(submit)
            await until(lambda: any(line["event"] == "turn.submitted" for line in logs))
            database_cable.silent = True

            answer = await waiting

    assert answer.status_code == 202
    # Nothing had been given up yet: it was the wait that was over.
    assert not [line for line in logs if line["event"] == "database.silent"]


async def test_a_wait_ends_in_time_when_the_database_falls_silent(
    settings: Settings, database_cable: Cable, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = TurnWatch.find

    async def find_and_fall_silent(self: TurnWatch, tenant_id: str, turn_id: UUID) -> Standing | None:
        found = await find(self, tenant_id, turn_id)
        database_cable.silent = True
        return found

    monkeypatch.setattr(TurnWatch, "find", find_and_fall_silent)
    url = at_port(settings.database_url, database_cable.port)
    async with connect(settings.model_copy(update={"database_url": url})) as client:
        with capture_logs() as logs:
            answer = await client.post("/v1/sessions/s/turns", json={"input": "x"}, headers={"Prefer": "wait=2"})

    assert database_cable.silent
    assert answer.status_code == 202
    assert not [line for line in logs if line["event"] == "database.silent"]
