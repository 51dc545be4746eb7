"""Without a valid key nothing is told, and nothing is looked at: neither the body nor the database, which is away."""

import pytest
from httpx import AsyncClient

from tests.producer.api.expectations import expect_problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

TURN = "/v1/turns/2f1c1b52-8f0e-4c39-a1bb-5ab4b3bb3b1e"
ROUTES = [
    ("GET", TURN),
    ("POST", f"{TURN}/cancel"),
    ("GET", "/v1/turns"),
    ("GET", "/v1/sessions/s/turns"),
    ("POST", "/v1/sessions/s/turns"),
    ("GET", "/v1/sessions/s/messages"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "Bearer wrong-key", "Basic acme-key-1", "acme-key-1"]
)
async def test_without_a_valid_key_nothing_is_told(
    offline: AsyncClient, method: str, path: str, header: str | None
) -> None:
    headers = {} if header is None else {"Authorization": header}
    request = offline.build_request(method, path, content=b"nonsense")
    del request.headers["authorization"]
    request.headers.update(headers)
    # The body is not looked at either.
    answer = await offline.send(request)
    expect_problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"
