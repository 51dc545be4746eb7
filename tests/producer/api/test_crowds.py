"""Many more calls at a time than a process takes: what it accepts is kept, the rest is refused, and then it serves as before.

`make load ARGS='--only crowd'` does this with thousands, for minutes.
"""

import asyncio
from collections import Counter

import pytest
from fastapi import FastAPI
from httpx import AsyncClient

from tests.producer.api.calls import submit
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.producer import submit_intake
from turnstile.producer.routes import error_handlers

CONNECTIONS = 64
SUBMITS = 300
POLLERS = 200
ROUNDS = 3


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"api_connections": CONNECTIONS})


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit_intake, "MOST_UNDER_WAY", 20)
    monkeypatch.setattr(error_handlers, "REFUSAL_SECONDS", 0.0)


async def test_each_accepted_turn_of_a_burst_is_in_the_table_and_the_rest_was_refused(
    client: AsyncClient, database: Database
) -> None:
    answers = await asyncio.gather(
        *(client.post(f"/v1/sessions/s-{number % 50}/turns", json={"input": "x"}) for number in range(SUBMITS))
    )

    statuses = Counter(answer.status_code for answer in answers)
    assert set(statuses) == {202, 429}
    rows = await database.fetch("SELECT id FROM turns", {})
    accepted = {answer.json()["id"] for answer in answers if answer.status_code == 202}
    assert {str(row["id"]) for row in rows} == accepted
    assert len(accepted) == statuses[202]
    after = await asyncio.gather(
        *(client.post("/v1/sessions/after/turns", json={"input": "x"}) for _ in range(10)),
    )
    assert {answer.status_code for answer in after} == {202}


async def test_a_tenant_submits_while_a_crowd_of_another_one_polls(
    app: FastAPI, client: AsyncClient, other_client: AsyncClient
) -> None:
    turn = await submit(client)
    seen: Counter[int] = Counter()

    async def poll() -> None:
        for _ in range(ROUNDS):
            seen[(await client.get(f"/v1/turns/{turn}")).status_code] += 1

    polling = [asyncio.create_task(poll()) for _ in range(POLLERS)]
    answers = [await other_client.post("/v1/sessions/s/turns", json={"input": "x"}) for _ in range(5)]
    await asyncio.gather(*polling)

    assert {answer.status_code for answer in answers} == {202}
    assert seen.total() == POLLERS * ROUNDS
    assert set(seen) <= {200, 429}
    assert seen[200]
