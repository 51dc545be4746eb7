"""The OpenAPI document is true: no request made from it gets a 500, and every response conforms to it."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from httpx import AsyncClient
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as effort
from hypothesis.errors import Unsatisfiable
from structlog.testing import capture_logs

from tests.producer.api.calls import KEYS, filled
from tests.producer.api.sse_client import serving
from turnstile.config.settings import Settings
from turnstile.producer.app import create_app
from turnstile.submission import wake_ups as wake_up_sending

SECURE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
VARYING = {"date", "location", "content-length", "traceparent"}
CHECKED = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "ignored_auth",
]

IN_PARTS = {"POST /v1/turns/batch"}
"""The operations that are answered 200, with a refusal for each part of the request that is not valid."""

EFFORT = effort(
    max_examples=6,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_responses_to_generated_requests_conform_to_the_description(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No worker answers: a stream would not end.
    monkeypatch.setattr("turnstile.producer.watch.session_watch.WAITS_SECONDS", 0.0)
    monkeypatch.setattr("turnstile.producer.routes.chat_route.tell_turn", begin_and_end)
    # A second of imports, which no other test needs.
    import schemathesis
    from schemathesis.checks import CHECKS, load_all_checks
    from schemathesis.python.asgi import shutdown_lifespans

    load_all_checks()
    checks = CHECKS.get_by_names(CHECKED)
    of_parts = CHECKS.get_by_names([name for name in CHECKED if name != "negative_data_rejection"])
    schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(settings))
    try:
        for result in schema.get_all_operations():
            operation = result.ok()
            answered = exercise(operation, schemathesis.GenerationMode.POSITIVE, checks)
            of_wrong = of_parts if operation.label in IN_PARTS else checks
            answered |= exercise(operation, schemathesis.GenerationMode.NEGATIVE, of_wrong)
            assert max(answered) < 500
    finally:
        # Its plugin for pytest, which does not run here, would end the application.
        shutdown_lifespans()


async def begin_and_end(*_: Any, **__: Any) -> AsyncIterator[bytes]:
    yield b"event: metadata\ndata: {}\n\n"


def exercise(operation: Any, mode: Any, checks: Any) -> set[int]:
    answered: set[int] = set()

    @given(case=operation.as_strategy(generation_mode=mode))
    @EFFORT
    def run(case: Any) -> None:
        with capture_logs():
            response = case.call_and_validate(headers={"Authorization": f"Bearer {KEYS['acme']}"}, checks=checks)
        answered.add(response.status_code)

    # There is no way to get a request without parameters wrong.
    with contextlib.suppress(Unsatisfiable):
        run()
    return answered


async def test_the_headers_of_every_kind_of_response(settings: Settings) -> None:
    problem = {**SECURE, "content-type": "application/problem+json"}
    json = {**SECURE, "content-type": "application/json"}
    async with serving(settings) as served, served.client() as client:
        submitted = await client.post("/v1/sessions/s/turns", json={"input": "x"}, headers={"Idempotency-Key": "k"})
        repeated = await client.post("/v1/sessions/s/turns", json={"input": "x"}, headers={"Idempotency-Key": "k"})
        assert fixed(submitted) == {**json, "retry-after": "1"}
        assert fixed(repeated) == {**json, "retry-after": "1", "idempotency-replayed": "true"}
        assert fixed(await client.get(submitted.headers["location"])) == {**json, "retry-after": "1"}
        assert fixed(await client.get("/v1/turns")) == json
        assert fixed(await client.get("/healthz")) == json
        assert fixed(await client.get("/nowhere")) == problem
        assert fixed(await client.patch("/v1/turns")) == {**problem, "allow": "GET"}
        assert fixed(await client.post("/v1/sessions/s/turns")) == problem
        del client.headers["authorization"]
        assert fixed(await client.get("/v1/turns")) == {**problem, "www-authenticate": "Bearer"}
    async with serving(settings) as served, served.client() as client:
        with filled(served.app.state.backend.requests):
            assert fixed(await client.get("/v1/turns")) == {**problem, "retry-after": "2"}


def fixed(answer: Any) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in VARYING}


async def test_the_document_describes_the_body_that_fastapi_does_not_parse(client: AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    schemas = document["components"]["schemas"]
    assert schemas["TurnRequest"]["additionalProperties"] is False
    assert schemas["TurnRequest"]["required"] == ["input"]
    assert {"HTTPValidationError", "ValidationError"}.isdisjoint(schemas)
    submit = document["paths"]["/v1/sessions/{session_id}/turns"]["post"]
    errors = {"400", "401", "403", "408", "409", "413", "414", "415", "422", "429", "431", "503"}
    assert set(submit["responses"]) == {"200", "202", *errors}
    events = document["paths"]["/v1/turns/{turn_id}/events"]["get"]["responses"]["200"]["content"]["text/event-stream"]
    assert list(events) == ["itemSchema"], "a schema would describe all events as one text"
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert ("security" in operation) == path.startswith("/v1")


async def test_a_submit_is_one_log_line_without_its_content(
    client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first send of a process may take its time.
    monkeypatch.setattr(wake_up_sending, "PATIENCE_SECONDS", 20.0)
    with capture_logs() as lines:
        answer = await client.post(
            "/v1/sessions/s/turns",
            json={"input": "canary", "metadata": {"canary": 1}},
            headers={"Idempotency-Key": "canary"},
        )
    # Not the warnings of a service that was slow just then.
    (line,) = [line for line in lines if line["log_level"] == "info"]
    body = answer.json()
    assert line["event"] == "turn.submitted"
    assert (line["turn_id"], line["session_id"], line["tenant_id"]) == (body["id"], "s", "acme")
    assert line["trace_id"] == answer.headers["traceparent"].split("-")[1]
    assert line["sent"] is True
    assert "canary" not in str(lines)
