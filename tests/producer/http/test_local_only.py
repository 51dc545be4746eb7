"""An API without keys answers to this machine alone: not to a page that a browser shows, by whatever name it calls."""

import pytest
from httpx import ASGITransport, AsyncClient
from starlette.responses import PlainTextResponse

from turnstile.producer.http.local_only import LocalOnly


async def ask(**headers: str) -> tuple[int, str]:
    app = LocalOnly(PlainTextResponse("answered"))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://127.0.0.1:8080") as client:
        answer = await client.post("/v1/turns/x/cancel", headers=headers)
    return answer.status_code, answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "localhost:8080", "LOCALHOST", "[::1]:8080"])
@pytest.mark.parametrize("origin", [None, "http://127.0.0.1:8080", "http://localhost:3000"])
async def test_a_request_of_this_machine_is_answered(host: str, origin: str | None) -> None:
    assert await ask(Host=host, **({} if origin is None else {"Origin": origin})) == (200, "answered")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "rebound.example:8080"},
        {"Host": "127.0.0.1.rebound.example"},
        {"Host": "user@rebound.example"},
        {"Host": ""},
        {"Host": "[:"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://localhost.evil.example"},
    ],
    ids=str,
)
async def test_a_request_of_a_website_is_refused(headers: dict[str, str]) -> None:
    status, text = await ask(**headers)

    assert status == 421
    assert "TURNSTILE_API_KEYS" in text
