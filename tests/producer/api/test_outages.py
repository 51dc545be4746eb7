"""Postgres away: nothing is accepted and nothing half done. SQS away: accepted, quickly, and sent later."""

import asyncio
import json
import time
from uuid import uuid4

import pytest
from fastapi import FastAPI
from httpx import AsyncClient
from structlog.testing import capture_logs

from tests.producer.api.conftest import Connect, call
from tests.producer.api.expectations import expect_unavailable
from tests.producer.api.network_faults import Cable, at_port
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.dev.stack.ports import choose_free
from turnstile.message_queue import MessageQueues
from turnstile.submission import wake_ups as wake_up_sending

PATH = "/v1/sessions/s/turns"


@pytest.fixture
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.producer.app.DATABASE_WAIT_SECONDS", 0.2)


@pytest.mark.usefixtures("short_wait")
async def test_without_a_database_every_route_answers_503_and_the_process_is_alive(
    settings: Settings, connect: Connect
) -> None:
    url = at_port(settings.database_url, choose_free())
    async with connect(settings.model_copy(update={"database_url": url})) as client:
        turn = f"/v1/turns/{uuid4()}"
        with capture_logs() as logs:
            answers = await asyncio.gather(
                *(client.post(PATH, json={"input": "x"}) for _ in range(20)),
                client.get(turn),
                client.post(f"{turn}/cancel"),
                client.get("/v1/turns"),
                client.get(PATH),
                client.get("/v1/sessions/s/messages"),
                client.get("/readyz"),
            )
        for answer in answers:
            expect_unavailable(answer)
        assert (await client.get("/healthz")).status_code == 200
    # A line for each would fill the log of an outage.
    assert 0 < [line["event"] for line in logs].count("api.database_away") < 10


@pytest.mark.usefixtures("short_wait")
async def test_after_an_outage_the_database_is_used_again(
    cabled: AsyncClient, database_cable: Cable, database: Database
) -> None:
    assert (await cabled.post(PATH, json={"input": "1"})).status_code == 202
    await database_cable.cut()
    expect_unavailable(await cabled.post(PATH, json={"input": "2"}))
    await database_cable.plug_in()

    async def accepted() -> bool:
        return (await cabled.post(PATH, json={"input": "3"})).status_code == 202

    await until(accepted)
    rows = await database.fetch("SELECT content FROM messages JOIN turns ON id = turn_id ORDER BY seq", {})
    assert [row["content"] for row in rows] == ["1", "3"]


async def test_a_commit_whose_response_is_lost_is_found_again(
    cabled: AsyncClient, database_cable: Cable, database: Database, queues: MessageQueues, queue: QueueSettings
) -> None:
    await cabled.post(PATH, json={"input": "first"})
    database_cable.lose_after = b"the one that gets lost"
    answer = await cabled.post(PATH, json={"input": "the one that gets lost"})
    assert database_cable.lose_after is None
    assert answer.status_code == 202
    assert "idempotency-replayed" not in answer.headers
    rows = await database.fetch("SELECT id FROM turns ORDER BY seq", {})
    assert [str(row["id"]) for row in rows][1:] == [answer.json()["id"]]
    assert await queues.count(queue.name) == 2


async def test_without_sqs_turns_are_accepted_quickly_and_have_a_resend_deadline(
    settings: Settings, connect: Connect, database: Database
) -> None:
    away = {"sqs_endpoint_url": f"http://127.0.0.1:{choose_free()}"}
    async with connect(settings.model_copy(update=away)) as client:
        took = []
        for number in range(10):
            started = time.monotonic()
            assert (await client.post(PATH, json={"input": f"{number}"})).status_code == 202
            took.append(time.monotonic() - started)
        assert (await client.get("/readyz")).status_code == 200
    # Two at most find out, the others do not try.
    assert max(took) < 2
    assert sum(took) < 3
    rows = await database.fetch("SELECT send_at > created_at AS owed FROM turns", {})
    assert rows == [{"owed": True}] * 10


async def test_a_missing_queue_is_an_error_in_the_log_and_the_turn_is_kept(
    settings: Settings, connect: Connect, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The usual queue's send may be the first of a process, on a machine that does much else.
    monkeypatch.setattr(wake_up_sending, "PATIENCE_SECONDS", 20.0)
    missing = QueueSettings.model_validate({"name": f"missing-{uuid4().hex[:8]}"})
    with capture_logs() as lines:
        both = settings.model_copy(update={"queues": (*settings.queues, missing)})
        async with connect(Settings.model_validate(both.model_dump())) as client:
            assert (await client.get("/readyz")).status_code == 200
            answer = await client.post(PATH, json={"input": "x", "queue": missing.name})
            usual = await client.post(PATH, json={"input": "x"})
    assert answer.status_code == usual.status_code == 202
    errors = [line for line in lines if line["event"] == "queue.missing"]
    assert {line["log_level"] for line in errors} == {"error"}
    assert {line["queue"] for line in errors} == {missing.name}
    assert [line["sent"] for line in lines if line["event"] == "turn.submitted"] == [False, True]
    assert len(await database.fetch("SELECT id FROM turns WHERE send_at IS NOT NULL", {})) == 2


async def test_an_unexpected_error_quotes_nothing_in_the_response_and_in_the_log(
    app: FastAPI, database: Database
) -> None:
    await database.fetch("ALTER TABLE turns ADD CONSTRAINT refuse CHECK (session_id <> 'secret-session')", {})
    with capture_logs() as lines:
        async with call(app) as client:
            answer = await client.post("/v1/sessions/secret-session/turns", json={"input": "secret-input"})
    assert answer.status_code == 500
    assert answer.json()["type"] == "/problems/internal-error"
    assert "secret" not in answer.text
    (line,) = [line for line in lines if line["event"] == "api.unexpected_error"]
    assert "psycopg.errors.CheckViolation" in line["kinds"]
    assert "submit.py" in line["stack"]
    assert "secret" not in str({**line, "path": ""})
    assert await database.fetch("SELECT 1 FROM sessions", {}) == []


async def test_content_that_postgres_alone_refuses_is_a_422(
    client: AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if a check at the edge were forgotten; its neighbours in the batch are none the worse.
    monkeypatch.setattr("turnstile.submission.submission_key._CANONICAL", json.JSONEncoder(sort_keys=True))
    is_nan = {"content": b'{"input": {"a": NaN}}', "headers": {"Content-Type": "application/json"}}
    answers = await asyncio.gather(
        client.post("/v1/sessions/a/turns", json={"input": "fine"}),
        client.post("/v1/sessions/b/turns", **is_nan),
        client.post("/v1/sessions/c/turns", json={"input": "fine"}),
    )
    assert [answer.status_code for answer in answers] == [202, 422, 202]
    assert answers[1].json()["type"] == "/problems/invalid-body"
    assert len(await database.fetch("SELECT 1 FROM turns", {})) == 2
