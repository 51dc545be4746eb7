"""The page that describes the API: from this process alone, and only where it is wanted."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from httpx import ASGITransport, AsyncClient

from turnstile.config.settings import Settings
from turnstile.producer.app import create_app
from turnstile.producer.routes.docs_page import START
from turnstile.submission.turn_request import TurnRequest

KEYS = (("acme", "0123456789abcdef"),)


@asynccontextmanager
async def browser(**overrides: object) -> AsyncIterator[AsyncClient]:
    """Without a key. The application's resources stay closed: none of this needs them."""
    app = create_app(Settings.model_validate(overrides))
    async with AsyncClient(transport=ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield client


async def test_all_that_the_page_loads_comes_from_the_api_itself() -> None:
    async with browser() as client:
        page = await client.get("/docs")
        names = set(re.findall(r'(?:src|href)="([^"]+)"', page.text)) - {"data:,"}
        loaded = {name: await client.get(f"/{name}") for name in names}
        document = await client.get("/openapi.json")

    assert page.headers["content-type"].startswith("text/html")
    assert "//" not in page.text + START
    assert {name: (got.status_code, got.headers["content-type"].partition(";")[0]) for name, got in loaded.items()} == {
        "docs/swagger-ui.css": (200, "text/css"),
        "docs/swagger-ui-bundle.js": (200, "text/javascript"),
        "docs/start.js": (200, "text/javascript"),
    }
    assert "SwaggerUIBundle" in loaded["docs/swagger-ui-bundle.js"].text
    assert ".swagger-ui" in loaded["docs/swagger-ui.css"].text
    assert document.json()["info"]["title"] == "Turnstile"


async def test_the_page_allows_the_browser_to_ask_only_its_own_server() -> None:
    async with browser() as client:
        policy = (await client.get("/docs")).headers["content-security-policy"]

    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert (rules["default-src"], rules["script-src"], rules["connect-src"]) == ("'none'", "'self'", "'self'")
    assert not re.search(r"https?:|\*", policy)


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, 200),
        ({"api_docs": False}, 404),
        ({"api_host": "0.0.0.0", "api_keys": KEYS}, 404),  # noqa: S104
        ({"api_host": "0.0.0.0", "api_keys": KEYS, "api_docs": True}, 200),  # noqa: S104
    ],
)
async def test_other_machines_see_it_only_where_it_is_switched_on(given: dict[str, object], status: int) -> None:
    async with browser(**given) as client:
        answers = [await client.get(path) for path in ("/docs", "/docs/start.js", "/docs/swagger-ui.css")]
        document = await client.get("/openapi.json")

    assert [answer.status_code for answer in (*answers, document)] == [status] * 4


async def test_the_document_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """To make it takes the event loop as long as many submits, and to ask for it takes no key."""
    describe = TurnRequest.model_json_schema
    made: list[object] = []

    def describing(**given: str) -> dict[str, object]:
        made.append(given)
        return describe(**given)

    monkeypatch.setattr(TurnRequest, "model_json_schema", describing)
    async with browser() as client:
        answers = [await client.get("/openapi.json") for _ in range(3)]

    assert len(made) == 1
    assert {(answer.status_code, answer.headers["content-type"], answer.text) for answer in answers} == {
        (200, "application/json", answers[0].text)
    }


@pytest.mark.parametrize("path", ["/redoc", "/docs/oauth2-redirect", "/docs/../app.py", "/docs/other.js"])
async def test_no_other_path_is_served(path: str) -> None:
    async with browser() as client:
        assert (await client.get(path)).status_code in {404, 422}
