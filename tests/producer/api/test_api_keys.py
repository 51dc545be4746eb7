"""Without a valid key the response is 401, and neither the body nor the database is read."""

import pytest
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
