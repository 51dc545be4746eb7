"""Whatever a client sends, it gets a 4xx that says what is wrong.

Without a database: what got past the checks would be answered 503.
"""

from typing import Any
from uuid import uuid4

import pytest
from httpx import AsyncClient

from tests.producer.api.bad_bodies import BODIES, JSON, request
from tests.producer.api.expectations import expect_problem
from turnstile.turn.message import RESERVED_RULE

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(("body", "status", "kind"), BODIES.values(), ids=BODIES)
async def test_a_bad_body(offline: AsyncClient, body: bytes, status: int, kind: str) -> None:
    answer = await offline.post("/v1/sessions/s/turns", content=body, headers=JSON)
    expect_problem(answer, status, kind)


HEADERS = {
    "no content type": ({"Content-Type": ""}, 415, "unsupported-media-type"),
    "a form": ({"Content-Type": "application/x-www-form-urlencoded"}, 415, "unsupported-media-type"),
    "text": ({"Content-Type": "text/plain"}, 415, "unsupported-media-type"),
    "another charset": ({**JSON, "Content-Type": "application/json; charset=utf-16"}, 415, "unsupported-media-type"),
    "compressed": ({**JSON, "Content-Encoding": "gzip"}, 415, "unsupported-media-type"),
    "a claim of a gigabyte": ({**JSON, "Content-Length": "1000000000"}, 413, "body-too-large"),
    "a claim beyond all numbers": ({**JSON, "Content-Length": "9" * 5000}, 413, "body-too-large"),
    "an empty key": ({**JSON, "Idempotency-Key": ""}, 422, "invalid-parameter"),
    "a long key": ({**JSON, "Idempotency-Key": "k" * 256}, 422, "invalid-parameter"),
    "a key with a tab": ({**JSON, "Idempotency-Key": "a\tb"}, 422, "invalid-parameter"),
    "a key that is not ASCII": ({**JSON, "Idempotency-Key": b"\xe9\xff"}, 422, "invalid-parameter"),
}


@pytest.mark.parametrize(("headers", "status", "kind"), HEADERS.values(), ids=HEADERS)
async def test_a_bad_header(offline: AsyncClient, headers: dict[str, Any], status: int, kind: str) -> None:
    answer = await offline.post("/v1/sessions/s/turns", content=request(), headers=headers)
    expect_problem(answer, status, kind)


async def test_the_session_of_a_compensation_takes_no_turns_of_clients(offline: AsyncClient) -> None:
    answer = await offline.post(f"/v1/sessions/compensation:{uuid4()}/turns", content=request(), headers=JSON)

    expect_problem(answer, 422, "invalid-parameter")
    [error] = answer.json()["errors"]
    assert error == {"parameter": "session_id", "detail": RESERVED_RULE}


@pytest.mark.parametrize(("method", "rest"), [("GET", "turns"), ("GET", "messages"), ("POST", "cancel")])
async def test_it_is_read_and_cancelled_like_any(offline: AsyncClient, method: str, rest: str) -> None:
    answer = await offline.request(method, f"/v1/sessions/compensation:{uuid4()}/{rest}")

    # Past the checks: there is no database here.
    expect_problem(answer, 503, "unavailable")


@pytest.mark.parametrize("session", ["a b", "%00", "é", "x" * 129, "a%0A", "a%25", "%F0%9F%98%80", "a,b"])
@pytest.mark.parametrize(("method", "rest"), [("POST", "turns"), ("GET", "turns"), ("GET", "messages")])
async def test_a_bad_session_id(offline: AsyncClient, session: str, method: str, rest: str) -> None:
    answer = await offline.request(method, f"/v1/sessions/{session}/{rest}", content=request(), headers=JSON)
    expect_problem(answer, 422, "invalid-parameter")
    assert answer.json()["errors"][0]["parameter"] == "session_id"


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=-1",
        "limit=x",
        "limit=1.5",
        "limit=" + "9" * 5000,
        "limit=%00",
        "cursor=x",
        "cursor=",
        "cursor=%00",
        "cursor=1" + "A" * 21 + "B",
        "cursor=1" + "A" * 21 + "A%0A",
        "cursor=" + "A" * 10_000,
        "status=nonsense",
        "status=",
        "status=%00",
        "queue=%00",
        "queue=a%20b",
        "queue=",
    ],
)
async def test_a_bad_query(offline: AsyncClient, query: str) -> None:
    expect_problem(await offline.get(f"/v1/turns?{query}"), 422, "invalid-parameter")


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/", 404, "not-found"),
        ("GET", "/v1", 404, "not-found"),
        ("GET", "/v2/turns", 404, "not-found"),
        ("GET", "/v1/turns/", 404, "not-found"),
        ("GET", "/v1/sessions//turns", 404, "not-found"),
        ("GET", "/v1/sessions/a%2Fb/turns", 404, "not-found"),
        ("GET", "/v1/turns/nonsense", 404, "not-found"),
        ("GET", "/v1/turns/%00", 404, "not-found"),
        ("GET", "/v1/turns/00000000000000000000000000000000", 404, "not-found"),
        ("POST", "/v1/turns/nonsense/cancel", 404, "not-found"),
        ("DELETE", "/v1/turns", 405, "method-not-allowed"),
        ("PUT", "/v1/sessions/s/turns", 405, "method-not-allowed"),
        ("NONSENSE", "/healthz", 405, "method-not-allowed"),
    ],
)
async def test_a_bad_address(offline: AsyncClient, method: str, path: str, status: int, kind: str) -> None:
    answer = await offline.request(method, path)
    expect_problem(answer, status, kind)
    assert (status == 405) == ("allow" in answer.headers)


async def test_a_problem_names_the_fields_and_never_quotes_them(offline: AsyncClient) -> None:
    body = request(max_attempts="the-secret", metadata=["the-secret"], bogus="the-secret")
    answer = await offline.post("/v1/sessions/s/turns", content=body, headers=JSON)
    assert {fault["pointer"] for fault in answer.json()["errors"]} == {"/max_attempts", "/metadata", "/bogus"}
    assert "the-secret" not in answer.text


@pytest.mark.parametrize("body", [b"[]", b"null", b'"x"', b"1"])
async def test_a_body_that_is_no_object_is_told_so_in_the_clients_words(offline: AsyncClient, body: bytes) -> None:
    answer = await offline.post("/v1/sessions/s/turns", content=body, headers=JSON)
    expect_problem(answer, 422, "invalid-body")
    assert answer.json()["errors"] == [{"detail": "must be an object", "pointer": ""}]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/turns?statsu=failed"),
        ("GET", "/v1/sessions/s/turns?queue=turns"),
        ("GET", "/v1/sessions/s/messages?since=x"),
        ("GET", "/v1/turns/01a1fe82-8365-7ecd-a9b7-f8ccb112d48c?wiat=1"),
        ("GET", "/v1/turns/01a1fe82-8365-7ecd-a9b7-f8ccb112d48c/events?after=1"),
        ("POST", "/v1/turns/01a1fe82-8365-7ecd-a9b7-f8ccb112d48c/cancel?reason=x"),
        ("POST", "/v1/sessions/s/cancel?all=1"),
        ("POST", "/v1/sessions/s/turns?wait=1"),
    ],
)
async def test_a_parameter_that_the_route_does_not_know_is_refused_by_name(
    offline: AsyncClient, method: str, path: str
) -> None:
    answer = await offline.request(method, path, content=request(), headers=JSON)
    expect_problem(answer, 422, "invalid-parameter")
    name = path.partition("?")[2].partition("=")[0]
    assert [fault["parameter"] for fault in answer.json()["errors"]] == [name]
    assert answer.json()["detail"].startswith(f"{name}: no such parameter")


async def test_an_unknown_queue_is_answered_with_those_there_are(offline: AsyncClient) -> None:
    answer = await offline.post("/v1/sessions/s/turns", json={"input": "x", "queue": "nowhere"})
    assert answer.json()["detail"] == "queue 'nowhere' is not declared; declared: turns"
