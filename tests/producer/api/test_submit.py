"""Submit: what is answered, what is recorded, what is sent."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from httpx import AsyncClient
from starlette.routing import Router

from tests.producer.api.calls import choose_id
from tests.producer.api.conftest import Connect
from turnstile.backends.postgres.database import Database
from turnstile.config.queue_settings import QueueSettings
from turnstile.config.settings import Settings
from turnstile.message_queue import MessageQueues
from turnstile.turn.wire_format import decode

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


async def test_a_turn_is_recorded_and_sent_before_it_is_answered(
    client: AsyncClient, database: Database, queues: MessageQueues, queue: QueueSettings
) -> None:
    answer = await client.post("/v1/sessions/s.1:a/turns", json={"input": "hello", "metadata": {"k": [1]}})

    body = answer.json()
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/v1/turns/{body['id']}" == body["links"]["self"]
    assert body["links"]["events"] == f"/v1/turns/{body['id']}/events"
    assert answer.headers["retry-after"] == "1"
    assert "idempotency-replayed" not in answer.headers
    assert body["status"] == "PENDING"
    assert body["session_id"] == "s.1:a"
    assert body["queue"] == queue.name
    assert body["execute_at"] is None
    assert UUID(body["id"]).version == 7

    (row,) = await database.fetch("SELECT * FROM turns", {})
    assert (str(row["id"]), row["tenant_id"], row["seq"], row["sends"]) == (body["id"], "acme", 1, 0)
    assert row["send_at"] > row["created_at"]
    assert row["metadata"] == {"k": [1]}
    (said,) = await database.fetch("SELECT role, content FROM messages", {})
    assert said == {"role": "user", "content": "hello"}

    (message,) = await queues.receive(queue.name, 10)
    assert str(decode(message.body).turn_id) == body["id"]
    assert message.attributes["traceparent"] == answer.headers["traceparent"]


async def test_every_option_reaches_the_row(client: AsyncClient, database: Database) -> None:
    turn_id = choose_id()
    options = {"max_attempts": 7, "timeout_seconds": 12.5, "expires_in_seconds": 60, "turn_id": turn_id}
    answer = await client.post("/v1/sessions/s/turns", json={"input": {"text": "hi"}, **options})
    assert answer.json()["id"] == turn_id
    (row,) = await database.fetch("SELECT * FROM turns", {})
    assert (row["max_attempts"], row["timeout_seconds"]) == (7, 12.5)
    assert row["expires_at"] - row["created_at"] == timedelta(seconds=60)


async def test_a_scheduled_turn_is_not_sent_and_has_no_seq(
    client: AsyncClient, database: Database, queues: MessageQueues, queue: QueueSettings
) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    answer = await client.post("/v1/sessions/s/turns", json={"input": "x", "execute_at": later.isoformat()})
    assert datetime.fromisoformat(answer.json()["execute_at"]) == later
    (row,) = await database.fetch("SELECT seq, send_at FROM turns", {})
    assert row == {"seq": None, "send_at": later}
    assert await queues.count(queue.name) == 0

    asked = await client.get(answer.headers["location"])
    assert asked.headers["retry-after"] == "60"


async def test_the_callers_trace_is_continued(client: AsyncClient, database: Database) -> None:
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-01"}
    answer = await client.post("/v1/sessions/s/turns", json={"input": "x"}, headers=headers)
    assert re.fullmatch(rf"00-{TRACE}-(?!{SPAN})[0-9a-f]{{16}}-01", answer.headers["traceparent"])
    (row,) = await database.fetch("SELECT trace_id, parent_span_id FROM turns", {})
    assert row == {"trace_id": TRACE, "parent_span_id": SPAN}


@pytest.mark.parametrize("xray", [True, False])
async def test_the_trace_of_x_ray_is_continued_if_the_settings_say_so(
    settings: Settings, connect: Connect, database: Database, xray: bool
) -> None:
    header = {"X-Amzn-Trace-Id": f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent={SPAN};Sampled=0"}
    async with connect(settings.model_copy(update={"xray": xray})) as client:
        answer = await client.post("/v1/sessions/s/turns", json={"input": "x"}, headers=header)
    [row] = await database.fetch("SELECT trace_id, parent_span_id FROM turns", {})
    assert (row == {"trace_id": TRACE, "parent_span_id": SPAN}) is xray
    assert answer.headers["traceparent"].endswith("-00" if xray else "-01")


async def test_a_submit_does_not_go_through_fastapi(client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object) -> None:
        raise AssertionError("FastAPI was asked")

    monkeypatch.setattr(Router, "__call__", refuse)

    for key, status in (("k", 202), ("", 422)):
        answer = await client.post("/v1/sessions/s/turns", json={"input": "x"}, headers={"Idempotency-Key": key})
        assert answer.status_code == status


async def test_of_two_headers_that_may_be_ignored_the_first_counts(client: AsyncClient, database: Database) -> None:
    traces = [("traceparent", f"00-{trace}-{SPAN}-01") for trace in (TRACE, "9" * 32)]

    await client.post("/v1/sessions/s/turns", json={"input": "x"}, headers=traces)

    assert await database.fetch("SELECT trace_id FROM turns", {}) == [{"trace_id": TRACE}]


async def test_the_usual_queue_is_the_only_one_declared(settings: Settings, connect: Connect) -> None:
    elsewhere = settings.model_copy(update={"queue": "not-declared"})
    async with connect(elsewhere) as client:
        answer = await client.post("/v1/sessions/s/turns", json={"input": "x"})
    assert answer.json()["queue"] == settings.queues[0].name
