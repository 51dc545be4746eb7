"""Which websites' pages may call the API from a browser."""

from typing import Any

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response

from turnstile.producer.http.pages import allow_pages

PAGE = "https://chat.example"


async def call(method: str, origin: str | None, **headers: str) -> Response:
    app = FastAPI()
    allow_pages(app, [PAGE])

    @app.post("/x")
    async def post() -> dict[str, Any]:
        return {}

    given = headers if origin is None else {"Origin": origin, **headers}
    async with AsyncClient(transport=ASGITransport(app), base_url="http://api") as client:
        return await client.request(method, "/x", headers=given)


def ask(origin: str, method: str = "POST") -> Any:
    more = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": "authorization,content-type"}
    return call("OPTIONS", origin, **more)


async def test_a_browser_learns_without_a_key_that_a_page_may_call() -> None:
    answer = await ask(PAGE)

    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "authorization" in answer.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://chat.example", f"{PAGE}.evil.example"])
async def test_no_other_page_may(origin: str) -> None:
    assert (await ask(origin)).status_code == 400
    assert "access-control-allow-origin" not in (await call("POST", origin)).headers


@pytest.mark.parametrize("method", ["DELETE", "PUT"])
async def test_a_page_may_not_delete(method: str) -> None:
    assert (await ask(PAGE, method)).status_code == 400


async def test_a_page_may_read_the_headers_that_a_client_needs() -> None:
    answer = await call("POST", PAGE)

    assert answer.headers["access-control-allow-origin"] == PAGE
    assert {"Location", "Retry-After"} <= {*answer.headers["access-control-expose-headers"].split(", ")}


async def test_a_client_that_is_no_browser_notices_nothing() -> None:
    assert not [name for name in (await call("POST", None)).headers if name.startswith("access-control-allow-origin")]
