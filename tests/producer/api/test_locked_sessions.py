"""A session whose row another transaction has locked: its own requests get 503, and other sessions' requests go on."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TypeVar

import psycopg
import pytest
from httpx import AsyncClient, Response

from tests.producer.api.calls import submit
from tests.producer.api.expectations import expect_unavailable
from tests.support.probes import until
from tests.support.process_roles import url_of
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.ops.roles.kinds import Kind
from turnstile.producer import app as app_module
from turnstile.producer import session_gate
from turnstile.producer.routes import turn_routes
from turnstile.queries.session_messages import read_version

Answer = TypeVar("Answer")

HANGS_SECONDS = 60.0


@pytest.fixture(autouse=True)
def short_row_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough that calls which wait for a row without a gate would use up a pool of connections (its wait is 1.5 s).
    monkeypatch.setattr(app_module, "ROW_WAIT_SECONDS", 0.5)


@contextmanager
def locked(settings: Settings) -> Iterator[None]:
    """Another transaction has locked the sessions `held…` for the duration of the block."""
    with psycopg.connect(url_of(Kind.WORKER, settings.database_url)) as another:
        another.execute("SELECT 1 FROM turnstile.sessions WHERE session_id LIKE 'held%' FOR NO KEY UPDATE")
        yield


async def post(client: AsyncClient, session: str) -> int:
    return (await client.post(f"/v1/sessions/{session}/turns", json={"input": "x"})).status_code


@asynccontextmanager
async def again_and_again(calls: Iterable[Callable[[], Awaitable[Answer]]]) -> AsyncIterator[list[Answer]]:
    """Repeats each call until the block ends, all calls at the same time. Yields the responses."""
    answers: list[Answer] = []

    async def repeat(call: Callable[[], Awaitable[Answer]]) -> None:
        while True:
            answers.append(await call())

    clients = [asyncio.create_task(repeat(call)) for call in calls]
    try:
        yield answers
    finally:
        for client in clients:
            client.cancel()
        await asyncio.wait(clients)


async def test_submits_to_a_locked_session_leave_other_sessions_alone(settings: Settings, client: AsyncClient) -> None:
    assert await post(client, "held") == 202
    with locked(settings):
        async with asyncio.timeout(HANGS_SECONDS):
            held, others = await asyncio.gather(
                asyncio.gather(*(post(client, "held") for _ in range(4))),
                asyncio.gather(*(post(client, f"other-{number}") for number in range(40))),
            )

    assert set(held) == {503}
    assert set(others) == {202}


async def test_after_the_lock_the_session_accepts_turns_without_a_gap_and_cancels(
    settings: Settings, client: AsyncClient, database: Database
) -> None:
    assert await post(client, "held") == 202
    with locked(settings):
        assert await post(client, "held") == 503
        assert (await client.post("/v1/sessions/held/cancel")).status_code == 503

    assert await asyncio.gather(*(post(client, "held") for _ in range(3))) == [202] * 3
    rows = await database.fetch("SELECT seq FROM turns WHERE session_id = 'held' ORDER BY seq", {})
    assert [row["seq"] for row in rows] == [1, 2, 3, 4]
    canceled = await client.post("/v1/sessions/held/cancel")
    assert (canceled.status_code, canceled.json()["canceled"]) == (202, 4)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/turns/{turn}/cancel", None),
        ("/v1/sessions/{session}/cancel", None),
        ("/v1/sessions/{session}/turns", {"input": "y", "on_busy": "interrupt"}),
    ],
    ids=["cancel a turn", "cancel a session", "on_busy"],
)
async def test_calls_for_more_locked_sessions_than_lanes_leave_other_sessions_alone(
    settings: Settings, client: AsyncClient, path: str, body: dict[str, str] | None
) -> None:
    held = [f"held-{number}" for number in range(session_gate.LANES + 1)]
    turns = {session: await submit(client, session) for session in [*held, "other"]}

    def call(session: str) -> Awaitable[Response]:
        return client.post(path.format(session=session, turn=turns[session]), json=body)

    with locked(settings):
        async with asyncio.timeout(HANGS_SECONDS), again_and_again([partial(call, one) for one in 4 * held]) as refused:
            await until(lambda: len({answer.url for answer in refused}) == len(held))
            submits = await asyncio.gather(*(post(client, f"other-{number}") for number in range(20)))
            before = len(refused)
            others = [await call("other") for _ in range(20)]
            # If each had waited for a lane behind a locked session, there would be as many refusals.
            met = len(refused) - before

    assert Counter(submits) == {202: 20}
    assert Counter(answer.status_code for answer in others) == {202: 20}
    assert met < 20
    for answer in refused:
        expect_unavailable(answer)


async def test_slow_reads_leave_submits_and_cancels_alone(client: AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = 0
    go_on = asyncio.Event()

    async def slowly(database: Database, tenant_id: str, session_id: str) -> object:
        nonlocal begun
        async with database.connection():
            begun += 1
            await go_on.wait()
        return await read_version(database, tenant_id, session_id)

    monkeypatch.setattr(turn_routes, "read_version", slowly)
    turn = await submit(client, "s")
    reads = [asyncio.create_task(client.get("/v1/sessions/s/messages")) for _ in range(app_module.READ_LANES)]
    await until(lambda: begun == app_module.READ_LANES)

    async with asyncio.timeout(HANGS_SECONDS):
        submits = await asyncio.gather(*(post(client, f"other-{number}") for number in range(20)))
        stopped = await client.post(f"/v1/turns/{turn}/cancel")

    assert Counter(submits) == {202: 20}
    assert stopped.status_code == 202
    go_on.set()
    assert {answer.status_code for answer in await asyncio.gather(*reads)} == {200}
