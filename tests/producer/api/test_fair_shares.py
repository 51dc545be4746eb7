"""One tenant wants more than an API process can do: its own requests wait or are refused, and another tenant's go on."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import psycopg
import pytest
from fastapi import FastAPI
from httpx import AsyncClient, Response
from structlog.testing import capture_logs

from tests.producer.api.calls import filled, submit
from tests.producer.api.expectations import expect_problem
from tests.support.probes import let_the_loop_turn, until
from tests.support.process_roles import url_of
from turnstile.config.settings import Settings
from turnstile.ops.roles.kinds import Kind
from turnstile.producer import app as app_module
from turnstile.producer.routes import error_handlers, turn_routes

HANGS_SECONDS = 60.0
CONNECTIONS = 32
"""28 of them for requests in progress, 21 of those for one tenant."""
ITS_SHARE = 21
MORE = 4


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"api_connections": CONNECTIONS})


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests decide when a call that waits for a connection gets one.
    for name in ("DATABASE_WAIT_SECONDS", "LIST_WAIT_SECONDS"):
        monkeypatch.setattr(app_module, name, HANGS_SECONDS)
    monkeypatch.setattr(app_module, "ROW_WAIT_SECONDS", 0.5)
    monkeypatch.setattr(error_handlers, "REFUSAL_SECONDS", 0.0)


@contextmanager
def locked(settings: Settings, session: str) -> Iterator[None]:
    """Another transaction has locked the session for the duration of the block."""
    with psycopg.connect(url_of(Kind.WORKER, settings.database_url)) as another:
        another.execute("SELECT 1 FROM turnstile.sessions WHERE session_id = %s FOR NO KEY UPDATE", [session])
        yield


@asynccontextmanager
async def flood(call: Callable[[], Coroutine[Any, Any, Response]], many: int) -> AsyncIterator[list[Response]]:
    """So many calls at once, of which the block has those that were answered. All of them are at its end."""
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await call())

    calls = [asyncio.create_task(ask()) for _ in range(many)]
    try:
        yield answers
        async with asyncio.timeout(HANGS_SECONDS):
            await asyncio.gather(*calls)
    finally:
        for one in calls:
            one.cancel()
        await asyncio.wait(calls)


async def expect_served(client: AsyncClient) -> None:
    """Everything except reads and lists, in sessions of their own."""
    async with asyncio.timeout(HANGS_SECONDS):
        turn = await submit(client, "plain")
        on_busy = await client.post("/v1/sessions/busy/turns", json={"input": "x", "on_busy": "interrupt"})
        of_turn = await client.post(f"/v1/turns/{turn}/cancel")
        of_session = await client.post("/v1/sessions/busy/cancel")
    assert [answer.status_code for answer in (on_busy, of_turn, of_session)] == [202] * 3


class Holding:
    """A read of the API that `acme` keeps for as long as the test says. Notes the tenants in the order of their reads."""

    def __init__(self, read: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self._read = read
        self.order: list[str] = []
        self.go_on = asyncio.Semaphore(0)

    async def __call__(self, database: Any, *given: Any, **named: Any) -> Any:
        tenant = str(getattr(given[0], "tenant_id", given[0]))
        self.order.append(tenant)
        if tenant == "acme":
            await self.go_on.acquire()
        return await self._read(database, *given, **named)


async def test_requests_beyond_a_tenants_share_are_refused_and_anothers_go_on(
    client: AsyncClient, other_client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding = Holding(turn_routes.read_turn)
    monkeypatch.setattr(turn_routes, "read_turn", holding)
    turn = await submit(client)

    with capture_logs() as logs:
        async with flood(lambda: client.get(f"/v1/turns/{turn}"), ITS_SHARE + MORE) as answers:
            await until(lambda: len(answers) >= MORE)
            await expect_served(other_client)
            refused = list(answers)
            for _ in range(ITS_SHARE):
                holding.go_on.release()

    for answer in refused:
        expect_problem(answer, 429, "too-many-requests")
        assert answer.headers["retry-after"] == "2"
    assert Counter(answer.status_code for answer in answers) == {200: ITS_SHARE, 429: MORE}
    events = Counter(line["event"] for line in logs)
    assert 0 < events["api.overloaded"] < MORE
    assert not events["api.database_away"]


@pytest.mark.parametrize(
    ("name", "path", "lanes"),
    [
        ("read_turn", "/v1/turns/{turn}", app_module.READ_LANES),
        ("read_history_page", "/v1/sessions/s/messages", app_module.READ_LANES),
        ("list_page", "/v1/turns", app_module.LIST_CONNECTIONS),
    ],
    ids=["turns", "histories", "lists"],
)
async def test_a_read_has_its_turn_however_many_of_another_tenant_wait(
    client: AsyncClient, other_client: AsyncClient, monkeypatch: pytest.MonkeyPatch, name: str, path: str, lanes: int
) -> None:
    holding = Holding(getattr(turn_routes, name))
    monkeypatch.setattr(turn_routes, name, holding)
    mine, theirs = await submit(client), await submit(other_client)

    async with flood(lambda: client.get(path.format(turn=mine)), ITS_SHARE):
        await until(lambda: len(holding.order) == lanes)
        asking = asyncio.create_task(other_client.get(path.format(turn=theirs)))
        # Until it waits, too.
        await let_the_loop_turn(500)
        for _ in range(2):
            holding.go_on.release()

        async with asyncio.timeout(HANGS_SECONDS):
            answer = await asking
        for _ in range(ITS_SHARE):
            holding.go_on.release()

    assert answer.status_code == 200
    assert holding.order.index("globex") <= lanes + 1


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/sessions/held/turns", {"input": "y", "on_busy": "interrupt"}), ("/v1/sessions/held/cancel", None)],
    ids=["on_busy", "cancel"],
)
async def test_calls_that_wait_for_a_session_take_no_places_of_another_tenant(
    settings: Settings,
    client: AsyncClient,
    other_client: AsyncClient,
    path: str,
    body: dict[str, str] | None,
) -> None:
    await submit(client, "held")

    with locked(settings, "held"):
        async with flood(lambda: client.post(path, json=body), ITS_SHARE + MORE) as answers:
            await until(lambda: len(answers) >= MORE)
            await expect_served(other_client)

    assert Counter(answer.status_code for answer in answers) == {503: ITS_SHARE, 429: MORE}


async def test_when_all_places_are_taken_health_checks_get_a_response(app: FastAPI, client: AsyncClient) -> None:
    with filled(app.state.backend.requests):
        for refused in (await client.get("/v1/turns"), await client.post("/v1/sessions/s/turns", json={"input": "x"})):
            expect_problem(refused, 503, "unavailable")
            assert refused.headers["retry-after"] == "2"
        for path in ("/healthz", "/readyz"):
            assert (await client.get(path)).status_code == 200

    assert (await client.get("/v1/turns")).status_code == 200
