"""The page of `turnstile dev`: for this machine alone, with nothing from another host, and with a token instead of a key."""

import re
from collections.abc import AsyncIterator

import pytest
from httpx import ASGITransport, AsyncClient

from turnstile.config.settings import Settings
from turnstile.dev.page import dev_page
from turnstile.dev.page.dev_page import WorkerState, make_routes
from turnstile.producer.app import create_app

KEY = "a-key-of-dev"
STATE = WorkerState(handler="agent:respond", pid=17, is_loading=False, fault=None)
WANTED = {"session_id": "alice", "verbs": ["read", "submit", "cancel"]}
FOREIGN = [{"Host": "rebound.example"}, {"Origin": "https://evil.example"}]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"api_keys": (("default", KEY),), "api_key": KEY})


@pytest.fixture
def killed() -> list[int]:
    return []


@pytest.fixture
async def page(settings: Settings, killed: list[int]) -> AsyncIterator[AsyncClient]:
    def kill() -> int:
        killed.append(17)
        return 17

    app = create_app(settings)
    app.include_router(make_routes(lambda: STATE, kill))
    url = "http://127.0.0.1:8080"
    async with app.router.lifespan_context(app), AsyncClient(transport=ASGITransport(app), base_url=url) as client:
        yield client


async def test_the_page_allows_itself_its_own_script_and_nothing_else(page: AsyncClient) -> None:
    answer = await page.get("/")

    policy = answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert len(re.findall(r"(?:script|style)-src 'sha256-[A-Za-z0-9+/]{43}='(?:;|$)", policy)) == 2
    # No other host, and no script that the policy would refuse.
    assert not re.search(r"https?://|<script [^>]|<link [^>]*stylesheet| on\w+=", answer.text)


async def test_the_token_of_the_page_is_for_its_session_alone(page: AsyncClient) -> None:
    token = (await page.post("/dev/token", json=WANTED)).json()["token"]
    as_page = {"Authorization": f"Bearer {token}"}

    own = await page.post("/v1/sessions/alice/turns", json={"input": "Good morning"}, headers=as_page)
    other = await page.post("/v1/sessions/bob/turns", json={"input": "Good morning"}, headers=as_page)

    assert (own.status_code, other.status_code) == (202, 404)
    assert KEY not in (await page.get("/")).text


async def test_the_page_sees_the_worker_and_kills_it(page: AsyncClient, killed: list[int]) -> None:
    seen = await page.get("/dev/worker")
    answer = await page.post("/dev/worker/kill", json={})

    assert seen.json() == {"handler": "agent:respond", "pid": 17, "is_loading": False, "fault": None}
    assert (answer.json(), killed) == ({"pid": 17}, [17])


@pytest.mark.parametrize("headers", FOREIGN)
async def test_a_website_that_the_browser_shows_reaches_none_of_it(
    page: AsyncClient, headers: dict[str, str], killed: list[int]
) -> None:
    answers = [
        await page.get("/", headers=headers),
        await page.get("/dev/worker", headers=headers),
        await page.post("/dev/token", json=WANTED, headers=headers),
        await page.post("/dev/worker/kill", json={}, headers=headers),
    ]

    assert [answer.status_code for answer in answers] == [421] * 4
    assert {answer.headers["Content-Type"] for answer in answers} == {"application/problem+json"}
    assert killed == []


async def test_the_api_alone_has_no_page(settings: Settings) -> None:
    app = create_app(settings)
    async with (
        app.router.lifespan_context(app),
        AsyncClient(transport=ASGITransport(app), base_url="http://127.0.0.1:8080") as client,
    ):
        answers = [await client.get("/"), await client.get("/dev/worker"), await client.post("/dev/token", json=WANTED)]

    assert [answer.status_code for answer in answers] == [404] * 3


def test_the_policy_is_made_of_the_file() -> None:
    assert dev_page.PAGE.count("<script>") == dev_page.PAGE.count("<style>") == 1
