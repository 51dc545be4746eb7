"""A Postgres that accepts requests and never responds: each client gets a response."""

import asyncio
from uuid import UUID

import pytest
from httpx import AsyncClient
from structlog.testing import capture_logs

from tests.producer.api.expectations import expect_unavailable
from tests.producer.api.network_faults import Cable
from turnstile.producer.watch import wait_for_end
from turnstile.producer.watch.turn_watch import TurnWatch
from turnstile.queries.turns import Standing

HANGS_SECONDS = 60.0
"""A bound for something that is over within a few seconds."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed after 1.2 s. Requested before `cabled`, which opens the connections."""
    monkeypatch.setattr("turnstile.backends.postgres.database.TRANSACTION_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr("turnstile.backends.postgres.database.ANSWER_SECONDS", 0.2)


async def test_every_submit_gets_503_while_the_database_is_silent(cabled: AsyncClient, database_cable: Cable) -> None:
    assert (await cabled.post("/v1/sessions/s/turns", json={"input": "x"})).status_code == 202
    database_cable.silent = True

    async with asyncio.timeout(HANGS_SECONDS):
        answers = await asyncio.gather(
            *(cabled.post(f"/v1/sessions/{number}/turns", json={"input": "x"}) for number in range(30))
        )

    for answer in answers:
        expect_unavailable(answer)


async def test_a_wait_ends_in_time_when_the_database_falls_silent(
    cabled: AsyncClient, database_cable: Cable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_for_end, "LOOK_SECONDS", 0.1)
    find = TurnWatch.find

    async def find_and_fall_silent(self: TurnWatch, tenant_id: str, turn_id: UUID) -> Standing | None:
        found = await find(self, tenant_id, turn_id)
        database_cable.silent = True
        return found

    monkeypatch.setattr(TurnWatch, "find", find_and_fall_silent)
    with capture_logs() as logs:
        answer = await cabled.post("/v1/sessions/s/turns", json={"input": "x"}, headers={"Prefer": "wait=0"})

    assert database_cable.silent
    assert answer.status_code == 202
    # The wait ended, not the read.
    assert not [line for line in logs if line["event"] == "database.silent"]
