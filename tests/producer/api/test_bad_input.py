"""Bad requests get a 4xx response that says what is wrong.

There is no database: a request that passes the checks gets 503.
"""

import json
from typing import Any
from uuid import uuid4

import pytest
from httpx import AsyncClient

from tests.producer.api.conftest import Connect
from tests.producer.api.expectations import expect_problem, expect_unavailable
from turnstile.config.settings import Settings
from turnstile.turn.identifiers import ID_RULE, RESERVED_RULE
from turnstile.turn.personal_id import PERSONAL_RULE

NO_TURN = "0190c5a4-8d1e-7000-8000-000000000000"

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/sessions/s/turns"
JSON = {"Content-Type": "application/json"}
REQUEST = b'{"input": "x"}'


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b'{"input": "x"', 400, "invalid-json"),
        (b"[" * 60_000, 422, "invalid-body"),
        (b'{"input": {"a": ' + b"9" * 5000 + b"}}", 422, "invalid-body"),
        (b'{"input": "x", "input": "y"}', 422, "invalid-body"),
        (b'{"input": ""}', 422, "invalid-body"),
        (b'{"input": "x", "queue": "nowhere"}', 422, "unknown-queue"),
        (json.dumps({"input": "x" * 65_536}).encode(), 413, "body-too-large"),
    ],
    ids=["half of it", "very deep", "many digits", "a member twice", "no input", "an unknown queue", "too large"],
)
async def test_a_bad_body_is_refused(offline: AsyncClient, body: bytes, status: int, kind: str) -> None:
    expect_problem(await offline.post(PATH, content=body, headers=JSON), status, kind)


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"Content-Type": ""}, 415, "unsupported-media-type"),
        ({"Content-Type": "text/plain"}, 415, "unsupported-media-type"),
        ({"Content-Type": "application/json; charset=utf-16"}, 415, "unsupported-media-type"),
        ({**JSON, "Content-Encoding": "gzip"}, 415, "unsupported-media-type"),
        ({**JSON, "Content-Length": "1000000000"}, 413, "body-too-large"),
        ({**JSON, "Idempotency-Key": ""}, 422, "invalid-parameter"),
        ({**JSON, "Idempotency-Key": "k" * 256}, 422, "invalid-parameter"),
        ({**JSON, "Idempotency-Key": "a\tb"}, 422, "invalid-parameter"),
    ],
)
async def test_a_bad_header_is_refused(offline: AsyncClient, headers: dict[str, Any], status: int, kind: str) -> None:
    expect_problem(await offline.post(PATH, content=REQUEST, headers=headers), status, kind)


async def test_a_faulty_field_is_named_by_its_pointer(offline: AsyncClient) -> None:
    answer = await offline.post(PATH, json={"input": "x", "max_attempts": 0, "a/b": 1})

    assert {fault["pointer"] for fault in answer.json()["errors"]} == {"/max_attempts", "/a~1b"}


async def test_the_response_about_an_unknown_queue_names_the_declared_ones(offline: AsyncClient) -> None:
    answer = await offline.post(PATH, json={"input": "x", "queue": "nowhere"})

    assert answer.json()["detail"] == "queue 'nowhere' is not declared; declared: turns"


async def test_the_session_of_a_compensation_accepts_no_turns_of_clients(offline: AsyncClient) -> None:
    session = f"/v1/sessions/compensation:{uuid4()}"
    answer = await offline.post(f"{session}/turns", content=REQUEST, headers=JSON)

    expect_problem(answer, 422, "invalid-parameter")
    assert answer.json()["errors"] == [{"parameter": "session_id", "detail": RESERVED_RULE}]
    # It can be read and cancelled: both pass the checks.
    expect_unavailable(await offline.get(f"{session}/messages"))
    expect_unavailable(await offline.post(f"{session}/cancel"))


async def test_a_session_that_looks_like_a_person_gets_no_new_turn(offline: AsyncClient) -> None:
    session = "/v1/sessions/4915112345678"
    answer = await offline.post(f"{session}/turns", content=REQUEST, headers=JSON)

    expect_problem(answer, 422, "invalid-parameter")
    assert answer.json()["errors"] == [{"parameter": "session_id", "detail": PERSONAL_RULE}]
    # What it has is there to be read and cancelled.
    expect_unavailable(await offline.get(f"{session}/messages"))
    expect_unavailable(await offline.post(f"{session}/cancel"))


async def test_a_deployment_may_take_such_a_session(settings: Settings, connect: Connect) -> None:
    async with connect(settings.model_copy(update={"personal_session_ids": True})) as client:
        answer = await client.post("/v1/sessions/4915112345678/turns", content=REQUEST, headers=JSON)

    assert answer.status_code == 202


@pytest.mark.parametrize("session", ["alice@example.com", "x" * 129, "a%0A", "%2E", "%2E%2E"])
@pytest.mark.parametrize(("method", "rest"), [("POST", "turns"), ("GET", "messages")])
async def test_a_bad_session_id_is_refused_with_the_rule(
    offline: AsyncClient, session: str, method: str, rest: str
) -> None:
    answer = await offline.request(method, f"/v1/sessions/{session}/{rest}", content=REQUEST, headers=JSON)

    expect_problem(answer, 422, "invalid-parameter")
    assert answer.json()["errors"] == [{"parameter": "session_id", "detail": f"must be {ID_RULE}"}]


@pytest.mark.parametrize(
    "field", ["f", "f" * 9000, "\\u00fc" * 1500, "~" * 9000], ids=["short", "long", "escaped", "tildes"]
)
async def test_a_response_does_not_grow_with_the_body(offline: AsyncClient, field: str) -> None:
    count = 60_000 // (len(field) + 9)
    members = ",".join(f'"{field}{number}":0' for number in range(count))
    answer = await offline.post(PATH, content=f"{{{members}}}".encode(), headers=JSON)

    expect_problem(answer, 422, "invalid-body")
    assert len(answer.json()["errors"]) == min(10, count + 1)
    assert len(answer.content) < 8000


async def test_a_response_about_a_queue_does_not_grow_with_its_name(offline: AsyncClient) -> None:
    answer = await offline.post(PATH, json={"input": "x", "queue": "q" * 60_000})

    expect_problem(answer, 422, "invalid-body")
    assert len(answer.content) < 1000


@pytest.mark.parametrize(
    ("method", "path", "header"),
    [
        ("POST", PATH, "Idempotency-Key"),
        ("GET", f"/v1/turns/{NO_TURN}/events", "Last-Event-ID"),
    ],
)
async def test_a_header_that_is_given_twice_is_refused(
    offline: AsyncClient, method: str, path: str, header: str
) -> None:
    request = offline.build_request(method, path, content=REQUEST, headers=JSON)
    request.headers = type(request.headers)([*request.headers.multi_items(), (header, "1-1"), (header, "1-1")])
    answer = await offline.send(request)

    expect_problem(answer, 422, "invalid-parameter")
    assert answer.json()["errors"] == [{"parameter": header, "detail": "give it once"}]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/turns?status=RUNNING&status=FAILED", "status"),
        ("/v1/turns?limit=1&queue=turns&limit=1", "limit"),
        ("/v1/sessions/s/messages?limit=1&limit=2", "limit"),
        (f"/v1/turns/{NO_TURN}?wait=1&wait=2", "wait"),
    ],
)
async def test_a_parameter_that_is_given_twice_is_refused(offline: AsyncClient, path: str, name: str) -> None:
    answer = await offline.get(path)

    expect_problem(answer, 422, "invalid-parameter")
    assert answer.json()["errors"] == [{"parameter": name, "detail": "give it once"}]


async def test_a_query_of_many_unknown_names_gets_a_short_response(offline: AsyncClient) -> None:
    answer = await offline.post(f"{PATH}?{'&'.join(f'a{number}' for number in range(500))}", content=REQUEST)

    expect_problem(answer, 422, "invalid-parameter")
    assert [fault["parameter"] for fault in answer.json()["errors"]] == [f"a{number}" for number in range(10)]


@pytest.mark.parametrize(
    "query",
    [
        *(f"turns?{query}" for query in ("limit=0", "limit=101", f"cursor=1.{'a' * 31}", "status=", "queue=a%20b")),
        *(f"turns/{NO_TURN}?wait={wait}" for wait in ("-1", "nan", "inf")),
        "sessions/s/messages?cursor=1",
    ],
)
async def test_a_bad_query_is_refused(offline: AsyncClient, query: str) -> None:
    expect_problem(await offline.get(f"/v1/{query}"), 422, "invalid-parameter")


@pytest.mark.parametrize("place", ["1", "-2", "1-2-3", "9999999999999999999-1"])
async def test_a_bad_event_id_is_refused(offline: AsyncClient, place: str) -> None:
    for how in ({"headers": {"Last-Event-ID": place}}, {"params": {"starting_after": place}}):
        answer = await offline.get(f"/v1/turns/{uuid4()}/events", **how)
        expect_problem(answer, 422, "invalid-parameter")


async def test_an_empty_event_id_is_none(offline: AsyncClient) -> None:
    # As an EventSource that has had no event with an id may send it.
    expect_unavailable(await offline.get(f"/v1/turns/{NO_TURN}/events", headers={"Last-Event-ID": ""}))


@pytest.mark.parametrize(
    "more",
    [
        {"Content-Encoding": "identity"},
        {"Content-Type": 'application/json; charset="UTF-8"'},
        {"Content-Type": "application/json; charset=utf8"},
    ],
)
async def test_what_says_the_usual_of_a_body_is_accepted(offline: AsyncClient, more: dict[str, str]) -> None:
    expect_unavailable(await offline.post(PATH, content=REQUEST, headers={**JSON, **more}))


async def test_an_unknown_status_is_answered_with_the_known_ones_in_one_spelling(offline: AsyncClient) -> None:
    answer = await offline.get("/v1/turns?status=done")

    expect_problem(answer, 422, "invalid-parameter")
    assert answer.json()["detail"] == "status: one of PENDING, RUNNING, SUCCEEDED, FAILED, CANCELED"


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/v2/turns", 404, "not-found"),
        ("GET", "/v1/turns/", 404, "not-found"),
        ("GET", "/v1/sessions/a%2Fb/turns", 404, "not-found"),
        ("GET", "/v1/turns/nonsense", 404, "not-found"),
        ("GET", "/v1/turns/nonsense/events", 404, "not-found"),
        ("POST", "/v1/turns/nonsense/cancel", 404, "not-found"),
        ("PUT", "/v1/sessions/s/turns", 405, "method-not-allowed"),
        ("NONSENSE", "/healthz", 405, "method-not-allowed"),
    ],
)
async def test_an_unknown_address_or_method_is_refused(
    offline: AsyncClient, method: str, path: str, status: int, kind: str
) -> None:
    answer = await offline.request(method, path)

    expect_problem(answer, status, kind)
    assert (status == 405) == ("allow" in answer.headers)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/sessions/s/turns", "GET, POST"),
        ("POST", "/v1/sessions/s/messages", "GET"),
        ("GET", f"/v1/turns/{NO_TURN}/cancel", "POST"),
        ("OPTIONS", "/docs", "GET"),
    ],
)
async def test_a_refused_method_is_answered_with_all_methods_of_the_path(
    offline: AsyncClient, method: str, path: str, allowed: str
) -> None:
    assert (await offline.request(method, path)).headers["allow"] == allowed


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/turns?statsu=failed"),
        ("GET", "/v1/sessions/s/turns?queue=turns"),
        ("GET", "/v1/turns/01a1fe82-8365-7ecd-a9b7-f8ccb112d48c/events?after=1"),
        ("POST", "/v1/sessions/s/cancel?all=1"),
        ("POST", "/v1/sessions/s/turns?wait=1"),
    ],
)
async def test_an_unknown_parameter_is_refused_by_name(offline: AsyncClient, method: str, path: str) -> None:
    answer = await offline.request(method, path, content=REQUEST, headers=JSON)

    expect_problem(answer, 422, "invalid-parameter")
    name = path.partition("?")[2].partition("=")[0]
    assert [fault["parameter"] for fault in answer.json()["errors"]] == [name]
    assert answer.json()["detail"].startswith(f"{name}: no such parameter")
