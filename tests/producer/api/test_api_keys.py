"""Without a valid key the response is 401, and neither the query, the body nor the database is read."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import starlette.datastructures
from httpx import AsyncClient

from tests.producer.api.expectations import expect_problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

SUBMIT = ("POST", "/v1/sessions/s/turns")
TURN = "/v1/turns/2f1c1b52-8f0e-4c39-a1bb-5ab4b3bb3b1e"
ROUTES = [
    SUBMIT,
    ("GET", TURN),
    ("GET", f"{TURN}/events"),
    ("POST", f"{TURN}/cancel"),
    ("GET", "/v1/turns"),
    ("GET", "/v1/sessions/s/turns"),
    ("GET", "/v1/sessions/s/messages"),
    ("POST", "/v1/sessions/s/cancel"),
]
HEADERS = [None, "Bearer", "Basic acme-key-1", "acme-key-1"]


@pytest.mark.parametrize(
    ("route", "header"),
    [*((route, "Bearer wrong-key") for route in ROUTES), *((SUBMIT, header) for header in HEADERS)],
)
async def test_without_a_valid_key_a_request_is_refused(
    offline: AsyncClient, route: tuple[str, str], header: str | None
) -> None:
    request = offline.build_request(*route, content=b"nonsense")
    del request.headers["authorization"]
    request.headers.update({} if header is None else {"Authorization": header})

    answer = await offline.send(request)

    expect_problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
async def test_the_key_comes_before_the_query_and_the_body(
    offline: AsyncClient, route: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    method, path = route
    parsed: list[Any] = []
    parse = starlette.datastructures.parse_qsl

    def count(query: Any, **options: Any) -> Any:
        parsed.append(query)
        return parse(query, **options)

    async def body() -> AsyncIterator[bytes]:
        parsed.append("body")
        yield b"nonsense"

    monkeypatch.setattr(starlette.datastructures, "parse_qsl", count)
    wrong = {"Authorization": "Bearer wrong-key"}

    known = await offline.request(method, path, params={"no-such": "1"})
    assert parsed
    expect_problem(known, 422, "invalid-parameter")
    parsed.clear()
    unknown = await offline.request(method, path, params={"no-such": "1"}, headers=wrong, content=body())

    expect_problem(unknown, 401, "unauthorized")
    # The client's transport reads the body whether it is asked for or not.
    assert [one for one in parsed if one != "body"] == []


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
async def test_a_request_with_two_keys_gets_401(offline: AsyncClient, route: tuple[str, str]) -> None:
    key = offline.headers["authorization"]
    request = offline.build_request(*route)
    request.headers = type(request.headers)([("Authorization", key), ("Authorization", key)])

    expect_problem(await offline.send(request), 401, "unauthorized")


async def test_a_path_under_v1_that_does_not_exist_needs_a_key_too(offline: AsyncClient) -> None:
    expect_problem(await offline.get("/v1/nowhere"), 404, "not-found")
    expect_problem(await offline.get("/v1/nowhere", headers={"Authorization": "Bearer wrong-key"}), 401, "unauthorized")
