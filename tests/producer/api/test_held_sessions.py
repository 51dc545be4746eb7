"""Submits to a session that somebody holds, through no fault of theirs, and beside it."""

import asyncio
from collections.abc import Sequence

import psycopg
import pytest
from httpx import AsyncClient
from structlog.testing import capture_logs

from tests.producer.api.calls import HANGS_SECONDS, HOLD, post
from tests.producer.api.conftest import Connect
from tests.producer.api.expectations import expect_unavailable
from tests.support.probes import until
from turnstile.backends.postgres.database import Database
from turnstile.config.settings import Settings
from turnstile.errors import DatabaseUnavailableError
from turnstile.producer.submit import intake
from turnstile.producer.submit.intake import MOST_UNDER_WAY, Intake
from turnstile.statements.submit import Accepted, Submission, submit
from turnstile.submit import submitting


@pytest.mark.parametrize("on_busy", ["enqueue", "merge"])
async def test_a_session_that_somebody_holds_keeps_no_other_from_being_taken_in(
    settings: Settings, client: AsyncClient, on_busy: str
) -> None:
    assert await post(client, "held") == 202
    with psycopg.connect(settings.database_url) as somebody:
        somebody.execute(HOLD)

        async with asyncio.timeout(HANGS_SECONDS):
            held, others = await asyncio.gather(
                asyncio.gather(*(post(client, "held", on_busy=on_busy) for _ in range(4))),
                asyncio.gather(*(post(client, f"other-{number}") for number in range(40))),
            )
            more = await asyncio.gather(*(post(client, f"other-{number}", on_busy=on_busy) for number in range(4)))

    assert set(held) == {503}
    assert set(others) == set(more) == {202}


async def test_a_session_is_taken_in_again_when_nobody_holds_it_any_more(
    settings: Settings, client: AsyncClient, database: Database
) -> None:
    assert await post(client, "held") == 202
    with psycopg.connect(settings.database_url) as somebody:
        somebody.execute(HOLD)
        assert await post(client, "held") == 503

    assert await post(client, "held") == 202
    assert await asyncio.gather(*(post(client, "held") for _ in range(3))) == [202] * 3
    rows = await database.fetch("SELECT seq FROM turns WHERE session_id = 'held' ORDER BY seq", {})
    assert [row["seq"] for row in rows] == [1, 2, 3, 4, 5]


async def test_a_session_that_was_held_is_batched_again_when_one_of_its_turns_has_passed(
    settings: Settings, client: AsyncClient
) -> None:
    assert await post(client, "held") == 202
    with capture_logs() as logs:
        for _ in range(2):
            with psycopg.connect(settings.database_url) as somebody:
                somebody.execute(HOLD)
                assert await post(client, "held") == 503
            assert await post(client, "held") == 202

    # Only a batch that meets it says so.
    assert [line["event"] for line in logs].count("api.session_held") == 2


async def test_a_lost_call_that_commits_while_the_next_waits_for_it_is_found(
    client: AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection broke, the server went on: its turn is there when the repeat wants to insert the same."""
    calls = 0

    async def torn(database: Database, submissions: Sequence[Submission], **terms: float) -> object:
        nonlocal calls
        calls += 1
        match calls:
            case 1:
                await submit(database, submissions, **terms)
                raise DatabaseUnavailableError("the answer is lost")
            case 2:
                raise psycopg.errors.UniqueViolation("turns_pkey")
            case _:
                return await submit(database, submissions, **terms)

    monkeypatch.setattr(submitting, "submit", torn)

    answer = await client.post("/v1/sessions/s/turns", json={"input": "x"})

    assert answer.status_code == 202
    assert [str(row["id"]) for row in await database.fetch("SELECT id FROM turns", {})] == [answer.json()["id"]]


async def test_more_than_can_be_under_way_is_refused_at_once(
    settings: Settings, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    going_on = asyncio.Event()
    under_way = 0

    async def late(self: Intake, submission: Submission) -> Accepted:
        nonlocal under_way
        under_way += 1
        await going_on.wait()
        raise DatabaseUnavailableError("away")

    monkeypatch.setattr(intake, "MOST_UNDER_WAY", 3)
    monkeypatch.setattr(Intake, "_commit_and_wake", late)
    assert MOST_UNDER_WAY > 3
    async with connect(settings) as client:
        waiting = [asyncio.create_task(post(client, "s")) for _ in range(3)]
        await until(lambda: under_way == 3)

        expect_unavailable(await client.post("/v1/sessions/s/turns", json={"input": "x"}))

        assert not any(task.done() for task in waiting)
        going_on.set()
        assert await asyncio.gather(*waiting) == [503] * 3
